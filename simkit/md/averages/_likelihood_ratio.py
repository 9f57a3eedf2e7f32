"""Derivatives of averages by the likelihood of the noise that made a path."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ..._errors import ArgumentError
from ...core import Status
from ...engine import Fixed, simulate
from .._particles import Particles
from ..dynamics._langevin import Langevin
from ..space._atoms import Atoms
from ._average import EnsembleAverage, Trust, averaged, measured
from ._average_method import AverageMethod
from ._reweighting import kept

NAME = "by the likelihood ratio"
WINDOWS = 16
"""Shortest run, in memory times of the weights."""


class Path(Trust):
    """Length of the run in comparison with the memory of the weights."""

    duration: Float[Array, ""]
    memory: Float[Array, ""]
    converged: Bool[Array, ""]
    status: Array

    @property
    def good(self) -> Bool[Array, ""]:
        return self.converged & (self.duration >= WINDOWS * self.memory) & (self.status == int(Status.OK))

    @property
    def sentence(self) -> str:
        if int(self.status) != int(Status.OK):
            return Status(int(self.status)).message
        duration, memory = float(self.duration), float(self.memory)
        said = f"the run of {duration:.4g} is {duration / memory:.3g} memories of {memory:.4g} long"
        if not bool(self.duration >= WINDOWS * self.memory):
            return f"{said}; below {WINDOWS} its weights are mostly noise: run longer, or give a shorter `memory`."
        if not bool(self.converged):
            return f"{said}, but its frames are too alike for an error: run longer."
        return f"{said}; `sensitivity` tells the error of the derivative."


class LikelihoodRatio(AverageMethod):
    r"""Derivatives of an average over Langevin dynamics by how likely its path is at other parameters:

    $$\partial_\theta \langle O(t) \rangle = \Big\langle \partial_\theta O + (O - b)\, \partial_\theta \sum_{t - \tau < s \le t}
    \ln q_\theta(x_{s+h} | x_{\le s}) \Big\rangle$$

    where q is the density of the step of BAOAB, exact for any step, with the path of positions held; the baseline b lowers the
    noise. Only steps of the last `memory` $\tau$ count: what was before is forgotten, and would add nothing but noise.

    No derivative of a force by a position is taken, so that chaos does no harm; and it needs no equilibrium: averages of driven
    systems and of relaxation have their derivatives, too. Its noise grows as the square root of the memory and of the number of
    atoms. In equilibrium, `Reweighting` has much less of it.

    All steps are kept: 48 bytes an atom and step in double precision.

    **Arguments:** `memory`: the time $\tau$ after which the observable has forgotten the noise, a few of its relaxation times; by
    default everything since the start.

    **Source:** Glynn (1990), doi:10.1145/84537.84552; Warren and Allen (2012), doi:10.1103/PhysRevLett.109.250601.
    """

    memory: float | None = eqx.field(static=True, default=None)
    baseline: bool = eqx.field(static=True, default=True)

    def __check_init__(self):
        if self.memory is not None and not self.memory > 0:
            raise ArgumentError(f"Argument `memory` must be positive, but it is {self.memory}.")

    def average(
        self,
        observable: Callable[[Particles, Any], Any],
        system: Particles,
        y0: Atoms,
        times: ArrayLike | Sequence[float],
        step: Fixed,
        key: PRNGKeyArray | None,
        discard: int,
    ) -> EnsembleAverage:
        if not isinstance(system.dynamics, Langevin):
            raise ArgumentError(
                f"Argument `system` must move by `Langevin` dynamics, whose noise has a likelihood, but it moves by "
                f"`{type(system.dynamics).__name__}`. Take `Reweighting()` or `TrajectoryGradient()`."
            )
        if system.constraints is not None:
            raise ArgumentError(
                "Argument `system` must have no constraints, whose paths have another density, but it has. Take `Reweighting()` or "
                "`TrajectoryGradient()`."
            )
        times = jnp.asarray(times).astype(y0.position.dtype)
        fine = _all_steps(times, step.substeps)
        still, y0 = lax.stop_gradient((system, y0))
        run = simulate(still, y0, fine, step=Fixed(1), key=key)
        series = _weighted(self, observable, system, lax.stop_gradient(run.ys), fine, step.substeps, discard)
        duration = times[-1] - times[0]
        memory = duration if self.memory is None else jnp.asarray(self.memory, duration.dtype)
        trust = lambda inefficiency, converged: Path(duration, memory, converged, jnp.asarray(run.status))
        return averaged(series, trust, NAME)


def _all_steps(times: Array, substeps: int) -> Array:
    share = jnp.arange(substeps, dtype=times.dtype) / substeps
    starts = times[:-1, None] + jnp.diff(times)[:, None] * share[None]
    return jnp.concatenate([starts.reshape(-1), times[-1:]])


@eqx.filter_jit
def _weighted(
    method: LikelihoodRatio,
    observable: Callable[[Particles, Any], Any],
    system: Particles,
    path: Atoms,
    times: Array,
    substeps: int,
    discard: int,
) -> Any:
    """Return the contribution of each frame to the average."""
    momentum, scores = _followed(system, path, jnp.diff(times))
    total = jnp.concatenate([jnp.zeros_like(scores[:1]), jnp.cumsum(scores)])
    moved = eqx.tree_at(lambda a: a.momentum, path, momentum)
    places = kept(jnp.arange(0, times.shape[0], substeps), discard)
    frames = jax.tree.map(lambda x: x[places], moved)
    score = total[places]
    if method.memory is not None:
        # Half a step of slack: times are rounded.
        began = times[places] - method.memory + 0.5 * (times[1] - times[0])
        score = score - total[jnp.searchsorted(times, began)]
    score = score - lax.stop_gradient(score)
    values = measured(observable, system, frames)

    def contribution(value: Array) -> Array:
        centre = jnp.mean(value, axis=0, keepdims=True) if method.baseline else jnp.zeros_like(value[:1])
        away = lax.stop_gradient(value - centre)
        return value + away * score.reshape(-1, *[1] * (value.ndim - 1)).astype(value.dtype)

    return jax.tree.map(contribution, values)


def _followed(system: Particles, path: Atoms, steps: Array) -> tuple[Array, Array]:
    """Momenta and the logarithm of the density of each step, as functions of the system with the path of positions held.

    From one state of BAOAB to the next: half a kick, two drifts around the noise, half a kick. The drifts tell the momentum after
    the noise from the positions, whatever made them. Values are those of the run; only derivatives come from these formulas.
    """
    forces = lax.map(jax.checkpoint(lambda atoms: system.forces(atoms, system.listed(atoms))), path)
    mass = system.masses(path.position[0])
    thermal = system.units.boltzmann * system.dynamics.temperature  # type: ignore[attr-defined]

    def follow(momentum: Array, row: tuple[Array, ...]) -> tuple[Array, tuple[Array, Array]]:
        h, before, after, force, next_force, recorded = row
        kept = jnp.exp(-system.dynamics.friction * h).astype(momentum.dtype)  # type: ignore[attr-defined]
        width = jnp.sqrt((1 - kept * kept) * thermal * mass).astype(momentum.dtype)
        kicked = momentum + 0.5 * h * force
        noisy = 2 * mass * (after - before) / h - kicked
        noisy = _anchored(lax.stop_gradient(recorded - 0.5 * h * next_force), noisy)
        noise = (noisy - kept * kicked) / width
        density = -jnp.sum(0.5 * noise**2 + jnp.log(width / mass))
        momentum = _anchored(recorded, noisy + 0.5 * h * next_force)
        return momentum, (momentum, density)

    x, p = path.position, path.momentum
    rows = steps.astype(x.dtype), x[:-1], x[1:], forces[:-1], forces[1:], p[1:]
    _, (momenta, densities) = lax.scan(follow, p[0], rows)
    return jnp.concatenate([p[:1], momenta]), densities


def _anchored(value: Array, formula: Array) -> Array:
    """The value given with the derivative of the formula: rounding of the formula would add up over a path."""
    return value + (formula - lax.stop_gradient(formula))
