"""Samples of several states in one row, and errors by blocks within each state."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..observables import block_average

FEWEST = 8
"""Fewest samples of a state for an error by blocks; fewer are taken as independent."""


MOST = 32
"""Most blocks of a state for a covariance. A slow part of small size passes the test of independence, but counts in sums; longer
blocks hold it, and the scatter of 32 has an error of an eighth itself."""


def of_state(counts: tuple[int, ...]) -> np.ndarray:
    """The state that each sample is of."""
    return np.repeat(np.arange(len(counts)), counts)


def same_length(counts: tuple[int, ...]) -> dict[int, list[int]]:
    """States by their number of samples; those without samples are left out."""
    groups: dict[int, list[int]] = {}
    for state, count in enumerate(counts):
        if count:
            groups.setdefault(count, []).append(state)
    return groups


def _rows(series: Array, counts: tuple[int, ...], states: list[int]) -> Array:
    """The samples of states with equally many of them, shape (states, samples of one, ...)."""
    ends = np.cumsum(counts)
    return jnp.stack([series[ends[k] - counts[k] : ends[k]] for k in states])


def covariance_of_sum(
    series: Float[Array, "samples columns"], counts: tuple[int, ...], weight: Float[Array, " samples"]
) -> Float[Array, "columns columns"]:
    """The covariance of the weighted sums of columns, by blocks within each state, the length of which all columns need."""
    total = jnp.zeros((series.shape[1], series.shape[1]), series.dtype)
    for count, states in same_length(counts).items():
        found = jax.vmap(_covariance_of_mean)(_rows(series, counts, states))
        size = count * _rows(weight, counts, states)[:, 0]
        total = total + jnp.sum(size[:, None, None] ** 2 * found, axis=0)
    return total


def _covariance_of_mean(rows: Float[Array, "n columns"]) -> Float[Array, "columns columns"]:
    count = rows.shape[0]
    if count < FEWEST:
        return _of_blocks(rows) if count > 1 else jnp.full((rows.shape[1], rows.shape[1]), jnp.nan, rows.dtype)
    level = jnp.max(jax.vmap(lambda x: block_average(x).level, in_axes=1)(rows))
    level = jnp.maximum(level, max(0, math.ceil(math.log2(count / MOST))))
    by_level = []
    for _ in range(int(np.log2(count))):
        by_level.append(_of_blocks(rows))
        rows = rows[len(rows) % 2 :]
        rows = 0.5 * (rows[0::2] + rows[1::2])
    return jnp.stack(by_level)[level]


def _of_blocks(rows: Array) -> Array:
    """The covariance of the mean of independent rows."""
    away = rows - jnp.mean(rows, axis=0, keepdims=True)
    return away.T @ away / (len(rows) * (len(rows) - 1))


def inefficiencies(
    series: Float[Array, "columns samples"], counts: tuple[int, ...]
) -> tuple[Float[Array, " states"], Bool[Array, ""]]:
    """Return how many samples of each state are worth one, the most that any of the series says, and whether blocks are enough."""
    measured = jnp.ones(len(counts), series.dtype)
    converged = jnp.ones((), bool)
    for count, states in same_length(counts).items():
        if count < FEWEST:
            converged = jnp.zeros((), bool)
            continue
        blocks = jax.vmap(jax.vmap(block_average, in_axes=1))(_rows(series.T, counts, states))
        measured = measured.at[np.array(states)].set(jnp.max(blocks.inefficiency, axis=1))
        converged = converged & jnp.all(blocks.converged)
    return jnp.maximum(measured, 1.0), converged
