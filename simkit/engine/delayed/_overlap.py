"""Steps that reach into themselves: lags shorter than a step, found by iteration on the dense output of the step."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ...core import greatest, held, scaled
from ..batching._mesh import alike_arrays
from ._breaking import flat_lags
from ._posed import ALL, NONE, Cells, Posed, Taken, take, within
from ._ring import Ring, valued

MOST = 12
"""Most iterations; a step that needs more is made shorter."""

SOLVED = 0.03
"""Change of the dense output, over the tolerance, at which the iterations end."""

NEUTRAL_MOST, NEUTRAL_SOLVED = 40, 3e-4
"""The same where slopes of the past enter: what is left of a slope is a kink that later steps meet.

With the numbers above half of the equations with vanishing lags of DDETST's class F run out of kept steps at 1e-6 and 1e-9.
"""

DERIVED = 8
"""Iterations that derivatives pass through. The rest of them shrinks by each as the iterations themselves do."""


Given: TypeAlias = tuple[Posed, Ring, Array, Array, Array, Array]
"""A solve, its ring, the ends of a step, its length, and the state at its start."""


class _Iterated(NamedTuple):
    taken: Taken
    change: Array
    turn: Array
    overlaps: Array


def take_overlapping(
    posed: Posed,
    ring: Ring,
    t0: Array,
    t1: Array,
    h: Array,
    y: Array,
    cells: Cells | None,
    behind: Array | None,
    *,
    derived: bool,
) -> tuple[Taken, Array]:
    """The step, and whether its iterations converged.

    Where all lags are as long as the step the first pass is all. Else the dense output of one pass is the past of the next.
    """
    given = posed, ring, t0, t1, h, y
    guess = jnp.zeros_like(ring.rows[0, 1:])
    if posed.neutral:
        guess = guess.at[0].set(scaled(h, within(posed, ring, t0, t1).system.slope_before()).astype(guess.dtype))

    def one(given: Given, rows: Array) -> Taken:
        return take(*given, rows, NONE if derived else ALL, cells, behind)

    rows_of = lambda taken: jnp.concatenate([y[None], taken.increments])
    if not derived:
        nothing = Taken(jnp.zeros_like(y), guess, jnp.zeros_like(y))
        solved = _iterated(given, one, alike_arrays((nothing, ring.rows[0]))[0], h == h, 0)
        return solved.taken, ~solved.overlaps | (solved.change < _solved(posed))
    first = one(given, jnp.concatenate([y[None], guess]))
    overlaps = _overlaps(*held((posed, t0, t1, h, y, first)))
    solved = _iterated(held(given), one, held(first), overlaps, 1)

    def again() -> Taken:
        after = lambda rows, _: (rows_of(one(given, rows)), None)
        rows, _ = jax.lax.scan(after, rows_of(solved.taken), None, length=DERIVED - 1)
        return one(given, rows)

    found = jax.lax.cond(greatest(overlaps), again, lambda: first)
    return jax.tree.map(lambda a, b: jnp.where(overlaps, a, b), found, first), overlaps


def _solved(posed: Posed) -> float:
    return NEUTRAL_SOLVED if posed.neutral else SOLVED


def _overlaps(posed: Posed, t0: Array, t1: Array, h: Array, y: Array, found: Taken) -> Array:
    """Tell whether a lag is shorter than the step."""
    if posed.constant:
        shortest = jnp.min(posed.lags, initial=jnp.inf)
    else:
        ends = (flat_lags(posed.term, t, posed.unravel(x)) for t, x in ((t0, y), (t1, found.y)))
        shortest = jnp.min(jnp.concatenate(list(ends)), initial=jnp.inf)
    return ~(shortest >= h) & (h > 0)


def _iterated(
    given: Given,
    one: Callable[[Given, Array], Taken],
    first: Taken,
    overlaps: Array,
    passes: int,
) -> _Iterated:
    """Iterate until the dense output changes by less than its tolerance; `first` is what so many passes gave."""
    posed, _, t0, t1, h, y = given

    def unsolved(s: _Iterated) -> Array:
        most = NEUTRAL_MOST if posed.neutral else MOST
        return (s.turn == 0) | s.overlaps & ~(s.change < _solved(posed)) & (s.turn <= most)

    def turned(s: _Iterated) -> _Iterated:
        found = one(given, jnp.concatenate([y[None], s.taken.increments]))
        moved = jnp.concatenate([jnp.zeros_like(y)[None], found.increments - s.taken.increments])
        scale = posed.atol + posed.rtol * jnp.maximum(jnp.abs(y), jnp.abs(found.y))
        size = lambda share: jnp.sqrt(jnp.mean(jnp.square(jnp.abs(valued(moved, share)) / scale)))
        change = jnp.where(s.turn == 0, jnp.inf, jnp.maximum(size(0.5 + 0 * h), size(1 + 0 * h)))
        after = _Iterated(found, change, s.turn + 1, _overlaps(posed, t0, t1, h, y, found))
        return jax.tree.map(lambda a, b: jnp.where(unsolved(s), a, b), after, s)

    turn = jnp.where(overlaps, passes, passes).astype(jnp.int32)
    begun = _Iterated(first, jnp.full_like(h, jnp.inf), turn, overlaps)
    return jax.lax.while_loop(lambda s: greatest(unsolved(s)), turned, begun)
