"""From experiments to padded arrays, with the checks that need all of them at once."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array

from .._errors import ArgumentError, check_known
from ..core import Setup, StaticSystem, StochasticSystem, as_float_array, as_signals
from ..engine import Fixed, Method
from ._experiment import Experiment, check_domain

if TYPE_CHECKING:
    from ._problem import Problem


def experiment_setup(system: Any, e: Experiment, y0: Any, inputs: Any, noise: Any, static: bool) -> Setup:
    state = y0 if e.y0 is None else e.y0
    if state is None and not static:
        raise ArgumentError(
            f"Experiment `{e.name}` must have an initial state, but neither it nor the problem gives `y0`."
        )
    signals = as_signals(inputs if e.inputs is None else e.inputs)
    return Setup(system, jax.tree.map(as_float_array, state), jax.tree.map(as_float_array, signals), dict(noise))


def check_arguments(system: Any, experiments: Sequence[Experiment], noise: Mapping[str, Any]) -> None:
    if isinstance(system, StochasticSystem):
        raise ArgumentError(
            f"`{type(system).__name__}` is stochastic: the likelihood of its data is an integral over all paths, which a Problem "
            "does not compute. Fit the moments, or a deterministic limit."
        )
    if not experiments:
        raise ArgumentError("Argument `experiments` must hold at least one experiment, but it is empty.")
    names = [e.name for e in experiments]
    if len(set(names)) < len(names):
        raise ArgumentError(f"Every experiment must have a name of its own, but they are {names}.")
    for e in experiments:
        if not isinstance(system, StaticSystem):
            e.check_order()
        for key, values in e.data.items():
            check_known(key, noise, f"noise model for the output (data of experiment `{e.name}`)")
            check_domain(e.name, key, values, noise[key].domain, type(noise[key]).__name__)
            if key in e.errors and not hasattr(noise[key], "scale"):
                raise ArgumentError(
                    f"Experiment `{e.name}` gives errors for `{key}`, but its noise model {type(noise[key]).__name__} has no scale."
                )
    for key, model in noise.items():
        scale = getattr(model, "scale", None)
        if scale is not None and not np.all(np.asarray(scale) > 0):
            raise ArgumentError(f"The noise scale of `{key}` must be positive, but it is {np.asarray(scale)}.")


def padded_times(experiments: Sequence[Experiment], static: bool) -> np.ndarray:
    rows = []
    for e in experiments:
        start = [] if static else [e.times[0] if e.start is None else e.start]
        rows.append(np.concatenate([start, e.times]) if e.times.ndim == 1 else e.times)
    length = max(len(row) for row in rows)
    return np.stack([np.pad(row, [(0, length - len(row))] + [(0, 0)] * (row.ndim - 1), mode="edge") for row in rows])


def padded_data(experiments: Sequence[Experiment], length: int) -> tuple[dict[str, Array], dict[str, Array]]:
    data, errors = {}, {}
    for name in dict.fromkeys(name for e in experiments for name in e.data):
        shapes = {e.data[name].shape[1:] for e in experiments if name in e.data}
        if len(shapes) > 1:
            raise ArgumentError(
                f"The data of `{name}` must have one shape in all experiments, but they have {sorted(shapes)}."
            )
        block = np.full((len(experiments), length, *shapes.pop()), np.nan)
        sizes = np.ones_like(block)
        for row, size, e in zip(block, sizes, experiments, strict=True):
            if name in e.data:
                row[: len(e.times)] = e.data[name]
            if name in e.errors:
                given = e.errors[name]
                size[: len(e.times)] = np.where(np.isfinite(given) & (given > 0), given, 1.0)
        data[name] = as_float_array(block)
        if any(name in e.errors for e in experiments):
            errors[name] = as_float_array(sizes)
    return data, errors


def longest_step(method: Method, times: np.ndarray, static: bool) -> float:
    """The longest step of a fixed rule; infinite where the step adapts."""
    if static or not isinstance(method.step, Fixed):
        return math.inf
    return float(np.diff(times, axis=1).max()) / method.step.substeps


def refined(method: Method, rows: Array | np.ndarray, longest: Array, labels: Sequence[str]) -> Method:
    """The method for other times, its fixed steps as long as before; the times are checked where they are known."""
    gaps = None if isinstance(rows, Tracer) else np.diff(np.asarray(rows), axis=1)
    if gaps is not None and gaps.size and gaps.min() < 0:
        row = int(np.argmin(gaps.min(axis=1)))
        raise ArgumentError(
            f"Argument `times` must increase and must not begin before the start of an experiment, but those of `{labels[row]}`, "
            f"which starts at {float(rows[row, 0]):g}, do not."
        )
    if not isinstance(method.step, Fixed):
        return method
    if gaps is None:
        raise ArgumentError("Argument `times` must be known while tracing where steps are fixed, but it is traced.")
    # In single precision the longest step itself is rounded: the same gaps must give the same number of steps.
    substeps = math.ceil(float(gaps.max()) / float(longest) * (1 - 1e-6))
    return Method(method.solver, Fixed(max(1, substeps)), method.reason)


def check_outputs(problem: "Problem") -> None:
    """Every output with data exists and has the shape of its data."""
    theta = jnp.ones((len(problem.names),), problem.times.dtype)
    shapes: Callable[..., Any] = lambda theta: problem._located(*problem._solve(theta), hold=False)[0]
    found = jax.eval_shape(shapes, theta)
    for name, values in problem.data.items():
        check_known(name, found, "output")
        if found[name].shape != values.shape:
            raise ArgumentError(
                f"The data of `{name}` must have the shape of the output, {found[name].shape[2:]} a time, but they have "
                f"{values.shape[2:]}."
            )
