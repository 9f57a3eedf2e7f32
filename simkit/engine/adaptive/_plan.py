"""The plan of a solve: what of it is known while tracing, whatever the orders of its derivatives."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxtyping import Array

from ..kernels._emit import has_rules
from ..kernels._mode import mode
from ._flow import Flow, lane_flow, lifted
from ._flow_apart import lifted_apart
from ._member import Member
from ._queue import Layout
from ._sizes import Sizes


class Order(NamedTuple):
    """One order of tangents: how many directions, and which of the operands so far they are tangents of."""

    directions: int
    active: tuple[int, ...]


class Plan(NamedTuple):
    """Static description of a solve, known while tracing."""

    member: Member
    shared: tuple[bool, ...]  # operands that all members have in common
    fixed_shared: tuple[bool, ...]
    times_shared: bool
    sizes: Sizes
    orders: tuple[Order, ...] = ()
    room: int = 0  # events of a member that are kept; 0 where there are none

    @property
    def roots(self) -> tuple[int, ...]:
        """Operand that each leaf of the operands belongs to, tangents included."""
        roots = list(range(len(self.shared)))
        for order in self.orders:
            roots += [roots[i] for i in order.active]
        return tuple(roots)

    @property
    def heights(self) -> tuple[int, ...]:
        """Number of direction axes of each leaf of the operands; they stand in front."""
        heights = [0] * len(self.shared)
        for order in self.orders:
            heights += [heights[i] + 1 for i in order.active]
        return tuple(heights)

    @property
    def output_directions(self) -> tuple[tuple[int, ...], ...]:
        """Direction axes of each leaf of the states."""
        found: list[tuple[int, ...]] = [()]
        for order in self.orders:
            found += [(order.directions, *axes) for axes in found]
        return tuple(found)

    def layout(self) -> Layout:
        ops = tuple(
            None if self.shared[root] else height for root, height in zip(self.roots, self.heights, strict=True)
        )
        return Layout(ops, tuple(None if shared else 0 for shared in self.fixed_shared))

    def nested(self, leaves: Sequence[Any]) -> Any:
        """The operands as the flow takes them: pairs of operands and tangents, one for each order."""
        end = len(self.shared)
        ops: Any = list(leaves[:end])
        for order in self.orders:
            ops = ops, list(leaves[end : end + len(order.active)])
            end += len(order.active)
        return ops

    def flow(self, lanes: int, exact: bool, zero: Array, strict: bool = False) -> Flow:
        flow = lane_flow(self.member, self.shared, self.fixed_shared, lanes, exact, zero, strict)
        flow = flow._replace(linked=self.linked(lanes) and not strict)
        for order in self.orders:
            flow = lifted_apart(flow, order.active, order.directions) if strict else lifted(flow, order.active)
        return flow

    def linked(self, lanes: int) -> bool:
        """Tell whether a record holds the memory of a one-step method; never where a user bounds its bytes."""
        return self.sizes.record_bytes is None and self.member.linked(lanes)

    def past(self, lanes: int) -> Any:
        """The shapes of what a record holds of earlier steps; None where it holds nothing."""
        memory = self.member.memory
        return memory.past if self.member.multistep else memory if self.linked(lanes) else None

    @property
    def plain(self) -> bool:
        """Tell whether nothing happens in a solve but steps."""
        return self.member.happenings is None

    def in_kernels(self, derivatives: bool = False) -> bool:
        """Tell whether kernels are in use and written for such a solve, whatever its operations.

        Without events calls are inlined there, so that functions that state their own derivatives would lose these. With events
        tangents are taken before.
        """
        member = self.member
        if mode() == "off" or member.multistep or member.resumed is not None:
            return False
        if not self.plain:
            return not derivatives and not member.noisy and member.longest is None
        programs = (member.field, member.start, member.step, member.polynomial, member.stops)
        return not (self.orders or derivatives) or not any(has_rules(program.jaxpr.jaxpr) for program in programs)

    def split(self, values: Sequence[Any]) -> tuple[list[Any], list[Any], Any, list[Any]]:
        """Operands, fixed numbers, times, and what comes after."""
        a = len(self.roots)
        b = a + len(self.fixed_shared)
        return list(values[:a]), list(values[a:b]), values[b], list(values[b + 1 :])

    def higher(self, active: Sequence[int], directions: int = 1) -> "Plan":
        return self._replace(orders=(*self.orders, Order(directions, tuple(active))))

    def lower(self) -> "Plan":
        return self._replace(orders=self.orders[:-1])
