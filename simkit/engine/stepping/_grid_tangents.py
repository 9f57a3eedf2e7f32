"""The tangents of fixed steps of many small members as one kernel: the states again, and beside them each direction."""

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array, PyTree

from ..kernels._back import check_derivatives
from ..kernels._emit import rewritten
from ..kernels._launch import EVEN_LANES, Block, Given, Made, launch
from ..kernels._mode import NotInKernel
from ._grid_posed import Posed, Steps, fronted, given_of, joined, of_active, repeat


def pushed(
    posed: Posed,
    own: tuple[bool, ...] | None,
    members: int | None,
    active: tuple[int, ...],
    values: Sequence[Array],
    dots: Sequence[Array],
) -> Array:
    """The tangent of the states from those of the operands `active`."""
    given = [*values, *(x[None] for x in dots)]
    return _ahead_p.bind(*given, posed=posed, own=own, members=members, active=active)[0]


def _ahead(*given: Array, posed: Posed, own: Any, members: int | None, active: tuple[int, ...]) -> Array:
    """Tangents of the states, directions first, from those of the operands `active`, which are the last ones."""
    count = len(given) - len(active)
    values, dots = given[:count], given[count:]
    if own is not None and members is not None:
        try:
            return _in_kernel(posed, own, members, active, values, dots)
        except NotInKernel:
            pass
    return _by_xla(posed, own, active, values, dots)


def _by_xla(posed: Posed, own: Any, active: Sequence[int], values: Sequence[Array], dots: Sequence[Array]) -> Array:
    function, moving = functools.partial(of_active, posed, own, active, values), [values[i] for i in active]
    push = lambda *dots: jax.jvp(function, moving, list(dots))[1]
    return push(*(x[0] for x in dots))[None] if dots[0].shape[0] == 1 else jax.vmap(push)(*dots)


def _in_kernel(
    posed: Posed,
    own: Sequence[bool],
    members: int,
    active: Sequence[int],
    values: Sequence[Array],
    dots: Sequence[Array],
) -> Array:
    directions, windows, numbers = dots[0].shape[0], posed.times - 1, posed.numbers
    given = given_of(values, own)
    inner = posed.inner(active, len(values))
    wanted = sum(math.prod(given[i].shape) for i in inner)
    check_derivatives(directions * (numbers + wanted))
    place = posed.place_of_points(values)
    own_dots = [
        Given(jnp.moveaxis(x, 1, -1), True) if own[i] else Given(x, False) for i, x in zip(active, dots, strict=True)
    ]
    places = {i: len(given) + k for k, i in enumerate(active)}
    body = lambda block: _Ahead(posed, block, len(values), places, inner, directions).run()
    made = [Made(directions * numbers * windows, posed.dtype)]
    (found,) = launch(body, [*given, *own_dots], made, members, EVEN_LANES)
    rows = jnp.transpose(found.reshape(directions, numbers, windows, members), (0, 3, 2, 1))
    first = jnp.zeros((directions, members, numbers), posed.dtype)
    if place + 2 in active:
        dot = dots[active.index(place + 2)]
        first = first + (dot if own[place + 2] else dot[:, None])
    return jnp.concatenate([first[:, :, None], rows], axis=2)


class _Ahead:
    """The steps of the members of one block, with tangents."""

    def __init__(
        self, posed: Posed, block: Block, count: int, places: dict[int, int], inner: Sequence[int], directions: int
    ):
        self.posed, self.block, self.inner, self.directions = posed, block, inner, directions
        self.steps, self.place = Steps(posed, block, count), posed.place_of_points(range(count))
        self.places = places  # of the tangents of operands
        read = {i: block.operand(places[i]) for i in inner}
        self.dots = [
            [jnp.broadcast_to(x, block.lanes) for i in inner for x in read[i][d, ...].reshape(-1)]
            for d in range(directions)
        ]

    def run(self) -> None:
        posed, block, windows = self.posed, self.block, self.posed.times - 1

        def window(i: Array, carry: PyTree) -> Any:
            ends, dots_of_ends = self.steps.ends(i), self._dots_of_ends(i)
            carry = repeat(posed.substeps, lambda j, c: rewritten(self._stepped)(*c, ends, dots_of_ends, j), carry)
            for c, value in enumerate(x for one in carry[1] for x in one):
                block.put(0, c * windows + i, value)
            return carry

        repeat(windows, window, (self.steps.start(), self._start()))

    def _start(self) -> list[list[Array]]:
        zero = jnp.zeros(self.block.lanes, self.posed.dtype)
        if self.place + 2 not in self.places:
            return [[zero] * self.posed.numbers for _ in range(self.directions)]
        found = self.block.operand(self.places[self.place + 2])
        return [[x + zero for x in found[d]] for d in range(self.directions)]

    def _dots_of_ends(self, window: Array) -> list[list[Array]]:
        """Tangents of the begin and the end of a window, where they have some."""
        place, windows = self.places.get(self.place + 1), self.posed.times - 1
        if place is None:
            return [[] for _ in range(self.directions)]
        row = lambda k: self.block.gathered(place, jnp.full(self.block.lanes, k * windows + window, jnp.int32))
        return [[row(2 * d), row(2 * d + 1)] for d in range(self.directions)]

    def _stepped(
        self, y: list[Array], dots: PyTree, ends: tuple[Array, Array], dots_of_ends: PyTree, number: Array
    ) -> Any:
        steps = self.steps

        def step(y: list[Array], moving: list[Array], times: list[Array]) -> list[Array]:
            begin, end = times or ends
            return steps.step(y, begin, end, number, steps.filled(self.inner, moving))

        times = list(ends) if dots_of_ends[0] else []
        y, push = jax.linearize(step, y, steps.components(self.inner), times)
        return y, [push(*each) for each in zip(dots, self.dots, dots_of_ends, strict=True)]


def _shape(*given: Any, posed: Posed, own: Any, members: int | None, active: tuple[int, ...]) -> Any:
    rows = (posed.times, posed.numbers) if members is None else (members, posed.times, posed.numbers)
    return jax.core.ShapedArray((given[-1].shape[0], *rows), posed.dtype)


def _batch(
    given: Sequence[Any],
    dims: Sequence[int | None],
    *,
    posed: Posed,
    own: tuple[bool, ...] | None,
    members: int | None,
    active: tuple[int, ...],
) -> Any:
    """A batch of tangents alone is one of more directions; another one has more members."""
    count, front, new = fronted(given, dims)
    end = len(front) - len(active)
    spread = lambda x, has: x if has else jnp.broadcast_to(x[None], (count, *x.shape))
    dots = [spread(x, has) for x, has in zip(front[end:], new[end:], strict=True)]
    values, new = front[:end], new[:end]
    bind = functools.partial(_ahead_p.bind, posed=posed, active=active)
    if not any(new):
        found = bind(*values, *(x.reshape(-1, *x.shape[2:]) for x in dots), own=own, members=members)
        return found.reshape(count, -1, *found.shape[1:]), 0
    for i in active:
        values[i], new[i] = spread(values[i], new[i]), True
    if own is None or members is None:
        return bind(*values, *(jnp.moveaxis(x, 0, 1) for x in dots), own=tuple(new), members=count), 1
    turned = [jnp.moveaxis(x, 1, -1) for x in dots]
    turned, _ = joined(turned, [True] * len(active), [own[i] for i in active], count, members)
    values, own = joined(values, new, own, count, members)
    found = bind(*values, *(jnp.moveaxis(x, -1, 0) for x in turned), own=own, members=count * members)
    return found.reshape(found.shape[0], count, members, *found.shape[2:]), 1


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **known: Any) -> Any:
    def by_xla(*given: Array) -> Array:
        end = len(given) - len(known["active"])
        return _by_xla(known["posed"], known["own"], known["active"], given[:end], given[end:])

    return jax.jvp(by_xla, tuple(primals), tuple(ad.instantiate_zeros(x) for x in tangents))


_ahead_p = Primitive("tangents_of_fixed_steps_of_members")
_ahead_p.def_impl(lambda *given, **known: jax.jit(functools.partial(_ahead, **known))(*given))
_ahead_p.def_abstract_eval(_shape)
mlir.register_lowering(_ahead_p, mlir.lower_fun(_ahead, multiple_results=False))
ad.primitive_jvps[_ahead_p] = _jvp
batching.primitive_batchers[_ahead_p] = _batch
