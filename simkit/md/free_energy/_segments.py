"""Samples of several states in one row, and errors by blocks within each state."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..observables import block_average

FEWEST = 8
"""Fewest samples of a state for an error by blocks; fewer are taken as independent."""


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


def variance_of_sum(
    series: Float[Array, "samples columns"], counts: tuple[int, ...], weight: Float[Array, " samples"]
) -> Float[Array, " columns"]:
    """The variance of the weighted sum of every column, by blocks within each state, whose mean is known."""
    total = jnp.zeros(series.shape[1], series.dtype)
    for count, states in same_length(counts).items():
        rows = _rows(series, counts, states)
        if count < FEWEST:
            mean_variance = jnp.mean((rows - jnp.mean(rows, axis=1, keepdims=True)) ** 2, axis=1) / max(count - 1, 1)
        else:
            mean_variance = jax.vmap(jax.vmap(lambda x: block_average(x).error, in_axes=1))(rows) ** 2
        size = count * _rows(weight, counts, states)[:, 0]
        total = total + jnp.sum(size[:, None] ** 2 * mean_variance, axis=0)
    return total


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
