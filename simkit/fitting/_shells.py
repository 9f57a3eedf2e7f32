"""Information of data about fields, by shells of waves of like length: a diagonal preconditioner in white coordinates."""

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ..engine import note_trace
from ..problem import AbstractFieldPrior, Problem, Unknowns, named_parts
from ._linearised import linearised
from ._newton_cg import white_information

SINGLE, WIDENING = 5.5, 1.4
"""Up to the first wavenumber, in units of the longest wave's, shells hold those of one integer; from there on they widen."""


MOST = 60
"""The most shells: the last one holds all shorter waves."""


class Shells(NamedTuple):
    """The mean information of the data in white coordinates: for each block of unknowns by shell, without a field one number."""

    information: tuple[Float[Array, " shells"], ...]

    def divided(
        self, unknowns: Unknowns, proper: Float[Array, " parameters"], q: Float[Array, " parameters"]
    ) -> Float[Array, " parameters"]:
        """A vector in white coordinates by the mean second derivative of each shell; the prior's is 1 where it is `proper`."""
        parts = []
        for (block, prior), found in zip(unknowns.pairs, self.information, strict=True):
            part = q[block.span]
            if isinstance(prior, AbstractFieldPrior):
                edges = jnp.asarray(edges_to(math.inf, found.size), q.dtype)
                own = lambda k, e=edges, f=found: 1 / (1 + f[jnp.searchsorted(e, k, side="right")])
                part = prior.by_waves(part.reshape(block.shape), own).ravel()
            else:
                curved = proper[block.span] + found[0]
                part = part / jnp.where(curved > 0, curved, 1)
            parts.append(part)
        return jnp.concatenate(parts)


def edges_to(last: float, most: int = MOST) -> np.ndarray:
    """Wavenumbers between shells, in units of the longest wave's, below `last`; at most `most` shells."""
    found, edge = [], 0.5
    while edge < last and len(found) < most - 1:
        found.append(edge)
        edge = edge + 1 if edge < SINGLE else edge * WIDENING
    return np.array(found)


def probed(problem: Problem, sizes: Array, z: Array, key: PRNGKeyArray) -> Shells:
    """The shells of a problem at one place: one product of the information with a random vector for each shell."""
    counts = tuple(
        edges_to(prior.most_waves(block.shape)).size + 1 if isinstance(prior, AbstractFieldPrior) else 1
        for block, prior in problem.unknowns.pairs
    )
    return _probed(problem, counts, sizes, z, key)


@eqx.filter_jit
def _probed(problem: Problem, counts: tuple[int, ...], sizes: Array, z: Array, key: PRNGKeyArray) -> Shells:
    note_trace("fit, shells of waves", named_parts(problem))
    model = linearised(problem, z)
    white = jax.random.normal(key, z.shape, z.dtype)
    informed: list[Array] = []
    for count, (block, prior) in zip(counts, problem.unknowns.pairs, strict=True):
        place = jnp.zeros_like(z).at[block.span].set(white[block.span])
        if not isinstance(prior, AbstractFieldPrior):
            informed.append(_mean(model, sizes, place)[None])
            continue
        edges = jnp.asarray(edges_to(math.inf, count), z.dtype)

        def of(shell: Any, block: Any = block, prior: AbstractFieldPrior = prior, edges: Array = edges) -> Array:
            inside = lambda k: (jnp.searchsorted(edges, k, side="right") == shell.astype(jnp.int32)).astype(z.dtype)
            part = prior.by_waves(white[block.span].reshape(block.shape), inside).ravel()
            return _mean(model, sizes, jnp.zeros_like(z).at[block.span].set(part))

        informed.append(jax.vmap(of)(jnp.arange(count)))
    return Shells(tuple(informed))


def _mean(model: Any, sizes: Array, v: Array) -> Array:
    """The quotient of Rayleigh of the data's information; 0 where there is none."""
    square = v @ v
    found = v @ white_information(model, sizes, v) / jnp.where(square > 0, square, 1)
    return jnp.where(jnp.isfinite(found), jnp.maximum(found, 0), 0)
