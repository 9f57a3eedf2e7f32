"""Events as conditions made of comparisons, and the times at which those on time alone become true or false."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array

from .._errors import DataError
from ..networks import TIME, Formulas, Graph
from ._model import Event
from ._switches import NEVER, Switches


class Comparison(NamedTuple):
    """A comparison by its node, a formula that is at least 0 where it is true, and the size of what it compares; `timed` where it
    becomes true or false at known times alone."""

    condition: int
    level: int
    size: int
    timed: bool


class Passage(NamedTuple):
    """An event by its condition.

    `trigger` is the condition as words and numbers, these the places of its comparisons. `assignments` are states and the nodes
    of their new values, those of `volumes` times these where it happens. `delay` and `priority` are nodes or None, and the rest is
    as in `Event`.
    """

    trigger: Any
    assignments: tuple[tuple[str, int], ...]
    delay: int | None = None
    priority: int | None = None
    initially: bool = True
    early: bool = True
    persistent: bool = True
    volumes: tuple[tuple[str, int], ...] = ()


@dataclasses.dataclass(frozen=True)
class Passages:
    """All events of a problem, the comparisons in their conditions, and the nodes of the times that these name; hashable."""

    given: tuple[Passage, ...] = ()
    parts: tuple[Comparison, ...] = ()
    stops: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        events: Sequence[Event],
        periods: Sequence[tuple[int, Mapping[str, int]]],
        graph: Graph,
        moving: frozenset[str],
    ) -> "Passages":
        """The later periods of experiments, the nodes of their times with what they assign, and the events of a model.

        A period is an event that goes before those of the same time.

        **Raises:** a `DataError` that names the event where its trigger is not made of comparisons.
        """
        found, parts, switches = [], dict[Comparison, int](), Switches(graph, moving)
        for when, assigned in periods:
            trigger = _parsed(graph, switches, graph.make("geq", graph.symbol(TIME), when), "period", parts)
            found.append(Passage(trigger, tuple(assigned.items()), priority=graph.number(NEVER), early=False))
        for event in events:
            trigger = _parsed(graph, switches, event.trigger, event.name, parts)
            delay = None if event.delay is None or graph.value(event.delay) == 0 else event.delay
            rest = event.initially, event.early, event.persistent, tuple(event.volumes.items())
            found.append(Passage(trigger, tuple(event.assignments.items()), delay, event.priority, *rest))
        return cls(tuple(found), tuple(parts), tuple(switches.times))

    @property
    def late(self) -> tuple[int, ...]:
        """The places of events with a delay, which alone wait from one time to another."""
        return tuple(i for i, p in enumerate(self.given) if p.delay is not None)

    @property
    def width(self) -> int:
        """The largest number of new values."""
        return max(len(p.assignments) for p in self.given)

    @property
    def sought(self) -> bool:
        """Tell whether any time has to be found."""
        return bool(self.late) or not all(part.timed for part in self.parts)

    def roots(self) -> list[int]:
        """The nodes of all formulas."""
        found = [*self.stops, *(node for part in self.parts for node in part[:3])]
        for p in self.given:
            found += [node for node in (p.delay, p.priority) if node is not None]
            found += [node for _, node in (*p.assignments, *p.volumes)]
        return found


def known_before(event: Event, graph: Graph, moving: frozenset[str]) -> bool:
    """Tell whether the times of an event are known before a solve."""
    switches = Switches(graph, moving)
    trigger = switches.located(event.trigger)
    late = [] if event.delay is None or graph.value(event.delay) == 0 else [event.delay]
    if Formulas(tuple(graph.nodes)).symbols([trigger, *late]) & (moving | {TIME}):
        return False
    return bool(switches.times) or event.initially


def _parsed(graph: Graph, switches: Switches, node: int, name: str, parts: dict[Comparison, int]) -> Any:
    """A condition as words and the places of its comparisons in `parts`."""
    operation, *operands = graph.nodes[node]
    within = lambda x: _parsed(graph, switches, x, name, parts)
    if operation in ("number", "symbol"):
        return within(graph.make("gt", node, graph.number(0.5)))
    if operation in ("gt", "geq", "lt", "leq"):
        left, right = operands if operation in ("gt", "geq") else operands[::-1]
        terms = [term for side in (left, right) for term in _terms(graph, side)]
        size = functools.reduce(lambda a, b: graph.make("max", a, b), [graph.make("abs", term) for term in terms])
        timed = switches.passing(node) is not None
        return parts.setdefault(Comparison(node, graph.make("subtract", left, right), size, timed), len(parts))
    if operation in ("eq", "neq"):
        same = ("and", *(within(graph.make(word, *operands)) for word in ("geq", "leq")))
        return same if operation == "eq" else ("not", same)
    if operation in ("and", "or", "xor", "not"):
        return (operation, *map(within, operands))
    if operation == "choice":
        *pairs, result = map(within, operands)
        for value, condition in zip(pairs[-2::-2], pairs[::-2], strict=True):
            result = "or", ("and", condition, value), ("and", ("not", condition), result)
        return result
    raise DataError(
        f"The event `{name}` must have a trigger made of comparisons, and, or, xor, not, but it holds `{operation}`: not supported."
    )


def _terms(graph: Graph, node: int) -> list[int]:
    """The terms of a sum or difference: `x - 1 > 0` compares numbers of the size 1, which tells what zero is up to rounding."""
    operation, *operands = graph.nodes[node]
    return operands if operation in ("add", "subtract") else [node]


def holds(trigger: int | tuple[Any, ...], true: Array) -> Array:
    """Tell whether a condition holds for given truths of its comparisons."""
    if isinstance(trigger, int):
        return true[trigger]
    word, *rest = trigger
    first, *others = (holds(x, true) for x in rest)
    if word == "not":
        return ~first
    combine = {"and": jnp.logical_and, "or": jnp.logical_or, "xor": jnp.logical_xor}[word]
    return functools.reduce(combine, others, first)
