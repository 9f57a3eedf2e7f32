"""Scatter search: new starts from where others ended."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ..problem import Problem
from ._method import End
from ._screen import LOOKS, coarse, values_of

ALIKE = 0.01
"""Ends are one where their objectives differ by less than this, in nats, and their places by less than `NEAR`."""

NEAR = 0.3
"""Distance of ends that are one, in standard deviations of the places of all."""

INSIDE = 1e-6
"""Part of the distance between bounds by which new starts stay away from them: what lies on one is refused."""


def recombined(problem: Problem, ends: End, count: int, key: PRNGKeyArray) -> Float[Array, "starts parameters"] | None:
    """Make as many starts as are asked for, each between and beyond two places where others ended; None where all ended at one.

    Each of the best ends is joined with each of the others by a box around it, the longer the further apart the two are in the
    order of their objectives, that reaches towards the other where that is better, and away from it where it is worse. Of the
    children of each, which are looked at by one coarse simulation each, the best go on.

    Egea, Marti & Banga (2010), Computers & Operations Research 37:315, doi:10.1016/j.cor.2009.02.028.
    """
    lean = problem.lean()
    elite = _distinct(np.asarray(ends.z, float), np.asarray(ends.model.value, float), count)
    if len(elite) < 2:
        return None
    random = np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel().tolist())
    bounds = np.asarray(lean.coordinate_bounds(), float)
    width = np.where(np.isfinite(bounds[:, 1] - bounds[:, 0]), bounds[:, 1] - bounds[:, 0], 0)
    children, parent = _children(elite, -(-LOOKS * count // len(elite)), random)
    children = np.clip(children, bounds[:, 0] + INSIDE * width, bounds[:, 1] - INSIDE * width)
    order = np.argsort(values_of(coarse(lean), children.astype(problem.times.dtype)), kind="stable")
    # The best of each, then the second best of each: else all would come from one.
    rank = np.zeros(len(order), int)
    for own in range(len(elite)):
        mine = order[parent[order] == own]
        rank[mine] = np.arange(len(mine))
    chosen = order[np.argsort(rank[order], kind="stable")][:count]
    return jnp.asarray(children[chosen], problem.times.dtype)


def _scale(z: Float[np.ndarray, "ends parameters"]) -> Float[np.ndarray, " parameters"]:
    """The scatter of ends along each coordinate."""
    scale = np.std(z, axis=0)
    return np.where(scale > 0, scale, 1)


def _alike(z: np.ndarray, value: np.ndarray, place: np.ndarray, least: float, scale: np.ndarray) -> np.ndarray:
    """Tell the ends that are one with that at a place."""
    return (np.max(np.abs(z - place) / scale, axis=1) < NEAR) & (np.abs(value - least) < ALIKE)


def _distinct(
    z: Float[np.ndarray, "ends parameters"], value: Float[np.ndarray, " ends"], count: int
) -> Float[np.ndarray, "elite parameters"]:
    """The best ends that differ from each other, at most `count`."""
    order = np.argsort(value, kind="stable")
    order = order[np.isfinite(value[order])]
    if not len(order):
        return z[:0]
    if value[order[-1]] - value[order[0]] < ALIKE:  # one optimum, or several that are worth the same
        return z[order[:1]]
    scale = _scale(z[order])
    kept: list[int] = []
    for i in order:
        if not np.any(_alike(z[kept], value[kept], z[i], float(value[i]), scale)):
            kept.append(int(i))
        if len(kept) == count:
            break
    return z[kept]


def _children(
    elite: Float[np.ndarray, "elite parameters"], each: int, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draw so many places around each of the elite, and say whose they are."""
    size = len(elite)
    own = np.repeat(np.arange(size), each)
    other = (own + random.integers(1, size, len(own))) % size
    half = (elite[other] - elite[own]) / 2
    # The better one's boxes reach away from the worse, the worse one's towards the better.
    bias = np.where(own < other, 1, -1) * (np.abs(other - own) - 1) / max(size - 2, 1)
    lower, upper = elite[own] - half * (1 + bias)[:, None], elite[own] + half * (1 - bias)[:, None]
    return lower + (upper - lower) * random.random(lower.shape), own
