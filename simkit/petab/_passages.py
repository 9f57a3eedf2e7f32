"""Events that depend on the state: each is found where its condition passes zero, and what it makes starts the next piece."""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from .._errors import DataError
from .._types import Inputs, State
from ..core import Event as Passing
from ..core import Setup, Status, SystemTerm, Trajectory
from ..engine import Method, integrate_to
from ..networks import Graph
from ..solvers import slope_of  # internal
from ._consistent import consistent_state
from ._events import Dose, by_row
from ._model import Event
from ._sbml_system import AbstractSBMLSystem
from ._switches import NEVER, Switches

MOST = 24
"""Largest number of zero crossings in an experiment, in both directions; more are reported as a failure, never as a wrong
result."""

CLOSE = 1e-8
"""Distance from zero, relative to the compared values, within which a condition counts as zero."""

BELOW = -1e-300
"""Value of a condition such as `x > 0` where both sides are equal, so that a crossing may begin there."""


class Comparison(NamedTuple):
    """A comparison by its node, a formula that is at least 0 where it is true, and the size of what it compares."""

    condition: int
    level: int
    size: int


class Passage(NamedTuple):
    """An event by a condition on the state.

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
    """The events of a model of which one at least depends on the state, and the nodes of the times that their conditions name.

    **Raises:** a `DataError` that names the event where its trigger is not made of comparisons.
    """
    found, switches = [], Switches(graph, moving)
    for event in events:
        switches.located(event.trigger)
        parts: list[Comparison] = []
        trigger = _parsed(graph, event.trigger, event.name, parts)
        delay = None if event.delay is None or graph.value(event.delay) == 0 else event.delay
        kept = tuple(event.assignments.items())
        rest = event.initially, event.early, event.persistent, tuple(event.volumes.items())
        found.append(Passage(trigger, tuple(parts), kept, delay, event.priority, *rest))
    return tuple(found), tuple(switches.times)


def of_period(dose: Dose, graph: Graph, time: int) -> Passage:
    """A period of an experiment among events that depend on the state: it goes before those of the same time."""
    reached = graph.make("geq", time, dose.switch)
    part = Comparison(reached, graph.make("subtract", time, dose.switch), graph.number(1.0))
    return Passage(0, (part,), dose.assignments, priority=graph.number(NEVER), early=False)


def _parsed(graph: Graph, node: int, name: str, parts: list[Comparison]) -> Any:
    """A condition as words and the places of its comparisons in `parts`."""
    operation, *operands = graph.nodes[node]
    within = lambda x: _parsed(graph, x, name, parts)
    if operation in ("number", "symbol"):
        return within(graph.make("gt", node, graph.number(0.5)))
    if operation in ("gt", "geq", "lt", "leq"):
        left, right = operands if operation in ("gt", "geq") else operands[::-1]
        size = graph.make("max", graph.make("abs", left), graph.make("abs", right))
        parts.append(Comparison(node, graph.make("subtract", left, right), size))
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


def _holds(trigger: int | tuple[Any, ...], true: Array) -> Array:
    """Tell whether a condition holds for given truths of its comparisons."""
    if isinstance(trigger, int):
        return true[trigger]
    word, *rest = trigger
    first, *others = (_holds(x, true) for x in rest)
    if word == "not":
        return ~first
    combine = {"and": jnp.logical_and, "or": jnp.logical_or, "xor": jnp.logical_xor}[word]
    return functools.reduce(combine, others, first)


class _Crossing(eqx.Module):
    """Functions that cross zero upwards where the first of all comparisons becomes true or false."""

    whole: AbstractSBMLSystem  # what is solved has only those parameters that rates need
    true: Array
    parts: tuple[Comparison, ...] = eqx.field(static=True)

    def __call__(self, system: Any, t: Array, y: State, inputs: Inputs) -> Array:
        nodes = [node for kind in zip(*self.parts, strict=True) for node in kind]
        found = self.whole.formulas.evaluate(nodes, self.whole.lookup(t, system.unpacked(y), inputs))
        true, level, size = jnp.split(jnp.stack(_broadcast(found, t)), 3)
        rises = jnp.where((level == 0) & (true == 0), BELOW, level)
        # What has just become true is zero but for rounding: it is false again when it is clearly so.
        close = 2 * CLOSE * size
        falls = jnp.where(((level < 0) & (level > -close)) | (level == 0), BELOW, -level - close)
        return jnp.max(jnp.where(self.true, falls, rises))


class _Queue(NamedTuple):
    """State of the events.

    `true` says which comparisons hold. `owed` says how often events became true without having happened yet, `due` from when
    they may happen, and `kept` their new values as they were then. `lost` says that a delayed one became true again, which there
    is no room for.
    """

    true: Array
    owed: Array
    due: Array
    kept: tuple[tuple[Array, ...], ...]
    lost: Array


class _Events:
    """Events of one experiment at work."""

    def __init__(self, setup: Setup, system: AbstractSBMLSystem, given: Sequence[Passage]):
        self.inputs, self.moving, self.system, self.given = setup.inputs, setup.system, system, tuple(given)
        self.parts = tuple(part for p in given for part in p.parts)

    def of(self, nodes: Sequence[int], t: Array, y: State) -> list[Array]:
        inputs = {name: signal(t) for name, signal in self.inputs.items()}
        lookup = self.system.lookup(t, self.moving.unpacked(y), inputs)
        return _broadcast(self.system.formulas.evaluate(nodes, lookup), t)

    def held(self, t: Array, y: State) -> tuple[Array, Array, Array]:
        """Levels of all comparisons, what counts as zero, and which are true."""
        nodes = [node for kind in zip(*self.parts, strict=True) for node in kind]
        true, level, size = jnp.split(jax.lax.stop_gradient(jnp.stack(self.of(nodes, t, y))), 3)
        return level, CLOSE * size, true > 0

    def slopes(self, t: Array, y: State) -> Array:
        """Return the rates of change of the levels."""
        t, y = jax.lax.stop_gradient((t, y))
        rates = slope_of(SystemTerm(self.moving, self.inputs), t, y)
        levels = lambda t, y: jnp.stack(self.of([part.level for part in self.parts], t, y))
        return jax.lax.stop_gradient(jax.jvp(levels, (t, y), (jnp.ones_like(t), rates))[1])

    def holds(self, true: Array) -> Array:
        """Return a mask of the events whose conditions hold."""
        found, place = [], 0
        for p in self.given:
            found.append(_holds(p.trigger, true[place : place + len(p.parts)]))
            place += len(p.parts)
        return jnp.stack(found)

    def begun(self, t: Array, y: State) -> _Queue:
        """Return the events at the start: those with conditions that count as false before."""
        true = self.held(t, y)[2]
        nothing, never = jnp.zeros(len(self.given), int), jnp.full(len(self.given), jnp.inf, t.dtype)
        queue = _Queue(true, nothing, never, self.values(t, y), jnp.zeros((), bool))
        before = jnp.array([p.initially for p in self.given]) & self.holds(true)
        return self.turned(queue, before, true, t, y)

    def values(self, t: Array, y: State) -> tuple[tuple[Array, ...], ...]:
        found = iter(self.of([node for p in self.given for _, node in p.assignments], t, y))
        return tuple(tuple(next(found) for _ in p.assignments) for p in self.given)

    def arrived(self, queue: _Queue, t: Array, y: State, happened: Array) -> _Queue:
        """Return the comparisons that have become true or false at the end of a piece, at zero up to rounding."""
        info = jnp.finfo(t.dtype)
        after = t + jnp.maximum(8 * float(info.eps) * jnp.abs(t), float(info.tiny))
        level, close, holds = self.held(jax.lax.stop_gradient(after), y)
        true = jnp.where(queue.true, level >= -close, holds | ((level >= -close) & (level != 0)))
        tied = happened & ~jnp.any(true != queue.true)
        slope = self.slopes(t, y)
        true = jnp.where(tied & (level == 0) & (slope != 0), slope > 0, true)
        return self.turned(queue, self.holds(queue.true), true, t, y)

    def changed(self, queue: _Queue, t: Array, old: State, new: State) -> _Queue:
        """Return the comparisons that have become true or false by an event."""
        before, close, _ = self.held(t, old)
        level, _, holds = self.held(t, new)
        true = jnp.where(jnp.abs(level - before) > close, holds, queue.true)
        return self.turned(queue, self.holds(queue.true), true, t, new)

    def turned(self, queue: _Queue, before: Array, true: Array, t: Array, y: State) -> _Queue:
        """The queue after some conditions have become true and others false."""
        now = self.holds(true)
        rises = now & ~before
        pick = lambda i: lambda new, old: jnp.where(rises[i], new, old)
        kept = tuple(jax.tree.map(pick(i), new, queue.kept[i]) for i, new in enumerate(self.values(t, y)))
        zero = jnp.zeros_like(t)
        lates = [zero if p.delay is None else self.of([p.delay], t, y)[0] for p in self.given]
        lost = queue.lost | jnp.any(rises & (queue.owed > 0) & (queue.due > t))
        due = jnp.where(rises, t + jnp.stack(lates), queue.due)
        stays = jnp.array([p.persistent for p in self.given]) | now
        return _Queue(true, jnp.where(stays, queue.owed, 0) + rises.astype(int), due, kept, lost)

    def fired(self, queue: _Queue, t: Array, y: State) -> tuple[_Queue, Any]:
        """The state after the event that comes first of those that are due, if any is."""
        ready = (queue.owed > 0) & (queue.due <= t)
        zero = jnp.zeros_like(t)
        ranks = [zero if p.priority is None else self.of([p.priority], t, y)[0] for p in self.given]
        ranks = jnp.where(ready, jax.lax.stop_gradient(jnp.stack(ranks)), -jnp.inf)
        this = ready & (jnp.arange(len(self.given)) == jnp.argmax(ranks))
        held, now = self.moving.unpacked(y), self.values(t, y)
        new: dict[str, Array] = {}
        for i, passage in enumerate(self.given):
            values = queue.kept[i] if passage.early else now[i]
            sizes = dict(zip(dict(passage.volumes), self.of([node for _, node in passage.volumes], t, y), strict=True))
            for (name, _), value in zip(passage.assignments, values, strict=True):
                new = new | {name: jnp.where(this[i], value * sizes.get(name, 1.0), (held | new)[name])}
        return queue._replace(owed=queue.owed - this.astype(int)), self.moving.changed(y, new)

    def pending(self, queue: _Queue, t: Array) -> Array:
        return jnp.any((queue.owed > 0) & (queue.due <= t))


def integrate_passages(
    setup: Setup,
    system: AbstractSBMLSystem,
    times: Array,
    method: Method,
    given: Sequence[Passage],
    stops: Sequence[int],
) -> Trajectory:
    """A trajectory with jumps where conditions pass zero.

    Times of passages, and what follows from them, have the derivatives of the implicit function theorem. Of events at one time
    that of the highest priority goes first. `stops` are the nodes of times at which a piece ends.
    """
    events, last = _Events(setup, system, given), times[-1]
    fixed = system.formulas.evaluate(stops, lambda name: system.parameters[name])
    ends = jnp.stack([jnp.asarray(x, times.dtype) for x in (*fixed, last)])

    def piece(carry: PyTree, _: None) -> Any:
        y, start, ys, queue, status, counts = carry
        pending = events.pending(queue, start)
        # An event that is due happens before time goes on.
        coming = jnp.concatenate([ends, jnp.where(queue.owed > 0, queue.due, last)])
        coming = jnp.where(coming > start + 4 * jnp.finfo(times.dtype).eps * jnp.abs(start), coming, last)
        until = jnp.where(pending, start, jnp.minimum(coming[jnp.argmin(coming)], last))
        inside = jnp.where(times < start, start, jnp.where(times > until, until, times))
        rows = jnp.concatenate([start[None], inside, until[None]])
        crossing = Passing(_Crossing(system, queue.true, events.parts), "up")
        way = integrate_to(Setup(setup.system, y, setup.inputs), rows, method, crossing)
        happened = jnp.isfinite(way.event_time) & ~pending
        # With its derivatives, though rounding may put it before the start.
        end = jnp.where(happened, way.event_time, until)
        own = times >= start
        ys = jax.tree.map(lambda old, new: jnp.where(by_row(own, old), new[1:-1], old), ys, way.ys)
        reached = jax.tree.map(lambda a, b: jnp.where(pending, a, b), y, way.event_state)
        met = events.arrived(queue, end, reached, happened)
        queue = jax.tree.map(lambda old, new: jnp.where(pending, old, new), queue, met)
        queue, new = events.fired(queue, end, reached)
        new, found = consistent_state(Setup(setup.system, new, setup.inputs), end)
        queue = events.changed(queue, end, reached, new)
        status = jnp.where(status == Status.OK, way.status.astype(status.dtype), status)
        status = jnp.where(found, status, int(Status.INCONSISTENT))
        more = way.steps, way.rejected, way.evaluations
        counts = tuple(a + b.astype(a.dtype) for a, b in zip(counts, more, strict=True))
        return (new, end, ys, queue, status, counts), None

    zero = jnp.zeros((), int)
    held = jax.tree.map(lambda y: jnp.broadcast_to(y, (*times.shape, *jnp.shape(y))), setup.y0)
    carry = setup.y0, times[0], held, events.begun(times[0], setup.y0), jnp.zeros((), jnp.int32), (zero, zero, zero)
    carry = jax.tree.map(jnp.asarray, carry)
    # Conditions of several comparisons end pieces where each of them passes zero.
    length = MOST + 2 * len(stops) + 2 * sum(len(p.parts) - 1 for p in given)
    (_, end, ys, queue, status, (steps, rejected, evaluations)), _ = jax.lax.scan(piece, carry, None, length=length)
    unfinished = (end < last) | events.pending(queue, end) | queue.lost
    status = jnp.where((status == Status.OK) & unfinished, int(Status.STEP_LIMIT), status)
    return Trajectory(times, ys, status, steps, rejected, evaluations, type(method.solver).__name__)


def _broadcast(values: Sequence[Any], like: Array) -> list[Array]:
    return [jnp.asarray(x, like.dtype) + jnp.zeros_like(like) for x in values]
