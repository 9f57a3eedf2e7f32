"""Conditional particle filter with ancestor sampling, for steps of Euler and Maruyama, whose density is known."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ..core import Setup, StochasticSystem, System, at_time, named_leaves, with_curves
from ..problem import Problem
from ..solvers import EulerMaruyama
from ._moments import Moments
from ._rows import Row, log_density, rows_of

MOST = 8
"""Largest number of states whose covariances are factorised entry by entry."""

SINGULAR = 1e-10
"""A variance below this part of its own size, given the numbers before it, is zero: the step has no density."""


def has_density(problem: Problem) -> bool:
    """Tell whether paths are made of steps whose density is known."""
    system: Any = problem.base.system
    size = sum(math.prod(leaf.shape[1:]) for leaf in named_leaves(problem.model.start_shapes()).values())
    euler = isinstance(problem.model.method.solver, EulerMaruyama)
    return euler and isinstance(system, StochasticSystem) and type(system).encode is System.encode and size <= MOST


def triangle_of(covariance: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """The lower triangle L of a covariance L L^T, with a column of zeros where a number follows from those before it."""
    size = covariance.shape[0]
    rows = [[jnp.zeros((), covariance.dtype)] * size for _ in range(size)]
    for j in range(size):
        left = covariance[j, j] - sum((rows[j][k] ** 2 for k in range(j)), jnp.zeros((), covariance.dtype))
        fine = left > SINGULAR * covariance[j, j]
        rows[j][j] = jnp.where(fine, jnp.sqrt(jnp.where(fine, left, 1)), 0)
        for i in range(j + 1, size):
            rest = covariance[i, j] - sum((rows[i][k] * rows[j][k] for k in range(j)), jnp.zeros((), covariance.dtype))
            rows[i][j] = jnp.where(fine, rest / jnp.where(fine, rows[j][j], 1), 0)
    return jnp.stack([jnp.stack(row) for row in rows])


def solved_by(triangle: Float[Array, "n n"], v: Float[Array, " n"]) -> Float[Array, " n"]:
    """The solution of L x = v; anything where L is singular."""
    found: list[Array] = []
    for i in range(v.shape[0]):
        rest = v[i] - sum((triangle[i, k] * found[k] for k in range(i)), jnp.zeros((), v.dtype))
        found.append(rest / jnp.where(triangle[i, i] > 0, triangle[i, i], 1))
    return jnp.stack(found)


class Euler(eqx.Module):
    r"""Steps $x' = x + f h + \sqrt h\, L z$ with $L L^T = G G^T$ and normal z, which have the law of Euler and Maruyama's."""

    setup: Setup
    moments: Moments
    substeps: int = eqx.field(static=True)

    @classmethod
    def of(cls, setup: Setup, problem: Problem) -> "Euler":
        setup = Setup(setup.system, setup.y0, with_curves(setup.inputs), setup.noise)
        step: Any = problem.model.method.step
        return cls(setup, Moments(setup.system, setup.y0), step.substeps)

    @property
    def start(self) -> Array:
        return ravel_pytree(self.setup.y0)[0]

    def state(self, x: Array) -> Any:
        return ravel_pytree(self.setup.y0)[1](x)

    def parts(self, t: Array, x: Array) -> tuple[Array, Array]:
        """Drift and factor of the noise."""
        inputs: Any = at_time(self.setup.inputs, t)
        drift = ravel_pytree(self.setup.system.drift(t, self.state(x), inputs))[0]
        factors = self.moments.factors(t, x, inputs)
        return drift.astype(x.dtype), triangle_of(factors @ factors.T)

    def step(self, t: Array, h: Array, x: Array, z: Array) -> Array:
        drift, factor = self.parts(t, x)
        return x + drift * h + jnp.sqrt(h) * (factor @ z)

    def row(self, t: Array, until: Array, x: Array, z: Float[Array, "steps n"]) -> tuple[Array, Array]:
        """The states after the first step from one datum to the next, and after the last."""
        t, until = t.astype(x.dtype), until.astype(x.dtype)
        h = (until - t) / self.substeps
        first = self.step(t, h, x, z[0])
        later = t + h * jnp.arange(1, self.substeps, dtype=x.dtype)
        last, _ = jax.lax.scan(lambda x, now: (self.step(now[0], h, x, now[1]), None), first, (later, z[1:]))
        return first, last

    def grid(self, times: Array) -> tuple[Array, Array]:
        """Start and length of every step."""
        times = times.astype(self.start.dtype)
        length = jnp.repeat(jnp.diff(times) / self.substeps, self.substeps)
        within = jnp.tile(jnp.arange(self.substeps, dtype=times.dtype), times.shape[0] - 1)
        return jnp.repeat(times[:-1], self.substeps) + within * length, length

    def reach(self, t: Array, h: Array, x: Array, target: Array) -> tuple[Array, Array]:
        """The noise that leads from x to a target in one step, and the log density of the target; minus infinity for none."""
        drift, factor = self.parts(t, x)
        z = solved_by(factor, (target - x - drift * h) / jnp.sqrt(jnp.where(h > 0, h, 1)))
        pivots = jnp.diag(factor)
        fine = (h > 0) & (pivots > 0).all() & jnp.isfinite(z).all()
        density = -0.5 * z @ z - jnp.sum(jnp.log(jnp.where(pivots > 0, pivots, 1)))
        return jnp.where(fine, z, 0), jnp.where(fine, density, -jnp.inf)


def euler_density(problem: Problem, theta: Array, noise: Float[Array, "experiments times steps n"]) -> Float[Array, ""]:
    """The log density of all data given the paths that `noise` makes."""
    data = problem.dataset

    def one(setup: Setup, times: Array, rows: Row, noise: Array) -> Array:
        euler = Euler.of(setup, problem)

        def step(x: Array, now: tuple[Array, Array, Row, Array]) -> tuple[Array, Array]:
            t, until, row, z = now
            _, x = euler.row(t, until, x, z)
            return x, log_density(setup, until, euler.state(x), row)

        return jnp.sum(jax.lax.scan(step, euler.start, (times[:-1], times[1:], rows, noise))[1])

    return jnp.sum(eqx.filter_vmap(one)(problem.model.setups(theta), data.times, rows_of(data), noise))


def euler_states(problem: Problem, theta: Array, noise: Float[Array, "experiments times steps n"]) -> Array:
    """The flat states after all steps, in the shape of the noise that makes them."""

    def one(setup: Setup, times: Array, noise: Array) -> Array:
        euler = Euler.of(setup, problem)

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
        euler = Euler.of(setup, problem)
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
        euler = Euler.of(setup, problem)

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
