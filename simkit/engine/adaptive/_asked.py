"""Common parts of the kernels of a plan: operands, sizes, and the choice whether there is one."""

import math
from collections.abc import Callable
from typing import Any, TypeVar

import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ..batching._mesh import varies
from ..kernels._launch import LANES, Block, Given
from ..kernels._mode import NotInKernel
from ._plan import Plan

_Result = TypeVar("_Result")


class Asked:
    """Common parts of the kernels of a plan: its flow on components, their operands, and how many numbers there are.

    The operands are those of the plan, its fixed numbers, and the save times; a kernel may append others.

    **Raises:** a `NotInKernel` where the plan has no flow on components.
    """

    def __init__(self, plan: Plan, leaves: list[Any], fixed: list[Any], times: Array, exact: bool):
        self.plan, self.leaves, zero = plan, leaves, jnp.zeros((), times.dtype)
        self.flow = plan.flow(LANES, exact, zero, strict=True) if plan.plain else plan.flow(1, exact, zero)
        (self.members, self.size), self.count = leaves[0].shape, times.shape[-1]
        self.shapes = [(*axes, self.size) for axes in plan.output_directions]
        self.numbers = sum(map(math.prod, self.shapes))
        layout = plan.layout()
        axes = [*layout.ops, *layout.fixed]
        self.given = [_given(x, axis) for x, axis in zip([*leaves, *fixed], axes, strict=True)]
        self.place_of_times = len(self.given)
        self.given.append(Given(times.T if times.ndim > 1 else times, times.ndim > 1))

    def held(self, block: Block) -> tuple[Any, list[Any]]:
        """The operands of a block, as the flow takes them, and its fixed numbers."""
        operands = [block.operand(i) for i in range(self.place_of_times)]
        return self.plan.nested(operands[: len(self.leaves)]), operands[len(self.leaves) :]

    def time(self, block: Block, column: Array) -> Array:
        """The save times of a block's lanes."""
        return block.gathered(self.place_of_times, column)

    def with_initial(self, rows: Array) -> list[Array]:
        """Rows `(numbers, times, members)` as the leaves of a solution, members first, with the initial states in front."""
        found, begin = [], 0
        for first, shape in zip(_initial(self.plan, self.leaves), self.shapes, strict=True):
            own = rows[begin : begin + math.prod(shape)].reshape(*shape, *rows.shape[1:])
            found.append(jnp.moveaxis(jnp.concatenate([first[..., None, :], own], axis=-2), (-1, -2), (0, 1)))
            begin += math.prod(shape)
        return found


def unless_refused(
    plan: Plan, values: PyTree, function: Callable[[], _Result], derivatives: bool = False
) -> _Result | None:
    """Result of a function by a kernel of `values`; None where there is no kernel for such a plan, or one is refused."""
    if not plan.in_kernels(derivatives) or varies(values):
        return None
    try:
        return function()
    except NotInKernel:
        return None


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


def _given(x: Array, axis: int | None) -> Given:
    """An operand of a kernel, from one with members on an axis."""
    return Given(x, False) if axis is None else Given(jnp.moveaxis(x, axis, -1), True)
