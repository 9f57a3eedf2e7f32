"""Derivatives of averages through the run itself."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ...core import Status
from ...engine import Checkpointed, Fixed, simulate
from .._particles import Particles
from ..space._atoms import Atoms
from ._average import EnsembleAverage, Trust, averaged, measured
from ._average_method import AverageMethod
from ._lyapunov import lyapunov_exponent
from ._reweighting import kept

NAME = "through the trajectory"


class Horizon(Trust):
    """Length of the run, and the time in which a small displacement grows by the tolerated factor."""

    duration: Float[Array, ""]
    exponent: Float[Array, ""]
    horizon: Float[Array, ""]
    status: Array

    @property
    def good(self) -> Bool[Array, ""]:
        return (self.duration <= self.horizon) & (self.status == int(Status.OK))

    @property
    def sentence(self) -> str:
        if int(self.status) != int(Status.OK):
            return Status(int(self.status)).message
        if bool(jnp.isnan(self.exponent)):
            return "the horizon was not looked for (`check=False`)."
        duration, horizon = (
            f"the run of {float(self.duration):.4g} is",
            f"than its horizon of {float(self.horizon):.4g}",
        )
        rate = f"(Lyapunov exponent {float(self.exponent):.3g})"
        if bool(self.good):
            return f"{duration} no longer {horizon} {rate}."
        return f"{duration} longer {horizon} {rate}: its derivatives are mostly noise. Shorten it, or take `Reweighting()`."


class TrajectoryGradient(AverageMethod):
    """Derivatives through the run: exact ones of this very run, by the system's numbers and by its start.

    They are derivatives of an average in equilibrium only as far as the run is long enough to get there and short enough to be
    within the horizon, in which derivatives grow by no more than a given factor. For relaxation, response and short times.

    **Arguments:**

    - `growth`: the factor by which a small displacement may grow.
    - `check`: whether to look for the horizon, which costs about as much as two runs more.
    - `memory`: what reverse mode may remember, such as "2 GiB" (`Checkpointed`).
    """

    growth: float = eqx.field(static=True, default=100.0)
    check: bool = eqx.field(static=True, default=True)
    memory: str | None = eqx.field(static=True, default=None)

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
        gradient = None if self.memory is None else Checkpointed(memory=self.memory)
        run = simulate(system, y0, times, step=step, key=key, gradient=gradient)
        series = measured(observable, system, kept(run.ys, discard))
        dtype = y0.position.dtype
        times = jnp.asarray(times).astype(dtype)
        nothing = jnp.full((), jnp.nan, dtype)
        exponent, horizon = nothing, nothing
        if self.check:
            found = lyapunov_exponent(system, y0, times, step=step, key=key, discard=0.0)
            exponent, horizon = found.exponent, found.horizon(self.growth)
        trust = Horizon(times[-1] - times[0], exponent, horizon, jnp.asarray(run.status))
        return averaged(series, lambda inefficiency, converged: trust, NAME)
