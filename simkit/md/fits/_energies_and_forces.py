"""Energies and forces of known frames as a regression model: force matching, and training of learned potentials."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from ..._doors import check_kind
from ..._types import Inputs, State, Time
from ...core import Example, StaticSystem
from .._particles import Particles
from ..averages._reweighting import roomy
from ..potentials._external import HarmonicTrap
from ..space._atoms import Atoms
from ..space._space import OpenSpace
from ._draws import TOGETHER, check_frames


class EnergiesAndForces(StaticSystem):
    r"""Energies and forces of frames that are known, as a regression model for `Problem`.

    A potential is fitted to those of another program, or of a finer model (force matching). The predictor is the number of a frame;
    the outputs are `energy`, and `forces` of shape (atoms, d): data have the shapes (frames,) and (frames, atoms, d). Numbers
    of the potential, such as its parameters or the weights of a network, have paths such as `particles.potential.sigma`.

    **Arguments:**

    - `particles`: with the potential to fit; dynamics and thermostats have no meaning here.
    - `frames`: states with a leading axis, all of the same atoms; with a `cell` each, or all in the cell of the space.

    **Raises:** an `ArgumentError` where `frames` have no leading axis.

    **Source:** Ercolessi and Adams (1994), doi:10.1209/0295-5075/26/8/005; Izvekov and Voth (2005), doi:10.1021/jp044629q.

    ```python
    import jax, numpy as np, simkit
    from simkit import md
    trap = lambda stiffness: md.Particles(md.HarmonicTrap(stiffness, [0.0, 0.0, 0.0]), md.OpenSpace(3))
    position = jax.random.normal(jax.random.key(0), (10, 4, 3))
    frames = md.Atoms(position, 0 * position)
    data = simkit.Experiment("frames", np.arange(10), {"forces": -2.0 * position})
    free = {"particles.potential.stiffness": simkit.Free(bounds=(0.1, 10.0))}
    noise = {"forces": simkit.noise.Normal(0.1)}
    problem = simkit.Problem(md.EnergiesAndForces(trap(1.0), frames), data, free=free, noise=noise)
    print(simkit.fit(problem))
    ```
    """

    particles: Particles
    frames: Atoms

    def __init__(self, particles: Particles, frames: Atoms):
        check_kind("particles", particles, Particles, "particles", "Make them: `md.Particles(potential, space, ...)`.")
        check_frames(frames)
        first = jax.tree.map(lambda x: x[0], frames)
        self.particles = roomy(particles.prepared(first), frames)
        self.frames = frames

    def outputs(self, t: Time, y: State, inputs: Inputs) -> dict[str, Array]:
        number = jnp.round(jnp.asarray(t)).astype(jnp.int32)
        atoms = jax.tree.map(lambda x: x[number], lax.stop_gradient(self.frames))
        lists = lax.stop_gradient(self.particles.listed(atoms))
        found = self.particles.gradients_on(atoms, lists)
        known = self.particles.fits(lists) & (number >= 0) & (number < self.frames.position.shape[0])
        mark = lambda x: jnp.where(known, x, jnp.nan)
        return {"energy": mark(found.energy), "forces": mark(found.forces)}

    def together(self) -> int | None:
        return max(1, TOGETHER // self.frames.position.shape[1])

    @classmethod
    def example(cls) -> "Example[EnergiesAndForces]":
        position = jax.random.normal(jax.random.key(0), (5, 4, 3))
        potential = HarmonicTrap(jnp.asarray(1.0), jnp.zeros(3))
        return Example(
            cls(Particles(potential, OpenSpace(3)), Atoms(position, jnp.zeros_like(position))), None, np.arange(5.0)
        )
