"""Tangents of a flow on components, as a kernel has it: each direction by itself, since nothing there has an axis for them."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, PyTree

from ..._types import State, Time
from ..kernels._objects import boxed
from ._flow import Flow, Operands, raised


class Moving:
    """The operands that derivatives are taken by: their components in one list, and the way back."""

    def __init__(self, ops: Operands, active: Sequence[int]):
        self.leaves, self.structure = jax.tree.flatten(ops)
        self.active = active
        self.shapes = [self.leaves[i].shape for i in active]

    def components(self) -> list[Array]:
        """The components of all of them."""
        return [x for i in self.active for x in self.leaves[i].reshape(-1)]

    def filled(self, components: Sequence[Array]) -> Operands:
        """All operands, with other numbers in place of these."""
        leaves, held = list(self.leaves), iter(components)
        for i, shape in zip(self.active, self.shapes, strict=True):
            leaves[i] = boxed([next(held) for _ in range(int(np.prod(shape)))] if shape else next(held), shape)
        return jax.tree.unflatten(self.structure, leaves)


def lifted_apart(flow: Flow, active: Sequence[int], directions: int) -> Flow:
    """The flow of states and tangents, as `lifted` makes it; a tangent is a list, one entry a direction."""

    def moving(ops: Operands) -> tuple[Moving, list[list[Array]]]:
        base, dots = ops
        return Moving(base, active), [[x for dot in dots for x in dot[d, ...].reshape(-1)] for d in range(directions)]

    def pushed(function: Callable[..., Any], primals: Sequence[PyTree], tangents: Sequence[Sequence[PyTree]]) -> Any:
        """Value, its tangents, and what else the function returns; `tangents` has one entry a direction for each primal."""
        value, linear, held = jax.linearize(function, *primals, has_aux=True)
        return value, [linear(*(dots[d] for dots in tangents)) for d in range(directions)], held

    def begin(ops: Operands) -> Any:
        held, dots = moving(ops)
        found = pushed(lambda x: (flow.begin(held.filled(x)), None), [held.components()], [dots])
        return found[:2]

    def start(ops: Operands, fixed: PyTree, t: Time, y: State) -> Any:
        own, dots = moving(ops)

        def begun(moving: PyTree, y: State) -> Any:
            memory = flow.start(own.filled(moving), fixed, t, y)
            return memory.moving, memory._replace(moving=None)

        value, tangent, held = pushed(begun, [own.components(), y[0]], [dots, y[1]])
        return held._replace(moving=(value, tangent))

    def step(ops: Operands, fixed: PyTree, t: Time, t1: Time, y: State, memory: PyTree) -> Any:
        own, dots = moving(ops)

        def advance(moving: PyTree, y: State, past: PyTree) -> Any:
            y1, after, dense, error, growth = flow.step(
                own.filled(moving), fixed, t, t1, y, memory._replace(moving=past)
            )
            return (y1, after.moving, dense), (after._replace(moving=None), error, growth)

        primals, tangents = [own.components(), y[0], memory.moving[0]], [dots, y[1], memory.moving[1]]
        value, tangent, (held, error, growth) = pushed(advance, primals, tangents)
        y1, past, dense = ((value[i], [one[i] for one in tangent]) for i in range(3))
        return y1, held._replace(moving=past), dense, error, growth

    def polynomial(ops: Operands, fixed: PyTree, dense: PyTree) -> Any:
        base = ops[0]
        value = flow.polynomial(base, fixed, dense[0])
        tangent = [flow.polynomial(base, fixed, d) for d in dense[1]]  # dense output enters linearly
        return tuple((q, [one[j] for one in tangent]) for j, q in enumerate(value))

    def pack(y: State) -> list[Any]:
        return [*flow.pack(y[0]), *(np.stack(leaf) for leaf in zip(*map(flow.pack, y[1]), strict=True))]

    def unpack(leaves: Sequence[np.ndarray]) -> Any:
        half = len(leaves) // 2
        each = [flow.unpack([leaf[d] for leaf in leaves[half:]]) for d in range(directions)]
        return flow.unpack(leaves[:half]), each

    return raised(flow, begin=begin, start=start, pack=pack, unpack=unpack, step=step, polynomial=polynomial)
