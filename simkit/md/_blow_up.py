"""Diagnosis of a run that blew up: the atoms that came too near, the step in which it went wrong, and a step that would do."""

from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from .._errors import ArgumentError
from .dynamics._dynamics import CellDynamics, Dynamics
from .space._atoms import Atoms
from .space._boxes import boxes_of
from .space._space import Space

FARTHEST = 20_000  # atoms among which the nearest pair is looked for
STEPS = 100_000  # repeated after a sound state


@runtime_checkable
class Moving(Protocol):
    """Particles as a diagnosis sees them: prepared, with their step in its pieces."""

    @property
    def dynamics(self) -> Dynamics: ...

    def masses(self, position: Array) -> Array: ...

    def space_of(self, atoms: Atoms) -> Space: ...

    def own_pressure(self, atoms: Atoms) -> float: ...

    def listed(self, state: Atoms) -> Any: ...

    def relisted(self, state: Atoms, lists: PyTree) -> Any: ...

    def outdated(self, state: Atoms, lists: PyTree) -> Array: ...

    def forces(self, state: Atoms, lists: PyTree) -> Any: ...

    def gradients_on(self, atoms: Atoms, lists: PyTree) -> Any: ...

    def opened(self, h: Array, state: Atoms, force: PyTree) -> Any: ...

    def moved(self, h: Array, carry: Atoms, key: Array) -> Any: ...

    def kicked(self, h: Array, carry: Atoms, force: PyTree, key: Array) -> Any: ...


def describe(system: Moving, atoms: Atoms, h: float, start: float) -> str:
    """A sentence on steps of length h of prepared particles from a sound state on."""
    count, last, fast = _replayed(system, atoms, jnp.asarray(h, atoms.position.dtype))
    period = 2 * np.pi / float(fast) if float(fast) > 0 else np.inf
    text = f"In step {int(count)} of length {h:.4g} after the time {start:.6g} an atom went farther than the cutoff."
    space = system.space_of(atoms)
    there = slice(None) if atoms.count is None else slice(int(atoms.count))
    if len(atoms.position[there]) <= FARTHEST:
        i, j, distance = nearest_pair(space, last.position[there])
        text += f" Nearest were atoms {i} and {j} (from 0), {distance:.4g} apart."
        i, j, distance = nearest_pair(space, atoms.position[there])
        if distance < OVERLAP * typical_distance(space, atoms.position[there]):
            return (
                f"{text} Atoms {i} and {j} overlap at the last good state, at a distance of {distance:.4g}: push them apart by "
                "`md.minimise(system, atoms)`, or choose another start."
            )
    if isinstance(system.dynamics, CellDynamics) and (pushed := _pressure_text(system, atoms)):
        return f"{text} {pushed}"
    better = min(period / 40, h / 2)
    return f"{text} The fastest motion has a period of {period:.3g}: try `step={better:.1g}`."


ABSURD = 100.0
"""A barostat whose pressure is so many times that of the atoms, whichever sign, drives the cell out of all bounds."""


def _pressure_text(system: Moving, atoms: Atoms) -> str:
    """A sentence on a barostat's pressure of another size than the atoms' own; empty where it is of theirs."""
    asked = np.ravel(np.asarray(getattr(system.dynamics, "pressure", 0.0), float))
    own = system.own_pressure(atoms)
    largest = float(asked[np.argmax(np.abs(asked))])
    if abs(largest) <= ABSURD * own:
        return ""
    return (
        f"The barostat asks for a pressure of {largest:.3g}, and that of the atoms before is of the size {own:.3g}: the cell is "
        "driven out of all bounds, whatever the step. Give the pressure in the units of the potential, such as "
        '`units.inside(1.0, "pressure")`.'
    )


OVERLAP = 0.6  # of the usual distance of nearest neighbours


@eqx.filter_jit
def _replayed(system: Moving, atoms: Atoms, h: Array) -> tuple[Array, Atoms, Array]:
    """Return the step in which it went wrong, the last sound atoms before it, and the fastest frequency of the first atoms."""
    lists = system.listed(atoms)
    force = system.forces(atoms, lists)
    carry = system.opened(h, atoms, force)
    key = jax.random.key(0)

    def going(state: PyTree) -> Array:
        _, carry, _, i = state
        return jnp.isfinite(carry.position).all() & jnp.isfinite(carry.momentum).all() & (i < STEPS)

    def step(state: PyTree) -> Any:
        _, carry, lists, i = state
        middle = system.moved(h, carry, jax.random.fold_in(key, i))
        lists = jax.lax.cond(system.outdated(middle, lists), lambda: system.relisted(middle, lists), lambda: lists)
        after = system.kicked(h, middle, system.forces(middle, lists), jax.random.fold_in(key, i))
        return carry, after, lists, i + 1

    last, _, _, count = jax.lax.while_loop(going, step, (carry, carry, lists, jnp.zeros((), jnp.int32)))
    return count, last, _fastest(system, atoms)


def _fastest(system: Moving, atoms: Atoms) -> Array:
    """The greatest frequency of small vibrations: the power method on the Hessian over the masses."""
    lists, root = system.listed(atoms), jnp.sqrt(system.masses(atoms.position)).astype(atoms.position.dtype)

    def pulled(position: Array) -> Array:
        found = system.gradients_on(eqx.tree_at(lambda a: a.position, atoms, position), lists)
        return -found.forces

    def again(v: Array, _: None) -> tuple[Array, Array]:
        product = jax.jvp(pulled, (atoms.position,), (v / root,))[1] / root
        size = jnp.sqrt(jnp.sum(product**2))
        return product / jnp.where(size > 0, size, 1.0), size

    v = jax.random.normal(jax.random.key(0), atoms.position.shape, atoms.position.dtype)
    return jnp.sqrt(jax.lax.scan(again, v / jnp.sqrt(jnp.sum(v**2)), None, length=30)[1][-1])


@eqx.filter_jit
def _nearest(space: Space, position: Array) -> tuple[Array, Array]:
    """The nearest neighbour of every atom, and its distance, at the nearest images."""

    def row(i: Array) -> tuple[Array, Array]:
        apart = jnp.sum(space.displacement(position, jnp.broadcast_to(position[i], position.shape)) ** 2, axis=1)
        apart = apart.at[i].set(jnp.inf)
        of = boxes_of(space)
        if of is not None:  # atoms of other cells are nowhere
            apart = jnp.where(of == of[i], apart, jnp.inf)
        return jnp.argmin(apart), jnp.sqrt(jnp.min(apart))

    return jax.lax.map(row, jnp.arange(len(position)))


def nearest_pair(space: Space, position: Array) -> tuple[int, int, float]:
    """The two atoms that are nearest, and their distance."""
    other, distance = (np.asarray(x) for x in _nearest(space, position))
    i = int(np.argmin(distance))
    j = int(other[i])
    return min(i, j), max(i, j), float(distance[i])


def typical_distance(space: Space, position: Array) -> float:
    """The median distance of nearest neighbours."""
    return float(np.median(np.asarray(_nearest(space, position)[1])))


def check_apart(space: Space, position: Array) -> None:
    """Refuse atoms at the same place: they would not feel each other."""
    wrapped, of = np.asarray(space.wrap(position)), boxes_of(space)
    if of is not None:
        wrapped = np.concatenate([wrapped, np.asarray(of)[:, None]], axis=1)
    order = np.lexsort(wrapped.T)
    same = np.flatnonzero((np.diff(wrapped[order], axis=0) == 0).all(axis=1))
    if same.size:
        i, j = sorted(order[same[0] : same[0] + 2].tolist())
        raise ArgumentError(
            f"Argument `y0` must have its atoms at different places, but atoms {i} and {j} (from 0) are both at "
            f"{np.asarray(position)[i].tolist()}. Two atoms at one place do not feel each other."
        )
