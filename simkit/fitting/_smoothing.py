"""Smooth curves through the data of states."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from scipy.interpolate import make_smoothing_spline

from ..core import Setup, Trajectory, named_leaves, started
from ..problem import Problem
from ..problem._closed import LOGARITHMIC
from ..problem._measure import measured

FEWEST = 5
"""A smoothing spline needs so many times."""

Curve = Callable[[np.ndarray], np.ndarray]


def setups_at(problem: Problem, theta: Array) -> Setup:
    """The setups of all experiments, with a leading experiment axis; nothing is simulated."""

    def one(y0: Any, inputs: Any, values: dict[str, Array]) -> Setup:
        setup = Setup(problem.base.system, y0, inputs, problem.base.noise).put(values)
        return Setup(setup.system, started(setup.y0), setup.inputs, setup.noise)

    return eqx.filter_vmap(one)(problem.base.y0, problem.base.inputs, problem._values(theta))


def measured_states(problem: Problem, theta: Array) -> dict[str, str]:
    """The states that some data measure as they are: path in the state -> name of the data.

    States of which no law is known are drawn, and those that come out of the measurement as they went in are found.
    """
    if problem.measurement is not None:
        return {}
    setups = setups_at(problem, theta)
    leaves, structure = jax.tree.flatten(setups.y0)
    rows, random = problem.times.shape, np.random.default_rng(0)
    shapes = [(*rows, *jnp.shape(x)[1:]) for x in leaves]
    drawn = [jnp.asarray(random.uniform(0.5, 1.5, s), x.dtype) for s, x in zip(shapes, leaves, strict=True)]
    nothing = jnp.zeros(rows[0], int)
    trajectories = Trajectory(problem.times, structure.unflatten(drawn), nothing, nothing, nothing, nothing)
    located = measured(setups, trajectories, problem.observables, problem.lengths, hold=False)
    found = {}
    for path, values in named_leaves(trajectories.ys).items():
        for name in problem.data:
            if located[name].shape == values[:, 1:].shape and bool(jnp.all(located[name] == values[:, 1:])):
                found[path] = name
                break
    return found


def curve_of(problem: Problem, name: str, experiment: int, place: tuple[int, ...]) -> tuple[Curve, np.ndarray]:
    """A curve through one series of data, and the times that it has data at.

    A smoothing spline whose smoothness is chosen by cross-validation; a line from datum to datum where these are few.
    """
    times = np.asarray(problem.times[experiment, 1:], float)
    values = np.asarray(problem.data[name], float)[(experiment, slice(None), *place)]
    seen = np.isfinite(values)
    if not seen.any():
        return lambda t: np.full(np.shape(t), np.nan), times[:0]
    logarithmic = isinstance(problem.base.noise[name], LOGARITHMIC)
    knots, which = np.unique(times[seen], return_inverse=True)
    level = np.bincount(which, np.log(values[seen]) if logarithmic else values[seen]) / np.bincount(which)
    size = max(float(np.std(level)), 1e-12 * float(np.abs(level).max()), 1e-300)
    span = max(float(knots[-1] - knots[0]), 1e-300)
    if len(knots) < FEWEST:
        smooth: Curve = lambda t: np.interp(t, knots, level)
    else:
        # Cross-validation is solved in units of the data, or small numbers would be lost in its search.
        spline = make_smoothing_spline((knots - knots[0]) / span, level / size)
        smooth = lambda t: spline((t - knots[0]) / span) * size
    return (lambda t: np.exp(smooth(t))) if logarithmic else smooth, knots

