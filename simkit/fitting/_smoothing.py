"""Smooth curves through the data of states."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from scipy.interpolate import CubicSpline

from ..core import Trajectory, named_leaves
from ..problem import LOGARITHMIC, Problem, measured

FEWEST = 5
"""A smoothing spline needs so many times."""

CAUTION = 1.2
"""Weight of a degree of freedom in cross-validation, in data: with 1 a curve through all data wins now and then."""

Curve = Callable[[np.ndarray], np.ndarray]


def measured_states(problem: Problem, theta: Array) -> dict[str, str]:
    """The states that some data measure as they are: path in the state -> name of the data.

    States of which no law is known are drawn, and those that come out of the measurement as they went in are found.
    """
    if problem.measurement is not None:
        return {}
    setups = problem.model.setups(theta)
    leaves, structure = jax.tree.flatten(setups.y0)
    rows, random = problem.times.shape, np.random.default_rng(0)
    shapes = [(*rows, *jnp.shape(x)[1:]) for x in leaves]
    drawn = [jnp.asarray(random.uniform(0.5, 1.5, s), x.dtype) for s, x in zip(shapes, leaves, strict=True)]
    nothing = jnp.zeros(rows[0], int)
    trajectories = Trajectory(problem.times, structure.unflatten(drawn), nothing, nothing, nothing, nothing)
    located = measured(setups, trajectories, problem.observables, problem.dataset.lengths, hold=False)
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
    values = problem.dataset.exact(name)[(experiment, slice(None), *place)]
    seen = np.isfinite(values)
    if not seen.any():
        return lambda t: np.full(np.shape(t), np.nan), times[:0]
    logarithmic = isinstance(problem.base.noise[name], LOGARITHMIC)
    knots, which = np.unique(times[seen], return_inverse=True)
    level = np.bincount(which, np.log(values[seen]) if logarithmic else values[seen]) / np.bincount(which)
    if len(knots) < FEWEST:
        smooth: Curve = lambda t: np.interp(t, knots, level)
    else:
        smooth = smoothing_spline(knots, level)
    return (lambda t: np.exp(smooth(t))) if logarithmic else smooth, knots


def smoothing_spline(x: np.ndarray, y: np.ndarray) -> Curve:
    r"""The natural cubic spline g that minimises

    $$\sum_i (y_i - g(x_i))^2 + \lambda \int g''(x)^2 dx$$

    with the $\lambda$ of the least generalised cross-validation (Craven and Wahba 1979, doi:10.1007/BF01404567). It is looked for
    on a grid of its logarithm: the score has several minima, and $\lambda$ goes over many decades.
    """
    gaps = np.diff(x) / np.median(np.diff(x))
    count = len(x)
    turns, band = np.zeros((count, count - 2)), np.zeros((count - 2, count - 2))
    for i in range(count - 2):  # Green and Silverman (1994), section 2.1.2
        turns[i : i + 3, i] = 1 / gaps[i], -1 / gaps[i] - 1 / gaps[i + 1], 1 / gaps[i + 1]
        band[i, i] = (gaps[i] + gaps[i + 1]) / 3
        if i:
            band[i, i - 1] = band[i - 1, i] = gaps[i] / 6
    roughness, modes = np.linalg.eigh(turns @ np.linalg.solve(band, turns.T))
    parts, roughness = modes.T @ y, np.maximum(roughness, 0)
    grid = np.geomspace(1e-4, 1e8, 241)
    kept = 1 / (1 + grid[:, None] * roughness)
    freedom = kept.sum(axis=1)
    score = (((1 - kept) * parts) ** 2).sum(axis=1) / (1 - CAUTION * freedom / count) ** 2
    score = np.where(CAUTION * freedom < count, score, np.inf)
    return CubicSpline(x, modes @ (kept[np.argmin(score)] * parts), bc_type="natural")
