"""An adaptive solve as one kernel: a warp of members a program, the loop over attempts inside, states and stages in registers.

The members of a warp wait for the slowest of them; nothing else does. XLA's way of the same takes a few dozen kernels an attempt,
each of which writes all its numbers to memory: on a GPU that is hundreds of times the work.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ...core import Status
from ..batching._mesh import varies
from ..kernels._emit import any_of, rewritten
from ..kernels._launch import LANES, Block, Given, Made, launch
from ..kernels._mode import NotInKernel
from ._attempt import RUNNING, Attempt, Lanes, attempt, moved, started
from ._block import fraction, horner
from ._flow import Flow
from ._lanes import Solution
from ._plan import Plan


def solve_in_kernel(plan: Plan, leaves: list[Any], fixed: list[Any], times: Array) -> Solution | None:
    """The states of all members, as `solve` returns them; None where they are not solved in a kernel."""
    if not plan.in_kernels() or varies((leaves, fixed, times)):
        return None
    try:
        return _solution(plan, leaves, fixed, times)
    except NotInKernel:
        return None


def components(flow: Flow, y: PyTree) -> list[Array]:
    """The components of a state and of its tangents, as the rows of results have them."""
    return [x for leaf in flow.pack(y) for x in leaf.reshape(-1)]


def _solution(plan: Plan, leaves: list[Any], fixed: list[Any], times: Array) -> Solution:
    members, count = leaves[0].shape[0], times.shape[-1]
    flow = plan.flow(LANES, bool(plan.orders), jnp.zeros((), times.dtype), strict=True)
    layout = plan.layout()
    given = [given_to(x, axis) for x, axis in zip([*leaves, *fixed], [*layout.ops, *layout.fixed], strict=True)]
    given.append(Given(times.T if times.ndim > 1 else times, times.ndim > 1))
    numbers = sum(math.prod(axes) for axes in plan.output_directions) * leaves[0].shape[-1]
    made = [Made(numbers * (count - 1), leaves[0].dtype), Made(4, jnp.int32), Made(2, times.dtype)]

    def body(block: Block) -> None:
        operands = [block.operand(i) for i in range(len(given) - 1)]
        ops, others = plan.nested(operands[: len(leaves)]), operands[len(leaves) :]
        _solve_block(flow, block, ops, others, len(given) - 1, count, members)

    ys, figures, ends = launch(body, given, made, members)
    status, steps, rejected, reached = figures
    rows = ys.reshape(numbers, count - 1, members)
    finite = jnp.all(jnp.isfinite(rows[: leaves[0].shape[-1], -1]), axis=0)
    status = jnp.where((status == 0) & ~finite, int(Status.NON_FINITE), status)
    arrived = jnp.where(status == 0, count, reached)
    column = jnp.arange(1, count, dtype=jnp.int32)
    rows = jnp.where((column[:, None] < arrived[None])[None], rows, jnp.nan)
    found, begin = [], 0
    for first, axes in zip(_initial(plan, leaves), plan.output_directions, strict=True):
        size = math.prod(axes) * leaves[0].shape[-1]
        own = rows[begin : begin + size].reshape(*axes, -1, count - 1, members)
        found.append(jnp.moveaxis(jnp.concatenate([first[..., None, :], own], axis=-2), (-1, -2), (0, 1)))
        begin += size
    return Solution(found, status, steps, rejected, ends[0], ends[1])


def initial_places(plan: Plan) -> list[int | None]:
    """The operands that are the initial states and their tangents; None for tangents that are zero."""
    places: list[int | None] = [0]
    end = len(plan.shared)
    for order in plan.orders:
        places += [None if i is None or i not in order.active else end + order.active.index(i) for i in places]
        end += len(order.active)
    return places


def _initial(plan: Plan, leaves: list[Any]) -> list[Array]:
    """The initial states and their tangents, directions first, members last."""
    y = leaves[0]
    return [
        jnp.zeros((*axes, y.shape[-1], y.shape[0]), y.dtype)
        if i is None
        else jnp.moveaxis(leaves[i], plan.heights[i], -1)
        for i, axes in zip(initial_places(plan), plan.output_directions, strict=True)
    ]


def given_to(x: Array, axis: int | None) -> Given:
    """An operand of a kernel, from one with members on an axis."""
    return Given(x, False) if axis is None else Given(jnp.moveaxis(x, axis, -1), True)


def _solve_block(flow: Flow, block: Block, ops: PyTree, fixed: PyTree, times: int, count: int, members: int) -> None:
    """Solve the members of a block; `times` numbers the operand of save times, of which there are `count`."""
    row = lambda i: block.gathered(times, jnp.full(block.lanes, i, jnp.int32))
    start, end = row(0), row(count - 1)
    status = jnp.where(block.member < members, RUNNING, 0).astype(jnp.int32)
    s = rewritten(lambda start, end, status: started(flow, ops, fixed, start, end, status))(start, end, status)
    cursor = jnp.ones(block.lanes, jnp.int32)

    def stepped(carry: tuple[Lanes, Array]) -> tuple[Lanes, Array]:
        s, cursor = carry
        found = rewritten(lambda s: attempt(flow, ops, fixed, end, s))(s)
        if count > 2:
            cursor = _saved(flow, block, ops, fixed, times, count, s, found, cursor)
        return rewritten(lambda s, found: moved(flow, ops, fixed, s, found, found.accurate))(s, found), cursor

    s, cursor = jax.lax.while_loop(lambda carry: any_of(carry[0].status == RUNNING), stepped, (s, cursor))
    for i, y in enumerate(components(flow, s.y)):
        block.put(0, i * (count - 1) + count - 2, y)
    for i, x in enumerate((s.status, s.steps, s.rejected, cursor)):
        block.put(1, i, x)
    block.put(2, 0, s.h)
    block.put(2, 1, s.t)


def _saved(
    flow: Flow,
    block: Block,
    ops: PyTree,
    fixed: PyTree,
    times: int,
    count: int,
    s: Lanes,
    found: Attempt,
    cursor: Array,
) -> Array:
    """Write the states at the save times that an accurate step passes; the next save time of each lane."""
    last = count - 2  # the final state is written where it is exact, at the end

    def due(cursor: Array) -> tuple[Array, Array]:
        target = block.gathered(times, jnp.minimum(cursor, last))
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
