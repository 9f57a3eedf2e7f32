"""Events that depend on the state: each is found where its condition passes zero, and what it makes starts the next piece."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from .._errors import DataError
from ..core import Event as Passing
from ..core import Setup, Status, Trajectory
from ..engine import Method, integrate_to
from ._events import Dose
from ._expression import Graph
from ._sbml import Event
from ._switches import NEVER, Switches
from ._system import SBMLSystem

MOST = 24
"""So many passages, those back included, an experiment may hold; one with more is a failed simulation, never a wrong one."""

CLOSE = 1e-8
"""How near to zero, relative to what it compares, a condition counts as zero."""

BELOW = -1e-300
"""What a condition such as `x > 0` counts as where both sides are equal, so that a passage may begin there."""


class Passage(NamedTuple):
    """An event by a condition that is true where a formula is at least 0.

    `trigger` is the node of the condition, `level` that of the formula, `size` that of what it compares; `assignments` are states
    and the nodes of their new values, those of `volumes` times these where it happens. `delay` and `priority` are nodes or None,
    and the rest is as in `Event`.
    """

    trigger: int
    level: int
    size: int
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
        level, size = _level(graph, event.trigger, event.name)
        delay = None if event.delay is None or graph.value(event.delay) == 0 else event.delay
        kept = tuple(event.assignments.items())
        rest = event.initially, event.early, event.persistent, tuple(event.volumes.items())
        found.append(Passage(event.trigger, level, size, kept, delay, event.priority, *rest))
    return tuple(found), tuple(switches.times)


def of_period(dose: Dose, graph: Graph, time: int) -> Passage:
    """A period of an experiment among events that depend on the state: it goes before those of the same time."""
    level = graph.make("subtract", time, dose.switch)
    trigger = graph.make("geq", time, dose.switch)
    return Passage(trigger, level, graph.number(1.0), dose.assignments, priority=graph.number(NEVER), early=False)


def _level(graph: Graph, node: int, name: str) -> tuple[int, int]:
    """A condition as a formula that is at least 0 where it is true, and the size of what it compares."""
    operation, *operands = graph.nodes[node]
    if operation in ("number", "symbol"):
        return graph.make("subtract", node, graph.number(0.5)), graph.number(1.0)
    if operation in ("gt", "geq", "lt", "leq"):
        left, right = operands if operation in ("gt", "geq") else operands[::-1]
        return graph.make("subtract", left, right), graph.make("max", graph.make("abs", left), graph.make("abs", right))
    if operation in ("and", "or"):
        levels, sizes = zip(*(_level(graph, x, name) for x in operands), strict=True)
        return graph.make("min" if operation == "and" else "max", *levels), graph.make("max", *sizes)
    if operation == "not":
        level, size = _level(graph, operands[0], name)
        return graph.make("negative", level), size
    raise DataError(
        f"The event `{name}` must have a trigger made of <, <=, >, >=, and, or, not, but it holds `{operation}`: not supported."
    )


class _Crossing(eqx.Module):
    """What passes zero upwards where the first of the conditions changes: those that wait become true, the others false."""

    whole: SBMLSystem  # what is solved has only those parameters that rates need
    waiting: Array
    given: tuple[Passage, ...] = eqx.field(static=True)

    def __call__(self, system: SBMLSystem, t: Any, y: Any, inputs: Any) -> Array:
        nodes = [getattr(p, kind) for kind in ("level", "size", "trigger") for p in self.given]
        found = self.whole.formulas.evaluate(nodes, self.whole.lookup(t, y, inputs))
        level, size, true = jnp.split(jnp.stack(_broadcast(found, t)), 3)
        rises = jnp.where((level == 0) & (true == 0), BELOW, level)
        # What has just become true is zero but for rounding: it is false again when it is clearly so.
        falls = jnp.where((level < 0) & (level > -2 * CLOSE * size) | (level == 0), BELOW, -level - 2 * CLOSE * size)
        return jnp.max(jnp.where(self.waiting, rises, falls))


class _Queue(NamedTuple):
    """What events are up to.

    `waiting` ones are false, and happen when they become true; `owed` says how often they became true without having happened
    yet, `due` from when they may happen, and `kept` their new values as they were then. `lost` says that a delayed one became
    true again, which there is no room for.
    """

    waiting: Array
    owed: Array
    due: Array
    kept: tuple[tuple[Array, ...], ...]
    lost: Array


class _Events:
    """Events of one experiment at work."""

    def __init__(self, setup: Setup, system: SBMLSystem, given: Sequence[Passage]):
        self.inputs, self.system, self.given = setup.inputs, system, tuple(given)

    def of(self, nodes: Sequence[int], t: Array, y: Any) -> list[Array]:
        lookup = self.system.lookup(t, y, {name: signal(t) for name, signal in self.inputs.items()})
        return _broadcast(self.system.formulas.evaluate(nodes, lookup), t)

    def held(self, t: Array, y: Any) -> tuple[Array, Array, Array]:
        """Levels, what counts as zero, and which conditions are true."""
        nodes = [getattr(p, kind) for kind in ("level", "size", "trigger") for p in self.given]
        values = jax.lax.stop_gradient(jnp.stack(self.of(nodes, t, y)))
        level, size, true = jnp.split(values, 3)
        return level, CLOSE * size, true > 0

    def begun(self, t: Array, y: Any) -> _Queue:
        """Before the start nothing waits but what is false, or counts as false then."""
        true = self.held(t, y)[2]
        waiting = jnp.where(jnp.array([p.initially for p in self.given]), ~true, True)
        nothing, never = jnp.zeros(len(self.given), int), jnp.full(len(self.given), jnp.inf, t.dtype)
        queue = _Queue(waiting, nothing, never, self.values(t, y), jnp.zeros((), bool))
        return self.turned(queue, t, y, waiting & true, jnp.zeros_like(waiting))

    def values(self, t: Array, y: Any) -> tuple[tuple[Array, ...], ...]:
        found = iter(self.of([node for p in self.given for _, node in p.assignments], t, y))
        return tuple(tuple(next(found) for _ in p.assignments) for p in self.given)

    def arrived(self, queue: _Queue, t: Array, y: Any, happened: Array) -> _Queue:
        """What has become true or false at the end of a piece, where a condition is zero but for rounding."""
        after = t + 8 * jnp.finfo(t.dtype).eps * jnp.maximum(jnp.abs(t), 1.0)
        level, close, true = self.held(jax.lax.stop_gradient(after), y)
        rises, falls = queue.waiting & (true | ((level >= -close) & (level != 0))), level < -close
        tied = happened & ~jnp.any(rises | (falls & ~queue.waiting))
        rises = rises | (queue.waiting & (level == 0) & tied)
        return self.turned(queue, t, y, rises, falls)

    def changed(self, queue: _Queue, t: Array, old: Any, new: Any) -> _Queue:
        """What has become true or false by an event."""
        before, close, _ = self.held(t, old)
        level, _, true = self.held(t, new)
        changed = jnp.abs(level - before) > close
        return self.turned(queue, t, new, queue.waiting & true & changed, ~true & changed)

    def turned(self, queue: _Queue, t: Array, y: Any, rises: Array, falls: Array) -> _Queue:
        """The queue after some conditions have become true and others false."""
        pick = lambda i: lambda new, old: jnp.where(rises[i], new, old)
        kept = tuple(jax.tree.map(pick(i), new, queue.kept[i]) for i, new in enumerate(self.values(t, y)))
        zero = jnp.zeros_like(t)
        lates = [zero if p.delay is None else self.of([p.delay], t, y)[0] for p in self.given]
        lost = queue.lost | jnp.any(rises & (queue.owed > 0) & (queue.due > t))
        due = jnp.where(rises, t + jnp.stack(lates), queue.due)
        stays = jnp.array([p.persistent for p in self.given]) | ~falls
        return _Queue(
            (queue.waiting | falls) & ~rises, jnp.where(stays, queue.owed, 0) + rises.astype(int), due, kept, lost
        )

    def fired(self, queue: _Queue, t: Array, y: Any) -> tuple[_Queue, Any]:
        """The state after the event that comes first of those that are due, if any is."""
        ready = (queue.owed > 0) & (queue.due <= t)
        zero = jnp.zeros_like(t)
        ranks = [zero if p.priority is None else self.of([p.priority], t, y)[0] for p in self.given]
        ranks = jnp.where(ready, jax.lax.stop_gradient(jnp.stack(ranks)), -jnp.inf)
        this = ready & (jnp.arange(len(self.given)) == jnp.argmax(ranks))
        new, now = y, self.values(t, y)
        for i, passage in enumerate(self.given):
            values = queue.kept[i] if passage.early else now[i]
            sizes = dict(zip(dict(passage.volumes), self.of([node for _, node in passage.volumes], t, y), strict=True))
            for (name, _), value in zip(passage.assignments, values, strict=True):
                new = new | {name: jnp.where(this[i], value * sizes.get(name, 1.0), new[name])}
        return queue._replace(owed=queue.owed - this.astype(int)), new

    def pending(self, queue: _Queue, t: Array) -> Array:
        return jnp.any((queue.owed > 0) & (queue.due <= t))


def integrate_passages(
    setup: Setup, system: SBMLSystem, times: Array, method: Method, given: Sequence[Passage], stops: Sequence[int]
) -> Trajectory:
    """A trajectory with jumps where conditions pass zero.

    Times of passages, and what follows from them, have the derivatives of the implicit function theorem. Of events at one time
    that of the highest priority goes first. `stops` are the nodes of times at which a piece ends.
    """
    events, last = _Events(setup, system, given), times[-1]
    fixed = system.formulas.evaluate(stops, lambda name: system.parameters[name])
    ends = jnp.stack([jnp.asarray(x, times.dtype) for x in (*fixed, last)])

    def piece(carry: Any, _: None) -> Any:
        y, start, ys, queue, status, counts = carry
        pending = events.pending(queue, start)
        # An event that is due happens before time goes on.
        coming = jnp.concatenate([ends, jnp.where(queue.owed > 0, queue.due, last)])
        coming = jnp.where(coming > start + 4 * jnp.finfo(times.dtype).eps * jnp.abs(start), coming, last)
        until = jnp.where(pending, start, jnp.minimum(coming[jnp.argmin(coming)], last))
        inside = jnp.where(times < start, start, jnp.where(times > until, until, times))
        rows = jnp.concatenate([start[None], inside, until[None]])
        crossing = Passing(_Crossing(system, queue.waiting, events.given), "up")
        way = integrate_to(Setup(setup.system, y, setup.inputs), rows, method, crossing)
        happened = jnp.isfinite(way.event_time) & ~pending
        end = jnp.where(happened, way.event_time, until)
        own = times >= start
        ys = jax.tree.map(lambda old, new: jnp.where(own, new[1:-1], old), ys, way.ys)
        reached = jax.tree.map(lambda a, b: jnp.where(pending, a, b), y, way.event_state)
        met = events.arrived(queue, end, reached, happened)
        queue = jax.tree.map(lambda old, new: jnp.where(pending, old, new), queue, met)
        queue, new = events.fired(queue, end, reached)
        queue = events.changed(queue, end, reached, new)
        status = jnp.where(status == Status.OK, way.status.astype(status.dtype), status)
        more = way.steps, way.rejected, way.evaluations
        counts = tuple(a + b.astype(a.dtype) for a, b in zip(counts, more, strict=True))
        return (new, end, ys, queue, status, counts), None

    zero = jnp.zeros((), int)
    held = jax.tree.map(lambda y: jnp.broadcast_to(y, times.shape), setup.y0)
    carry = setup.y0, times[0], held, events.begun(times[0], setup.y0), jnp.zeros((), jnp.int32), (zero, zero, zero)
    carry = jax.tree.map(jnp.asarray, carry)
    length = MOST + 2 * len(stops)
    (_, end, ys, queue, status, (steps, rejected, evaluations)), _ = jax.lax.scan(piece, carry, None, length=length)
    unfinished = (end < last) | events.pending(queue, end) | queue.lost
    status = jnp.where((status == Status.OK) & unfinished, int(Status.STEP_LIMIT), status)
    return Trajectory(times, ys, status, steps, rejected, evaluations, type(method.solver).__name__)


def _broadcast(values: Sequence[Any], like: Array) -> list[Array]:
    return [jnp.asarray(x, like.dtype) + jnp.zeros_like(like) for x in values]
