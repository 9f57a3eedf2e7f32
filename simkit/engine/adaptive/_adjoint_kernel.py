"""The discrete adjoint of a solve as one kernel: solved, recorded and walked back by the thread that has the member.

A record holds the accepted steps of a part of the way, and a snapshot the lane where each part begins. The last part is recorded
by the solve itself; the parts before are solved again from their snapshots, as `_adjoint.py` does for groups of lanes.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ..kernels._back import Cotangents, Sizes, check_derivatives, in_turns, shaped_as, sizes_of
from ..kernels._emit import any_of, rewritten
from ..kernels._launch import LANES, Block, Given, Made, launch
from ..kernels._mode import NotInKernel
from ..kernels._objects import boxed
from ._adjoint import asked_of, with_lost
from ._asked import Asked, initial_places, unless_refused
from ._attempt import RUNNING, Lanes, attempt, moved, select, started
from ._block import fraction
from ._flow import Flow
from ._flow_apart import Moving
from ._kernel import components
from ._plan import Plan


def adjoint_in_kernel(
    plan: Plan,
    leaves: list[Any],
    fixed: list[Any],
    times: Array,
    cotangents: Sequence[Array | None],
    active: tuple[int, ...],
    directions: int,
) -> list[Array] | None:
    """Cotangents of the operands `active`, as `adjoint` returns them; None where there is no kernel for them."""
    values = leaves, fixed, times

    def found() -> list[Array]:
        if times.dtype != leaves[0].dtype:
            raise NotInKernel("times and states of two types")
        return _Adjoint(Asked(plan, *values, True), cotangents, active, directions).found()

    return unless_refused(plan, values, found, derivatives=True)


class _Adjoint:
    """One adjoint: its sizes, its operands, and its results."""

    def __init__(self, asked: Asked, cotangents: Sequence[Array | None], active: tuple[int, ...], directions: int):
        self.asked, self.plan, self.flow, self.kind = asked, asked.plan, asked.flow, asked.leaves[0].dtype
        self.cotangents, self.active, self.directions = cotangents, active, directions
        self.members, self.count, self.shapes, self.numbers = asked.members, asked.count, asked.shapes, asked.numbers
        self.saved = Cotangents(len(asked.given), directions, self.numbers)
        self.given = [*asked.given, self._cotangents()]
        self.own_shapes = [self.given[i].shape for i in active]
        self.wanted = sum(map(math.prod, self.own_shapes))
        check_derivatives(directions * (self.numbers + self.wanted))

    def _cotangents(self) -> Given:
        """`(times, directions, numbers, members)`, the save times after the start."""
        rows = []
        for g, shape in zip(self.cotangents, self.shapes, strict=True):
            if g is None:
                rows.append(jnp.zeros((self.count, self.directions, math.prod(shape), self.members), self.kind))
            else:  # (directions, members, times, ...)
                g = g.reshape(self.directions, self.members, self.count, -1)
                rows.append(jnp.transpose(g, (2, 0, 3, 1)))
        return Given(jnp.concatenate(rows, axis=2).reshape(-1, self.members), True)

    def found(self) -> list[Array]:
        sizes = self._sizes()
        results = self._launched(sizes)
        status, reached, left = results[0]
        g_y, g_p = results[1], results[2]
        parted = [None if g is None else jnp.moveaxis(g, (1, 2), (0, 1)) for g in self.cotangents]
        asked, lost = asked_of(parted, reached, status == 0)
        g_y, g_p = jnp.where(asked[None], g_y, 0), jnp.where(asked[None], g_p, 0)
        column = jnp.arange(self.count, dtype=jnp.int32)[:, None]
        cotangents = self.given[-1].value.reshape(self.count, -1, self.members)
        g_y = g_y + jnp.sum(jnp.where((column <= left[None])[:, None], cotangents, 0), axis=0)
        g_y = g_y.reshape(self.directions, self.numbers, self.members)
        parts = shaped_as(g_p.reshape(self.directions, self.wanted, self.members), self.own_shapes)
        held = dict(zip(self.active, parts, strict=True))
        for i, part in zip(initial_places(self.plan), shaped_as(g_y, self.shapes), strict=True):
            if i in held:
                held[i] = held[i] + part
        return [self._shaped(i, held[i], lost) for i in self.active]

    def _shaped(self, i: int, g: Array, lost: Array) -> Array:
        axis = self.plan.layout().ops[i]
        if axis is None:
            return with_lost(lost, jnp.sum(g, axis=-1), True)
        return jnp.moveaxis(with_lost(lost, g, False), -1, 1 + axis)

    def _sizes(self) -> Sizes:
        sizes = self.plan.sizes
        row, snapshot = self.numbers + 2, self._snapshot_numbers()
        return sizes_of(max(1, sizes.max_steps), row, snapshot, self.kind, self.members, LANES, sizes.record_bytes)

    def _snapshot_numbers(self) -> int:
        """Numbers of a lane where a part begins: its time, the next length, its state, and what the method remembers."""
        copies = sum(math.prod(axes) for axes in self.plan.output_directions)
        memory = sum(math.prod(x.shape) for x in jax.tree.leaves(self.plan.member.memory))
        return 2 + self.numbers + copies * memory

    def _launched(self, sizes: Sizes) -> list[Array]:
        kind, copies = self.kind, self.directions
        made = [
            Made(3, jnp.int32),
            Made(copies * self.numbers, kind),
            Made(max(1, copies * self.wanted), kind),
            Made(sizes.rows * (2 + self.numbers), kind),
            Made(sizes.parts * self._snapshot_numbers(), kind),
        ]

        def run(given: Sequence[Given], members: int) -> list[Array]:
            body = lambda block: _Back(self, block, sizes, members).run()
            return launch(body, given, made, members)[:3]

        return in_turns(run, self.given, self.members, sizes.members, LANES)


class _Back:
    """The adjoint of the members of one block."""

    def __init__(self, adjoint: _Adjoint, block: Block, sizes: Sizes, members: int):
        self.a, self.block, self.sizes, self.members = adjoint, block, sizes, members
        self.flow: Flow = adjoint.flow
        self.ops, self.fixed = adjoint.asked.held(block)
        self.end = self.time(jnp.full(block.lanes, adjoint.count - 1, jnp.int32))

    def time(self, column: Array) -> Array:
        return self.a.asked.time(self.block, column)

    def run(self) -> None:
        a, block = self.a, self.block
        start = self.time(jnp.zeros(block.lanes, jnp.int32))
        status = jnp.where(block.member < self.members, RUNNING, 0).astype(jnp.int32)
        begin = lambda start, status: started(self.flow, self.ops, self.fixed, start, self.end, status)
        first = rewritten(begin)(start, status)
        live = lambda s: s.status == RUNNING
        s = jax.lax.while_loop(lambda s: any_of(live(s)), lambda s: self.recorded(s, live(s)), first)
        block.barrier()
        steps, ok = s.steps, s.status == 0
        last = jnp.maximum(steps - 1, 0) // self.sizes.rows
        reached = self._reached(s.t)
        g_y = a.saved.of(block, jnp.full(block.lanes, a.count - 1, jnp.int32), ok)
        zero = jnp.zeros(block.lanes, a.kind)
        g_p = [[zero] * a.wanted for _ in range(a.directions)]

        def part(carry: PyTree) -> Any:
            p, cursor, g_y, g_p = carry
            again = (p < last) & (steps > 0)

            def resolved(s: Lanes) -> Lanes:
                return self.recorded(s, again & (s.steps < (p + 1) * self.sizes.rows))

            more = lambda s: any_of(again & (s.steps < (p + 1) * self.sizes.rows) & (s.status == RUNNING))
            jax.lax.while_loop(more, resolved, self._restored(first, p, again))
            block.barrier()
            rows = jnp.clip(steps - p * self.sizes.rows, 0, self.sizes.rows)
            cursor, g_y, g_p = self._walked(rows, cursor, g_y, g_p)
            return p - 1, cursor, g_y, g_p

        begin = jnp.max(last), reached, g_y, g_p
        _, cursor, g_y, g_p = jax.lax.while_loop(lambda c: c[0] >= 0, part, begin)
        for i, x in enumerate((s.status, reached, cursor)):
            block.put(0, i, x)
        for which, found in ((1, g_y), (2, g_p)):
            for i, x in enumerate(x for one in found for x in one):
                block.put(which, i, x)

    def recorded(self, s: Lanes, where: Array) -> Lanes:
        """The lanes after an attempt, an accepted step written down; only those of a mask are stepped."""
        held = s._replace(status=jnp.where(where, s.status, 0))
        found = rewritten(lambda s: attempt(self.flow, self.ops, self.fixed, self.end, s))(held)
        taken, rows = found.accurate, self.sizes.rows
        row = s.steps % rows
        for i, x in enumerate((s.t, found.t1, *components(self.flow, s.y))):
            self.block.scattered(3, row + i * rows, x, taken)
        for i, x in enumerate(self._of_snapshot(s)):
            self.block.scattered(4, s.steps // rows + i * self.sizes.parts, x, taken & (row == 0))
        after = rewritten(lambda s, found: moved(self.flow, self.ops, self.fixed, s, found, found.accurate))(
            held, found
        )
        return select(where, after, s)

    def _of_snapshot(self, s: Lanes) -> list[Array]:
        return jax.tree.leaves((s.t, s.h, s.y, s.memory))

    def _restored(self, like: Lanes, p: Array, where: Array) -> Lanes:
        """The lanes where part `p` begins."""
        tree = (like.t, like.h, like.y, like.memory)
        row = jnp.full(self.block.lanes, p, jnp.int32)
        found = [self.block.read(4, row + i * self.sizes.parts) for i in range(len(jax.tree.leaves(tree)))]
        t, h, y, memory = jax.tree.unflatten(jax.tree.structure(tree), found)
        status = jnp.where(where, RUNNING, 0).astype(jnp.int32)
        steps = jnp.full_like(like.steps, p * self.sizes.rows)
        return like._replace(t=t, h=h, y=y, memory=memory, steps=steps, rejected=jnp.zeros_like(steps), status=status)

    def _reached(self, t: Array) -> Array:
        """The number of save times, but the last one, that are not after `t`."""
        last = self.a.count - 1

        def more(cursor: Array) -> Array:
            return (cursor + 1 < last) & (self.time(jnp.minimum(cursor + 1, last)) <= t)

        step = lambda cursor: cursor + more(cursor).astype(cursor.dtype)
        return jax.lax.while_loop(lambda cursor: any_of(more(cursor)), step, jnp.zeros(t.shape, jnp.int32))

    def _walked(self, rows: Array, cursor: Array, g_y: Any, g_p: Any) -> Any:
        """Back over the rows of the record, the last one first."""
        most = self.sizes.rows

        def back(carry: PyTree) -> Any:
            j, cursor, g_y, g_p = carry
            used, row = j >= 0, jnp.maximum(j, 0)
            t, t1, *y = (self.block.read(3, row + i * most) for i in range(2 + self.a.numbers))
            cursor, direct, g_q = self._saved(t, t1, cursor, used)
            d_y, d_p = rewritten(self._pulled)(t, t1, y, g_y, g_q)
            add = lambda a, b: jax.tree.map(jnp.add, a, b)
            d_y = d_y if direct is None else add(d_y, direct)
            return j - 1, cursor, select(used, d_y, g_y), select(used, add(d_p, g_p), g_p)

        begin = rows - 1, cursor, g_y, g_p
        return jax.lax.while_loop(lambda c: any_of(c[0] >= 0), back, begin)[1:]

    def _tree(self, y: Sequence[Array]) -> Any:
        """A state of the flow from its components."""
        ends = np.cumsum([0, *map(math.prod, self.a.shapes)])
        leaves = [boxed(list(y[a:b]), shape) for a, b, shape in zip(ends, ends[1:], self.a.shapes, strict=False)]
        return self.flow.unpack(leaves)

    def _pulled(self, t: Array, t1: Array, y: list[Array], g_y: Any, g_q: Any) -> Any:
        """Cotangents of a step's start and of the operands, for each direction."""
        flow, fixed, held = self.flow, self.fixed, Moving(self.ops, self.a.active)
        moving = [jnp.broadcast_to(x, t.shape) for x in held.components()]

        def replay(y: list[Array], moving: list[Array]) -> Any:
            ops, state = held.filled(moving), self._tree(y)
            y1, _, dense, *_ = flow.step(ops, fixed, t, t1, state, flow.start(ops, fixed, t, state))
            increments = flow.polynomial(ops, fixed, dense) if g_q is not None else ()
            return components(flow, y1), [components(flow, q) for q in increments]

        _, pull = jax.vjp(replay, y, moving)
        found = [pull((g, [] if g_q is None else g_q[d])) for d, g in enumerate(g_y)]
        return [one[0] for one in found], [one[1] for one in found]

    def _saved(self, t: Array, t1: Array, cursor: Array, used: Array) -> Any:
        """Cotangents that enter at the save times within a step: of its first state, and of the increments of its dense output."""
        if self.a.count < 3:
            return cursor, None, None
        degree = self._degree()

        def due(cursor: Array) -> tuple[Array, Array]:
            target = self.time(jnp.maximum(cursor, 0))
            return target, (cursor >= 1) & (target > t) & used

        def body(carry: PyTree) -> Any:
            cursor, g_0, g_q = carry
            target, here = due(cursor)
            picked = self.a.saved.of(self.block, jnp.maximum(cursor, 0), here)
            power = theta = fraction(target, t, t1)
            g_0, g_q = jax.tree.map(jnp.add, g_0, picked), [list(q) for q in g_q]
            for j in range(degree):
                for d, g in enumerate(picked):
                    g_q[d][j] = [a + power * x for a, x in zip(g_q[d][j], g, strict=True)]
                power = power * theta
            return cursor - here.astype(cursor.dtype), g_0, g_q

        zero = jnp.zeros(t.shape, self.a.kind)
        nothing = [[zero] * self.a.numbers for _ in range(self.a.directions)]
        begin = cursor, nothing, [[[zero] * self.a.numbers for _ in range(degree)] for _ in range(self.a.directions)]
        return jax.lax.while_loop(lambda c: any_of(due(c[0])[1]), body, begin)

    def _degree(self) -> int:
        """The number of increments of the dense output."""
        return len(self.a.plan.member.polynomial.shapes)
