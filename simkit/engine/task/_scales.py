"""Sizes of states, from which absolute tolerances are chosen where the user left them open.

The size of a state is that of its start. Of one that starts at zero it is what its rate makes of it in the time in which the
others change. Nothing here has a unit of its own: with states and time in other units the sizes are the same, in those units.
"""

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, PyTree

from ..._types import State
from ...core import DelayedSystem, Past, Setup, SystemTerm, at_time, held, named_leaves, scaled, started, unknown
from ...linear import shielded
from ...solvers import slope_of
from ..batching._mesh import alike_arrays
from ._flat import ByLeaf, Flattening
from ._step import Adaptive
from ._task import Task

LARGEST_ARRAY = 32
"""An array of more numbers is a field, whose numbers have one size, the largest: what is zero now will not stay so."""

SMALL = 1e-8
"""A state that starts at less than this share of the largest one may hold nothing but rounding errors of the others."""

ROUNDING = 1e-6
"""Least size of a state that starts small, as a share of what the others do to it in the time in which they change. An absolute
tolerance of 1e-9 of the size then lies above the rounding errors of a rate whose terms cancel, as at a steady state."""

LOOKS = 8
"""Number of times after the first one at which rates are evaluated, since inputs may begin late."""

LARGEST_BATCH = 1024
"""States of more numbers are looked at one time after the other, which takes less memory."""

LATE = 1e-3
"""Share of the span over which a rate counts that is zero at the start: its duration is not known."""


COARSE, DEFAULT = 1e-3, 1e-6
"""Above the first share of a state's size an absolute tolerance leaves it less than three digits. The product is the default's."""

NOTHING = 1e-15
"""A state that never has more than this share of the largest one holds the rounding errors of others."""

SHOWN = 3
"""Most states that are named."""

MOST_LOOKED_AT = 2**20
"""Results of more numbers than this are not looked through for their largest ones."""


def settled(task: Task, alike: bool = False) -> Task:
    """The task with absolute tolerances by state in the place of those that were left open; its start is an encoded state.

    `alike` says that all starts are known to be of similar size, so that no rate needs to be looked at.
    """
    step = task.step
    if not isinstance(step, Adaptive):
        return task
    step = step.completed(task.times.dtype)
    if step.atol is None:
        step = step.scaled(sizes_of(task, alike))
    return task._replace(step=step)


def without_rounding(y0: State) -> State:
    """A start in which numbers that hold nothing but rounding errors of the others are zero, so that these are no sizes."""
    flat, unravel = ravel_pytree(y0)
    return unravel(jnp.where(jnp.abs(flat) <= NOTHING * jnp.max(jnp.abs(flat)), 0, flat))


def open_and_similar(step: Any, y0: State, others: Iterable[Any] = ()) -> bool:
    """Tell whether the absolute tolerance is open and the starts are of similar size, so that the starts alone decide."""
    return isinstance(step, Adaptive) and step.atol is None and similar(y0, others)


def similar(y0: State, others: Iterable[Any] = ()) -> bool:
    """Tell whether all numbers of a start are concrete and of similar size; members have `others` in their place."""
    leaves, others = jax.tree.leaves(started(y0)), list(others)
    if not leaves or unknown(leaves, others):
        return False
    found = [np.abs(np.asarray(x)) for x in (*leaves, *others)]
    fields = [i < len(leaves) and x.size > LARGEST_ARRAY for i, x in enumerate(found)]
    least = min(x.max(initial=0) if field else x.min(initial=np.inf) for x, field in zip(found, fields, strict=True))
    return bool(least > 0 and least >= SMALL * max(x.max(initial=0) for x in found))


def sizes_of_start(y0: State) -> np.ndarray:
    """The sizes of a start whose numbers are known and none of which is small, flat."""
    leaves = [np.abs(np.asarray(x)).ravel() for x in jax.tree.leaves(y0)]
    return np.concatenate([x if x.size <= LARGEST_ARRAY else np.full_like(x, x.max()) for x in leaves])


def unresolved(atol: float, sizes: Mapping[str, float]) -> tuple[str, ...]:
    """A sentence for each state to whose size, by name, an absolute tolerance leaves less than three digits."""
    told, least = [], NOTHING * max(sizes.values(), default=0.0)
    for name, size in sizes.items():
        if least < size < atol / COARSE:
            told.append(
                f"the absolute tolerance of {atol:.3g} is {atol / size:.3g} times the largest value of `{name or 'y'}`, "
                f"{size:.3g}, which is hardly resolved. Leave `atol` out, or take some {COARSE * DEFAULT * size:.0e}."
            )
    return tuple(told[:SHOWN]) + ((f"and {len(told) - SHOWN} more states",) if len(told) > SHOWN else ())


def notes_of(step: Any, ys: PyTree) -> tuple[str, ...]:
    """Return notes on a given absolute tolerance that is too large for the simulated states."""
    atol, leaves = step.atol if isinstance(step, Adaptive) else None, jax.tree.leaves(ys)
    if atol is None or unknown(atol, leaves) or np.ndim(atol):
        return ()
    if sum(x.size for x in leaves) > MOST_LOOKED_AT:
        return ()
    found = {name: np.abs(np.asarray(leaf)) for name, leaf in named_leaves(ys).items()}
    sizes = {name: float(np.max(x, initial=0, where=np.isfinite(x))) for name, x in found.items()}
    return unresolved(float(atol), sizes)


def state_sizes(setup: Setup, times: Array) -> Array:
    """The size of every number of the encoded start of a simulation, flat."""
    y0 = started(setup.y0)
    task = Task(setup.system, setup.system.encode(y0), setup.inputs, times, None, None, events=setup.events)
    return ravel_pytree(sizes_of(task))[0]


def sizes_of(task: Task, alike: bool = False) -> Array | ByLeaf:
    """The size of every number of an encoded start, flat, of one over devices by leaf; held in derivatives."""
    task = held(alike_arrays(task._replace(key=None, reduce=None)))
    task = task._replace(y0=_after_known_events(task), events=None)
    way = Flattening(task.system, task.y0)
    flat = way.flat(task.y0)
    limit = 0 if _transformed(task) else LARGEST_ARRAY
    spread = functools.partial(_spread, way, limit)
    size = spread(jnp.abs(flat).astype(task.times.dtype))
    if not alike and flat.size:
        small = size < SMALL * jnp.max(size)
        term = SystemTerm(task.system, task.inputs)
        field = lambda t, y: way.flat(_slope(term, task, t, way.state(y)))
        found, least = shielded(lambda times, y, size: _looked_at(field, way, times, y, size, spread))(
            task.times, flat, size
        )
        size = jnp.where(small | (size == 0), jnp.maximum(jnp.where(size > 0, size, found), least), size)
    size = jax.lax.stop_gradient(_filled(size, way))
    return ByLeaf(way.state(size)) if way.divided else size


def _slope(term: SystemTerm, task: Task, t: Array, y: State) -> Any:
    """The slope at a time; of a system that sees its past, which has been as its history says and then at y."""
    system = task.system
    if not isinstance(system, DelayedSystem):
        return slope_of(term, t, y)
    begin = task.times[0]

    def past(time: Array) -> Any:
        time = jnp.asarray(time, begin.dtype)
        before = time < begin
        history = system.history(jnp.where(before, time, begin), task.y0)
        return jax.tree.map(lambda x, then: jnp.where(before, then.astype(x.dtype), x), y, history)

    def slope(time: Array) -> Any:
        """The slope of the history up to the first time, then that of a state that stays."""
        time = jnp.asarray(time, begin.dtype)
        history = jax.jvp(lambda s: system.history(s, task.y0), (jnp.minimum(time, begin),), (jnp.ones_like(begin),))[1]
        return jax.tree.map(lambda x, then: jnp.where(time <= begin, then.astype(x.dtype), 0), y, history)

    return system.delayed_field(t, y, at_time(term.inputs, t), Past(past, slope))


def _after_known_events(task: Task) -> State:
    """The encoded start, each number as large as an event at a known time makes it: a patient starts without a drug."""
    y0, system = task.y0, task.system
    for name, event in () if task.events is None else task.events.items():
        if event.at is None or event.change is None or not event.at.shape[0]:
            continue
        inputs = at_time(task.inputs, task.times[0])

        def changed(
            value: Any, change: Any = functools.partial(event.changed, name=name), inputs: Any = inputs
        ) -> State:
            return system.encode(change(system, task.times[0], system.decode(task.y0), inputs, value))

        states = changed(None) if event.values is None else jax.vmap(changed)(event.values)

        def larger(x: Array, new: Array) -> Array:
            new = new.astype(x.dtype).reshape(-1, *x.shape)
            most = jnp.take_along_axis(new, jnp.argmax(jnp.abs(new), axis=0)[None], axis=0)[0]
            return jnp.where(jnp.isfinite(most) & (jnp.abs(most) > jnp.abs(x)), most, x)

        y0 = jax.tree.map(larger, y0, states)
    return y0


def _looked_at(
    field: Callable[[Array, Array], Array],
    way: Flattening,
    times: Array,
    flat: Array,
    size: Array,
    spread: Callable[[Array], Array],
) -> tuple[Array, Array]:
    """The size that each state gets by its rate, and the least size that the rounding of its rate allows."""
    begin, span = times[0], times[-1] - times[0]
    share = jnp.linspace(0, 1, LOOKS + 1, dtype=times.dtype)
    each = jax.vmap if flat.size <= LARGEST_BATCH else lambda f: functools.partial(jax.lax.map, f)
    rates = each(lambda share: field(begin + share * span, flat))(share)
    # Of irregular weights and signs, so that terms that cancel do not cancel here.
    count = np.arange(sum(x.size for x in way.leaves))
    weights = way.ordered(((-1.0) ** count * (0.75 + 0.25 * np.cos(2.4 * count))).astype(times.dtype))
    ways = jnp.stack([rates[0], scaled(weights, flat)])
    turned = each(lambda way: jax.jvp(lambda y: field(begin, y), (flat,), (way,))[1])(ways)
    rate, late, bend, terms = (
        spread(jnp.abs(x).astype(times.dtype)) for x in (rates[0], jnp.max(jnp.abs(rates), axis=0), *turned)
    )
    own = jnp.min(jnp.where((size > 0) & (rate > 0), size / jnp.where(rate > 0, rate, 1), jnp.inf))
    time = jnp.minimum(span, own)  # in which the states that are not zero change
    lasting = jnp.where(bend > 0, rate / jnp.where(bend > 0, bend, 1), jnp.inf)
    begun = jnp.where(bend > 0, 0.5 * (bend * time) * time, LATE * late * span)
    return jnp.where(rate > 0, rate * jnp.minimum(time, lasting), begun), ROUNDING * terms * time


def _transformed(task: Task) -> bool:
    """Tell whether a system integrates other arrays than its state's, such as wave amplitudes: fields, however small."""
    shapes = lambda tree: [leaf.shape for leaf in jax.tree.leaves(tree)]
    return shapes(jax.eval_shape(task.system.decode, task.y0)) != shapes(task.y0)


def _spread(way: Flattening, limit: int, values: Array) -> Array:
    """Every number, and in a field, an array of more numbers than the limit, the largest."""
    parts = way.pieces(values)
    wide = [x if x.size <= limit else jnp.broadcast_to(jnp.max(x), x.shape) for x in parts]
    return way.joined(wide) if wide else values


def _filled(size: Array, way: Flattening) -> Array:
    """Sizes where nothing is known: the largest of the same array, else of all states, else 1."""
    size = jnp.where(jnp.isfinite(size), size, 0)
    largest = [jnp.broadcast_to(jnp.max(x, initial=0), x.shape) for x in way.pieces(size)]
    own = way.joined(largest) if largest else size
    every = jnp.max(size, initial=0)
    return jnp.where(size > 0, size, jnp.where(own > 0, own, jnp.where(every > 0, every, 1)))
