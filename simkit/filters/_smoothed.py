"""Paths of particles given all data: the ancestors of those that are left at the end."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from ._particles import Cloud
from ._resampling import systematic


class Lines(NamedTuple):
    """Ancestral paths of the particles of one experiment, with an axis of rows first."""

    places: Array  # shape (rows, particles): the ancestor of each last particle among those of a row
    weight: Array  # shape (particles,), of the last particles
    effective: (
        Array  # shape (rows,): 1 / sum W^2, with W the share of the last particles that descend from each of a row
    )


def lines_of(cloud: Cloud) -> Lines:
    """Follow every particle of the last row back to the first."""
    count = cloud.log_weight.shape[-1]
    weight = jnp.exp(cloud.log_weight[-1])

    def back(places: Array, ancestors: Array) -> tuple[Array, Array]:
        found = ancestors[places]
        return found, found

    last = jnp.arange(count, dtype=cloud.ancestors.dtype)
    _, before = jax.lax.scan(back, last, cloud.ancestors[:-1], reverse=True)
    places = jnp.concatenate([before, last[None]])

    def shared(places: Array) -> Array:
        shares = jnp.zeros_like(weight).at[places].add(weight)
        return 1 / jnp.sum(shares**2)

    return Lines(places, weight, jax.vmap(shared)(places))


def chosen(states: Any, lines: Lines, key: PRNGKeyArray, count: int) -> Any:
    """States of some paths, drawn by the weights of their ends, with axes of paths and rows."""
    # In random order, so that any part of the paths is a draw as well.
    for_ends, for_order = jax.random.split(key)
    ends = jax.random.permutation(for_order, systematic(for_ends, lines.weight, count))
    places = lines.places[:, ends]
    rows = jnp.arange(places.shape[0])[:, None]
    return jax.tree.map(lambda y: jnp.swapaxes(y[rows, places], 0, 1), states)
