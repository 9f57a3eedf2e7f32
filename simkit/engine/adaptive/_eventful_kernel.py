"""An adaptive solve with events as one kernel.

What a lane does is the program of XLA's for one lane: starting, an attempt, going on, the events of a time. Each is traced with
all its tangents for one lane and evaluated on components, each an array over the 32 lanes of a program. So events are found,
counted and told apart as there, by the same operations.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ...core import Status, just_before
from ..kernels._components import MOST_COMPONENTS, MOST_IN_KERNEL, evaluated, operations
from ..kernels._control import wide
from ..kernels._emit import any_of, rewritten
from ..kernels._launch import Block, Made, launch
from ..kernels._mode import NotInKernel
from ..kernels._strict import FINAL
from ._asked import Asked
from ._attempt import RUNNING, WAITING, Attempt, Lanes, attempt, moved, started
from ._block import fraction, horner
from ._lanes import Log, Solution, code_of
from ._occur import occurrence
from ._plan import Plan

TOGETHER = 16
"""Attempts of a warp for which lanes wait at most for others to meet events as well: events of one lane cost as much as of all."""


@dataclasses.dataclass(frozen=True, eq=False)
class Cells:
    """An array of one lane, or of what all lanes share, taken apart: each number an array over lanes."""

    values: np.ndarray
    dtype: Any

    def over(self, lanes: int) -> list[Array]:
        """Its numbers, each over lanes."""
        return [wide(x, lanes, self.dtype) for x in self.values.reshape(-1)]

    def with_numbers(self, numbers: Any) -> "Cells":
        """An array of the same shape with the next numbers of an iterator."""
        values = np.empty(self.values.shape, object)
        for place in np.ndindex(values.shape):
            values[place] = next(numbers)
        return Cells(values, self.dtype)


def flat(tree: PyTree, lanes: int) -> list[Array]:
    """All numbers of a tree of cells."""
    return [x for cells in jax.tree.leaves(tree) for x in cells.over(lanes)]


def like(tree: PyTree, numbers: Sequence[Array]) -> Any:
    """A tree of cells with other numbers."""
    held = iter(numbers)
    return jax.tree.map(lambda cells: cells.with_numbers(held), tree)


class OneLane:
    """Functions of one lane on the lanes of a block, with the block's operands."""

    def __init__(self, asked: Asked, block: Block):
        self.lanes = block.lanes
        kinds = [x.value.dtype for x in asked.given]
        cells = []
        for i, given in enumerate(asked.given[: asked.place_of_times]):
            values = block.operand(i)
            cells.append(Cells(values[..., None] if given.own else values, kinds[i]))
        self.ops, self.fixed = asked.plan.nested(cells[: len(asked.leaves)]), cells[len(asked.leaves) :]

    def cells(self, x: Array) -> Cells:
        """A number of each lane."""
        values = np.empty(1, object)
        values[0] = x
        return Cells(values, x.dtype)

    def __call__(self, function: Callable[..., Any], *own: PyTree) -> Any:
        """Results of a function of operands, fixed numbers and `own` trees of cells."""
        like_result: list[Any] = []

        def run(*numbers: Array) -> list[Array]:
            given = like(own, numbers)
            found = _on_cells(function, self.ops, self.fixed, *given)
            like_result.append(found)
            return flat(found, self.lanes)

        numbers = rewritten(run)(*flat(own, self.lanes))
        return like(like_result[0], numbers)


def _on_cells(function: Callable[..., Any], *arguments: PyTree) -> Any:
    leaves, structure = jax.tree.flatten(arguments)
    example = [jax.ShapeDtypeStruct(x.values.shape, x.dtype) for x in leaves]
    closed, shapes = jax.make_jaxpr(function, return_shape=True)(*jax.tree.unflatten(structure, example))
    if operations(closed.jaxpr, strict=True) > MOST_IN_KERNEL:
        raise NotInKernel("events of too many operations")
    found = evaluated(closed.jaxpr, closed.consts, [x.values for x in leaves], FINAL)
    kinds = [x.dtype for x in jax.tree.leaves(shapes)]
    cells = [Cells(x, kind) for x, kind in zip(found, kinds, strict=True)]
    return jax.tree.unflatten(jax.tree.structure(shapes), cells)


def solution_with_events(plan: Plan, leaves: list[Any], fixed: list[Any], times: Array) -> Solution:
    """The states of all members and their events, as `solve` returns them."""
    asked = Asked(plan, leaves, fixed, times, bool(plan.orders))
    count, members, kind = asked.count, asked.members, leaves[0].dtype
    if asked.size > MOST_COMPONENTS:
        raise NotInKernel("a member too large for components")
    room, time = plan.room, times.dtype
    made = [Made(asked.numbers * (count - 1), kind), Made(5, jnp.int32), Made(2, time)]
    made += [Made(room, time), Made(room, jnp.int32), Made(asked.numbers * room, kind)]
    run = lambda block: _Solve(asked, block).run()
    ys, figures, ends, log_times, codes, before = launch(run, asked.given, made, members)
    status, steps, rejected, reached, total = figures
    rows = ys.reshape(asked.numbers, count - 1, members)
    finite = jnp.all(jnp.isfinite(rows[: asked.size, -1]), axis=0)
    status = jnp.where((status == 0) & ~finite, int(Status.NON_FINITE), status)
    arrived = jnp.where(
        (status == 0) & (ends[1] >= times[..., -1]), count, reached
    )  # an event may have ended it before
    column, place = jnp.arange(1, count, dtype=jnp.int32), jnp.arange(room, dtype=jnp.int32)
    real = place[:, None] < total[None]
    rows = jnp.where((column[:, None] < arrived[None])[None], rows, jnp.nan)
    before = jnp.where(real[None], before.reshape(asked.numbers, room, members), jnp.nan)
    log = Log(total, jnp.where(real, log_times, jnp.inf).T, jnp.where(real, codes, -1).T)
    found = asked.with_initial(jnp.concatenate([rows, before], axis=1))
    return Solution(found, status, steps, rejected, ends[0], ends[1], log)


class _Solve:
    """The solve of the members of one block."""

    def __init__(self, asked: Asked, block: Block):
        self.asked, self.block, self.flow, self.count = asked, block, asked.flow, asked.count
        self.lane, self.last = OneLane(asked, block), asked.count - 2  # the final state is written at the end
        self.end = self.lane.cells(self.time(jnp.full(block.lanes, self.count - 1, jnp.int32)))

    def time(self, column: Array) -> Array:
        return self.asked.time(self.block, column)

    def run(self) -> None:
        """Solve, and write what was found."""
        block, lane, flow = self.block, self.lane, self.flow
        start = lane.cells(self.time(jnp.zeros(block.lanes, jnp.int32)))
        status = lane.cells(jnp.where(block.member < self.asked.members, RUNNING, 0).astype(jnp.int32))
        s = lane(functools.partial(started, flow), start, self.end, status)
        cursor = jnp.ones(block.lanes, jnp.int32)

        def turn(carry: Any) -> Any:
            s, cursor = carry
            s, cursor = self._until_events(s, cursor)
            happened = lambda carry: self._happened(*carry)
            return self._while(lambda s: any_of(_status(s) == WAITING), happened, s, cursor)

        s, cursor = self._while(lambda s: any_of(_status(s) < 0), turn, s, cursor)
        for i, y in enumerate(self._rows(s.y)):
            block.put(0, i * (self.count - 1) + self.last, y)
        for i, x in enumerate((s.status, s.steps, s.rejected)):
            block.put(1, i, x.over(block.lanes)[0])
        block.put(1, 3, cursor)
        block.put(1, 4, s.happening.total.over(block.lanes)[0])
        block.put(2, 0, s.h.over(block.lanes)[0])
        block.put(2, 1, s.t.over(block.lanes)[0])

    def _while(self, more: Callable[[Lanes], Array], turn: Callable[[Any], Any], s: Lanes, cursor: Array) -> Any:
        """A loop of the block whose carry are lanes and next save times."""
        lanes = self.block.lanes

        def body(carry: list[Array]) -> list[Array]:
            found, cursor = turn((like(s, carry[:-1]), carry[-1]))
            return [*flat(found, lanes), cursor]

        *numbers, cursor = jax.lax.while_loop(lambda carry: more(like(s, carry[:-1])), body, [*flat(s, lanes), cursor])
        return like(s, numbers), cursor

    def _until_events(self, s: Lanes, cursor: Array) -> Any:
        """Step until lanes wait for their events."""
        lanes = self.block.lanes

        def more(carry: Any) -> Array:
            status, i = _status(like(s, carry[0])), carry[2]
            return any_of(status == RUNNING) & ((i < TOGETHER) | ~any_of(status == WAITING))

        def step(carry: Any) -> Any:
            held, cursor, i = like(s, carry[0]), carry[1], carry[2]
            found = self.lane(functools.partial(attempt, self.flow), self.end, held)
            if self.count > 2:
                cursor = self._saved(held, found.t1, found.dense, found.accurate, found.reached, cursor)
            after = self.lane(functools.partial(_moved, self.flow), held, found)
            return flat(after, lanes), cursor, i + 1

        begin = flat(s, lanes), cursor, jnp.zeros((), jnp.int32)
        numbers, cursor, _ = jax.lax.while_loop(more, step, begin)
        return like(s, numbers), cursor

    def _rows(self, y: PyTree) -> list[Array]:
        """The numbers of a state and its tangents, as the rows of results have them."""
        pack = lambda ops, fixed, y: self.flow.pack(y)
        return flat(self.lane(pack, y), self.block.lanes)

    def _saved(self, s: Lanes, t1: Any, dense: PyTree, taken: Any, until: Any, cursor: Array) -> Array:
        """Write the states at the save times that a step passes; the next save time of each lane."""
        accurate, reached = (x.over(self.block.lanes)[0] for x in (taken, until))

        def due(cursor: Array) -> tuple[Array, Array]:
            target = self.time(jnp.minimum(cursor, self.last))
            return target, accurate & (cursor <= self.last) & (target <= reached)

        def write(cursor: Array) -> Array:
            target, here = due(cursor)
            found = self.lane(functools.partial(_between, self.flow), self.lane.cells(target), s.t, t1, s.y, dense)
            self._put(flat(found, self.block.lanes), cursor, here)
            return cursor + here.astype(cursor.dtype)

        return jax.lax.while_loop(lambda cursor: any_of(due(cursor)[1]), write, cursor)

    def _put(self, values: Sequence[Array], cursor: Array, here: Array) -> None:
        for i, value in enumerate(values):
            self.block.scattered(0, i * (self.count - 1) + cursor - 1, value, here)

    def _happened(self, s: Lanes, cursor: Array) -> Any:
        """Let events happen in the lanes that wait, and write down what was."""
        block, flow, room = self.block, self.flow, self.asked.plan.room
        found, after = self.lane(functools.partial(occurrence, flow), self.end, s)
        lanes = block.lanes
        path, numbers = ([x.over(lanes) for x in _rounds(cells)] for cells in (found.path, found.numbers))
        happens, first, time = path[0][0] >= 0, found.first.over(lanes)[0], found.time.over(lanes)[0]
        if self.last >= 1:
            if found.dense is not None:
                until = self.lane.cells(rewritten(just_before)(time))
                cursor = self._saved(s, found.t1, found.dense, self.lane.cells(happens), until, cursor)
            target = self.time(jnp.minimum(cursor, self.last))
            here = happens & (cursor <= self.last) & (target <= found.on.over(lanes)[0])
            self._put(self._rows(found.after), cursor, here)
            cursor = cursor + here.astype(cursor.dtype)
        assert flow.events is not None
        for i in range(len(path)):
            place = first + i
            real, row = (path[i][0] >= 0) & (place < room), jnp.minimum(place, room - 1)
            block.scattered(3, row, time, real)
            follows = jnp.full(lanes, i > 0)
            code = functools.partial(code_of, len(flow.events.ends))
            block.scattered(4, row, rewritten(code)(path[i][0], numbers[i][0], follows), real)
            if i == 0:
                for k, value in enumerate(self._rows(found.before)):
                    block.scattered(5, k * room + row, value, real)
        return after, cursor


def _status(s: Lanes) -> Array:
    return s.status.values[0]  # type: ignore[attr-defined]


def _rounds(cells: Any) -> list[Cells]:
    return [Cells(row, cells.dtype) for row in cells.values]


def _moved(flow: Any, ops: PyTree, fixed: PyTree, s: Lanes, found: Attempt) -> Lanes:
    return moved(flow, ops, fixed, s, found, found.accurate)


def _between(
    flow: Any, ops: PyTree, fixed: PyTree, target: Array, t: Array, t1: Array, y: PyTree, dense: PyTree
) -> list[Array]:
    """The state at a time within a step."""
    theta = fraction(target, t, t1)
    parts = [flow.pack(q) for q in (y, *flow.polynomial(ops, fixed, dense))]
    over = lambda y: theta.reshape((1,) * (y.ndim - 1) + theta.shape)
    return [horner(y, own, over(y)) for y, *own in zip(*parts, strict=True)]
