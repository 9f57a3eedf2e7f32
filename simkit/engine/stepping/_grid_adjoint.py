"""The gradient of fixed steps of many small members as one kernel.

The kernel steps forward, keeps the state where each part of the steps begins, and walks back part by part: it takes the steps of a
part again, with the state before each in a record, and transposes their derivatives. Numbers of noise are drawn again.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array, PyTree

from ..kernels._back import Cotangents, Sizes, check_derivatives, in_turns, shaped_as, sizes_of
from ..kernels._emit import rewritten
from ..kernels._launch import EVEN_LANES, Block, Given, Made, launch
from ..kernels._mode import NotInKernel
from ._grid_posed import Posed, Steps, fronted, given_of, joined, of_active, repeat


def pulled(
    posed: Posed,
    own: tuple[bool, ...] | None,
    members: int | None,
    active: tuple[int, ...],
    values: Sequence[Array],
    cotangent: Array,
) -> list[Array]:
    """Cotangents of the operands `active` from one of the states."""
    found = _back_p.bind(*values, cotangent[None], posed=posed, own=own, members=members, active=active)
    return [x[0] for x in found]


def _back(*values: Array, posed: Posed, own: Any, members: int | None, active: tuple[int, ...]) -> list[Array]:
    """Cotangents of the operands `active`, directions first, from those of the states, the last operand."""
    *operands, cotangents = values
    if own is not None and members is not None:
        try:
            return _Adjoint(posed, own, members, active, operands, cotangents).found()
        except NotInKernel:
            pass
    function = functools.partial(of_active, posed, own, active, operands)
    _, pull = jax.vjp(function, *(operands[i] for i in active))
    if cotangents.shape[0] == 1:
        return [x[None] for x in pull(cotangents[0])]
    return list(jax.vmap(pull)(cotangents))


class _Adjoint:
    """One gradient: its sizes, its operands, and its results."""

    def __init__(
        self, posed: Posed, own: Sequence[bool], members: int, active: Sequence[int], values: Any, cotangents: Array
    ):
        self.posed, self.members, self.active = posed, members, active
        self.directions, self.numbers = cotangents.shape[0], posed.numbers
        self.given = given_of(values, own)
        self.saved = Cotangents(len(self.given), self.directions, posed.numbers)
        place = posed.place_of_points(values)
        self.timed = place + 1 in active  # derivatives by the ends of windows, of which a step has two
        self.inner = posed.inner(active, len(values))
        self.start = place + 2
        self.shapes = [self.given[i].shape for i in self.inner]
        self.wanted = sum(map(math.prod, self.shapes))
        check_derivatives(self.directions * (self.numbers + self.wanted + 2 * self.timed))
        rows = jnp.transpose(cotangents, (2, 0, 3, 1))  # (times, directions, numbers, members)
        self.first = jnp.moveaxis(rows[0], -1, 0)
        self.given.append(Given(rows.reshape(-1, members), True))

    def found(self) -> list[Array]:
        posed, directions, members = self.posed, self.directions, self.members
        bound = None if posed.memory is None else posed.memory * members
        steps, numbers = posed.steps, self.numbers
        sizes = sizes_of(steps, numbers, numbers, posed.dtype, members, EVEN_LANES, bound)
        g_y, g_p, g_t = self._launched(sizes)
        parts = shaped_as(g_p.reshape(directions, -1, members), self.shapes)
        held = dict(zip(self.inner, parts, strict=True))
        held[self.start] = g_y.reshape(directions, numbers, members) + jnp.moveaxis(self.first, 0, -1)
        if self.timed:
            held[self.start - 1] = g_t.reshape(directions, 2, -1, members)
        return [self._shaped(i, held) for i in self.active]

    def _shaped(self, i: int, held: dict[int, Array]) -> Array:
        given = self.given[i]
        if i not in held:  # the points, of which the kernel reads the windows alone
            return jnp.zeros((self.directions, *((self.members,) if given.own else ()), *given.shape), self.posed.dtype)
        found = held[i].astype(given.value.dtype)
        return jnp.moveaxis(found, -1, 1) if given.own else jnp.sum(found, axis=-1)

    def _launched(self, sizes: Sizes) -> list[Array]:
        posed, copies = self.posed, self.directions
        made = [
            Made(copies * self.numbers, posed.dtype),
            Made(max(1, copies * self.wanted), posed.dtype),
            Made(copies * 2 * (posed.times - 1) if self.timed else 1, posed.dtype),
            Made(sizes.rows * self.numbers, posed.dtype),
            Made(sizes.parts * self.numbers, posed.dtype),
        ]

        def run(given: Sequence[Given], members: int) -> list[Array]:
            return launch(lambda block: _Walk(self, block, sizes).run(), given, made, members, EVEN_LANES)[:3]

        return in_turns(run, self.given, self.members, sizes.members, EVEN_LANES)


class _Walk:
    """The way back over the steps of the members of one block."""

    def __init__(self, adjoint: _Adjoint, block: Block, sizes: Sizes):
        self.a, self.block, self.sizes = adjoint, block, sizes
        self.steps = Steps(adjoint.posed, block, len(adjoint.given) - 1)
        self.numbers = adjoint.numbers

    def run(self) -> None:
        a, block, (rows, parts, _) = self.a, self.block, self.sizes
        last = parts - 1

        def ahead(p: Array, y: list[Array]) -> list[Array]:
            self._write(4, p, parts, y)
            return repeat(rows, lambda k, y: self._stepped(p * rows + k, y), y)

        y = repeat(last, ahead, self.steps.start()) if last else self.steps.start()
        self._write(4, jnp.full((), last, jnp.int32), parts, y)
        block.barrier()
        zero = jnp.zeros(block.lanes, a.posed.dtype)
        nothing = lambda count: [[zero] * count for _ in range(a.directions)]
        carry = nothing(self.numbers), nothing(a.wanted), nothing(2 if a.timed else 0)
        g_y, g_p, _ = repeat(parts, lambda q, carry: self._part(last - q, carry), carry)
        for which, found in ((0, g_y), (1, g_p)):
            for i, x in enumerate(x for one in found for x in one):
                block.put(which, i, x)

    def _part(self, p: Array, carry: PyTree) -> Any:
        """Back over the steps of a part."""
        rows, parts, _ = self.sizes
        count = jnp.minimum(self.a.posed.steps - p * rows, rows)
        y = self._read(4, p, parts)
        self._write(3, jnp.zeros((), jnp.int32), rows, y)

        def again(k: Array, y: list[Array]) -> list[Array]:
            y = self._stepped(p * rows + k, y)
            self._write(3, k + 1, rows, y)
            return y

        repeat(count - 1, again, y)
        self.block.barrier()
        carry = repeat(count, lambda k, carry: self._back(p * rows, count - 1 - k, carry), carry)
        self.block.barrier()
        return carry

    def _write(self, which: int, row: Array, count: int, y: Sequence[Array]) -> None:
        for i, x in enumerate(y):
            self.block.put(which, row + i * count, x)

    def _read(self, which: int, row: Array, count: int) -> list[Array]:
        row = jnp.full(self.block.lanes, row, jnp.int32)
        return [self.block.read(which, row + i * count) for i in range(self.numbers)]

    def _place(self, s: Array) -> tuple[Array, Array]:
        """The window of a step, and its number there."""
        window = jax.lax.div(s, np.int32(self.a.posed.substeps))
        return window, s - window * self.a.posed.substeps

    def _stepped(self, s: Array, y: list[Array]) -> list[Array]:
        window, number = self._place(s)
        return rewritten(self.steps.step)(y, *self.steps.ends(window), number)

    def _back(self, begin: Array, row: Array, carry: PyTree) -> Any:
        """Back over one step."""
        a, lanes, (g_y, g_p, g_t) = self.a, self.block.lanes, carry
        window, number = self._place(begin + row)
        add = functools.partial(jax.tree.map, jnp.add)
        ended = jnp.full(lanes, number == a.posed.substeps - 1)
        g_y = add(g_y, a.saved.of(self.block, jnp.full(lanes, window + 1, jnp.int32), ended))
        y = self._read(3, row, self.sizes.rows)
        g_y, d_p, d_t = rewritten(self._pulled)(y, *self.steps.ends(window), number, g_y)
        g_p, g_t = add(g_p, d_p), add(g_t, d_t)
        if a.timed:
            windows, begun = a.posed.times - 1, jnp.full(lanes, number == 0)
            for d, pair in enumerate(g_t):
                for i, x in enumerate(pair):
                    self.block.scattered(2, jnp.full(lanes, (2 * d + i) * windows + window, jnp.int32), x, begun)
            g_t = [[jnp.where(begun, 0, x) for x in pair] for pair in g_t]
        return g_y, g_p, g_t

    def _pulled(self, y: list[Array], begin: Array, end: Array, number: Array, g_y: list[list[Array]]) -> Any:
        """Cotangents of a step's start, of the operands, and of the ends of its window, for each direction."""
        a, steps = self.a, self.steps

        def again(y: list[Array], moving: list[Array], ends: list[Array]) -> list[Array]:
            first, last = ends or (begin, end)
            return steps.step(y, first, last, number, steps.filled(a.inner, moving))

        after, pull = jax.vjp(again, y, steps.components(a.inner), [begin, end] if a.timed else [])
        both = functools.partial(functools.reduce, jnp.logical_and)
        spoilt = jnp.where(both([jnp.isfinite(x) for x in after]), 1, jnp.nan).astype(a.posed.dtype)

        def ruled(g: list[Array]) -> Any:
            """Cotangents by the rules of `core/_guard.py`: zero where nothing is asked for, NaN of what is not finite."""
            idle = both([x == 0 for x in g])
            return jax.tree.map(lambda x: jnp.where(idle, 0, x * spoilt), pull(g))

        found = [ruled(g) for g in g_y]
        return [one[0] for one in found], [one[1] for one in found], [one[2] for one in found]


def _shapes(*values: Any, posed: Posed, own: Any, members: int | None, active: tuple[int, ...]) -> Any:
    directions = values[-1].shape[0]
    return [jax.core.ShapedArray((directions, *values[i].shape), values[i].dtype) for i in active]


def _batch(
    values: Sequence[Any],
    dims: Sequence[int | None],
    *,
    posed: Posed,
    own: tuple[bool, ...] | None,
    members: int | None,
    active: tuple[int, ...],
) -> Any:
    """A batch of cotangents alone is one of more directions; another one has more members."""
    count, (*values, g), (*batched, varied) = fronted(values, dims)
    bind = functools.partial(_back_p.bind, posed=posed, active=active)
    if not any(batched):
        found = bind(*values, g.reshape(-1, *g.shape[2:]), own=own, members=members)
        return [x.reshape(count, -1, *x.shape[1:]) for x in found], [0] * len(active)
    g = jnp.moveaxis(g if varied else jnp.broadcast_to(g[None], (count, *g.shape)), 0, 1)
    # Each of the batch has cotangents of its own, also of what all share.
    for i in active:
        if not batched[i]:
            values[i] = jnp.broadcast_to(values[i][None], (count, *values[i].shape))
            batched[i] = True
    if own is None or members is None:
        return bind(*values, g, own=tuple(batched), members=count), [1] * len(active)
    shared = [not own[i] for i in active]
    values, own = joined(values, batched, own, count, members)
    found = bind(*values, g.reshape(g.shape[0], -1, *g.shape[3:]), own=own, members=count * members)
    parted = [x.reshape(x.shape[0], count, members, *x.shape[2:]) for x in found]
    return [jnp.sum(x, axis=2) if common else x for x, common in zip(parted, shared, strict=True)], [1] * len(active)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **known: Any) -> Any:
    def by_xla(*values: Array) -> list[Array]:
        *operands, cotangents = values
        function = functools.partial(of_active, known["posed"], known["own"], known["active"], operands)
        _, pull = jax.vjp(function, *(operands[i] for i in known["active"]))
        return list(jax.vmap(pull)(cotangents))

    return jax.jvp(by_xla, tuple(primals), tuple(ad.instantiate_zeros(x) for x in tangents))


_back_p = Primitive("gradient_of_fixed_steps_of_members")
_back_p.multiple_results = True
_back_p.def_impl(lambda *values, **known: jax.jit(functools.partial(_back, **known))(*values))
_back_p.def_abstract_eval(_shapes)
mlir.register_lowering(_back_p, mlir.lower_fun(_back, multiple_results=True))
ad.primitive_jvps[_back_p] = _jvp
batching.primitive_batchers[_back_p] = _batch
