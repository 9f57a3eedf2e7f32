"""Steps of Euler and Maruyama, the density of one, and noise that leads to a given state."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from ..core import Setup, StochasticSystem, System, at_time, jumps_too, named_leaves, with_curves
from ..problem import Problem
from ..solvers import EulerMaruyama
from ._moments import Moments

MOST = 8
"""Largest number of states whose covariances are factorised entry by entry."""

SINGULAR = 1e-10
"""A variance below this part of its own size, given the numbers before it, is zero: the step has no density."""


def has_density(problem: Problem) -> bool:
    """Tell whether paths are made of steps whose density is known."""
    system: Any = problem.base.system
    size = sum(math.prod(leaf.shape[1:]) for leaf in named_leaves(problem.model.start_shapes()).values())
    euler = isinstance(problem.model.method.solver, EulerMaruyama)
    plain = isinstance(system, StochasticSystem) and type(system).encode is System.encode and not jumps_too(system)
    return euler and plain and size <= MOST


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
    def of(cls, setup: Setup, method: Any) -> "Euler":
        setup = Setup(setup.system, setup.y0, with_curves(setup.inputs), setup.noise)
        return cls(setup, Moments(setup.system, setup.y0), method.step.substeps)

    @property
    def start(self) -> Array:
        return ravel_pytree(self.setup.y0)[0]

    def state(self, x: Array) -> Any:
        return ravel_pytree(self.setup.y0)[1](x)

    def terms(self, t: Array, x: Array) -> tuple[Array, Array]:
        """Drift, and the matrix G of the noise with a column for each process."""
        inputs: Any = at_time(self.setup.inputs, t)
        drift = ravel_pytree(self.setup.system.drift(t, self.state(x), inputs))[0]  # pyright: ignore[reportAttributeAccessIssue]
        return drift.astype(x.dtype), self.moments.factors(t, x, inputs)

    def parts(self, t: Array, x: Array) -> tuple[Array, Array]:
        """Drift and the triangle L of the noise."""
        drift, factors = self.terms(t, x)
        return drift, triangle_of(factors @ factors.T)

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

    def within(self, t: Array, until: Array) -> tuple[Array, Array]:
        """Start of every step between two times, and their length."""
        dtype = self.start.dtype
        t, until = t.astype(dtype), until.astype(dtype)
        length = (until - t) / self.substeps
        return t + length * jnp.arange(self.substeps, dtype=dtype), length

    def reach(self, t: Array, h: Array, x: Array, target: Array) -> tuple[Array, Array]:
        """The noise that leads from x to a target in one step, and the log density of the target; minus infinity for none."""
        drift, factor = self.parts(t, x)
        z = solved_by(factor, (target - x - drift * h) / jnp.sqrt(jnp.where(h > 0, h, 1)))
        pivots = jnp.diag(factor)
        fine = (h > 0) & (pivots > 0).all() & jnp.isfinite(z).all()
        density = -0.5 * z @ z - jnp.sum(jnp.log(jnp.where(pivots > 0, pivots, 1)))
        return jnp.where(fine, z, 0), jnp.where(fine, density, -jnp.inf)
