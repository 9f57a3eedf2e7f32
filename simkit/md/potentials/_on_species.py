"""Sums over atoms of some species, or of species under other numbers."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._errors import ArgumentError
from ._many_body import AtomicPotential, AtomView


class OnSpecies(AtomicPotential):
    """A sum over atoms whose species have other numbers in `potential`, and over some of them only.

    **Arguments:**

    - `potential`: an `AtomicPotential`, such as `EAM`, `Tersoff` or `SNAP`.
    - `places`: for each species of the atoms its number in `potential`, or -1: such atoms neither have nor give energy.
    - `pairs`: which species see each other as neighbours, shape (species, species), by default all.

    **Raises:** an `ArgumentError` for another potential, and for places that it has not.

    `md.OnSpecies(md.StillingerWeber(), (0, -1))` acts between the atoms of the first of two species.
    """

    potential: AtomicPotential
    places: tuple[int, ...] = eqx.field(static=True)
    pairs: tuple[tuple[bool, ...], ...] | None = eqx.field(static=True)
    cutoff: float | None = eqx.field(static=True)

    def __init__(self, potential: Any, places: Sequence[int], *, pairs: Any = None):
        if not isinstance(potential, AtomicPotential):
            raise ArgumentError(
                f"Argument `potential` must be an `AtomicPotential`, but is a `{type(potential).__name__}`."
            )
        self.potential, self.places, self.cutoff = potential, tuple(int(k) for k in places), potential.cutoff
        self.pairs = None if pairs is None else tuple(map(tuple, np.asarray(pairs, bool).tolist()))

    def __check_init__(self):
        count = self.potential.species_count or 1
        if not self.places or min(self.places) < -1 or max(self.places) >= count:
            raise ArgumentError(
                f"Argument `places` must hold numbers from -1 to {count - 1}, as `potential` has {count} species, but is "
                f"{self.places}."
            )
        if self.pairs is not None and np.shape(self.pairs) != (len(self.places),) * 2:
            raise ArgumentError(
                f"Argument `pairs` must have the shape {(len(self.places),) * 2}, but has {np.shape(self.pairs)}."
            )

    @property
    def species_count(self) -> int | None:
        return len(self.places)

    def atom_energies(self, view: AtomView) -> Array:
        assert view.species is not None
        assert self.cutoff is not None
        places = jnp.asarray(np.array(self.places, np.int32))
        present, place = places >= 0, jnp.maximum(places, 0)
        own = present[view.own(view.species)]
        theirs = view.gather(view.species)
        mask = view.mask & present[theirs] & own[:, None]
        if self.pairs is not None:
            mask = mask & jnp.asarray(np.array(self.pairs))[view.own(view.species)[:, None], theirs]
        away = [jnp.where(mask, a, self.cutoff if c == 0 else 0) for c, a in enumerate(view.components)]
        distance = jnp.where(mask, view.distance, self.cutoff)
        species = place[view.species]
        inner = AtomView(None, None, species, None, view.index, mask, tuple(away), distance, view.rows, view.real)
        return jnp.where(own, self.potential.atom_energies(inner), 0)
