"""Paths of hidden states given all data, from the moments of Kalman's filter."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ..linear import eigenvalues
from ._kalman import Passed


class Pull(NamedTuple):
    r"""Pull and weight of the data after a row on the state there: $\bar x = m + P \lambda$ and $\bar P = P - P \Lambda P$."""

    pull: Array
    weight: Array


def pulls(passed: Passed) -> Pull:
    """The pull of the data after the start and after each row (Bryson and Frazier 1963), without an inverse of a covariance."""
    size = passed.mean.shape[1]
    nothing = Pull(jnp.zeros((size,), passed.mean.dtype), jnp.zeros((size, size), passed.mean.dtype))

    def step(after: Pull, row: Passed) -> tuple[Pull, Pull]:
        assert row.transition is not None
        pull = row.score + row.kept.T @ after.pull
        weight = row.weight + row.kept.T @ after.weight @ row.kept
        return Pull(row.transition.T @ pull, row.transition.T @ weight @ row.transition), after

    before, after = jax.lax.scan(step, nothing, passed, reverse=True)
    return jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), before, after)


def drawn_paths(
    start: Float[Array, "n n"], passed: Passed, smoothed: Float[Array, "rows n"], key: PRNGKeyArray, count: int
) -> Float[Array, "paths rows n"]:
    r"""Draws of the states at the start and at all rows together, given all data, of the linear system of the filter.

    A path $\delta$ and data are drawn from that system; with $\bar\delta$ their smoothed states $\bar x + \delta - \bar\delta$ is a
    draw given the real data. No covariance is inverted, so that states that are known exactly are no exception.

    **Reference:** Durbin and Koopman (2002), Biometrika 89:603, doi:10.1093/biomet/89.3.603.
    """
    covariance = jnp.concatenate([start[None], passed.covariance])

    def one(key: PRNGKeyArray) -> Array:
        for_start, for_rows = jax.random.split(key)
        first = scattered(for_start, start, start)

        def forth(carry: tuple[Array, Array], now: tuple[Passed, Array, PRNGKeyArray]) -> tuple[Any, Any]:
            (path, mean), (row, before, key) = carry, now
            assert row.transition is not None
            assert row.seen is not None
            for_state, for_data = jax.random.split(key)
            added = row.seen.ahead - row.transition @ before @ row.transition.T
            path = row.transition @ path + scattered(for_state, added, row.seen.ahead)
            mean = row.transition @ mean
            white = jax.random.normal(for_data, row.seen.variance.shape, path.dtype)
            residual = row.seen.slope @ (path - mean) + jnp.sqrt(row.seen.variance) * white
            mean = mean + row.seen.gain @ residual
            return (path, mean), (path, mean, row.seen.slope.T @ row.seen.precision @ residual)

        keys = jax.random.split(for_rows, passed.mean.shape[0])
        begin = first, jnp.zeros_like(first)
        _, (path, mean, score) = jax.lax.scan(forth, begin, (passed, covariance[:-1], keys))
        path, mean = (jnp.concatenate([x[None], rest]) for x, rest in ((first, path), (jnp.zeros_like(first), mean)))
        pull = pulls(passed._replace(score=score)).pull
        return smoothed + path - mean - jnp.einsum("tij,tj->ti", covariance, pull)

    return jax.vmap(one)(jax.random.split(key, count))


def scattered(key: PRNGKeyArray, covariance: Float[Array, "n n"], size: Float[Array, "n n"]) -> Float[Array, " n"]:
    """A normal number of a covariance that may be singular, in units of the diagonal of another one, which is not smaller."""
    width = jnp.sqrt(jnp.diag(size))
    unit = jnp.where(width > 0, width, 1)
    values, vectors = eigenvalues(covariance / (unit[:, None] * unit[None]))
    white = jax.random.normal(key, values.shape, values.dtype)
    return unit * (vectors @ (jnp.sqrt(jnp.maximum(values, 0)) * white))
