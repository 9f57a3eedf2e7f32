"""Charges that do not sit on their atoms, such as those of water models with four sites."""

import dataclasses
import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ..._errors import ArgumentError
from ..._types import Scalar
from ...core import quantity
from ._bonded import as_indices, check_terms, picked
from ._many_body import AtomView, ManyBodyPotential
from ._pair_terms import pair_species_count, pair_terms
from ._potential import PairPotential, Potential


class ChargesOnSites(ManyBodyPotential):
    r"""A potential of charges of which some sit on massless sites, $x_M = x_0 + w\,(x_1 - x_0) + w\,(x_2 - x_0)$, on the bisector
    of an angle: forces on sites reach the three atoms by the chain rule.

    **Arguments:**

    - `potential`: of charges: a pair potential without parameters by species, such as `CoulombCut` or `CoulombScreened`, or one
        without a list of neighbours, such as `Ewald` or `ListedPairs`.
    - `atoms`: the atom whose charge is moved and its two partners, shape (sites, 3).
    - `weight`: w.
    - `reach`: static; the largest distance of a site from its atom, by which the list of neighbours is longer.

    All pairs count, whatever `exclusions` of `Particles` say: add `ChargesOnSites(ListedPairs(potential, pairs, -1.0), ...)` for
    those that do not interact.

    **Good values:** for TIP4P water w = 0.128 and a reach of 0.15 Angstrom; for TIP4P/2005 w = 0.132.

    **Raises:** an `ArgumentError` for another potential.

    **Reference:** Jorgensen, Chandrasekhar, Madura, Impey & Klein (1983), Journal of Chemical Physics 79:926,
    doi:10.1063/1.445869.

    ```python
    import simkit

    charges = simkit.md.ChargesOnSites(simkit.md.CoulombCut(cutoff=9.0), [[0, 1, 2], [3, 4, 5]], 0.128, reach=0.15)
    ```
    """

    potential: Potential
    atoms: Int[Array, "sites 3"] = eqx.field(converter=as_indices)
    weight: Scalar = quantity(0.128, doc="share of each of the two bonds")
    reach: float = eqx.field(static=True, converter=float, default=0.2)

    @property
    def cutoff(self) -> float | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        own: Any = self.potential
        return own.cutoff + 2 * self.reach if isinstance(own, PairPotential) else own.cutoff

    @property
    def charged(self) -> bool:
        return True

    @property
    def species_count(self) -> int | None:
        own: Any = self.potential
        return None if isinstance(own, PairPotential) else own.species_count

    def __check_init__(self):
        check_terms(self, self.atoms, 3)
        own: Any = self.potential
        pairs = isinstance(own, PairPotential) and pair_species_count((own,)) is None
        if not own.charged or not (pairs or (isinstance(own, ManyBodyPotential) and own.cutoff is None)):
            raise ArgumentError(
                "Argument `potential` must be a pair potential of charges without parameters by species, or one of charges without "
                f"a cutoff, but is a `{type(own).__name__}`."
            )

    def energy(self, view: AtomView) -> Array:
        shift = self._shifts(view)
        if isinstance(self.potential, ManyBodyPotential):
            return self.potential.energy(dataclasses.replace(view, position=view.position + shift))
        return self._pairs(view, shift)

    def _shifts(self, view: AtomView) -> Float[Array, "atoms d"]:
        """Distance of the charge of each atom from it."""
        rows = picked(view.position, self.atoms)
        bonds = [view.space.displacement(rows[:, k], rows[:, 0]) for k in (1, 2)]
        moved = self.weight.astype(rows.dtype) * (bonds[0] + bonds[1])
        moved = jnp.where(view.present(jnp.ones(len(moved), rows.dtype), self.atoms)[:, None] > 0, moved, 0)
        return jnp.zeros_like(view.position).at[self.atoms[:, 0]].add(moved)

    def _pairs(self, view: AtomView, shift: Array) -> Array:
        own = self.potential
        assert isinstance(own, PairPotential), "refused before"
        assert view.charge is not None, "refused before"
        (term,) = pair_terms((own,))
        term = jax.tree.map(lambda a: a.astype(shift.dtype), term)
        apart = [c + view.gather(shift[:, k]) - shift[:, k][:, None] for k, c in enumerate(view.components)]
        square = functools.reduce(jnp.add, [c * c for c in apart])
        near = view.mask & (square < own.cutoff**2)
        u, _ = term.pair(jnp.where(near, square, own.cutoff**2), (term.coefficients, term.constants))
        products = view.charge[:, None] * view.gather(view.charge)
        return 0.5 * jnp.sum(jnp.where(near, u * products, 0)) + own.self_energy(view.charge)
