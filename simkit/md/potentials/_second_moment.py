"""The second-moment approximation of tight binding, of Gupta and of Rosato."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ...core import POSITIVE, quantity
from ._many_body import AtomicPotential, AtomView
from ._mixing import mixed, root
from ._potential import POTENTIALS, Parameter
from ._triples import concrete_cutoff


@POTENTIALS.named("second_moment")
class SecondMoment(AtomicPotential):
    r"""Cohesion of transition and noble metals as the root of a sum of squared hopping integrals, after Gupta,

    $$U = \sum_i \Big[\sum_{j \ne i} A e^{-p (r/r_0 - 1)} - \sqrt{\sum_{j \ne i} \xi^2 e^{-2 q (r/r_0 - 1)}}\Big]$$

    Between `inner` and `outer` both exponentials are polynomials of fifth degree, with two continuous derivatives at either end.

    **Arguments:** numbers, one a species, or symmetric tables (species, species); of one number a species energies mix
    geometrically, the others by their means.

    - `r0`: distance of nearest neighbours.
    - `p`, `q`: decay of the repulsion and of the hopping.
    - `A`, `xi`: their energies.
    - `inner`, `outer`: where both end.
    - `cutoff`: static; by default the largest `outer`. Where that is fitted, give the largest that it may reach.

    **Good values:** the defaults are gold's of LAMMPS' example in eV and Angstrom.

    **Reference:** Gupta (1981), Physical Review B 23:6265, doi:10.1103/PhysRevB.23.6265; Cleri & Rosato (1993), Physical Review B
    48:22, doi:10.1103/PhysRevB.48.22.

    ```python
    import simkit

    gold = simkit.md.SecondMoment()
    ```
    """

    r0: Parameter = quantity(unit="length", support=POSITIVE, doc="distance of nearest neighbours")
    p: Parameter = quantity(doc="decay of the repulsion")
    q: Parameter = quantity(doc="decay of the hopping")
    A: Parameter = quantity(unit="energy", doc="repulsion")
    xi: Parameter = quantity(unit="energy", doc="hopping")
    inner: Parameter = quantity(unit="length", doc="where the exponentials end")
    outer: Parameter = quantity(unit="length", doc="where the polynomials end")
    cutoff: float | None = eqx.field(static=True, kw_only=True)

    def __init__(
        self,
        r0: Any = 2.88,
        p: Any = 10.35,
        q: Any = 4.178,
        A: Any = 0.210,
        xi: Any = 1.818,
        inner: Any = 4.07293506,
        outer: Any = 4.9883063257983666,
        *,
        cutoff: float | None = None,
    ):
        self.r0, self.p, self.q, self.A, self.xi, self.inner, self.outer = r0, p, q, A, xi, inner, outer
        self.cutoff = concrete_cutoff(cutoff, lambda: np.max(np.asarray(outer)))

    @property
    def species_count(self) -> int | None:
        return next((len(x) for x in self._numbers() if x.ndim), None)

    def _numbers(self) -> tuple[Array, ...]:
        means = {name: mixed(name, getattr(self, name), "arithmetic") for name in ("r0", "p", "q", "inner", "outer")}
        energies = {name: mixed(name, getattr(self, name), "geometric") for name in ("A", "xi")}
        return tuple({**means, **energies}[name] for name in ("r0", "p", "q", "A", "xi", "inner", "outer"))

    def atom_energies(self, view: AtomView) -> Array:
        numbers, count = self._numbers(), self.species_count
        if count is not None and view.species is not None:
            place = view.own(view.species)[:, None] * count + view.gather(view.species)
            numbers = [jnp.broadcast_to(x, (count, count)).reshape(-1)[place] for x in numbers]
        r0, p, q, a, xi, inner, outer = numbers
        near = view.mask & (view.distance < outer)
        ended = lambda energy, decay: jnp.where(near, _ended(view.distance, energy, decay / r0, r0, inner, outer), 0)
        return jnp.sum(ended(a, p), 1) - root(jnp.sum(ended(xi, q) ** 2, 1))


def _ended(r: Array, energy: Array, decay: Array, r0: Array, inner: Array, outer: Array) -> Array:
    """An exponential up to `inner`, then a polynomial of r - outer with its value and two derivatives there."""
    beyond = r > inner
    exponential = energy * jnp.exp(-decay * (jnp.where(beyond, inner, r) - r0))
    width = outer - inner
    x = jnp.where(beyond, (outer - r) / jnp.where(width > 0, width, 1), 1)
    first = decay * width  # the derivative by x over the value; the second is its square
    c3, c4, c5 = 10 - 4 * first + first**2 / 2, 7 * first - 15 - first**2, 6 - 3 * first + first**2 / 2
    return exponential * x**3 * (c3 + x * (c4 + x * c5))
