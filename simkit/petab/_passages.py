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
from ._events import by_row
from ._expression import Formulas, Graph
from ._sbml import Event
from ._system import SBMLSystem

MOST = 24
"""So many passages, those back included, an experiment may hold; one with more is a failed simulation, never a wrong one."""

CLOSE = 1e-8
"""How near to zero, relative to what it compares, a condition counts as zero."""


class Passage(NamedTuple):
    """An event by a condition that is true where a formula is at least 0.

    `level` is the node of that formula, `size` that of what it compares; `assignments` are states and the nodes of their new
    values, and `initially` says whether the condition counts as true before the start.
    """

    level: int
    size: int
    assignments: tuple[tuple[str, int], ...]
    initially: bool


def passages(events: Sequence[Event], graph: Graph) -> tuple[Passage, ...]:
    """The events of a model of which one at least depends on the state, in the order in which they happen at one time.

    **Raises:** a `DataError` that names the event where it has a delay, or a trigger that is not made of comparisons.
    """
    found = []
    for event in events:
        if event.delay is not None and graph.value(event.delay) != 0:
            raise DataError(
                f"The event `{event.name}` must not be delayed beside events that depend on the state: not supported."
            )
        level, size = _level(graph, event.trigger, event.name)
        rank = None if event.priority is None else graph.value(event.priority)
        if event.priority is not None and rank is None:
            raise DataError(
                f"The priority of the event `{event.name}` must be a number, but is a formula: not supported."
            )
        passage = Passage(level, size, tuple(event.assignments.items()), event.initially)
        found.append((-(rank or 0.0), passage))
    return tuple(passage for _, passage in sorted(found, key=lambda pair: pair[0]))


def _level(graph: Graph, node: int, name: str) -> tuple[int, int]:
    """A condition as a formula that is at least 0 where it is true, and the size of what it compares."""
    operation, *operands = graph.nodes[node]
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
    levels: tuple[int, ...] = eqx.field(static=True)

    def __call__(self, system: SBMLSystem, t: Any, y: Any, inputs: Any) -> Array:
        found = self.whole.formulas.evaluate(self.levels, self.whole.lookup(t, system.unpacked(y), inputs))
        found = jnp.stack(_broadcast(found, t))
        return jnp.max(jnp.where(self.waiting, found, -found))


def integrate_passages(
    setup: Setup, system: SBMLSystem, times: Array, method: Method, given: Sequence[Passage]
) -> Trajectory:
    """A trajectory with jumps where conditions pass zero.

    Times of passages, and what follows from them, have the derivatives of the implicit function theorem. Of events at one time
    the first of `given` goes first, and each sees what those before it have made.
    """
    formulas, last = system.formulas, times[-1]
    nodes = tuple(passage.level for passage in given)

    def at(t: Array, y: Any) -> Any:
        return system.lookup(t, setup.system.unpacked(y), {name: signal(t) for name, signal in setup.inputs.items()})

    def levels(t: Array, y: Any) -> tuple[Array, Array]:
        found = formulas.evaluate([*nodes, *(p.size for p in given)], at(t, y))
        values = jax.lax.stop_gradient(jnp.stack(_broadcast(found, t)))
        return values[: len(given)], CLOSE * values[len(given) :]

    def fired(t: Array, y: Any, event: Array) -> Any:
        """The state after an event; -1 is none."""
        held = setup.system.unpacked(y)
        new: dict[str, Array] = {}
        for i, passage in enumerate(given):
            values = formulas.evaluate([node for _, node in passage.assignments], at(t, y))
            for (name, _), value in zip(passage.assignments, values, strict=True):
                new = new | {name: jnp.where(event == i, value, (held | new)[name])}
        return setup.system.changed(y, new)

    def piece(carry: Any, _: None) -> Any:
        y, start, ys, waiting, status, counts = carry
        level, close = levels(start, y)
        waiting = waiting | (level < -close)
        due = waiting & (level >= -close) & (start < last)
        pending = jnp.any(due)
        # An event that is due happens before time goes on.
        until = jnp.where(pending, start, last)
        inside = jnp.where(times < start, start, jnp.where(times > until, until, times))
        rows = jnp.concatenate([start[None], inside, until[None]])
        way = integrate_to(
            Setup(setup.system, y, setup.inputs), rows, method, Passing(_Crossing(system, waiting, nodes), "up")
        )
        happened = jnp.isfinite(way.event_time) & ~pending
        end = jnp.where(happened, way.event_time, until)
        own = times >= start
        ys = jax.tree.map(lambda old, new: jnp.where(by_row(own, old), new[1:-1], old), ys, way.ys)
        reached = jax.tree.map(lambda a, b: jnp.where(pending, a, b), y, way.event_state)
        there, close = levels(end, reached)
        rises = jnp.where(happened, waiting & (there >= -close), due)
        event = jnp.where(jnp.any(rises), jnp.argmax(rises), -1)
        # One that has become false waits again, from here on.
        falls = happened & ~waiting & (there <= close)
        this = jnp.arange(len(given)) == event
        waiting = (waiting | falls) & ~this
        status = jnp.where(status == Status.OK, way.status.astype(status.dtype), status)
        more = way.steps, way.rejected, way.evaluations
        counts = tuple(a + b.astype(a.dtype) for a, b in zip(counts, more, strict=True))
        return (fired(end, reached, event), end, ys, waiting, status, counts), None

    zero = jnp.zeros((), int)
    level, _ = levels(times[0], setup.y0)
    waiting = jnp.where(jnp.array([p.initially for p in given]), level < 0, True)
    held = jax.tree.map(lambda y: jnp.broadcast_to(y, (*times.shape, *jnp.shape(y))), setup.y0)
    carry = setup.y0, times[0], held, waiting, jnp.zeros((), jnp.int32), (zero, zero, zero)
    carry = jax.tree.map(jnp.asarray, carry)
    (_, end, ys, _, status, (steps, rejected, evaluations)), _ = jax.lax.scan(piece, carry, None, length=MOST)
    status = jnp.where((status == Status.OK) & (end < last), int(Status.STEP_LIMIT), status)
    return Trajectory(times, ys, status, steps, rejected, evaluations, type(method.solver).__name__)


def _broadcast(values: Sequence[Any], like: Array) -> list[Array]:
    return [jnp.asarray(x, like.dtype) + jnp.zeros_like(like) for x in values]


def depends_on_state(events: Sequence[Event], graph: Graph, moving: frozenset[str]) -> bool:
    """Whether the trigger of any event depends on a state."""
    formulas = Formulas(tuple(graph.nodes))
    return any(formulas.symbols([event.trigger]) & moving for event in events)
