"""The step and the operation in which a derivative stops being finite though the simulation itself is."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, PRNGKeyArray, PyTree

from .._types import State
from ..core import ParticleSystem, Setup, named_leaves, started
from ..engine import Fixed, Method, Varying, simulate
from ..solvers import Stepper
from ._trace_back import Culprit, trace_back

SHORTEST = 1e-9
"""Down to this share of its length a window is halved."""


def lost_derivative(
    setup: Setup, method: Method, times: np.ndarray, ys: State, key: PRNGKeyArray | None
) -> dict[str, Any] | None:
    """Find the operation whose cotangent first is not finite, going backwards from the last time; None if there is none.

    **Arguments:** the setup with the initial state, how it is solved, the save times and the states there.

    **Returns:** `setup` with the state before the step, `start` and `length` of the step, the number of the save time before it as
    `row`, the first quantity whose derivative is not finite, as `component`, and the `culprit`.
    """
    if isinstance(setup.system, ParticleSystem):
        return None
    moving, fixed = eqx.partition((setup.system, started(setup.y0), setup.inputs), eqx.is_inexact_array)

    def broken(y: State, start: float, end: float, step: Varying | Fixed = method.step) -> bool:
        span = np.asarray([start, end], times.dtype)
        found = _compiled(moving, fixed, y, span, method.solver, step, key)
        return not all(np.isfinite(np.asarray(x)).all() for x in jax.tree.leaves(found))

    def at(row: int) -> State:
        return jax.tree.map(lambda x: x[row], ys)

    row = next((i for i in reversed(range(len(times) - 1)) if broken(at(i), times[i], times[i + 1])), None)
    if row is None:
        return None
    start, end, y = float(times[row]), float(times[row + 1]), at(row)
    if not isinstance(method.step, Fixed):
        start, end, y = _halved(broken, setup, method, start, end, y, key)
        step: Any = Fixed(1)
        if not broken(y, start, end, step):
            step = method.step
    else:
        step = method.step
    flat, shape = jax.tree.flatten((moving, y))
    span = np.asarray([start, end], times.dtype)

    def of_leaves(*leaves: Array) -> list[Any]:
        moving, y = jax.tree.unflatten(shape, leaves)
        return jax.tree.leaves(_slopes(moving, fixed, y, span, method.solver, step, key))

    blamed = trace_back(of_leaves, flat)
    before = Setup(setup.system, y, setup.inputs)
    return {
        "setup": before,
        "start": start,
        "length": end - start,
        "row": row,
        "component": _first(_compiled(moving, fixed, y, span, method.solver, step, key)),
        "culprit": blamed if isinstance(blamed, Culprit) else None,
    }


def _slopes(
    moving: PyTree,
    fixed: PyTree,
    y: State,
    times: ArrayLike,
    solver: Stepper | None,
    step: Varying | Fixed,
    key: PRNGKeyArray | None,
) -> Any:
    """The gradient of a number that depends on all of the last state."""

    def total(moving: PyTree, y: State) -> Any:
        system, _, inputs = eqx.combine(moving, fixed)
        found = simulate(system, y, times, solver=solver, step=step, inputs=inputs, key=key, on_failure="mark")
        return sum(jnp.sum(x[-1] * _weights(x[-1])) for x in jax.tree.leaves(found.ys))

    return jax.grad(total, argnums=(0, 1))(moving, y)


_compiled: Any = eqx.filter_jit(_slopes)


def _halved(
    broken: Callable[..., bool],
    setup: Setup,
    method: Method,
    start: float,
    end: float,
    y: State,
    key: PRNGKeyArray | None,
) -> Any:
    """The later half of a window as long as it shows the same, else the earlier one; where neither does, the window."""
    shortest = SHORTEST * (end - start)
    while end - start > shortest:
        middle = 0.5 * (start + end)
        if not start < middle < end:
            break
        later = simulate(
            setup.system,
            y,
            np.array([start, middle]),
            solver=method.solver,
            step=method.step,
            inputs=setup.inputs,
            key=key,
            on_failure="mark",
        ).final()
        if broken(later, middle, end):
            start, y = middle, later
        elif broken(y, start, middle):
            end = middle
        else:
            break
    return start, end, y


def _weights(x: Array) -> Any:
    return jnp.asarray(1 + 0.5 * np.cos(np.arange(1, x.size + 1) ** 2).reshape(x.shape), x.dtype)


def _first(slopes: PyTree) -> str:
    """The path of the first quantity whose derivative is not finite."""
    (system, _, inputs), y = slopes
    for root, tree in (("", system), ("y0", y), ("inputs", inputs)):
        for name, leaf in named_leaves(tree).items():
            places = np.argwhere(~np.isfinite(np.asarray(leaf)))
            if len(places):
                return ".".join(filter(None, [root, name, *map(str, places[0])]))
    return ""
