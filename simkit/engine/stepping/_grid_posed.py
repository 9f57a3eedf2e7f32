"""Fixed steps of many small members posed as programs on arrays, for kernels and for XLA."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..adaptive._merging import batch_size
from ..kernels._components import evaluated
from ..kernels._launch import Block, Given
from ..kernels._objects import boxed
from ..kernels._strict import STRICT


@dataclasses.dataclass(frozen=True, eq=False)
class Posed:
    """A solve as programs on arrays; compared by identity.

    Its operands are leaves of what is solved, the points between which it steps, the begins and ends of the windows `(2, windows)`,
    the flat initial state, and what the two programs read of their surroundings.
    """

    whole: Any  # leaves, points -> the flat states at all points
    step: Any  # leaves, y, t, until, h, start of the window, number of the step -> the flat state after it
    captured: tuple[int, int]  # how many operands behind the first ones either reads of its surroundings
    substeps: int
    times: int  # points
    numbers: int
    dtype: Any
    memory: int | None = None  # bytes that the record of a member's gradient may take

    @property
    def steps(self) -> int:
        """The number of steps of a solve."""
        return (self.times - 1) * self.substeps

    def place_of_points(self, values: Sequence[Any]) -> int:
        """The place of the points among operands; windows and the initial state follow."""
        return len(values) - sum(self.captured) - 3

    def inner(self, active: Sequence[int], count: int) -> list[int]:
        """Operands of some of `count` that are neither points, windows, nor the initial state."""
        place = self.place_of_points(range(count))
        return [i for i in active if i not in (place, place + 1, place + 2)]

    def leaves(self, values: Sequence[Any]) -> Sequence[Any]:
        """The operands that the system, the solver, and the state are made of."""
        return values[: self.place_of_points(values)]

    def consts(self, values: Sequence[Any], which: int) -> list[Any]:
        """The constants of a program, those that it reads of its surroundings from the operands."""
        first, second = self.captured
        end = len(values) - second
        read = iter(values[end - first : end] if which == 0 else values[end:])
        program = (self.whole, self.step)[which]
        return [next(read) if isinstance(x, jax.core.Tracer) else x for x in program.consts]


def by_scan(posed: Posed, own: tuple[bool, ...] | None, *values: Any) -> Array:
    """The states as XLA computes them."""

    def one(*values: Any) -> Array:
        points = values[posed.place_of_points(values)]
        return jax.core.eval_jaxpr(posed.whole.jaxpr, posed.consts(values, 0), *posed.leaves(values), points)[0]

    if own is None:
        return one(*values)
    return jax.vmap(one, in_axes=tuple(0 if x else None for x in own))(*values)


def of_active(posed: Posed, own: Any, active: Sequence[int], values: Sequence[Array], *moving: Array) -> Array:
    """The states as XLA computes them, as a function of some operands."""
    values = list(values)
    for i, x in zip(active, moving, strict=True):
        values[i] = x
    return by_scan(posed, own, *values)


def given_of(values: Sequence[Array], own: Sequence[bool]) -> list[Given]:
    """Operands as a kernel takes them, from those with members first."""
    return [Given(jnp.moveaxis(x, 0, -1) if mine else x, mine) for x, mine in zip(values, own, strict=True)]


class Steps:
    """The steps of the members of a block."""

    def __init__(self, posed: Posed, block: Block, count: int):
        """`count` operands are those of the solve; a kernel may have more."""
        self.posed, self.block = posed, block
        self.place = posed.place_of_points(range(count))
        read = lambda i: np.empty(0, object) if i in (self.place, self.place + 1) else block.operand(i)
        self.operands = [read(i) for i in range(count)]

    def components(self, places: Sequence[int]) -> list[Array]:
        """The components of some operands, each over lanes."""
        return [jnp.broadcast_to(x, self.block.lanes) for i in places for x in self.operands[i].reshape(-1)]

    def filled(self, places: Sequence[int], components: Sequence[Array]) -> list[np.ndarray]:
        """All operands, with other numbers in place of those."""
        operands, held = list(self.operands), iter(components)
        for i in places:
            own = [next(held) for _ in range(operands[i].size)]
            operands[i] = boxed(own if operands[i].ndim else own[0], operands[i].shape)
        return operands

    def start(self) -> list[Array]:
        """The components of the initial state."""
        return [jnp.broadcast_to(x, self.block.lanes) for x in self.operands[self.place + 2]]

    def ends(self, window: Array) -> tuple[Array, Array]:
        """The begin and the end of a window in each lane."""
        row = lambda i: self.block.gathered(self.place + 1, jnp.full(self.block.lanes, i, jnp.int32))
        return row(window), row(window + self.posed.times - 1)

    def step(
        self, y: list[Array], begin: Array, end: Array, number: Array, operands: Sequence[np.ndarray] | None = None
    ) -> list[Array]:
        """The components of the state after step `number` of a window."""
        posed, lanes = self.posed, self.block.lanes
        operands = self.operands if operands is None else operands
        h = (end - begin) / posed.substeps
        number = jnp.broadcast_to(number.astype(h.dtype), lanes)
        t = begin + number * h
        numbers = (boxed(x, ()) for x in (t, jnp.minimum(t + h, end), h, begin, number))
        given = [*posed.leaves(operands), boxed(y, (posed.numbers,)), *numbers]
        found = evaluated(posed.step.jaxpr, posed.consts(operands, 1), given, STRICT)[0]
        return [jnp.broadcast_to(jnp.asarray(x, posed.dtype), lanes) for x in found]


def repeat(count: int | Array, body: Callable[[Array, Any], Any], carry: Any) -> Any:
    """`carry = body(i, carry)` for i = 0, ... `count - 1`."""
    if isinstance(count, int) and count == 1:
        return body(jnp.zeros((), jnp.int32), carry)
    last = jnp.full((), count, jnp.int32)
    step = lambda c: (c[0] + 1, c[1], body(c[0], c[2]))
    return jax.lax.while_loop(lambda c: c[0] < c[1], step, (jnp.zeros((), jnp.int32), last, carry))[2]


def fronted(values: Sequence[Any], dims: Sequence[int | None]) -> tuple[int, list[Any], list[bool]]:
    """The size of a batch, its operands with the batch in front, and which of them have it."""
    front = [x if dim is None else jnp.moveaxis(x, dim, 0) for x, dim in zip(values, dims, strict=True)]
    return batch_size(values, dims), front, [dim is not None for dim in dims]


def joined(
    values: Sequence[Array], new: Sequence[bool], own: Sequence[bool], count: int, members: int
) -> tuple[list[Array], tuple[bool, ...]]:
    """Operands of `count` batches of `members` as those of one batch, and which of them each member has its own of."""

    def one(x: Array, new: bool, mine: bool) -> Array:
        if not (new or mine):
            return x
        x = x if new else jnp.broadcast_to(x[None], (count, *x.shape))
        x = x if mine else jnp.broadcast_to(x[:, None], (count, members, *x.shape[1:]))
        return x.reshape(count * members, *x.shape[2:])

    found = [one(*each) for each in zip(values, new, own, strict=True)]
    return found, tuple(a or b for a, b in zip(new, own, strict=True))
