"""Steps that reach into themselves: lags shorter than a step, found by iteration on the dense output of the step."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ...core import greatest, held
from ._breaking import flat_lags
from ._posed import ALL, NONE, Cells, Posed, Taken, take
from ._ring import Ring, valued

MOST = 12
"""Most iterations; a step that needs more is made shorter."""

SOLVED = 0.03
"""Change of the dense output, over the tolerance, at which the iterations end."""

DERIVED = 8
"""Iterations that derivatives pass through. The rest of them shrinks by each as the iterations themselves do."""


class _Iterated(NamedTuple):
    taken: Taken
    change: Array
    turn: Array


def take_overlapping(
    posed: Posed, ring: Ring, t0: Array, t1: Array, h: Array, y: Array, cells: Cells | None, *, derived: bool
) -> tuple[Taken, Array]:
    """The step, and whether its iterations converged.

    Where all lags are as long as the step the first pass is all. Else the dense output of one pass is the past of the next.
    """
    begun = jnp.concatenate([y[None], jnp.zeros_like(ring.rows[0, 1:])])
    unknown = NONE if derived else ALL
    first = take(posed, ring, t0, t1, h, y, begun, unknown, cells)
    if posed.constant:
        shortest = jnp.min(posed.lags, initial=jnp.inf)
    else:
        ends = (flat_lags(posed.term, t, posed.unravel(x)) for t, x in ((t0, y), (t1, first.y)))
        shortest = jnp.min(jnp.concatenate(list(ends)), initial=jnp.inf)
    overlaps = jax.lax.stop_gradient(~(shortest >= h) & (h > 0))
    given = posed, ring, t0, t1, h, y
    fixed, on, at, until, length, begin = held(given)
    one = lambda rows: take(fixed, on, at, until, length, begin, rows, unknown, cells)
    solved = _iterated(fixed, one, begin, length, held(first), overlaps)
    converged = ~overlaps | (solved.change < SOLVED)
    if not derived:
        return solved.taken, converged

    def again() -> Taken:
        rows = jnp.concatenate([y[None], solved.taken.increments])
        one = lambda rows, _: (jnp.concatenate([y[None], take(*given, rows, cells=cells).increments]), None)
        rows, _ = jax.lax.scan(one, rows, None, length=DERIVED - 1)
        return take(*given, rows, cells=cells)

    found = jax.lax.cond(greatest(overlaps), again, lambda: first)
    return jax.tree.map(lambda a, b: jnp.where(overlaps, a, b), found, first), converged


def _iterated(
    posed: Posed, one: Callable[[Array], Taken], y: Array, h: Array, first: Taken, overlaps: Array
) -> _Iterated:
    """Iterate until the dense output changes by less than its tolerance; `one` is the step by an estimate of its dense output."""

    def unsolved(s: _Iterated) -> Array:
        return overlaps & ~(s.change < SOLVED) & (s.turn < MOST)

    def turned(s: _Iterated) -> _Iterated:
        rows = jnp.concatenate([y[None], s.taken.increments])
        found = one(rows)
        moved = jnp.concatenate([jnp.zeros_like(y)[None], found.increments - s.taken.increments])
        scale = posed.atol + posed.rtol * jnp.maximum(jnp.abs(y), jnp.abs(found.y))
        size = lambda share: jnp.sqrt(jnp.mean(jnp.square(jnp.abs(valued(moved, share)) / scale)))
        change = jnp.maximum(size(0.5 + 0 * h), size(1 + 0 * h))
        after = _Iterated(found, change, s.turn + 1)
        return jax.tree.map(lambda a, b: jnp.where(unsolved(s), a, b), after, s)

    begun = _Iterated(first, jnp.full_like(h, jnp.inf), jnp.where(overlaps, 0, 0).astype(jnp.int32))
    return jax.lax.while_loop(lambda s: greatest(unsolved(s)), turned, begun)
