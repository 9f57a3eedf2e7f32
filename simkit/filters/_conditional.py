"""Conditional particle filter: particles beside one path that is kept, in terms of the random keys that make paths."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key, PRNGKeyArray

from ..core import Setup
from ..problem import Problem
from ._euler import has_density
from ._euler_particles import euler_density, euler_pass
from ._particles import Cloud, ParticleFilter, moved, weighed
from ._rows import Row, log_density, rows_of
from ._smoothed import lines_of

Noise = Key[Array, "experiments times"] | Float[Array, "experiments times steps n"]
"""Random keys of paths, one for each experiment and datum; or normal numbers, where the density of a step is known."""


def random_noise(problem: Problem, key: PRNGKeyArray) -> Noise:
    """Noise of paths that no data are known of."""
    experiments, rows = problem.times.shape[0], problem.times.shape[1] - 1
    if not has_density(problem):
        return jax.random.split(key, (experiments, rows))
    step: Any = problem.model.method.step
    leaves = [leaf[0] for leaf in jax.tree.leaves(problem.model.start_shapes())]
    size, dtype = sum(leaf.size for leaf in leaves), leaves[0].dtype
    return jax.random.normal(key, (experiments, rows, step.substeps, size), dtype)


def renewed(noise: Noise, before: Noise) -> Float[Array, ""]:
    """The share of experiments whose noise before the first datum is another."""
    numbers = lambda noise: jax.random.key_data(noise) if jnp.issubdtype(noise.dtype, jax.dtypes.prng_key) else noise
    changed = numbers(noise[:, 0]) != numbers(before[:, 0])
    return changed.reshape(changed.shape[0], -1).any(axis=1).mean()


def path_density(problem: Problem, theta: Float[Array, " parameters"], noise: Noise) -> Float[Array, ""]:
    """The log density of all data given the paths that `noise` makes."""
    if has_density(problem):
        total = euler_density(problem, theta, noise)
        return jnp.where(jnp.isfinite(total), total, -jnp.inf)
    data, method = problem.dataset, problem.model.method

    def one(setup: Setup, times: Array, rows: Row, keys: Array) -> Array:
        def step(y: Any, now: tuple[Array, Array, Row, PRNGKeyArray]) -> tuple[Any, Array]:
            t, until, row, key = now
            y = moved(setup, y, t, until, method, key)
            return y, log_density(setup, until, y, row)

        return jnp.sum(jax.lax.scan(step, setup.y0, (times[:-1], times[1:], rows, keys))[1])

    total = jnp.sum(eqx.filter_vmap(one)(problem.model.setups(theta), data.times, rows_of(data), noise))
    return jnp.where(jnp.isfinite(total), total, -jnp.inf)


def conditional_pass(
    problem: Problem, theta: Float[Array, " parameters"], noise: Noise, key: PRNGKeyArray, kept: Bool[Array, ""]
) -> tuple[Noise, Float[Array, ""]]:
    r"""Noise drawn by particles given parameters, data and, where it is `kept`, the noise before; and an estimated log likelihood.

    The kept path is the first particle and its own ancestor throughout, but where the density of a step is known
    (`euler_pass`). The others are drawn by their weights, independently, and so is the path that is returned. This leaves
    the distribution of the noise given all data unchanged for any number of particles.

    **Reference:** Andrieu, Doucet and Holenstein (2010), J. R. Stat. Soc. B 72:269, section 4.3.
    """
    likelihood: Any = problem.likelihood
    assert isinstance(likelihood, ParticleFilter)
    if has_density(problem):
        return euler_pass(problem, theta, noise, key, kept)
    count, threshold = likelihood.particles, likelihood.threshold
    data, method = problem.dataset, problem.model.method

    def one(setup: Setup, times: Array, rows: Row, noise: Array, key: PRNGKeyArray) -> tuple[Array, Array]:
        states = jax.tree.map(lambda y: jnp.broadcast_to(y, (count, *y.shape)), setup.y0)
        dtype = jax.tree.leaves(setup.y0)[0].dtype
        even = jnp.full((count,), -jnp.log(jnp.asarray(count, dtype)))

        def step(carry: tuple[Any, Array], now: Any) -> tuple[Any, tuple[Cloud, Array]]:
            (states, log_weight), (t, until, row, own, key) = carry, now
            for_paths, for_choice = jax.random.split(key)
            keys = jnp.concatenate([own[None], jax.random.split(for_paths, count - 1)])
            states = jax.vmap(lambda y, key: moved(setup, y, t, until, method, key))(states, keys)
            density = jax.vmap(lambda y: log_density(setup, until, y, row))(states)
            log_weight, gained, few = weighed(log_weight, density, even, threshold)
            drawn = jax.random.categorical(for_choice, log_weight, shape=(count,))
            drawn = drawn.at[0].set(jnp.where(kept, 0, drawn[0]))
            origin = jnp.where(few, drawn, jnp.arange(count, dtype=drawn.dtype))
            after = jax.tree.map(lambda y: y[origin], states)
            return (after, jnp.where(few, even, log_weight)), (Cloud(None, log_weight, gained, gained, origin), keys)

        pick, run = jax.random.split(key)
        each = times[:-1], times[1:], rows, noise, jax.random.split(run, times.shape[0] - 1)
        _, (cloud, keys) = jax.lax.scan(step, (states, even), each)
        end = jax.random.categorical(pick, cloud.log_weight[-1])
        places = lines_of(cloud).places[:, end]
        return keys[jnp.arange(places.shape[0]), places], jnp.sum(cloud.gained)

    keys = jax.random.split(key, len(data.labels))
    found, gained = eqx.filter_vmap(one)(problem.model.setups(theta), data.times, rows_of(data), noise, keys)
    return found, jnp.sum(gained)
