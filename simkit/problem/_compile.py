"""Compilation of experiments to padded arrays, with the checks that need all of them at once."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array

from .._doors import shown
from .._errors import ArgumentError, check_known
from ..core import (
    ParticleSystem,
    RandomSystem,
    StaticSystem,
    System,
    check_numbers,
    named_leaves,
    traced,
)
from ..engine import Fixed, Method
from ._dataset import Dataset
from ._experiment import Experiment, check_domain
from ._forward import ForwardModel
from ._likelihood import AbstractLikelihood
from ._noise import AbstractNoise
from ._truncated import check_within
from ._unknowns import size_of


def check_arguments(
    system: System,
    experiments: Sequence[Experiment],
    noise: Mapping[str, Any],
    free: Collection[str],
    likelihood: AbstractLikelihood,
) -> None:
    """Refuse arguments of a problem that contradict each other."""
    independent = likelihood.independent
    if independent and isinstance(system, RandomSystem):
        raise ArgumentError(
            f"`{type(system).__name__}` is stochastic: the likelihood of its data is an integral over all paths. Give "
            "`likelihood=simkit.filters.KalmanFilter()`, where states are nearly normal and do not jump, or "
            "`likelihood=simkit.filters.ParticleFilter(key=...)`."
        )
    if independent and isinstance(system, ParticleSystem) and system.noisy:
        raise ArgumentError(
            "The thermostat or barostat of these particles draws random numbers, and a Problem takes no key: the likelihood of its "
            "data is an integral over all paths. Take dynamics without noise, `md.NVE()` or `md.NoseHoover(...)`; averages over an "
            "ensemble are data of a problem of `md.EquilibriumAverages(particles, ...)`."
        )
    if not experiments:
        raise ArgumentError("Argument `experiments` must hold at least one experiment, but it is empty.")
    names = [e.name for e in experiments]
    if len(set(names)) < len(names):
        raise ArgumentError(f"Every experiment must have a name of its own, but they are {names}.")
    for e in experiments:
        if not isinstance(system, StaticSystem):
            e.check_order()
        if e.limits and not (independent or likelihood.takes_censored):
            raise ArgumentError(
                f"Censored data need a likelihood in which data are independent given a simulation, but experiment `{e.name}` has "
                f"censored data of `{next(iter(e.limits))}` and the likelihood has none. Leave `likelihood` out, or give values."
            )
        for key, values in e.data.items():
            if key not in noise and not independent:
                continue
            check_known(key, noise, f"noise model for the output (data of experiment `{e.name}`)")
            check_domain(e.name, key, values, noise[key])
            check_within(e.name, key, values, noise[key])
            if key in e.limits and noise[key].domain == "share":
                raise ArgumentError(
                    f"Censored data must not be shares of successes, but those of `{key}` in experiment `{e.name}` are."
                )
            if key in e.limits:
                _check_censored(e.name, key, noise[key])
            if (key in e.counted) != (noise[key].domain == "share" and key in e.errors):
                raise ArgumentError(
                    "`Successes` go with `noise.Binomial` and `noise.BetaBinomial`, and these with no other sizes of data, but "
                    f"those of `{key}` in experiment `{e.name}` have the noise model {type(noise[key]).__name__}."
                )
            if key in e.errors and not hasattr(noise[key], noise[key].by_datum):
                raise ArgumentError(
                    f"Experiment `{e.name}` gives errors for `{key}`, but its noise model {type(noise[key]).__name__} has no scale."
                )
    for key, model in noise.items():
        scale = getattr(model, "scale", None)
        if scale is not None and not np.all(np.asarray(scale) > 0):
            raise ArgumentError(f"The noise scale of `{key}` must be positive, but it is {np.asarray(scale)}.")
        check_numbers(model)
        for name, value in named_leaves(model).items():
            if f"noise.{key}.{name}" not in free and not traced(value) and not np.isfinite(np.asarray(value)).all():
                raise ArgumentError(
                    f"`{name}` of {type(model).__name__} must be finite, but it is {np.asarray(value)}."
                )


def _check_censored(experiment: str, key: str, noise: AbstractNoise) -> None:
    """Refuse censored data of a noise model without a distribution function."""
    one = jnp.ones((1,))
    if jax.eval_shape(lambda: noise.log_cumulative(one, one)) is None:
        raise ArgumentError(
            f"Experiment `{experiment}` has censored data of `{key}`, but its noise model `{type(noise).__name__}` has no "
            "distribution function. Give it a method `log_cumulative`, or take one of `simkit.noise`."
        )


def longest_step(method: Method, times: np.ndarray, static: bool) -> float:
    """The longest step of a fixed rule; infinite where the step adapts."""
    if static or not isinstance(method.step, Fixed):
        return math.inf
    return float(np.diff(times, axis=1).max()) / method.step.substeps


def asked_times(given: Any, numpy: Any, dtype: Any) -> Array | np.ndarray:
    """Times as an array of a module such as NumPy; refused where there are none, or where known ones are not finite."""
    try:
        times = numpy.asarray(given, dtype)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"Argument `times` must be numbers, but it is {shown(given)}.") from error
    if not times.size:
        raise ArgumentError("Argument `times` must hold at least one time, but it is empty.")
    if not isinstance(times, Tracer) and not np.isfinite(np.asarray(times)).all():
        raise ArgumentError("Argument `times` must be finite, but some are NaN or infinite.")
    return times


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


def solve_times(rows: np.ndarray, longest: int, step: object, static: bool) -> Any:
    """Times for choosing solver and step: of the experiment with most data; all windows where the step is fixed."""
    if static or step is None or not isinstance(step, int | float | np.number):
        return rows[longest]
    windows = np.diff(rows, axis=1).max(axis=0)
    return np.concatenate([[0.0], np.cumsum(windows)]) + rows[longest, 0]


def check_outputs(model: ForwardModel, data: Dataset) -> None:
    """Every output with data exists and has the shape of its data."""
    theta = jnp.ones((size_of(model.blocks),), data.times.dtype)
    shapes: Callable[..., Any] = lambda theta: model.located(*model.solve(theta, data.times), data, hold=False)[0]
    found = jax.eval_shape(shapes, theta)
    for name, values in data.values.items():
        check_known(name, found, "output")
        if found[name].shape != values.shape:
            raise ArgumentError(
                f"The data of `{name}` must have the shape of the output, {found[name].shape[2:]} a time, but they have "
                f"{values.shape[2:]}."
            )
