"""Frames of the canonical ensemble that regression models weight: how they are drawn, and their reduced energies."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PRNGKeyArray

from ..._doors import check_kind
from ..._errors import ArgumentError
from ...core import traced
from ...engine import Fixed, resolve
from .._particles import Particles
from ..averages import MonteCarloMove, sample_ensemble
from ..averages._canonical import carried, over_frames, thermal_energy
from ..free_energy._mbar import mbar
from ..space._atoms import Atoms

TOGETHER = 1024
"""Atoms of frames that are evaluated together."""

Energy = Callable[[Particles, Atoms], Array]


@dataclasses.dataclass(frozen=True)
class Run:
    """Times, step, number of left out states and Monte Carlo moves of the run that draws the frames of one reference."""

    times: tuple[float, ...]
    step: Fixed
    discard: int
    moves: tuple[MonteCarloMove, ...] = ()

    @property
    def frames(self) -> int:
        """Number of frames of one reference."""
        return len(self.times) - self.discard


class Draws(eqx.Module):
    """Frames of one or several references, and what their weights are relative to.

    - `frames`: with a leading axis, one reference after the other.
    - `reduced`: the reduced energy of the mixture of all references at each frame; NaN before anything was drawn.
    - `vectors`: the lattice vectors under which the frames were drawn; empty in an open space.
    - `last`: the state from which a new run begins.
    """

    frames: Atoms
    reduced: Float[Array, " frames"]
    vectors: Array
    last: Atoms


def prepared_run(
    particles: Particles,
    start: Atoms,
    times: ArrayLike | Sequence[float],
    step: float | Fixed,
    discard: int,
    share: float,
) -> tuple[Particles, Atoms, Run]:
    """The particles and their start as a run takes them, and its settings.

    **Raises:** an `ArgumentError` for arguments that no run can have.
    """
    check_kind("particles", particles, Particles, "particles", "Make them: `md.Particles(potential, space, ...)`.")
    check_kind("start", start, Atoms, "the state of atoms", "Make it: `md.Atoms(position, momentum)`.")
    thermal_energy(particles)
    if not 0 <= share < 1:
        raise ArgumentError(f"Argument `share` must lie between 0 and 1, but it is {share}.")
    known = np.asarray(times, float)
    if known.ndim != 1 or not 0 <= discard < len(known):
        raise ArgumentError(
            f"Argument `discard` must leave at least one of the {known.size} states, but it is {discard}. Give more times "
            "or discard fewer."
        )
    particles = particles.prepared(start)
    fixed = resolve(particles, start, known, step=step).step
    assert isinstance(fixed, Fixed)
    return particles, particles.encode(start), Run(tuple(known.tolist()), fixed, int(discard))


def check_frames(frames: Atoms) -> None:
    """Refuse what is not the states of atoms along an axis of frames.

    **Raises:** an `ArgumentError`.
    """
    check_kind("frames", frames, Atoms, "the states of atoms", "Make them: `md.Atoms(position, momentum)`.")
    if frames.position.ndim != 3:
        raise ArgumentError(
            f"Argument `frames` must have positions of shape (frames, atoms, d), but theirs are of shape {frames.position.shape}."
        )


def blank_draws(run: Run, particles: Particles, start: Atoms) -> Draws:
    """The frames before anything was drawn."""
    frames = jax.tree.map(lambda x: jnp.broadcast_to(x, (run.frames, *x.shape)), start)
    return Draws(frames, jnp.full(run.frames, jnp.nan, start.position.dtype), _vectors(particles, start), start)


def drawn_frames(
    run: Run, y: Draws, references: Sequence[Particles], key: PRNGKeyArray, energy: Energy
) -> tuple[Draws, Any]:
    """Frames of each reference, beginning at the last of `y`, and the plan of neighbours with room for them.

    **Arguments:** `energy`: the reduced energy of a state, by which frames are to be weighted.
    """
    if traced(y, references):
        raise ArgumentError("Frames must be drawn outside of `jit` and `grad`, but what they depend on is traced.")
    plan, last, runs = references[0].plan, y.last, []
    vectors = _vectors(references[0], last)
    for i, reference in enumerate(references):
        if vectors.shape != (0,) and not np.array_equal(vectors, _vectors(reference, last)):
            raise ArgumentError(
                "The cell of a space must not be a free parameter where frames of several references are mixed, but it is. "
                "Take dynamics at constant pressure, in which the cell moves, or set the cell of each experiment."
            )
        particles = dataclasses.replace(reference, plan=plan)
        last = carried(last, y.vectors if i == 0 else vectors, particles.space)
        found = sample_ensemble(
            particles,
            last,
            np.asarray(run.times),
            step=run.step,
            key=jax.random.fold_in(key, i),
            discard=run.discard,
            moves=run.moves,
        )
        plan, last = found.system.plan, jax.tree.map(lambda x: x[-1], found.frames)
        runs.append(found.frames)
    systems = [dataclasses.replace(reference, plan=plan) for reference in references]
    frames = jax.tree.map(lambda *x: jnp.concatenate(x), *runs)
    return Draws(frames, _mixed(run, systems, frames, energy), vectors, last), plan


def energies_of(particles: Particles, y: Draws, energy: Energy) -> Float[Array, " frames"]:
    """The reduced energies of all frames, carried along into the cell of the particles."""
    return mapped(lambda atoms: energy(particles, carried(atoms, y.vectors, particles.space)), y.frames)


def mapped(one: Callable[[Atoms], Any], frames: Atoms) -> Any:
    """A function of every frame, of so many at once as have about `TOGETHER` atoms; reverse mode computes each again."""
    return over_frames(one, frames, together=max(1, TOGETHER // frames.position.shape[1]))


def _vectors(particles: Particles, start: Atoms) -> Array:
    space, dtype = particles.space, start.position.dtype
    return space.vectors().astype(dtype) if space.periodic else jnp.zeros(0, dtype)


def _mixed(run: Run, systems: Sequence[Particles], frames: Atoms, energy: Energy) -> Float[Array, " frames"]:
    r"""$-\ln \sum_k \tfrac1K e^{f_k - u_k}$ at the frames of all references, with free energies $f$ by MBAR."""
    rows = [_energies(system, frames, energy) for system in systems]
    if len(rows) == 1:
        return rows[0]
    energies = jnp.stack(rows)
    try:
        found = mbar(energies, [run.frames] * len(rows), inefficiency=1.0)
    except ArgumentError as why:
        raise ArgumentError(
            f"The frames of {len(rows)} places of the parameters make no mixture. Take places closer to each other, for `sample` "
            f"by priors or data that tell the parameters better; longer runs (`times`) help where they nearly do. MBAR says: {why}"
        ) from why
    terms = found.values.astype(energies.dtype)[:, None] - energies
    return jnp.log(jnp.asarray(float(len(rows)), energies.dtype)) - jax.nn.logsumexp(terms, axis=0)


@eqx.filter_jit
def _energies(system: Particles, frames: Atoms, energy: Energy) -> Float[Array, " frames"]:
    return mapped(lambda atoms: energy(system, atoms), frames)
