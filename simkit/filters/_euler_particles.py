"""Conditional particle filter with ancestor sampling, for steps of Euler and Maruyama, whose density is known."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ..core import Setup
from ..problem import Problem
from ._euler import Euler
from ._rows import Row, log_density, rows_of


def euler_density(problem: Problem, theta: Array, noise: Float[Array, "experiments times steps n"]) -> Float[Array, ""]:
    """The log density of all data given the paths that `noise` makes."""
    data = problem.dataset

    def one(setup: Setup, times: Array, rows: Row, noise: Array) -> Array:
        euler = Euler.of(setup, problem.model.method)

        def step(x: Array, now: tuple[Array, Array, Row, Array]) -> tuple[Array, Array]:
            t, until, row, z = now
            _, x = euler.row(t, until, x, z)
            return x, log_density(setup, until, euler.state(x), row)

        return jnp.sum(jax.lax.scan(step, euler.start, (times[:-1], times[1:], rows, noise))[1])

    return jnp.sum(eqx.filter_vmap(one)(problem.model.setups(theta), data.times, rows_of(data), noise))


def euler_states(problem: Problem, theta: Array, noise: Float[Array, "experiments times steps n"]) -> Array:
    """The flat states after all steps, in the shape of the noise that makes them."""

    def one(setup: Setup, times: Array, noise: Array) -> Array:
        euler = Euler.of(setup, problem.model.method)

        def step(x: Array, now: tuple[Array, Array, Array]) -> tuple[Array, Array]:
            t, h, z = now
            x = euler.step(t, h, x, z)
            return x, x

        begins, lengths = euler.grid(times)
        steps = noise.reshape(-1, noise.shape[-1])
        return jax.lax.scan(step, euler.start, (begins, lengths, steps))[1].reshape(noise.shape)

    return eqx.filter_vmap(one)(problem.model.setups(theta), problem.times, noise)


def euler_noise(
    problem: Problem, theta: Array, states: Float[Array, "experiments times steps n"]
) -> tuple[Array, Array]:
    """The noise that leads from state to state, and the log density of all states and data; minus infinity where there is none."""
    data = problem.dataset

    def one(setup: Setup, times: Array, rows: Row, states: Array) -> tuple[Array, Array]:
        euler = Euler.of(setup, problem.model.method)
        begins, lengths = euler.grid(times)
        after = states.reshape(-1, states.shape[-1])
        before = jnp.concatenate([euler.start[None], after[:-1]])
        z, density = jax.vmap(euler.reach)(begins, lengths, before, after)
        told = jax.vmap(lambda t, x, row: log_density(setup, t, euler.state(x), row))(times[1:], states[:, -1], rows)
        return z.reshape(states.shape), jnp.sum(jnp.where(lengths > 0, density, 0)) + jnp.sum(told)

    z, density = eqx.filter_vmap(one)(problem.model.setups(theta), data.times, rows_of(data), states)
    total = jnp.sum(density)
    return z, jnp.where(jnp.isfinite(total), total, -jnp.inf)


def euler_pass(
    problem: Problem,
    theta: Array,
    noise: Float[Array, "experiments times steps n"],
    key: PRNGKeyArray,
    kept: Bool[Array, ""],
) -> tuple[Float[Array, "experiments times steps n"], Float[Array, ""]]:
    """The result of `conditional_pass`, where the kept path draws a new ancestor at each datum, by the density of its next step.

    **Reference:** Lindsten, Jordan and Schoen (2014), J. Mach. Learn. Res. 15:2145.
    """
    likelihood: Any = problem.likelihood
    count, data = likelihood.particles, problem.dataset

    def one(setup: Setup, times: Array, rows: Row, noise: Array, key: PRNGKeyArray) -> tuple[Array, Array]:
        euler = Euler.of(setup, problem.model.method)

        def walk(x: Array, now: tuple[Array, Array, Array]) -> tuple[Array, Array]:
            first, last = euler.row(now[0], now[1], x, now[2])
            return last, first

        _, targets = jax.lax.scan(walk, euler.start, (times[:-1], times[1:], noise))
        even = jnp.full((count,), -math.log(count), euler.start.dtype)

        def step(carry: tuple[Array, Array], now: Any) -> tuple[Any, Any]:
            (x, log_weight), (t, until, row, own, target, key) = carry, now
            for_choice, for_own, for_paths = jax.random.split(key, 3)
            origin = jax.random.categorical(for_choice, log_weight, shape=(count,))
            begin, length = (found[0] for found in euler.grid(jnp.stack([t, until])))
            leaps, density = jax.vmap(lambda x: euler.reach(begin, length, x, target))(x)
            total = log_weight + density
            known = jnp.isfinite(total).any()
            picked = jnp.where(known, jax.random.categorical(for_own, jnp.where(known, total, even)), 0)
            origin = origin.at[0].set(jnp.where(kept, picked, origin[0]))
            z = jax.random.normal(for_paths, (count, *own.shape), own.dtype)
            own = jnp.where(known, own.at[0].set(leaps[picked]), own)
            z = z.at[0].set(jnp.where(kept, own, z[0]))
            _, x = jax.vmap(lambda x, z: euler.row(t, until, x, z))(x[origin], z)
            found = jax.vmap(lambda x: log_density(setup, until, euler.state(x), row))(x)
            found = jnp.where(jnp.isfinite(found), found, -jnp.inf)
            gained = jax.scipy.special.logsumexp(found) - math.log(count)
            log_weight = jnp.where(jnp.isfinite(gained), found - gained - math.log(count), even)
            return (x, log_weight), (z, origin, gained)

        pick, run = jax.random.split(key)
        begin = jnp.broadcast_to(euler.start, (count, euler.start.size)), even
        each = times[:-1], times[1:], rows, noise, targets, jax.random.split(run, times.shape[0] - 1)
        (_, last), (z, origin, gained) = jax.lax.scan(step, begin, each)

        def back(place: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
            z, origin = now
            return origin[place], z[place]

        _, found = jax.lax.scan(back, jax.random.categorical(pick, last), (z, origin), reverse=True)
        return found, jnp.sum(gained)

    keys = jax.random.split(key, len(data.labels))
    found, gained = eqx.filter_vmap(one)(problem.model.setups(theta), data.times, rows_of(data), noise, keys)
    return found, jnp.sum(gained)
