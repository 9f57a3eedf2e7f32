"""Common parts of kernels that walk a solve back: the sizes of records, cotangents, and members in turns."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array

from ._launch import Block, Given
from ._mode import NotInKernel

RECORD_BYTES = 2**33
"""Bytes of records and snapshots of the members that are walked back at once, unless the user bounds them."""

MOST_DERIVATIVES = 512
"""Most numbers of tangents or cotangents that a member may have."""

LEAST_ROWS = 32
"""Least steps of a record, where there are as many."""


class Sizes(NamedTuple):
    """Sizes of a record: the steps that it holds at once, how many such parts a solve has, and the members walked back at once."""

    rows: int
    parts: int
    members: int


def sizes_of(
    most: int, row: int, snapshot: int, dtype: DTypeLike, members: int, least: int, bound: int | None
) -> Sizes:
    """The sizes that hold least of up to `most` steps: a row for each of a part, and a snapshot for each part.

    A `row` and a `snapshot` are counted in numbers; no fewer members than `least` are walked back at once, and no more than fit
    into a `bound` of bytes.
    """
    rows = min(most, max(LEAST_ROWS, math.ceil(math.sqrt(most * snapshot / row))))
    parts = math.ceil(most / rows)
    each = (rows * row + parts * snapshot) * jnp.dtype(dtype).itemsize
    return Sizes(rows, parts, max(least, min(members, (bound or RECORD_BYTES) // each)))


def check_derivatives(count: int) -> None:
    """Refuse more tangents or cotangents than the registers of a thread hold.

    **Raises:** a `NotInKernel`.
    """
    if count > MOST_DERIVATIVES:
        raise NotInKernel("more derivatives than a thread may have")


class Cotangents(NamedTuple):
    """Cotangents of saved states among the operands of a kernel, `(times, directions, numbers)` of each member."""

    place: int
    directions: int
    numbers: int

    def of(self, block: Block, column: Array, where: Array) -> list[list[Array]]:
        """The cotangents of one column of each lane, a list of components for each direction; zero outside a mask."""
        row = lambda d, c: (column * self.directions + d) * self.numbers + c
        picked = lambda d, c: jnp.where(where, block.gathered(self.place, row(d, c)), 0)
        return [[picked(d, c) for c in range(self.numbers)] for d in range(self.directions)]


def shaped_as(found: Array, shapes: Sequence[tuple[int, ...]]) -> list[Array]:
    """Rows of components of operands `(directions, components, members)` as one array for each operand."""
    result, begin = [], 0
    for shape in shapes:
        own = found[:, begin : begin + math.prod(shape)]
        result.append(own.reshape(found.shape[0], *shape, found.shape[-1]))
        begin += math.prod(shape)
    return result


def in_turns(
    run: Callable[[Sequence[Given], int], list[Array]], given: Sequence[Given], members: int, size: int, lanes: int
) -> list[Array]:
    """`run(given, members)`, results `(rows, members)`, for at most some `size` members at once, a multiple of `lanes`."""
    if size >= members:
        return run(given, members)
    turns = math.ceil(members / size)
    size = math.ceil(members / turns / lanes) * lanes
    filled = [
        jnp.pad(x.value, (*(((0, 0),) * (x.value.ndim - 1)), (0, turns * size - members)), mode="edge")
        for x in given
        if x.own
    ]
    own = [jnp.moveaxis(x.reshape(*x.shape[:-1], turns, size), -2, 0) for x in filled]

    def turn(own: list[Array]) -> list[Array]:
        held = iter(own)
        return run([x._replace(value=next(held)) if x.own else x for x in given], size)

    found = jax.lax.map(turn, own)
    return [jnp.moveaxis(x, 0, 1).reshape(x.shape[1], -1)[:, :members] for x in found]
