"""Events at times that are known before a solve: it is cut there, and each piece starts from what the event has made."""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ..core import Setup, Status, Trajectory
from ..engine import Method, integrate
from ..networks import TIME, Formulas, Graph
from ._consistent import consistent_state
from ._model import Event
from ._sbml_system import AbstractSBMLSystem
from ._switches import Switches, switch_name


class Dose(NamedTuple):
    """An event as one of the times at which its trigger may become true.

    `switch` is the node of that time, `switches` those of all in the trigger, whose formula is `trigger`; `delay` is a node or
    None, and `assignments` are states and the nodes of their new values. `initially` says whether it counts as true before, and
    `early` whether new values are made of the state before other events of the same time. New values of `volumes` are times those.
    """

    switch: int
    switches: tuple[tuple[str, int], ...]
    trigger: int
    delay: int | None
    assignments: tuple[tuple[str, int], ...]
    initially: bool
    early: bool = False
    volumes: tuple[tuple[str, int], ...] = ()


def known_before(events: Sequence[Event], graph: Graph, moving: frozenset[str]) -> bool:
    """Tell whether the times of all events, and their order, are known before a solve."""
    return all(_known_before(event, graph, moving) for event in events)


def _known_before(event: Event, graph: Graph, moving: frozenset[str]) -> bool:
    switches = Switches(graph, moving)
    trigger = switches.located(event.trigger)
    late = [] if event.delay is None or graph.value(event.delay) == 0 else [event.delay]
    formulas, changing = Formulas(tuple(graph.nodes)), moving | {TIME}
    assigned = list(event.assignments.values()) if late and event.early else []
    if formulas.symbols([trigger, *late, *assigned]) & changing or event.priority is not None:
        return False
    return (event.persistent or not late) and (bool(switches.times) or event.initially)


def doses(events: Sequence[Event], graph: Graph, moving: frozenset[str]) -> tuple[Dose, ...]:
    """Events of which `known_before` holds, one for each time at which a trigger may become true."""
    found = []
    for event in events:
        switches = Switches(graph, moving)
        trigger = switches.located(event.trigger)
        named = tuple((switch_name(i), node) for i, node in enumerate(switches.times))
        assigned = tuple(event.assignments.items())
        rest = event.initially, event.early, tuple(event.volumes.items())
        found += [Dose(node, named, trigger, event.delay, assigned, *rest) for node in switches.times]
    return tuple(found)


def integrate_doses(
    setup: Setup, system: AbstractSBMLSystem, times: Array, method: Method, given: Sequence[Dose]
) -> Trajectory:
    """A trajectory with jumps: one piece of the solve between two of them, in one program for all pieces.

    **Arguments:** `setup` is what is solved, with the moving part of `system`, whose parameters new values may need.
    """
    formulas, still = system.formulas, lambda name: system.parameters[name]
    first, last = times[0], times[-1]
    when, fires = [], []
    for dose in given:
        at = jnp.asarray(formulas.evaluate([dose.switch], still)[0], times.dtype)
        fires.append(_becomes_true(dose, formulas, system, at, first))
        late = 0.0 if dose.delay is None else formulas.evaluate([dose.delay], still)[0]
        when.append(jnp.where(at < first, first, at) + late)
    when, fires = jnp.stack(when), jnp.stack(fires)
    order = jnp.argsort(jax.lax.stop_gradient(when))
    happens = fires & (when <= last)
    ends = jnp.concatenate([jnp.where(happens, when, last)[order], last[None]])
    turns = jnp.concatenate([jnp.where(happens, jnp.arange(len(given)), -1)[order], jnp.array([-1])])

    def piece(carry: PyTree, turn: tuple[Array, Array]) -> Any:
        y, old, start, ys, status, counts = carry
        end, event = turn
        # Chosen, not clipped: where two times meet, `clip` would share the derivative between them.
        inside = jnp.where(times < start, start, jnp.where(times > end, end, times))
        rows = jnp.concatenate([start[None], inside, end[None]])
        way = integrate(Setup(setup.system, y, setup.inputs), rows, method)
        own = times >= start  # the row of a jump belongs to what comes after it
        ys = jax.tree.map(lambda old, new: jnp.where(by_row(own, old), new[1:-1], old), ys, way.ys)
        y = jax.tree.map(lambda x: x[-1], way.ys)
        old = jax.tree.map(lambda before, after: jnp.where(end > start, after, before), old, y)
        known = {name: signal(end) for name, signal in setup.inputs.items()}
        held = setup.system.unpacked(y)
        before = {False: held, True: setup.system.unpacked(old)}
        lookups = {early: system.lookup(end, state, known) for early, state in before.items()}
        new: dict[str, Array] = {}
        for i, dose in enumerate(given):
            values = formulas.evaluate([node for _, node in dose.assignments], lookups[dose.early])
            sizes = dict(
                zip(dict(dose.volumes), formulas.evaluate([n for _, n in dose.volumes], lookups[False]), strict=True)
            )
            for (name, _), value in zip(dose.assignments, values, strict=True):
                value = value * sizes.get(name, 1.0)
                new = new | {name: jnp.where(event == i, value, (held | new)[name])}
        y, found = consistent_state(Setup(setup.system, setup.system.changed(y, new), setup.inputs), end)
        status = jnp.where(found, status, int(Status.INCONSISTENT))
        status = jnp.where(status == Status.OK, way.status.astype(status.dtype), status)
        more = way.steps, way.rejected, way.evaluations
        counts = tuple(a + b.astype(a.dtype) for a, b in zip(counts, more, strict=True))
        return (y, old, end, ys, status, counts), None

    zero = jnp.zeros((), int)
    held = jax.tree.map(lambda y: jnp.broadcast_to(y, (*times.shape, *jnp.shape(y))), setup.y0)
    carry = setup.y0, setup.y0, first, held, jnp.zeros((), jnp.int32), (zero, zero, zero)
    carry = jax.tree.map(jnp.asarray, carry)
    (_, _, _, ys, status, counts), _ = jax.lax.scan(piece, carry, (ends, turns))
    steps, rejected, evaluations = counts
    return Trajectory(times, ys, status, steps, rejected, evaluations, type(method.solver).__name__)


def by_row(which: Array, values: Array) -> Array:
    """Return a mask of the rows, in the rank of values by row."""
    return which.reshape(-1, *(1,) * (values.ndim - 1))


def _becomes_true(dose: Dose, formulas: Formulas, system: AbstractSBMLSystem, at: Array, first: Array) -> Array:
    """Tell whether the trigger becomes true at the time of a switch after the start, or is true at the start where it was not."""
    times = {name: formulas.evaluate([node], lambda n: system.parameters[n])[0] for name, node in dose.switches}

    def holds(strictly: bool) -> Array:
        point = jnp.maximum(at, first)

        def value(name: str) -> Any:
            if name in times:
                return times[name] < point if strictly else times[name] <= point
            return system.parameters[name]

        found = formulas.evaluate([dose.trigger], value)[0]
        return jnp.asarray(found, bool)

    early = at <= first
    rises = holds(False) & ~holds(True)
    return jnp.where(early, holds(False) & (not dose.initially) & (times_first(times, first) == at), rises)


def times_first(times: dict[str, Any], first: Array) -> Array:
    """Return the switch that stands for all switches before the start: the latest."""
    earlier = [jnp.where(x <= first, x, -jnp.inf) for x in times.values()]
    return functools.reduce(jnp.maximum, earlier)
