"""Relative entropy of a model to frames of a finer one: coarse-graining by maximum likelihood."""

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PRNGKeyArray

from ..._doors import check_kind
from ..._types import Inputs, State, Time
from ...core import Example, SampledDensity
from ...engine import Fixed
from .._particles import Particles
from ..averages._average import blocked
from ..averages._canonical import reduced_energy
from ..averages._reweighting import contributions, effective_size, roomy
from ..dynamics._langevin import Langevin
from ..potentials._external import HarmonicTrap
from ..space._atoms import Atoms
from ..space._space import OpenSpace
from ._draws import TOGETHER, Draws, Run, blank_draws, check_frames, drawn_frames, energies_of, prepared_run


class RelativeEntropy(SampledDensity):
    r"""The relative entropy of particles to known frames, as a model for `Problem`: coarse-graining by `fit`.

    $$S_{\mathrm{rel}}(\theta) = \Big\langle \ln \frac{p_{\mathrm{ref}}(x)}{p_\theta(x)} \Big\rangle_{\mathrm{ref}}, \qquad
    p_\theta(x) = \frac{e^{-\beta U_\theta(x)}}{\int e^{-\beta U_\theta}}$$

    $$\frac{\partial S_{\mathrm{rel}}}{\partial \theta} =
    \beta \Big\langle \frac{\partial U}{\partial \theta} \Big\rangle_{\mathrm{ref}}
    - \beta \Big\langle \frac{\partial U}{\partial \theta} \Big\rangle_\theta$$

    The frames are those of a finer model, mapped to the beads of this one. Their log likelihood is
    $-S_{\mathrm{rel}}$ times their number, up to a constant, so that a problem of them is one of maximum likelihood: with standard
    errors, priors, profiles and posteriors. `fit` draws frames of the model by a run, minimises as far as these count, and draws
    anew until they are those of the optimum. The averages over the model are weighted ones, and the curvature is the covariance of
    $\beta\, \partial U / \partial \theta$, which is all of it where U is linear in $\theta$.

    The predictor is the number of a frame and the one output is `log_density`. The datum of a frame is the number of
    independent frames for which it counts: `Experiment("fine", np.arange(500), {"log_density": np.full(500, 0.1)})` for frames
    of which ten are worth one (`md.block_average(...).inefficiency`). Experiments of several states `set` the
    temperature of each and take the numbers of their frames.

    **Arguments:**

    - `particles`: the coarse model, with dynamics that draw from the canonical ensemble. Their numbers have paths
        such as `particles.potential.sigma`.
    - `frames`: states of the finer model, mapped, with a leading axis; with a `cell` each where the pressure is constant. Momenta
        are not looked at.
    - `start`: the state from which the first run begins; by default the first frame with momenta of zero.
    - `times`, `step`, `discard`: as of `sample_ensemble`, of each run.
    - `share`: the effective share of the frames of a run, below which the density is NaN, so that a fit does not go there.

    **Good values:** as many independent frames of the model as there are of the reference, or more; then what the run adds to an
    estimate is no more than what the reference leaves open, and it is said beside the result.

    **Raises:** an `ArgumentError` for dynamics that draw from no canonical ensemble, or frames without a leading axis.

    **Source:** Shell (2008), doi:10.1063/1.2992060, eqs. 5 and 8; Chaimovich and Shell (2011), doi:10.1063/1.3557038.

    ```python
    import jax, numpy as np, simkit
    from simkit import md
    bead = lambda k: md.Particles(md.HarmonicTrap(k, [0.0, 0.0, 0.0]), md.OpenSpace(3), dynamics=md.Langevin(1.0, 2.0))
    position = 0.5 * jax.random.normal(jax.random.key(0), (100, 4, 3))  # k_B T / k is 0.25
    frames = md.Atoms(position, 0 * position)
    model = md.RelativeEntropy(bead(3.0), frames, times=np.arange(205) * 2.0, step=0.2, discard=5)
    data = simkit.Experiment("fine", np.arange(100), {"log_density": np.ones(100)})
    free = {"particles.potential.stiffness": simkit.Free(bounds=(0.2, 20.0), start=3.0)}
    print(simkit.fit(simkit.Problem(model, data, free=free), key=jax.random.key(1)))
    ```
    """

    particles: Particles
    frames: Atoms
    start: Atoms
    run: Run = eqx.field(static=True)
    share: float = eqx.field(static=True, default=0.5)

    def __init__(
        self,
        particles: Particles,
        frames: Atoms,
        start: Atoms | None = None,
        *,
        times: ArrayLike | Sequence[float],
        step: float | Fixed,
        discard: int = 1,
        share: float = 0.5,
    ):
        check_kind("particles", particles, Particles, "particles", "Make them: `md.Particles(potential, space, ...)`.")
        check_frames(frames)
        first = _at_rest(jax.tree.map(lambda x: x[0], frames))
        begin = first if start is None else start
        particles, self.start, self.run = prepared_run(particles, begin, times, step, discard, share)
        encoded = jax.vmap(lambda atoms: particles.encode(_at_rest(atoms)))(frames)
        self.particles, self.frames, self.share = roomy(particles, encoded), encoded, float(share)

    def outputs(self, t: Time, y: State, inputs: Inputs) -> dict[str, Array]:
        return {"log_density": self.log_densities(y, jnp.asarray(t)[None])[0]}

    def log_densities(self, y: State, t: Float[Array, " data"]) -> Float[Array, " data"]:
        difference = y.reduced - self.energies_of_draws(y)
        enough = effective_size(jax.nn.softmax(difference)) >= self.share * self.run.frames
        count = jnp.log(jnp.asarray(float(len(difference)), difference.dtype))
        free_energy = count - jax.nn.logsumexp(difference)  # beta F of this system, less that of the draws
        numbers = jnp.round(t).astype(jnp.int32)
        known = enough & (numbers >= 0) & (numbers < self.frames.position.shape[0])
        frames = lax.stop_gradient(self.frames)
        one = lambda number: _configured(self.particles, jax.tree.map(lambda x: x[number], frames))
        batch = max(1, TOGETHER // frames.position.shape[1])
        energies = lax.map(jax.checkpoint(one), numbers, batch_size=batch)
        return jnp.where(known, free_energy - energies, jnp.nan)

    @eqx.filter_jit
    def energies_of_draws(self, y: State) -> Float[Array, " draws"]:
        return energies_of(self.particles, y, _configured)

    def weights(self, y: State) -> Float[Array, " draws"]:
        return jax.nn.softmax(y.reduced - self.energies_of_draws(y))

    def error_of_mean(self, y: State, values: Float[Array, "draws columns"]) -> Float[Array, " columns"]:
        return blocked(contributions(self.weights(y), values))[0]

    def blank(self) -> Draws:
        return blank_draws(self.run, self.particles, self.start)

    def drawn(self, y: State, references: Sequence[Any], key: PRNGKeyArray) -> tuple["RelativeEntropy", Draws]:
        found, plan = drawn_frames(self.run, y, [reference.particles for reference in references], key, _configured)
        grown = dataclasses.replace(self.particles, plan=plan)
        return eqx.tree_at(lambda s: s.particles, self, grown), found

    @eqx.filter_jit
    def effective_share(self, y: State) -> Float[Array, ""]:
        return effective_size(self.weights(y)) / self.run.frames

    def errors(self, y: State, combinations: Mapping[str, Array]) -> Float[Array, " combinations"]:
        # What is uncertain of a log density is the free energy, the same for all states.
        weights = self.weights(y)
        return jnp.abs(jnp.sum(combinations["log_density"], axis=1)) * blocked(weights * weights.shape[0])[0]

    def without_limit(self) -> "RelativeEntropy":
        other = copy.copy(self)
        object.__setattr__(other, "share", 0.0)  # `dataclasses.replace` would go through `__init__`
        return other

    def __repr__(self) -> str:
        return f"RelativeEntropy({self.frames.position.shape[0]} frames; {self.run.frames} frames a run, {self.particles!r})"

    @classmethod
    def example(cls) -> "Example[RelativeEntropy]":
        trap = Particles(
            HarmonicTrap(jnp.asarray(1.0), jnp.zeros(3)),
            OpenSpace(3),
            dynamics=Langevin(jnp.asarray(1.0), jnp.asarray(2.0)),
        )
        position = jax.random.normal(jax.random.key(0), (5, 4, 3))
        frames = Atoms(position, jnp.zeros_like(position))
        system = cls(trap, frames, times=np.arange(12.0), step=0.2, discard=2)
        system, y0 = system.drawn(system.blank(), [system], jax.random.key(1))
        return Example(system, y0, np.arange(5.0))


def _at_rest(atoms: Atoms) -> Atoms:
    return eqx.tree_at(lambda a: a.momentum, atoms, jnp.zeros_like(atoms.position))


def _configured(system: Particles, atoms: Atoms) -> Float[Array, ""]:
    r"""The reduced energy of a configuration, $U / k_B T$, and $(U + P V) / k_B T$ at constant pressure."""
    return reduced_energy(system, _at_rest(atoms))
