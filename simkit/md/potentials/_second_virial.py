"""The second virial coefficient, which a pair potential has in closed form."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike, DTypeLike
from jaxtyping import Array, Float

from ..._errors import ArgumentError
from ..._types import Inputs, State
from ...core import SYSTEMS, Example, StaticSystem, as_float_array
from ._lennard_jones import LennardJones
from ._pair_terms import PairTerm, pair_terms
from ._potential import Potential, is_table
from ._terms import terms_of

PANELS, NODES = 24, 16
CLOSED = 80.0
"""Energies over k T from which a pair is not found together: exp(-80) is below the resolution of any float type here."""


def second_virial(
    potential: Potential, temperature: ArrayLike, *, boltzmann: float = 1.0, dimensions: int = 3
) -> Float[Array, "..."]:
    r"""The second virial coefficient of a gas of one kind, $p = \rho k_B T (1 + B_2 \rho + \dots)$,

    $$B_2(T) = -2 \pi \int_0^{r_c} \big(e^{-u(r) / k_B T} - 1\big)\, r^2 dr$$

    by Gauss-Legendre quadrature on 24 panels of 16 nodes, narrower towards the origin; in two dimensions with $\pi r$ in place of
    $2 \pi r^2$. Where the truncation has a tail, what lies beyond the cutoff is added to first order.
    Differentiable by the potential and the temperature.

    **Arguments:**

    - `potential`: pair potentials of numbers, without species and charges, finite or repulsive at short distances.
    - `temperature`: positive, of any shape.
    - `boltzmann`: the Boltzmann constant of the units; 1 where energies are given as temperatures.

    **Good values:** a cutoff of 10 diameters with `Truncated(tail=True)`: what is left out is below 1e-6.

    **Returns:** volumes per atom, shaped like `temperature`. **Raises:** an `ArgumentError` for other potentials.

    **Source:** Allen and Tildesley (2017), Computer Simulation of Liquids, section 2.5.

    ```python
    from simkit import md
    argon = md.LennardJones(3.405, 119.8, cutoff=34.05, truncation=md.Truncated(tail=True))
    print(0.602214 * md.second_virial(argon, 300.0), "cm3/mol")  # prints -15.46 cm3/mol
    ```
    """
    _check(potential, dimensions)
    return _integrated(potential, as_float_array(temperature), boltzmann, dimensions)


@SYSTEMS.named("second_virial")
class SecondVirial(StaticSystem):
    r"""Second virial coefficients by temperature, as a regression model: what a gas tells about its pair potential.

    **Arguments:**

    - `potential`: see `second_virial`; its numbers have paths such as `potential.sigma`.
    - `boltzmann`: the Boltzmann constant of the units.
    - `scale`: what a volume per atom is multiplied by; 0.602214 from cubic angstroms to cm3/mol.

    The predictor is the temperature; the output is `second_virial`.

    ```python
    import simkit
    gas = simkit.md.SecondVirial(simkit.md.LennardJones(cutoff=20.0))
    print(gas.outputs(2.0, None, None)["second_virial"])  # prints -1.314
    ```
    """

    potential: Potential
    boltzmann: float = eqx.field(static=True, default=1.0)
    scale: float = eqx.field(static=True, default=1.0)

    def outputs(self, t: ArrayLike, y: State, inputs: Inputs) -> dict[str, Array]:
        return {"second_virial": self.scale * second_virial(self.potential, t, boltzmann=self.boltzmann)}

    @classmethod
    def example(cls) -> "Example[SecondVirial]":
        return Example(cls(LennardJones(cutoff=20.0)), None, np.linspace(1.0, 5.0, 9))


@eqx.filter_jit
def _integrated(potential: Potential, temperature: Array, boltzmann: float, dimensions: int) -> Array:
    beta = 1 / (boltzmann * temperature)
    pairs = terms_of(potential).pairs
    terms, cutoff = pair_terms(pairs), max(part.cutoff for part in pairs)
    r, measure = (jnp.asarray(x, temperature.dtype) for x in _nodes(cutoff, dimensions))
    # Energies that are infinite, or whose derivatives are, count as none: the same ones at all temperatures.
    closed = ~(lax.stop_gradient(_energy(terms, r)) <= np.sqrt(np.finfo(r.dtype).max))
    u = _energy(terms, jnp.where(closed, cutoff, r))

    def one(beta: Array) -> Array:
        found = jnp.expm1(-jnp.minimum(beta * u, CLOSED))
        return jnp.sum(measure * jnp.where(closed, -1.0, found))

    whole = jax.vmap(one)(beta.reshape(-1)).reshape(beta.shape)
    return 0.5 * beta * _tail(potential, dimensions, r.dtype) - 0.5 * whole


def _nodes(cutoff: float, dimensions: int) -> tuple[np.ndarray, np.ndarray]:
    """Distances and what they weigh in an integral over space, with r = cutoff s^2 and panels of equal width in s."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    s = ((np.arange(PANELS)[:, None] + (nodes + 1) / 2) / PANELS).ravel()
    r = cutoff * s**2
    shell = (2 * np.pi * r) if dimensions == 2 else (4 * np.pi * r**2)
    return r, shell * np.tile(weights, PANELS) / (2 * PANELS) * 2 * cutoff * s


def _energy(terms: tuple[PairTerm, ...], r: Array) -> Array:
    total = jnp.zeros_like(r)
    for term in terms:
        inside = r < term.potential.cutoff
        u, _ = term.pair(jnp.where(inside, r * r, term.potential.cutoff**2), (term.coefficients, term.constants))
        total = total + jnp.where(inside, u.astype(r.dtype), 0.0)
    return total


def _tail(potential: Potential, dimensions: int, dtype: DTypeLike) -> Array:
    total = jnp.zeros((), dtype)
    for part in terms_of(potential).pairs:
        coefficients = part.coefficients()
        found = part.truncation.tail(lambda r2, p=part, c=coefficients: p.pair(r2, c), part.cutoff, dimensions)
        if found is not None:
            total = total + found[0].astype(dtype)
    return total


def _check(potential: Potential, dimensions: int) -> None:
    terms = terms_of(potential)
    pairs = terms.pairs
    if terms.many or terms.charged:
        raise ArgumentError(
            "Argument `potential` must consist of pair potentials without charges, but does not: only they have this coefficient."
        )
    tables = [
        leaf for part in pairs for leaf in jax.tree.leaves(part.coefficients(), is_leaf=is_table) if is_table(leaf)
    ]
    if tables:
        raise ArgumentError(
            "Argument `potential` must have numbers for parameters, but has one a species. Take the potential of one pair."
        )
    if dimensions not in (2, 3):
        raise ArgumentError(f"Argument `dimensions` must be 2 or 3, but it is {dimensions}.")
