"""Conditions on time alone: where a formula switches, so that no step straddles it."""

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from .._types import Scalar
from ..core import AbstractSignal, quantity
from ..networks import RELATIONS, TIME, Graph
from ._lines import line

NEVER = 1e300
"""The time of a switch that is never reached; infinity would make NaN of a derivative."""


class Switch(AbstractSignal):
    """0 before a time and 1 from it on."""

    time: Scalar = quantity(doc="when it switches")

    def __call__(self, t: ArrayLike) -> Array:
        return jnp.where(t >= self.time, 1.0, 0.0).astype(self.time.dtype)

    def jumps(self) -> Float[Array, " jumps"]:
        return self.time[None]

    def length(self) -> int:
        return 0

    def padded(self, length: int) -> "Switch":
        return self


class Switches:
    """Finds the conditions in formulas that compare time with something that stands still, and puts switches in their place.

    **Arguments:**

    - `graph`: the graph of the formulas.
    - `moving`: the names of what changes with time: the states.

    `times` are the nodes of the times found so far; the switch of `times[i]` is the symbol `switch_name(i)`.
    """

    def __init__(self, graph: Graph, moving: frozenset[str]):
        self.graph, self.moving = graph, moving
        self.times: list[int] = []
        self._done: dict[int, int] = {}

    def names(self) -> tuple[str, ...]:
        """The symbols of the switches found so far."""
        return tuple(map(switch_name, range(len(self.times))))

    def located(self, node: int) -> int:
        """A formula with switches in place of its conditions on time."""
        if node not in self._done:
            self._done[node] = self._made(node)
        return self._done[node]

    def _made(self, node: int) -> int:
        operation, *operands = self.graph.nodes[node]
        if operation in ("number", "symbol"):
            return node
        if operation in RELATIONS[:4]:
            found = self.passing(node)
            if found is not None:
                return found
        return self.graph.make(operation, *(self.located(x) for x in operands))

    def passing(self, node: int) -> int | None:
        """A condition as one on a switch; None where it is none on time alone, or none that is linear in it."""
        graph, (operation, left, right) = self.graph, self.graph.nodes[node]
        found = line(graph, graph.make("subtract", left, right), TIME, lambda name: name not in self.moving)
        if found is None or graph.value(found[1]) == 0:
            return None
        at_zero, slope = found
        found = graph.make("divide", graph.make("negative", at_zero), slope)
        if graph.value(slope) is None:
            # Of a slope of 0 nothing switches, and the condition is what it is.
            found = graph.make("choice", found, graph.make("neq", slope, graph.number(0.0)), graph.number(NEVER))
        if found not in self.times:
            self.times.append(found)
        after = graph.symbol(switch_name(self.times.index(found)))
        before = graph.make("not", after)
        rising, falling = (after, before) if operation in ("gt", "geq") else (before, after)
        known = graph.value(slope)
        if known is not None:
            return rising if known > 0 else falling
        zero = graph.number(0.0)
        up, down = graph.make("gt", slope, zero), graph.make("lt", slope, zero)
        still = graph.make(operation, at_zero, zero)
        return graph.make("choice", rising, up, falling, down, still)


def switch_name(index: int) -> str:
    """The symbol of a switch, which no identifier of a model can be."""
    return f"switch {index}"
