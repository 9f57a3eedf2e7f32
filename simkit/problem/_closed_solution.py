"""Best values of parameters in closed form, from a simulation."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..core import Setup, Trajectory
from ._closed_form import KINDS, LOGARITHMIC, ClosedForm
from ._problem import Problem

TURNS = 30
"""Number of times that factors and the size of their scatter are set to their best, one after the other."""


def solved(problem: Problem, theta: Array, setups: Setup, trajectories: Trajectory) -> Float[Array, " parameters"]:
    """The parameters with those of the problem's closed forms at their best values inside their bounds.

    **Arguments:** `setups`, `trajectories`: the simulation at `theta`, which holds for all values of these parameters.
    """
    places = np.array([problem.names.index(name) for c in problem.closed for name in c.names])
    column = {problem.names[place]: i for i, place in enumerate(places)}

    def measure(inner: Array) -> Any:
        at = remeasured(problem, theta.at[places].set(inner), setups)
        found: dict[str, tuple[Array, Any]] = problem.compare(at, trajectories)
        return {name: (location, noise.scale) for name, (location, noise) in found.items() if type(noise) in KINDS}

    heads, slopes = measure(theta[places]), jax.jacfwd(measure)(theta[places])
    for closed in problem.closed:
        columns = np.array([column[name] for name in closed.names])
        count = len(closed.linear) + len(closed.factors)
        parts = [_part(problem, name, heads[name], slopes[name], columns, count) for name in closed.outputs]
        joined = [jnp.concatenate(x) for x in zip(*parts, strict=True)]
        found = (_best_factors if closed.factors else _best)(closed, problem, joined, theta)
        own = places[columns]
        fine = jnp.isfinite(found).all()
        theta = theta.at[own].set(
            jnp.where(fine, jnp.clip(found, problem.bounds[own, 0], problem.bounds[own, 1]), theta[own])
        )
    return theta


def remeasured(problem: Problem, theta: Array, setups: Setup) -> Setup:
    """The setups of a simulation with other values of what is solved in closed form."""
    names = {name for c in problem.closed for name in c.names}
    values = {path: x for path, x in problem.model.values(theta).items() if path in names}
    return eqx.filter_vmap(lambda setup, values: setup.put(values))(setups, values)


def _part(
    problem: Problem, name: str, head: tuple[Array, Array], slope: tuple[Array, Array], columns: np.ndarray, linear: int
) -> tuple[Array, ...]:
    """Return the data of one output, locations, scales, their slopes, and a mask of the data of a closed form."""
    (location, scale), data = head, problem.data[name]
    rises, grows, widens = (
        slope[0][..., columns[:linear]],
        slope[1][..., columns[:linear]],
        slope[1][..., columns[linear:]],
    )
    seen = jnp.isfinite(data)
    value = jnp.where(seen, data, 1)
    if isinstance(problem.base.noise[name], LOGARITHMIC):
        # The logarithm of a location is that of its factor, plus what the factor has nothing to do with.
        safe = jnp.where(seen, location, 1)
        value, location = jnp.log(value), jnp.log(jnp.maximum(safe, jnp.finfo(safe.dtype).tiny))
    count = seen.size
    flat = lambda x, *more: x.reshape(count, *more)
    own = seen & (jnp.any(rises != 0, axis=-1) | jnp.any(widens != 0, axis=-1))
    more = flat(widens, len(columns) - linear)
    return flat(value), flat(location), flat(scale), flat(rises, linear), more, flat(own), flat(grows, linear)


def _best(closed: ClosedForm, problem: Problem, parts: list[Array], theta: Array) -> Array:
    value, location, scale, rises, widens, own, _ = parts
    # Where the scatter is unknown, only the relative weights of the data count.
    size = jnp.where(own, widens[:, 0] if closed.scatter else scale, 1)
    weight = jnp.where(own, 1 / size, 0)
    residual = jnp.where(own, value - location, 0)
    noise = problem.base.noise[closed.outputs[0]]
    found: list[Array] = []
    if closed.linear:
        places = np.array([problem.names.index(name) for name in closed.linear])
        now, bounds = theta[places], problem.bounds[places]
        if isinstance(noise, LOGARITHMIC):
            shift = jnp.sum(residual * weight**2) / jnp.sum(weight**2)
            best = jnp.clip(now * jnp.exp(shift), bounds[:, 0], bounds[:, 1])
            residual = jnp.where(own, residual - jnp.log(best[0] / now[0]), 0)
        else:
            rises = jnp.where(own[:, None], rises, 0)
            best = _least_squares(rises * weight[:, None], (residual + rises @ now) * weight, bounds)
            residual = residual - rises @ (best - now)
        found += list(best)
    if closed.scatter:
        reach, count = jnp.abs(residual * weight), jnp.maximum(jnp.sum(own), 1).astype(weight.dtype)
        normal = KINDS[type(noise)] == "normal"
        spread = jnp.sqrt(jnp.sum(reach**2) / count) if normal else jnp.sum(reach) / count
        now = theta[problem.names.index(closed.scatter)]
        found.append(jnp.where(jnp.any(own), spread, now))
    return jnp.stack(found)


def _best_factors(closed: ClosedForm, problem: Problem, parts: list[Array], theta: Array) -> Array:
    r"""The best factors s and size of scatter of data $y = s (m + \sigma w \epsilon)$.

    With $u = 1 / s$ and the sums A of $y^2 / w^2$ and B of $y m / w^2$ over the n data of one factor, u is the positive root of
    $A u^2 - B u - n \sigma^2 = 0$, and $\sigma^2$ the mean of $(u y - m)^2 / w^2$ over all: in turn, which only descends.
    """
    value, location, scale, _, _, own, grows = parts
    places = np.array([problem.names.index(name) for name in closed.factors])
    now, bounds = theta[places], problem.bounds[places]
    member = (own[:, None] & (grows != 0)).astype(scale.dtype)
    own = own & jnp.any(member > 0, axis=1)
    factor = jnp.where(own, member @ now, 1)
    place = problem.names.index(closed.scatter) if closed.scatter else None
    sigma = jnp.ones((), scale.dtype) if place is None else theta[place]
    weight = jnp.where(own, factor * sigma / jnp.where(own, scale, 1), 0)
    y, m = jnp.where(own, value * weight, 0), jnp.where(own, location / factor * weight, 0)
    square, product, count = (y**2) @ member, (y * m) @ member, jnp.sum(member, axis=0)
    total = jnp.maximum(jnp.sum(count), 1)

    def better(_: Any, pair: tuple[Array, Array]) -> tuple[Array, Array]:
        sigma, _ = pair
        root = jnp.sqrt(product**2 + 4 * square * count * sigma**2)
        best = jnp.where(square > 0, (product + root) / jnp.where(square > 0, 2 * square, 1), 1 / now)
        best = jnp.clip(best, 1 / bounds[:, 1], 1 / bounds[:, 0])
        spread = jnp.sqrt(jnp.sum((y * (member @ best) - m) ** 2) / total)
        if place is None:
            return sigma, best
        return jnp.clip(spread, problem.bounds[place, 0], problem.bounds[place, 1]), best

    sigma, inverse = jax.lax.fori_loop(0, TURNS, better, (sigma, 1 / now))
    found = 1 / inverse
    return found if place is None else jnp.concatenate([found, sigma[None]])


def _least_squares(rows: Array, right: Array, bounds: Array) -> Array:
    """The least squares of one or two unknowns between bounds: the free minimum, or the best on an edge."""
    if rows.shape[1] == 1:
        return jnp.clip((rows[:, 0] @ right / jnp.sum(rows[:, 0] ** 2))[None], bounds[:, 0], bounds[:, 1])
    square, pull = rows.T @ rows, rows.T @ right
    within = lambda x, i: jnp.clip(x, bounds[i, 0], bounds[i, 1])
    determinant = square[0, 0] * square[1, 1] - square[0, 1] ** 2
    inner = (jnp.stack([square[1, 1], square[0, 0]]) * pull - square[0, 1] * pull[::-1]) / determinant
    candidates = [jnp.stack([within(inner[0], 0), within(inner[1], 1)])]
    for i in (0, 1):
        for edge in (bounds[i, 0], bounds[i, 1]):
            held = jnp.where(jnp.isfinite(edge), edge, inner[i])
            rest = within((pull[1 - i] - square[0, 1] * held) / square[1 - i, 1 - i], 1 - i)
            candidates.append(jnp.stack([held, rest] if i == 0 else [rest, held]))
    errors = jnp.stack([0.5 * x @ square @ x - pull @ x for x in candidates])
    free = jnp.all((inner >= bounds[:, 0]) & (inner <= bounds[:, 1]))
    errors = errors.at[0].set(jnp.where(free, -jnp.inf, errors[0]))
    return jnp.stack(candidates)[jnp.nanargmin(errors)]
