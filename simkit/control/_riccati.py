"""Riccati recursion of a finite horizon with bounds on the actions, for states and actions of few numbers."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

ROUNDS = 8
"""Newton steps of bounded actions that depend on each other; one action alone needs none."""


class Quadratic(NamedTuple):
    """A problem over N intervals, linear in its dynamics and quadratic in its cost, in z = (x, 1, u) as changes from a path.

    (x, 1) after an interval is dynamics z; the cost of an interval is z^T cost z, that of the end (x, 1)^T final (x, 1). With the
    entry 1 slopes and curvatures go through one product: the recursion is a few sums, which the compiler makes one loop of.
    """

    dynamics: Float[Array, "N n+1 n+1+m"]
    cost: Float[Array, "N n+1+m n+1+m"]
    final: Float[Array, "n+1 n+1"]


class Policy(NamedTuple):
    """u = offset + gain x, in changes from the path of the quadratic problem."""

    offset: Float[Array, "N m"]
    gain: Float[Array, "N m n"]


def riccati(problem: Quadratic, low: Float[Array, "N m"], high: Float[Array, "N m"], damping: Array) -> Policy:
    """The policy that minimises the cost, backwards over the intervals.

    Where a bound holds at the path itself, the action stays there and the gain is zero, as in control-limited dynamic programming.
    `damping` is added to the curvature by the actions as a share of its own size.

    Tassa, Mansard & Todorov (2014), Control-limited differential dynamic programming, ICRA, doi:10.1109/ICRA.2014.6907001.
    """
    d = problem.final.shape[0]

    # Few arrays with little in them go through the loop, which older XLA for CPUs makes one kernel of below some bytes a turn.
    def back(ahead: Array, stage: tuple[Array, ...]) -> tuple[Array, Array]:
        dynamics, cost, (low, high) = stage
        q = cost + product(dynamics.T, product(ahead, dynamics))
        uu, ux = q[d:, d:], q[d:, :d]
        offset, gain = _action(ux[:, d - 1], uu, ux[:, : d - 1], low, high, damping)
        follow = jnp.concatenate([gain, offset[:, None]], axis=1)
        # The cost to go of this policy, whether or not a bound keeps it from being the best one.
        crossed = product(follow.T, ux)
        ahead = q[:d, :d] + crossed + crossed.T + product(follow.T, product(uu, follow))
        return ahead, follow

    stages = (problem.dynamics, problem.cost, jnp.stack([low, high], axis=1))
    follow = jax.lax.scan(back, problem.final, stages, reverse=True)[1]
    return Policy(follow[:, :, d - 1], follow[:, :, : d - 1])


def product(a: Array, b: Array) -> Array:
    """A product of small matrices as sums, which the compiler joins with what is around them; a call of a library takes longer."""
    return jnp.sum(a[:, :, None] * b[None], axis=1)


def _action(q: Array, uu: Array, ux: Array, low: Array, high: Array, damping: Array) -> tuple[Array, Array]:
    """The action that minimises 2 q^T u + u^T uu u within bounds, and how it follows the state where no bound holds."""
    m = q.shape[0]
    if m == 1:
        curvature = (1 + damping) * uu
        offset = jnp.clip(-q / curvature[0], low, high)
        free = (offset > low) & (offset < high)
        return offset, jnp.where(free[:, None], -ux / curvature, 0)
    eye = jnp.eye(m, dtype=q.dtype)
    uu = uu * (1 + damping * eye)
    size = eye * uu
    offset, free = jnp.clip(_solved(uu, -q), low, high), q == q
    for _ in range(ROUNDS):  # projected Newton steps on the actions that no bound holds
        pull = q + jnp.sum(uu * offset[None], axis=1)
        free = ~(((offset <= low) & (pull > 0)) | ((offset >= high) & (pull < 0)))
        step = _solved(jnp.where(free[:, None] & free[None], uu, size), jnp.where(free, -pull, 0))
        offset = jnp.clip(offset + step, low, high)
    return offset, jnp.where(free[:, None], -_solved(jnp.where(free[:, None] & free[None], uu, size), ux), 0)


def _solved(a: Array, b: Array) -> Array:
    """a^-1 b for a symmetric positive matrix of few rows, by elimination that is written out."""
    m, rows, right = a.shape[0], list(a), list(b)
    for i in range(m):
        for j in range(i + 1, m):
            factor = rows[j][i] / rows[i][i]
            rows[j], right[j] = rows[j] - factor * rows[i], right[j] - factor * right[i]
    found: list[Array] = list(right)
    for i in reversed(range(m)):
        left = right[i]
        for j in range(i + 1, m):
            left = left - rows[i][j] * found[j]
        found[i] = left / rows[i][i]
    return jnp.stack(found)
