"""The way back through one row of a record."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ..._types import State
from ...core import scaled
from ._attempt import select
from ._block import fraction, targets
from ._flow import Carried, Flow, Operands
from ._queue import Held, Layout
from ._record import Met, Record


class Carry(NamedTuple):
    """Cotangents on the way back."""

    y: Any
    memory: Any
    operands: list[Array]
    cursor: Array  # the last save time that is to come
    asked: Array  # lanes of which something is asked


class Walk:
    """The way back through one row of a record."""

    def __init__(
        self,
        flow: Flow,
        layout: Layout,
        held: Held,
        times: Array,
        member: Array,
        cotangents: Sequence[Array | None],
        before: Sequence[Array | None],
        active: Sequence[int],
        packed: Sequence[Array],
    ):
        self.before = before
        self.flow, self.held, self.times, self.member = flow, held, times, member
        self.cotangents, self.active, self.packed = cotangents, active, packed
        self.saving = times.shape[-1] > 2
        self.steps_to_events = flow.events is not None and len(flow.events.found) > 0
        self.axes = layout.ops
        self.shared = any(layout.ops[i] is None for i in active)

    def state(self, row: Record | Met) -> Any:
        """The state at the start of a step."""
        return self.flow.unpack(row.y)

    def moving(self, ops: Operands) -> list[Array]:
        leaves = jax.tree.leaves(ops)
        return [leaves[i] for i in self.active]

    def filled(self, ops: Operands, moving: Sequence[Array]) -> Operands:
        leaves, structure = jax.tree.flatten(ops)
        for i, value in zip(self.active, moving, strict=True):
            leaves[i] = value
        return jax.tree.unflatten(structure, leaves)

    def back(self, carry: Carry, row: Record) -> tuple[Carry, None]:
        """Back through one attempt."""
        g_y, g_m, _, cursor, asked = carry
        used = (row.t1 > row.t) & asked
        direct, g_q = None, None
        if self.saving:
            cursor, direct, g_q = self._saved(row, cursor, row.t1 > row.t)
        ops = self.held.ops
        if self.shared:
            ops, row = self._healthy(ops, row, used)
        _, pull = jax.vjp(functools.partial(self._replay, ops, row), self.state(row), row.past, self.moving(ops))
        held = select(used, (g_y, g_m), jax.tree.map(jnp.zeros_like, (g_y, g_m)))
        d_y, d_m, d_p = self._by_direction(lambda g, q: pull((*g, q)), held, g_q)
        return self._added(carry, cursor, used, direct, (d_y, d_m, d_p)), None

    def _by_direction(self, function: Callable[..., Any], *cotangents: PyTree) -> Any:
        """A function of cotangents for all directions.

        A single one has no axis for a method of several steps: with one, loops that solve equations would select in every turn.
        Without loops XLA makes one kernel of what has no axis, and computes in it again and again what several results read.
        """
        if not self.flow.multistep or jax.tree.leaves(cotangents)[0].shape[0] > 1:
            return jax.vmap(function)(*cotangents)
        return jax.tree.map(lambda x: x[None], function(*jax.tree.map(lambda x: x[0], cotangents)))

    def _added(self, carry: Carry, cursor: Array, used: Array, direct: Any, found: Any) -> Carry:
        """The cotangents after a row, from those that came back through it."""
        (g_y, g_m, g_p, *_), (d_y, d_m, d_p) = carry, found
        if direct is not None:
            d_y = jax.tree.map(jnp.add, d_y, direct)
        g_y, g_m = select(used, (d_y, d_m), (g_y, g_m))
        updated, any_used = [], jnp.any(used)
        for i, a, b in zip(self.active, d_p, g_p, strict=True):
            updated.append(jnp.where(any_used, a + b, b) if self.axes[i] is None else select(used, a + b, b))
        return carry._replace(y=g_y, memory=g_m, operands=updated, cursor=cursor)

    def back_met(self, carry: Carry, met: Met) -> Carry:
        """Back through the events at the end of a block, and the steps up to them."""
        g_y, g_m, _, cursor, asked = carry
        happened = met.path[0] >= 0
        used, tree, direct, g_q = happened & asked, jax.vmap(self.flow.unpack), None, None
        if self.saving:
            cursor, saved = self._saved_after(met, cursor, happened)
            g_y = jax.tree.map(jnp.add, g_y, tree(saved))
            if self.steps_to_events:
                cursor, direct, g_q = self._saved(met, cursor, happened)
        room = next(g.shape[1] for g in self.before if g is not None)
        place = jnp.clip(met.first, 0, room - 1)
        g_b = tree(self._picked(self.before, place, used & (met.first < room)))
        ops = self.held.ops
        if self.shared:
            ops, met = self._healthy(ops, met, used)
        _, pull = jax.vjp(functools.partial(self._replay_met, ops, met), self.state(met), met.past, self.moving(ops))
        after = select(used, g_y, jax.tree.map(jnp.zeros_like, g_y))
        nothing = jax.tree.map(jnp.zeros_like, g_m)
        found = self._by_direction(lambda b, a, m, q: pull((b, a, m, q)), g_b, after, nothing, g_q)
        return self._added(carry._replace(y=g_y), cursor, used, direct, found)

    def _saved_after(self, met: Met, cursor: Array, happened: Array) -> tuple[Array, list[Array]]:
        """Cotangents of the states after events that were saved at their time."""

        def here(cursor: Array) -> Array:
            target = targets(self.times, self.member, jnp.maximum(cursor, 0))
            return happened & (cursor >= 1) & (target >= met.time) & (target <= met.on)

        def body(c: PyTree) -> Any:
            cursor, total = c
            picked = self._picked(self.cotangents, jnp.maximum(cursor, 0), here(cursor))
            total = [a + b for a, b in zip(total, picked, strict=True)]
            return cursor - here(cursor).astype(cursor.dtype), total

        begin = cursor, [jnp.zeros_like(x) for x in self.packed]
        return jax.lax.while_loop(lambda c: jnp.any(here(c[0])), body, begin)

    def _replay_met(self, ops: Operands, met: Met, y: State, past: PyTree, moving: Sequence[Array]) -> Any:
        """The states before and after the events of a row, what the step before remembers, and its dense output."""
        before, past1, increments = y, past, None
        if self.steps_to_events:
            y1, past1, increments = self._replay(ops, met, y, past, moving)
            before = select(met.still, y, y1)
        after = self.flow.leap(self.filled(ops, moving), self.held.fixed, met.time, before, met.path, met.numbers)
        return before, after, past1, increments

    def _picked(self, cotangents: Sequence[Array | None], column: Array, where: Array) -> list[Array]:
        """The cotangents of one column of each lane, lanes last; zero in the others."""
        lane, found = jnp.arange(column.shape[0]), []
        for g, like in zip(cotangents, self.packed, strict=True):
            picked = jnp.zeros_like(like) if g is None else jnp.moveaxis(g[lane, column], 0, -1)
            found.append(jnp.where(widened(where, picked), picked, 0))
        return found

    def _replay(self, ops: Operands, row: Record | Met, y: State, past: PyTree, moving: Sequence[Array]) -> Any:
        """The step of a row: its end, what it remembers where that is more than its end, and its dense output."""
        flow, ops, fixed, past1 = self.flow, self.filled(ops, moving), self.held.fixed, None
        if flow.again is not None:
            solved = flow.unpack(row.solved)
            y1, past1, dense = flow.again(ops, fixed, row.t, row.t1, y, past, row.fresh, solved)
        else:
            memory = Carried(past) if flow.linked else flow.start(ops, fixed, row.t, y)
            y1, after, dense, *_ = flow.step(ops, fixed, row.t, row.t1, y, memory)
            past1 = after.moving if flow.linked else None
        return y1, past1, flow.polynomial(ops, fixed, dense) if self.saving else None

    def _healthy(self, ops: Operands, row: Record | Met, used: Array) -> Any:
        """Unused lanes made copies of a used one: zero times what a failed member makes of its numbers would be NaN.

        Only where all members share an operand, whose cotangent is a sum over the lanes.
        """
        good = jnp.argmax(used)

        def replaced(x: Array, axis: int | None = 0) -> Array:
            return x if axis is None else jnp.where(widened(used, x), x, x[..., good][..., None])

        leaves, structure = jax.tree.flatten(ops)
        ops = jax.tree.unflatten(structure, [replaced(x, a) for x, a in zip(leaves, self.axes, strict=True)])
        return ops, jax.tree.map(replaced, row)

    def _saved(self, row: Record | Met, cursor: Array, taken: Array) -> tuple[Array, Any, Any]:
        """Cotangents that enter at the save times within a step: of its first state, and of its dense output's increments.

        `taken` are the lanes that took the step.
        """
        lane = jnp.arange(cursor.shape[0])
        replay = functools.partial(self._replay, self.held.ops, row)
        degree = len(jax.eval_shape(replay, self.state(row), row.past, self.moving(self.held.ops))[-1])

        def due_at(cursor: Array) -> tuple[Array, Array]:
            target = targets(self.times, self.member, jnp.maximum(cursor, 0))
            return target, (cursor >= 1) & (target > row.t) & taken

        def body(c: PyTree) -> Any:
            cursor, g_0, g_q = c
            target, due = due_at(cursor)
            theta = fraction(target, row.t, row.t1)
            found = []
            for g in self.cotangents:
                if g is None:
                    found.append(None)
                    continue
                picked = jnp.moveaxis(g[lane, jnp.maximum(cursor, 0)], 0, -1)
                found.append(jnp.where(widened(due, picked), picked, 0))
            powers = [theta]
            for _ in range(degree - 1):
                powers.append(powers[-1] * theta)
            add = lambda total, g, p=None: (
                total if g is None else total + (g if p is None else scaled(widened(p, g), g))
            )
            g_0 = [add(a, g) for a, g in zip(g_0, found, strict=True)]
            g_q = [[add(a, g, p) for a, g in zip(q, found, strict=True)] for q, p in zip(g_q, powers, strict=True)]
            return cursor - due.astype(cursor.dtype), g_0, g_q

        zeros = [jnp.zeros_like(x) for x in self.packed]
        begin = (cursor, zeros, [list(zeros) for _ in range(degree)])
        cursor, g_0, g_q = jax.lax.while_loop(lambda c: jnp.any(due_at(c[0])[1]), body, begin)
        tree = jax.vmap(self.flow.unpack)
        return cursor, tree(g_0), tuple(tree(q) for q in g_q)


def widened(mask: Array, like: Array) -> Array:
    """An array over lanes with axes in front, to meet one that has more."""
    return mask.reshape((1,) * (like.ndim - 1) + mask.shape)
