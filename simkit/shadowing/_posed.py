"""Checks of the arguments of `shadow`, and of the trajectory that it finds."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._doors import check_count
from .._errors import ArgumentError, SimulationError
from ..core import DelayedSystem, DiscreteSystem, JumpSystem, StaticSystem, StochasticSystem, System, tracing
from ..engine import check_times


def check_outside(*given: Any) -> None:
    """Refuse a call that is being traced."""
    if tracing(given):
        raise ArgumentError(
            "Arguments `system`, `y0` and `times` of `shadow` must hold known numbers, but the call is inside `jit`, `vmap` or "
            "`grad`: it decides by numbers how many modes to follow. Call it outside; it compiles itself, and takes several "
            "parameters at once in `by`."
        )


def check_flow(system: System) -> None:
    """Refuse systems without a slope that depends on the state alone."""
    differences = "Take differences of averages over long runs"
    kinds = {
        StochasticSystem: ("has noise", f"{differences} with the same `key`."),
        JumpSystem: ("has random jumps", f"{differences} with the same `key`."),
        DiscreteSystem: ("goes by steps of a length of its own", f"{differences}."),
        DelayedSystem: ("has delays", f"{differences}."),
        StaticSystem: ("has no states that move", "Take `jax.grad` of its outputs."),
    }
    for kind, (why, remedy) in kinds.items():
        if isinstance(system, kind):
            raise ArgumentError(
                "Argument `system` must be one of ordinary differential equations for `shadow`, which moves a trajectory along and "
                f"across its slope, but `{type(system).__name__}` {why}. {remedy}"
            )


def checked_times(times: Any, segments: Any, runs: Any) -> np.ndarray:
    """Times that are equally spaced and can be cut into segments."""
    array = np.asarray(check_times(times), float)
    steps = np.diff(array)
    if steps.min() <= 0 or np.ptp(steps) > 1e-6 * abs(array).max():
        raise ArgumentError("Argument `times` must increase in equal steps, but it does not. Take `np.linspace`.")
    if isinstance(segments, bool) or not isinstance(segments, int) or segments < 1 or (array.size - 1) % segments:
        raise ArgumentError(
            f"Argument `segments` must divide the number of intervals of `times`, {array.size - 1}, but it is {segments!r}."
        )
    if isinstance(runs, bool) or not isinstance(runs, int) or runs < 2:
        raise ArgumentError(f"Argument `runs` must be at least 2, whose scatter is the error, but it is {runs!r}.")
    return array


def checked_paths(by: Any) -> Sequence[str]:
    """Paths of parameters, each once."""
    if isinstance(by, str) or not isinstance(by, Sequence) or not by or not all(isinstance(x, str) for x in by):
        raise ArgumentError(f'Argument `by` must list paths of parameters, such as `["rayleigh"]`, but it is {by!r}.')
    if twice := sorted({path for path in by if by.count(path) > 1}):
        raise ArgumentError(
            f"Argument `by` must list each path once, but {', '.join(map(repr, twice))} is there twice."
        )
    return by


def check_modes(modes: Any, numbers: int) -> None:
    """Refuse a number of modes that does not fit a state of so many numbers."""
    if numbers < 2:
        raise ArgumentError(
            "Argument `y0` must hold at least two numbers for `shadow`, but it holds one: a shadow is displaced across the "
            "trajectory, and a single number has no direction beside it. Where it settles, the derivative is that of the end of a "
            "long run, `jax.grad` of `simulate(...).final()`."
        )
    if modes is None:
        return
    check_count("modes", modes)
    if modes > numbers - 1:
        raise ArgumentError(
            f"Argument `modes` must be from 1 to {numbers - 1}, one less than the state has numbers, but it is {modes!r}."
        )


def check_settle(settle: Any) -> None:
    """Refuse what is not a positive time."""
    if (
        isinstance(settle, bool)
        or not np.isreal(settle)
        or np.ndim(settle)
        or isinstance(settle, str)
        or not settle > 0
    ):
        raise ArgumentError(
            f"Argument `settle` must be a positive time, such as that of one run, but it is {settle!r}."
        )


def check_quantity(quantity: Callable[[Any, Any], Any], values: Any, state: Any) -> None:
    """Refuse a quantity that is not one float."""
    found = jax.tree.leaves(jax.eval_shape(quantity, values, state))
    if len(found) != 1 or found[0].shape or not jnp.issubdtype(found[0].dtype, jnp.floating):
        kinds = ", ".join(f"{x.dtype}{list(x.shape)}" for x in found) or "nothing"
        raise ArgumentError(
            f"Argument `quantity` must return one float of shape (), but it returns {kinds}. Take one element, or a mean, "
            "such as `lambda system, y: jnp.mean(y.x)`."
        )


def check_autonomous(slope: Callable[[Any, Array], Array], state: Array, times: np.ndarray) -> None:
    """Refuse a slope `slope(t, state)` of one state that is not the same at all times but for rounding."""
    span = times[-1] - times[0]
    some = times[0] + span * np.r_[0.0, np.arange(1, 32) * 0.5 * (5**0.5 - 1) % 1.0, 1.0]  # spread without a period
    found = np.asarray(jax.jit(jax.vmap(slope, (0, None)))(jnp.asarray(some, state.dtype), state))
    least = 100 * float(jnp.finfo(state.dtype).eps) * np.abs(found).max()
    if np.ptp(found, axis=0).max() > least:
        raise ArgumentError(
            "Argument `system` must have a right side that does not depend on time, but the slope of the first state differs "
            "between times of the run. Write a periodic forcing as states of their own, such as x' = x - omega y - x (x^2 + "
            "y^2), y' = omega x + y - y (x^2 + y^2), whose cycle is the cosine and sine."
        )


def check_moving(reach: np.ndarray, size: np.ndarray, pace: np.ndarray, rounding: float) -> None:
    """Refuse runs that come to rest; all arguments have shape (runs,): how far a run goes, its size, its mean square slope."""
    ended = ~(reach > 1e3 * rounding * size)
    dying = ~(pace.min() > 1e-2 * pace.max())
    if ended.any() or dying:
        raise SimulationError(
            "A run of `shadow` comes to rest: its slope vanishes at a stable point, so that no displacement is along it, and the "
            f"slope of its slowest run is {np.sqrt(pace.min() / pace.max()) if pace.max() > 0 else 0:.1g} of that of its fastest. "
            "At a stable point the derivative is that of the end of a long run, `jax.grad` of `simulate(...).final()`; of an "
            "attractor that is reached slowly take a longer `settle`."
        )
