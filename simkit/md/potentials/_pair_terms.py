"""Coefficients of pair potentials, ready for sweeps, and how a block of pairs selects its own."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from ..._errors import ArgumentError
from ._potential import BySpecies, PairPotential, is_table, tabled


class PairTerm(eqx.Module):
    """One pair potential with its coefficients mixed and its truncation's constants known."""

    potential: PairPotential = eqx.field(static=True)  # without its arrays
    coefficients: Any
    constants: Any

    def pair(self, r2: Array, values: tuple[Any, Any]) -> tuple[Array, Array]:
        """Truncated energy and derivative by r2 for distances below the cutoff; `values` are coefficients and constants."""
        u, slope = self.potential.pair(r2, values[0])
        return self.potential.truncation.apply(r2, u, slope, values[1], self.potential.cutoff)


def pair_terms(pairs: Sequence[PairPotential]) -> tuple[PairTerm, ...]:
    """The differentiable way from parameters to what the sweep over pairs reads."""
    terms = []
    for part in pairs:
        coefficients = part.coefficients()
        constants = part.truncation.constants(at_tables(part, coefficients), part.cutoff)
        skeleton = eqx.filter(part, eqx.is_array, inverse=True)
        terms.append(PairTerm(skeleton, coefficients, jax.tree.map(tabled, constants)))
    return tuple(terms)


def pair_species_count(pairs: Sequence[PairPotential]) -> int | None:
    """Return the number of species with parameters of pair potentials; None where species do not matter."""
    return species_count_of(pair_terms(pairs))


def species_count_of(ready: Sequence[PairTerm]) -> int | None:
    """The same of terms whose coefficients are mixed."""
    terms = [(term.coefficients, term.constants) for term in ready]
    tables = [leaf for leaf in jax.tree.leaves(terms, is_leaf=is_table) if is_table(leaf)]
    counts = {len(leaf.table) for leaf in tables}
    if len(counts) > 1:
        raise ArgumentError(
            f"Argument `potential` must give parameters for one number of species, but gives them for {sorted(counts)}. "
            "Let all parameters have the same number of species, or be single numbers."
        )
    return counts.pop() if counts else None


def at_tables(potential: PairPotential, coefficients: PyTree) -> Callable[[Array], tuple[Array, Array]]:
    """Energy and slope of all pairs of species at one distance."""
    plain = jax.tree.map(lambda leaf: leaf.table if is_table(leaf) else leaf, coefficients, is_leaf=is_table)
    floats = [leaf.dtype for leaf in jax.tree.leaves(plain)]
    dtype = floats[0] if floats else jnp.zeros(()).dtype
    return lambda r2: potential.pair(r2.astype(dtype), plain)


def by_pair(tree: PyTree, gather: Callable[[Array], Array]) -> Any:
    """Every table replaced by its values for the pairs of a block."""
    return jax.tree.map(lambda leaf: gather(leaf.table) if is_table(leaf) else leaf, tree, is_leaf=is_table)


def parameter_gradient(
    term: PairTerm,
    r2: Float[Array, "..."],
    values: PyTree,
    masked: Callable[[Array], Array],
    total: Callable[[Array], Array],
    collect: Callable[[Array], Array],
) -> PairTerm:
    """The derivative of the sum of `masked(u)` by the term's coefficients and constants, shaped like the term.

    Numbers are spread over the block first and summed by `total`, a product that XLA vectorises where it does not vectorise sums;
    `collect` sums by pairs of species. Arrays that all pairs share have a sum of their own in the pull-back.
    """
    own = (term.coefficients, term.constants)
    spread = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, r2.shape) if leaf.ndim == 0 else leaf, values)
    _, pull = jax.vjp(lambda v: term.pair(r2, v)[0], spread)
    shared = any(not is_table(leaf) and leaf.ndim > 0 for leaf in jax.tree.leaves(own, is_leaf=is_table))
    ones = jnp.ones_like(r2)
    # Masking what comes back and not what goes in, where possible: XLA:CPU would store the weights of all pairs.
    (slopes,) = pull(masked(ones)) if shared else pull(ones)

    def gathered(leaf: PyTree, slope: Array) -> Any:
        if not is_table(leaf) and leaf.ndim > 0:
            return slope
        slope = slope if shared else masked(slope)
        return BySpecies(collect(slope)) if is_table(leaf) else total(slope)

    found = jax.tree.map(gathered, own, slopes, is_leaf=is_table)
    return PairTerm(term.potential, *found)
