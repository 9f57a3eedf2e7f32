"""Events as conditions made of comparisons, and the times at which those on time alone become true or false."""

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

    `trigger` is the condition as words and numbers, these the places of its `parts`. `assignments` are states and the nodes of
    their new values, those of `volumes` times these where it happens. `delay` and `priority` are nodes or None, and the rest is
    as in `Event`.
    """

    trigger: Any
    parts: tuple[Comparison, ...]
    assignments: tuple[tuple[str, int], ...]
    delay: int | None = None
    priority: int | None = None
    initially: bool = True
    early: bool = True
    persistent: bool = True
    volumes: tuple[tuple[str, int], ...] = ()


def passages(
    events: Sequence[Event], graph: Graph, moving: frozenset[str]
) -> tuple[tuple[Passage, ...], tuple[int, ...]]:
    """The events of a model, and the nodes of the times that their conditions name.

    **Raises:** a `DataError` that names the event where its trigger is not made of comparisons.
    """
    found, switches = [], Switches(graph, moving)
    for event in events:
        parts: list[Comparison] = []
        trigger = _parsed(graph, switches, event.trigger, event.name, parts)
        delay = None if event.delay is None or graph.value(event.delay) == 0 else event.delay
        kept = tuple(event.assignments.items())
        rest = event.initially, event.early, event.persistent, tuple(event.volumes.items())
        found.append(Passage(trigger, tuple(parts), kept, delay, event.priority, *rest))
    return tuple(found), tuple(switches.times)


def of_period(graph: Graph, when: int, assigned: Mapping[str, int]) -> Passage:
    """A period of an experiment as an event at its time, the node `when`: it goes before those of the same time."""
    reached = graph.make("geq", graph.symbol(TIME), when)
    part = Comparison(reached, graph.make("subtract", graph.symbol(TIME), when), graph.number(1.0), True)
    return Passage(0, (part,), tuple(assigned.items()), priority=graph.number(NEVER), early=False)


def known_before(event: Event, graph: Graph, moving: frozenset[str]) -> bool:
    """Tell whether the times of an event are known before a solve."""
    switches = Switches(graph, moving)
    trigger = switches.located(event.trigger)
    late = [] if event.delay is None or graph.value(event.delay) == 0 else [event.delay]
    if Formulas(tuple(graph.nodes)).symbols([trigger, *late]) & (moving | {TIME}):
        return False
    return bool(switches.times) or event.initially


def _parsed(graph: Graph, switches: Switches, node: int, name: str, parts: list[Comparison]) -> Any:
    """A condition as words and the places of its comparisons in `parts`."""
    operation, *operands = graph.nodes[node]
    within = lambda x: _parsed(graph, switches, x, name, parts)
    if operation in ("number", "symbol"):
        return within(graph.make("gt", node, graph.number(0.5)))
    if operation in ("gt", "geq", "lt", "leq"):
        left, right = operands if operation in ("gt", "geq") else operands[::-1]
        size = graph.make("max", graph.make("abs", left), graph.make("abs", right))
        timed = switches.passing(node) is not None
        parts.append(Comparison(node, graph.make("subtract", left, right), size, timed))
        return len(parts) - 1
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
