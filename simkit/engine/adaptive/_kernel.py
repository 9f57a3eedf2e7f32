"""An adaptive solve as one kernel: a warp of members a program, the loop over attempts inside, states and stages in registers.

The members of a warp wait for the slowest of them; nothing else does. XLA's way of the same takes a few dozen kernels an attempt,
each of which writes all its numbers to memory: on a GPU that is hundreds of times the work.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ...core import Status
from ..kernels._emit import any_of, rewritten
from ..kernels._launch import Block, Made, launch
from ._asked import Asked, unless_refused
from ._attempt import RUNNING, Attempt, Lanes, attempt, moved, started
from ._block import fraction, horner
from ._eventful_kernel import solution_with_events
from ._flow import Flow
from ._lanes import Solution
from ._plan import Plan


def solve_in_kernel(plan: Plan, leaves: list[Any], fixed: list[Any], times: Array) -> Solution | None:
    """The states of all members, as `solve` returns them; None where they are not solved in a kernel."""
    function = _solution if plan.plain else solution_with_events
    return unless_refused(plan, (leaves, fixed, times), lambda: function(plan, leaves, fixed, times))


def components(flow: Flow, y: PyTree) -> list[Array]:
    """The components of a state and of its tangents, as the rows of results have them."""
    return [x for leaf in flow.pack(y) for x in leaf.reshape(-1)]


def _solution(plan: Plan, leaves: list[Any], fixed: list[Any], times: Array) -> Solution:
    asked = Asked(plan, leaves, fixed, times, bool(plan.orders))
    members, count, kind = asked.members, asked.count, leaves[0].dtype
    made = [Made(asked.numbers * (count - 1), kind), Made(4, jnp.int32), Made(2, times.dtype)]
    ys, figures, ends = launch(lambda block: _solve_block(asked, block), asked.given, made, members)
    status, steps, rejected, reached = figures
    rows = ys.reshape(asked.numbers, count - 1, members)
    finite = jnp.all(jnp.isfinite(rows[: asked.size, -1]), axis=0)
    status = jnp.where((status == 0) & ~finite, int(Status.NON_FINITE), status)
    arrived = jnp.where(status == 0, count, reached)
    column = jnp.arange(1, count, dtype=jnp.int32)
    rows = jnp.where((column[:, None] < arrived[None])[None], rows, jnp.nan)
    return Solution(asked.with_initial(rows), status, steps, rejected, ends[0], ends[1])


def _solve_block(asked: Asked, block: Block) -> None:
    """Solve the members of a block."""
    flow, count, (ops, fixed) = asked.flow, asked.count, asked.held(block)
    start, end = (asked.time(block, jnp.full(block.lanes, i, jnp.int32)) for i in (0, count - 1))
    status = jnp.where(block.member < asked.members, RUNNING, 0).astype(jnp.int32)
    s = rewritten(lambda start, end, status: started(flow, ops, fixed, start, end, status))(start, end, status)
    cursor = jnp.ones(block.lanes, jnp.int32)

    def stepped(carry: tuple[Lanes, Array]) -> tuple[Lanes, Array]:
        s, cursor = carry
        found = rewritten(lambda s: attempt(flow, ops, fixed, end, s))(s)
        if count > 2:
            cursor = _saved(asked, block, ops, fixed, s, found, cursor)
        return rewritten(lambda s, found: moved(flow, ops, fixed, s, found, found.accurate))(s, found), cursor

    s, cursor = jax.lax.while_loop(lambda carry: any_of(carry[0].status == RUNNING), stepped, (s, cursor))
    for i, y in enumerate(components(flow, s.y)):
        block.put(0, i * (count - 1) + count - 2, y)
    for i, x in enumerate((s.status, s.steps, s.rejected, cursor)):
        block.put(1, i, x)
    block.put(2, 0, s.h)
    block.put(2, 1, s.t)


def _saved(asked: Asked, block: Block, ops: PyTree, fixed: PyTree, s: Lanes, found: Attempt, cursor: Array) -> Array:
    """Write the states at the save times that an accurate step passes; the next save time of each lane."""
    flow, count = asked.flow, asked.count
    last = count - 2  # the final state is written where it is exact, at the end

    def due(cursor: Array) -> tuple[Array, Array]:
        target = asked.time(block, jnp.minimum(cursor, last))
        return target, found.accurate & (cursor <= last) & (target <= found.reached)

    def write(cursor: Array) -> Array:
        target, here = due(cursor)

        def values(target: Array, s: Lanes, found: Attempt) -> list[Array]:
            theta = fraction(target, s.t, found.t1)
            parts = [components(flow, q) for q in (s.y, *flow.polynomial(ops, fixed, found.dense))]
            return [horner(y, list(own), theta) for y, *own in zip(*parts, strict=True)]

        for i, value in enumerate(rewritten(values)(target, s, found)):
            block.scattered(0, i * (count - 1) + cursor - 1, value, here)
        return cursor + here.astype(cursor.dtype)

    return jax.lax.while_loop(lambda cursor: any_of(due(cursor)[1]), write, cursor)
