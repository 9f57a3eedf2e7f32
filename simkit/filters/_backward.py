"""Paths of particles given all data by backward simulation, for steps whose density is known."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PRNGKeyArray

from ..core import Setup
from ._euler import Euler, solved_by
from ._particles import Cloud
from ._resampling import systematic


def simulated_back(
    euler: Euler, times: Array, cloud: Cloud, key: PRNGKeyArray, count: int
) -> tuple[Float[Array, "paths rows n"], Float[Array, " rows"]]:
    r"""Draw paths from the last row of a filter back to the first, and tell the effective number of distinct particles at each row.

    A path that stands at a particle of row r + 1 goes back to particle i of row r with a probability of
    $w_r^i\, p(x' \mid x_r^i)$, where x' is its state after the first step from row r. Two rows at one time have no such density;
    there, and where no particle could have made the step, a path goes back to its ancestor.

    **Reference:** Godsill, Doucet and West (2004), J. Am. Stat. Assoc. 99:156, doi:10.1198/016214504000000151.
    """
    assert cloud.firsts is not None
    flat = jax.vmap(jax.vmap(lambda y: ravel_pytree(y)[0]))(cloud.states)
    for_ends, for_order, for_rows = jax.random.split(key, 3)
    ends = jax.random.permutation(for_order, systematic(for_ends, jnp.exp(cloud.log_weight[-1]), count))

    def back(places: Array, now: Any) -> tuple[Array, Array]:
        states, log_weight, ancestors, firsts, t, until, key = now
        begins, length = euler.within(t, until)
        drift, triangle = jax.vmap(lambda x: euler.parts(begins[0], x))(states)
        pivots = jnp.diagonal(triangle, axis1=1, axis2=2)
        known = (pivots > 0).all(axis=1) & (length > 0)
        size = jnp.sum(jnp.log(jnp.where(pivots > 0, pivots, 1)), axis=1)
        root = jnp.sqrt(jnp.where(length > 0, length, 1))

        def one(place: Array, key: PRNGKeyArray) -> Array:
            apart = (firsts[place][None] - states - drift * length) / root
            z = jax.vmap(solved_by)(triangle, apart)
            total = log_weight - 0.5 * jnp.sum(z**2, axis=1) - size
            total = jnp.where(known & jnp.isfinite(total), total, -jnp.inf)
            drawn = jax.random.categorical(key, total)
            return jnp.where(jnp.isfinite(total).any(), drawn.astype(ancestors.dtype), ancestors[place])

        places = jax.vmap(one)(places, jax.random.split(key, count))
        return places, places

    before = jax.tree.map(lambda leaf: leaf[:-1], (flat, cloud.log_weight, cloud.ancestors))
    keys = jax.random.split(for_rows, times.shape[0] - 2)
    each = (*before, cloud.firsts[1:], times[1:-1], times[2:], keys)
    ends = ends.astype(cloud.ancestors.dtype)
    _, found = jax.lax.scan(back, ends, each, reverse=True)
    places = jnp.concatenate([found, ends[None]])
    paths = jnp.swapaxes(jax.vmap(lambda x, places: x[places])(flat, places), 0, 1)

    def distinct(places: Array) -> Array:
        shares = jnp.zeros((flat.shape[1],), flat.dtype).at[places].add(1 / count)
        return 1 / jnp.sum(shares**2)

    return paths, jax.vmap(distinct)(places)


def backward_states(
    euler: Euler, setup: Setup, times: Array, cloud: Cloud, key: PRNGKeyArray, count: int
) -> tuple[Array, Array, Array, Any]:
    """Means and covariances at the start and all rows over drawn paths, numbers of distinct particles there, and the paths."""
    paths, effective = simulated_back(euler, times, cloud, key, count)
    start = jnp.broadcast_to(euler.start, (count, 1, euler.start.size))
    whole = jnp.concatenate([start, paths], axis=1)
    mean = jnp.mean(whole, axis=0)
    apart = whole - mean[None]
    covariance = jnp.einsum("pti,ptj->tij", apart, apart) / count
    unravel = jax.vmap(jax.vmap(ravel_pytree(setup.y0)[1]))
    return mean, covariance, jnp.concatenate([effective[:1], effective]), unravel(whole)
