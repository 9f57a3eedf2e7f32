"""Starts without a simulation: parameters under which the vector field has the slopes of curves through the data."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from scipy.optimize import least_squares

from .._errors import ArgumentError
from ..core import ConstrainedSystem, DelayedSystem, Setup, StaticSystem, at_time, full_products, named_leaves, started
from ..problem import LOGARITHMIC, Problem, check_independent
from ._inside import inside
from ._smoothing import FEWEST, curve_of, measured_states
from ._starts import check_count_of_starts, check_drawable, drawn_starts, first_start, some_start

DRAWS = 16
"""Number of draws of the parameters from which slopes are matched. No simulation is needed, so that they cost next to nothing."""

NODES, WEIGHTS = np.polynomial.legendre.leggauss(3)
"""Nodes and weights that average the vector field between two data times."""

PULL = 1e-3
"""Strength of the pull to the drawn value for parameters that the slopes do not determine."""

SAME = 1e-3
"""Matches within this distance, in the coordinates of the fit, are one."""


class Curves(NamedTuple):
    """Curves through the data of all experiments, on pieces between neighbouring data times."""

    times: Array  # experiments, pieces, nodes
    states: list[Array]  # of each leaf: experiments, pieces, nodes, ...
    slopes: list[Array]  # of each leaf: experiments, pieces, ...: the mean over the piece
    sizes: list[Array]  # of each leaf, as the slopes: what a mismatch is divided by; infinite where there is no piece
    starts: list[Array]  # of each leaf: experiments, ...: the curve at the start
    spreads: list[Array]  # as the starts: how much the curve changes


@full_products
def gradient_matching(
    problem: Problem, *, starts: int = 4, key: PRNGKeyArray | None = None
) -> Float[Array, "starts parameters"]:
    """Starts for a fit, found without a simulation: parameters under which the vector field has the slopes of the data.

    A smoothing spline, its smoothness chosen by cross-validation, is laid through the data of each state. Between neighbouring
    data times its mean slope is compared with the mean of the vector field along it, in least squares from 16 draws. Noise
    makes the curves less steep than the states were, so the result is a place to start from and no estimate. Sizes of scatter
    are set to that of the data around the curves.

    **Arguments:**

    - `problem`: a `Problem` with data of every state in each experiment, at five times or more, and some ten for each bend.
    - `starts`: at most so many distinct matches are returned, the best first.
    - `key`: a random key for the draws; `jax.random.key(0)` by default.

    **Returns:** parameters in natural units, shape `(starts, parameters)`: what `fit(problem, starts=...)` takes.
    **Raises** an `ArgumentError` that names a state without data.

    **Reference:** Varah (1982), SIAM J. Sci. Stat. Comput. 3:28, doi:10.1137/0903003.

    ```python
    import numpy as np
    import simkit
    system, y0, _, _ = simkit.odes.LotkaVolterra.example()
    times = np.arange(0.0, 20.5, 0.5)
    seen = simkit.simulate(system, y0, times).ys
    problem = simkit.Problem(
        system,
        simkit.Experiment("pelts", times, {"hare": seen.hare, "lynx": seen.lynx}),
        y0=y0,
        free={"growth": simkit.Free(bounds=(0.01, 10.0)), "death": simkit.Free(bounds=(0.01, 10.0))},
        noise={"hare": simkit.noise.Normal(1.0), "lynx": simkit.noise.Normal(1.0)},
    )
    print(simkit.fit(problem, starts=simkit.gradient_matching(problem)))
    ```
    """
    check_count_of_starts(starts)
    if not problem.size:
        raise ArgumentError("Argument `problem` must have free parameters, but it has none.")
    check_drawable(problem)
    theta = problem.natural(some_start(problem))
    measured = _check_measured(problem, theta)
    curves = _curves(problem, measured)
    key = jax.random.key(0) if key is None else key
    draws = np.asarray(first_start(problem, drawn_starts(problem.lean(), key, DRAWS)), float)
    lower, upper = np.asarray(problem.coordinate_bounds(), float).T
    residuals, slopes = _compiled(problem, curves)
    found: list[tuple[float, np.ndarray]] = []
    for draw in draws:
        z = _matched(residuals, slopes, draw, _sizes(problem, draw), lower, upper)
        if z is not None:
            found.append(z)
    if not found:
        raise ArgumentError(
            "The vector field must be finite along the data at some draw of the parameters, but it never is. Narrow the bounds."
        )
    known = np.linalg.norm(slopes(found[0][1]), axis=0) > 0  # parameters that slopes or starts depend on
    distinct: list[np.ndarray] = []
    for _, z in sorted(found, key=lambda each: each[0]):
        if all((np.abs(z - other) / _sizes(problem, z))[known].max(initial=0) > SAME for other in distinct):
            distinct.append(z)
    matched = np.stack(distinct[:starts])
    for name, scatter in _scatters(problem, measured).items():
        column = problem.names.index(name)
        matched[:, column] = np.log(scatter) if problem.log[column] else scatter
    z = jnp.asarray(matched, problem.times.dtype)
    return problem.natural(jax.vmap(inside, in_axes=(0, None))(z, problem.coordinate_bounds()))


def _check_measured(problem: Problem, theta: Array) -> dict[str, str]:
    check_independent(problem, "Gradient matching")
    if isinstance(problem.base.system, StaticSystem):
        raise ArgumentError(
            f"Gradient matching needs a system that moves in time, but `{type(problem.base.system).__name__}` is static. `fit` it."
        )
    if isinstance(problem.base.system, ConstrainedSystem):
        raise ArgumentError(
            f"Gradient matching compares slopes with a vector field, but `{type(problem.base.system).__name__}` has algebraic "
            "equations. `fit` it."
        )
    if isinstance(problem.base.system, DelayedSystem):
        raise ArgumentError(
            f"Gradient matching compares slopes with a vector field of the state, but that of "
            f"`{type(problem.base.system).__name__}` sees its past. `fit` it."
        )
    for what, there in (
        ("a protocol", problem.protocol),
        ("a measurement of its own", problem.measurement),
        ("individuals", problem.population),
        ("events", problem.base.events),
    ):
        if there is not None:
            raise ArgumentError(
                f"Gradient matching needs data of states in single simulations, but the problem has {what}. `fit` draws starts."
            )
    measured = measured_states(problem, theta)
    remedy = (
        "Give data, or an observable that is the state; or let `fit` shoot over several `windows`, which needs no more."
    )
    for path in named_leaves(started(problem.model.base_setup(0).y0)):
        label = path or "y"
        if path not in measured:
            raise ArgumentError(
                f"Gradient matching needs data of every state, but nothing measures `{label}`. {remedy}"
            )
        for experiment, values in zip(problem.labels, problem.dataset.exact(measured[path]), strict=True):
            few = np.isfinite(values).sum(axis=0).min()
            if few < FEWEST:
                raise ArgumentError(
                    f"Gradient matching needs data of every state at {FEWEST} times or more, but experiment `{experiment}` has "
                    f"{few} of `{label}`. {remedy}"
                )
    return measured


def _curves(problem: Problem, measured: dict[str, str]) -> Curves:
    state = started(problem.model.base_setup(0).y0)
    shapes = {path: jnp.shape(x) for path, x in named_leaves(state).items()}
    experiments, start = range(len(problem.labels)), np.asarray(problem.times[:, 0], float)
    series = {
        path: {(e, *p): curve_of(problem, measured[path], e, p) for e in experiments for p in np.ndindex(shape)}
        for path, shape in shapes.items()
    }
    edges = [
        _edges([knots for each in series.values() for (e, *_), (_, knots) in each.items() if e == i])
        for i in experiments
    ]
    pieces = max(map(len, edges)) - 1
    filled = np.stack([np.pad(x, (0, pieces + 1 - len(x)), mode="edge") for x in edges])
    width = np.diff(filled, axis=1)
    times = 0.5 * (filled[:, 1:] + filled[:, :-1])[:, :, None] + 0.5 * width[:, :, None] * NODES
    parts: list[list[Any]] = [[] for _ in range(5)]
    for path, shape in shapes.items():
        states, slopes = np.zeros((*times.shape, *shape)), np.zeros((*width.shape, *shape))
        starts = np.zeros((len(edges), *shape))
        for (e, *p), (curve, _) in series[path].items():
            states[(e, slice(None), slice(None), *p)] = curve(times[e])
            slopes[(e, slice(None), *p)] = np.diff(curve(filled[e])) / np.where(width[e] > 0, width[e], 1)
            starts[(e, *p)] = curve(np.maximum(start[e], filled[e, 0]))
        long = width.reshape(*width.shape, *(1,) * len(shape))
        size = _positive(np.sqrt((slopes**2 * long).sum(axis=1, keepdims=True)))
        sizes = size / np.sqrt(np.where(long > 0, long, 1)) + np.where(long > 0, 0, np.inf)
        spreads = _positive(np.ptp(states, axis=(1, 2)))
        for kept, value in zip(parts, (states, slopes, sizes, starts, spreads), strict=True):
            kept.append(jnp.asarray(value, problem.times.dtype))
    return Curves(jnp.asarray(times, problem.times.dtype), *parts)


def _sizes(problem: Problem, z: np.ndarray) -> np.ndarray:
    """The sizes of coordinates: 1 of logarithms, and where a number is zero, which has none."""
    return np.where(np.array(problem.log, bool) | (z == 0), 1, np.abs(z))


def _positive(sizes: np.ndarray) -> np.ndarray:
    """Sizes, those that are nothing beside the largest raised to 1e-12 of it; all 1 where nothing changes."""
    return np.maximum(sizes, 1e-12 * sizes.max(initial=0)) if sizes.max(initial=0) > 0 else np.ones_like(sizes)


def _edges(knots: list[np.ndarray]) -> np.ndarray:
    """The data times at which all of one experiment's curves are known."""
    first, last = max(x[0] for x in knots), min(x[-1] for x in knots)
    return np.unique(np.concatenate([x[(x >= first) & (x <= last)] for x in knots]))


@eqx.filter_jit
def _residuals(problem: Problem, curves: Curves, z: Array) -> Array:
    """The mismatches of slopes and of initial states at one place in the coordinates of a fit."""
    system = problem.model.setups(problem.natural(z))
    structure = jax.tree.structure(system.y0)
    weights = jnp.asarray(0.5 * WEIGHTS, z.dtype)

    def mean(setup: Setup, times: Array, states: list[Array]) -> list[Array]:
        def field(t: Array, *leaves: Array) -> Any:
            slope = setup.system.vector_field(t, structure.unflatten(leaves), at_time(setup.inputs, t))
            return jax.tree.leaves(slope)

        found = jax.vmap(jax.vmap(field))(times, *states)
        return [
            jnp.tensordot(x, weights, axes=(1, 0)) if x.ndim == 2 else jnp.einsum("pq...,q->p...", x, weights)
            for x in found
        ]

    slopes = eqx.filter_vmap(mean)(system, curves.times, curves.states)
    parts = [((a - b) / size).ravel() for a, b, size in zip(slopes, curves.slopes, curves.sizes, strict=True)]
    begins = zip(jax.tree.leaves(system.y0), curves.starts, curves.spreads, strict=True)
    return jnp.concatenate(parts + [((a - b) / spread).ravel() for a, b, spread in begins])


def _compiled(problem: Problem, curves: Curves) -> Any:
    dtype = problem.times.dtype
    jacobian = eqx.filter_jit(jax.jacfwd(_residuals, argnums=2))
    lean = problem.lean()
    return (
        lambda z: np.asarray(_residuals(lean, curves, jnp.asarray(z, dtype)), float),
        lambda z: np.asarray(jacobian(lean, curves, jnp.asarray(z, dtype)), float),
    )


def _matched(
    residuals: Callable[[np.ndarray], np.ndarray],
    slopes: Callable[[np.ndarray], np.ndarray],
    draw: np.ndarray,
    sizes: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
) -> tuple[float, np.ndarray] | None:
    """The match from one draw, with its sum of squares; None where the vector field is not finite."""
    reach = PULL / sizes
    whole = lambda z: np.concatenate([residuals(z), reach * (z - draw)])
    by_z: Any = lambda z: np.concatenate([slopes(z), np.diag(reach)])
    try:
        found = least_squares(
            whole, draw, by_z, (lower, upper), x_scale="jac", loss="soft_l1", f_scale=0.1, max_nfev=200
        )
    except ValueError:  # residuals that are not finite
        return None
    return float(found.cost), found.x


def _scatters(problem: Problem, measured: dict[str, str]) -> dict[str, float]:
    """Free sizes of scatter -> how far the data are from the curves."""
    found = {}
    for name in measured.values():
        if (own := f"noise.{name}.scale") not in problem.names:
            continue
        data, misses = problem.dataset.exact(name), []
        logarithmic = isinstance(problem.base.noise[name], LOGARITHMIC)
        for e, *place in np.ndindex(data.shape[0], *data.shape[2:]):
            curve, _ = curve_of(problem, name, e, tuple(place))
            values, level = data[(e, slice(None), *place)], curve(np.asarray(problem.times[e, 1:], float))
            misses.append(np.log(values) - np.log(level) if logarithmic else values - level)
        spread = float(np.sqrt(np.nanmean(np.square(misses))))
        if spread > 0:
            found[own] = spread
    return found
