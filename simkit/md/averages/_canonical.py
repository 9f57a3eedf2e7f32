"""The canonical ensemble, at constant volume or pressure: which dynamics draw from it, and what a state weighs in it."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from ..._errors import ArgumentError
from .._particles import Particles
from ..dynamics._andersen import Andersen
from ..dynamics._dynamics import Dynamics
from ..dynamics._langevin import Langevin
from ..dynamics._mtk import MTK
from ..dynamics._nose_hoover import NoseHoover
from ..dynamics._stochastic_cell_rescaling import StochasticCellRescaling
from ..dynamics._stochastic_rescaling import StochasticRescaling
from ..space._atoms import Atoms
from ..space._space import Space, determinant, inverse

PRESSED = (MTK, StochasticCellRescaling)
"""Dynamics that draw positions, momenta and cells at constant temperature and pressure."""

CANONICAL = (Andersen, Langevin, NoseHoover, StochasticRescaling, *PRESSED)
"""Dynamics that draw positions and momenta at constant temperature."""


def is_canonical(dynamics: Dynamics) -> bool:
    """Tell whether the dynamics sample the canonical ensemble."""
    return isinstance(dynamics, CANONICAL)


def thermal_energy(system: Particles) -> Array:
    """The Boltzmann constant times the temperature of the dynamics; an `ArgumentError` where they have none."""
    dynamics = system.dynamics
    if not isinstance(dynamics, CANONICAL):
        names = ", ".join(f"`{kind.__name__}`" for kind in CANONICAL)
        raise ArgumentError(
            f"Argument `system` must draw from the canonical ensemble, at constant volume or pressure, to be "
            f"reweighted, but its dynamics are "
            f"`{type(dynamics).__name__}`. Take one of {names}, or differentiate through the run: `TrajectoryGradient()`."
        )
    return system.units.boltzmann * dynamics.temperature


def reduced_energy(system: Particles, atoms: Atoms) -> Float[Array, ""]:
    r"""$(K + U) / k_B T$, and $(K + U + P V) / k_B T$ at constant pressure.

    NaN where there is no room for all neighbours, so that no wrong number passes for a right one.
    """
    kinetic = 0.5 * jnp.sum(atoms.momentum**2 / system.masses(atoms.position))
    lists = lax.stop_gradient(system.listed(atoms))
    whole = kinetic + system.energy_on(atoms, lists)
    if isinstance(system.dynamics, PRESSED):
        whole = whole + system.dynamics.pressure.astype(whole.dtype) * jnp.abs(determinant(atoms.cell))
    whole = whole / thermal_energy(system).astype(kinetic.dtype)
    return jnp.where(system.fits(lists), whole, jnp.nan)


def over_frames(one: Callable[[Atoms], Any], frames: Atoms, *, together: int | None = None) -> Any:
    """A function of every frame, of so many at once; reverse mode computes each again.

    A frame is taken out of its array before anything is made of it: XLA's compiler fuses that into what follows and can then end in
    an internal error on a processor.
    """
    again = jax.checkpoint(one)
    return lax.map(lambda atoms: again(lax.optimization_barrier(atoms)), frames, batch_size=together)


def has_room(system: Particles, atoms: Atoms) -> Bool[Array, ""]:
    """Tell whether the capacities of a prepared system's plan hold the neighbours of a state."""
    return system.fits(lax.stop_gradient(system.listed(atoms)))


def carried(atoms: Atoms, before: Space | Array, space: Space) -> Atoms:
    """Atoms of a cell that does not move, carried along from the space or lattice vectors `before` to the cell of `space`.

    The very same positions where the two are the same, and in an open space.
    """
    if atoms.cell is not None or not space.periodic:
        return atoms
    position = atoms.position
    vectors = before.vectors() if isinstance(before, Space) else before
    old, new = (x.astype(position.dtype) for x in (vectors, space.vectors()))
    moved = position + position @ (lax.stop_gradient(inverse(old)) @ (new - lax.stop_gradient(old)))
    return eqx.tree_at(lambda a: a.position, atoms, moved)
