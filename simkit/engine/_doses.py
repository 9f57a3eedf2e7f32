"""Regimens in a simulation: doses that arrive, infusions that start and end, resets, and steady states, as one event.

The rates of infusions are states of their own behind those of the system, constant between events. So the start and the end of an
infusion are known times of an event like all others, and their derivatives are those of events.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from .._errors import ArgumentError
from .._types import Inputs, State, Time
from ..core import DelayedSystem, Event, NamedEvents, Regimen, Setup, System, Trajectory, at_time, system_at
from ._infused import ReducedInside, check_differential, check_infused, infused_system, is_encoded
from ._steady_doses import Interval, Repeated, steady_doses
from .task._step import Adaptive
from .task._task import Options, Task

Solve = Callable[[Task, Options], Trajectory]


class Affine(eqx.Module):
    """The change to `keep` times the state, plus `add`."""

    def __call__(self, system: Any, t: Time, y: State, inputs: Inputs, value: Any) -> Any:
        flat, unravel = ravel_pytree(y)
        return unravel(value["keep"].astype(flat.dtype) * flat + value["add"].astype(flat.dtype))


class Rows(NamedTuple):
    """The rows of a regimen with its parameters: shape `(rows,)`, and `(rows, n)` for `into`.

    - `at`: when a row is recorded; `late`: the lag. `amount`: what arrives at once; `rate`, `length`: of an infusion, else 0.
    - `clears`: 1 where the state of before is gone. `steady`, `interval`: as in `Regimen`.
    """

    at: Array
    late: Array
    amount: Array
    rate: Array
    length: Array
    into: Array
    clears: Array
    steady: Array
    interval: Array


def with_doses(task: Task, options: Options, solve: Solve) -> Trajectory:
    """The trajectory of a task among whose events are regimens, whose start is encoded and whose tolerances are complete."""
    assert task.events is not None
    places = sorted({i for regimen in _regimens(task.events) for i in regimen.infused})
    inner, infused = task.system, tuple(places)
    _check(task, infused)
    events = tuple(_realised(task, name, event, infused, solve) for name, event in task.events.items())
    found = solve(_augmented(task, infused)._replace(events=NamedEvents(task.events.names, events)), options)
    if not infused:
        return found
    assert isinstance(inner, System)
    happened = found.events
    if happened is not None:
        happened = dataclasses.replace(happened, before=happened.before[0], after=happened.after[0])
    return dataclasses.replace(found, ys=found.ys[0], events=happened)


def has_regimen(events: NamedEvents | None) -> bool:
    """Tell whether doses are among the events."""
    return events is not None and bool(_regimens(events))


def _regimens(events: NamedEvents) -> list[Regimen]:
    changes: list[Any] = [event.change for event in events.events]
    return [change for change in changes if isinstance(change, Regimen)]


def _check(task: Task, infused: tuple[int, ...]) -> None:
    assert task.events is not None
    regimens = _regimens(task.events)
    if is_encoded(task.system) and any(r.steady for r in regimens):
        raise ArgumentError(
            f"Steady states of doses need a system whose solver steps the state itself, but `{type(task.system).__name__}` steps "
            "another one. Give the doses before it one by one."
        )
    if isinstance(task.system, DelayedSystem) and any(r.steady for r in regimens):
        raise ArgumentError(
            f"A steady state of doses must not be asked of `{type(task.system).__name__}`, which sees its past: its state alone "
            "does not say how it goes on. Give the doses before it one by one."
        )
    check_differential(task.system, task.y0, task.times[0], sorted({i for regimen in regimens for i in regimen.given}))
    if infused:
        check_infused(task.system, task.y0, task.times[0], infused, task.solver)
    if any(r.steady for r in regimens) and len(task.events.events) > 1:
        raise ArgumentError(
            "A steady state of doses must be the only event of a simulation, since it is looked for without others, but the "
            f"events are {', '.join(map(repr, task.events.names))}. Give the doses before it one by one."
        )


def _augmented(task: Task, infused: tuple[int, ...]) -> Task:
    """The task with the rates of infusions as states, at first zero."""
    if not infused:
        return task
    flat = ravel_pytree(task.y0)[0]
    rates = jnp.zeros_like(flat, shape=(len(infused),)) + 0 * task.times[0].astype(flat.dtype)
    step = task.step
    if isinstance(step, Adaptive) and jnp.ndim(step.atol):
        # Rates have no errors, so that any tolerance does.
        known = jnp.broadcast_to(jnp.max(step.atol), (len(infused),))
        step = Adaptive(step.rtol, jnp.concatenate([step.atol, known]), step.max_steps, step.budget)
    reduce = None if task.reduce is None else {name: ReducedInside(one) for name, one in task.reduce.items()}
    system = infused_system(task.system, task.y0, infused)
    return task._replace(system=system, y0=(task.y0, rates), step=step, reduce=reduce)


def _realised(task: Task, name: str, event: Event, infused: tuple[int, ...], solve: Solve) -> Event:
    """An event of the augmented system: of a regimen all that happens at known times, another one as it was."""
    regimen: Any = event.change
    if not isinstance(regimen, Regimen):
        return _inside(name, event) if infused else event
    rows = _rows(task, event, regimen)
    base, tail = _steady(task, regimen, rows, infused, solve)
    y0 = _seen(task)
    # A reset puts back the start; a steady state has its own.
    base = jnp.where((rows.steady > 0)[:, None], base, y0[None] * rows.clears.astype(y0.dtype)[:, None])
    return _timed(regimen, rows, base, tail, infused)


def _state(task: Task) -> Any:
    """The start as users see it."""
    assert isinstance(task.system, System)
    return task.system.decode(task.y0)


def _seen(task: Task) -> Array:
    """The start as users see it, flat."""
    return ravel_pytree(_state(task))[0]


def _rows(task: Task, event: Event, regimen: Regimen) -> Rows:
    """The rows of a regimen at the parameters of a task."""
    assert event.at is not None
    v = event.values
    known = jnp.where(jnp.isfinite(event.at), event.at, 0)
    state = _state(task)

    def of_row(t: Array) -> tuple[Array, Array]:
        setup = Setup(system_at(task.system, at_time(task.inputs, t)), state, task.inputs)
        return regimen.shares(setup), regimen.lags(setup)

    kind = event.at.dtype
    into = v["into"].astype(kind)
    share, late = (jnp.sum(into * x.astype(kind), axis=1) for x in jax.vmap(of_row)(known))
    # By a negative lag it would come before it is given.
    amount = jnp.where((late < 0) | (share < 0), jnp.nan, share * v["amount"].astype(kind))
    late = jnp.where(late < 0, 0, late)  # with its whole derivative at 0, which a maximum would halve
    given_rate, given_length = v["rate"].astype(kind), v["duration"].astype(kind)
    by_rate, by_length = given_rate > 0, (given_length > 0) & (given_rate <= 0)
    length = jnp.where(by_rate, amount / jnp.where(by_rate, given_rate, 1), jnp.where(by_length, given_length, 0))
    rate = jnp.where(by_rate, given_rate, jnp.where(by_length, amount / jnp.where(by_length, given_length, 1), 0))
    lasts = known + late + length > known + late  # an infusion that takes no time is given at once
    if not regimen.infused:
        lasts = jnp.zeros_like(lasts)
    clears = jnp.maximum(v["reset"], (v["steady"] == 1).astype(v["reset"].dtype)).astype(kind)
    return Rows(
        event.at,
        late,
        jnp.where(lasts, 0, amount),
        jnp.where(lasts, rate, 0),
        jnp.where(lasts, length, 0),
        into,
        clears,
        v["steady"].astype(kind),
        v["interval"].astype(kind),
    )


def _timed(regimen: Regimen, rows: Rows, base: Array, tail: Array, infused: tuple[int, ...]) -> Event:
    """The event of all that happens: ends of infusions, then row by row what is recorded and what arrives.

    What a reset or a steady state clears does not arrive or end later: of doses before it their lag is over, and their
    infusions are cut.
    """
    at, count = rows.at, rows.at.shape[0]
    order = jnp.arange(count)
    later = (at[None] > at[:, None]) | ((at[None] == at[:, None]) & (order[None] > order[:, None]))
    cut = jnp.min(jnp.where(later & (rows.clears > 0)[None], at[None], jnp.inf), axis=1)
    arrives = at + rows.late
    gone = arrives > cut
    ends = arrives + rows.length
    never = lambda flag, times: jnp.where(flag, jnp.inf, times)
    places = jnp.array(infused, int)
    kind = base.dtype
    flow = (rows.rate[:, None] * rows.into[:, places]).astype(kind)  # what an infusion adds to the rates
    amount = (rows.amount[:, None] * rows.into).astype(kind)
    pieces: list[tuple[Array, Array, Array]] = []
    joined = lambda state, rates: jnp.concatenate([state, rates], axis=1)
    nothing, ones = jnp.zeros_like(amount), jnp.ones_like(at)
    if infused:
        pieces.append((never(gone | (ends > cut) | (rows.length <= 0), ends), ones, joined(nothing, -flow)))
    if infused and regimen.steady:
        over = at + tail
        pieces.append((never((tail <= 0) | (over > cut), over), ones, joined(nothing, -flow)))
    arrival = never(gone, arrives), ones, joined(amount, flow)
    if regimen.resets or regimen.steady:
        before = flow * ((tail > 0) & (rows.steady > 0)).astype(kind)[:, None]
        record = never((rows.clears <= 0) & (rows.steady <= 0), at), 1 - rows.clears, joined(base, before)
        paired = [jnp.stack(pair, axis=1) for pair in zip(record, arrival, strict=True)]
        arrival = paired[0].reshape(-1), paired[1].reshape(-1), paired[2].reshape(2 * count, -1)
    times, keep, add = (jnp.concatenate(parts) for parts in zip(*pieces, arrival, strict=True))
    return Event(at=times, values={"keep": keep, "add": add}, change=Affine())


def _steady(task: Task, regimen: Regimen, rows: Rows, infused: tuple[int, ...], solve: Solve) -> tuple[Array, Array]:
    """The steady state of each row that has one at its recorded time, and how long an earlier infusion still lasts there."""
    flat = _seen(task)
    base, tail = jnp.zeros_like(flat, shape=(rows.at.shape[0], flat.size)), jnp.zeros_like(rows.at)
    if not regimen.steady:
        return base, tail
    over = rows.late + rows.length - rows.interval
    tail = jnp.where((rows.steady > 0) & (over > 0), over, 0)
    chosen = jnp.argsort(rows.steady <= 0, stable=True)[: regimen.steady]
    real = rows.steady[chosen] > 0
    span = jnp.abs(task.times[-1] - task.times[0])
    places = jnp.array(infused, int)
    each = Interval(
        at=jnp.where(real, rows.at[chosen], task.times[0]),
        interval=jnp.where(real, rows.interval[chosen], span),
        late=jnp.where(real, rows.late[chosen], 0),
        length=jnp.where(real, rows.length[chosen], 0),
        tail=jnp.where(real, tail[chosen], 0),
        amount=jnp.where(real[:, None], rows.amount[chosen][:, None] * rows.into[chosen], 0),
        flow=jnp.where(real[:, None], rows.rate[chosen][:, None] * rows.into[chosen][:, places], 0),
    )
    repeated = Repeated(
        _augmented(task._replace(events=None, reduce=None, key=None), infused), flat.size, solve, Affine()
    )
    states = steady_doses(repeated, each, flat)
    return base.at[chosen].add(jnp.where(real[:, None], states, 0)), tail


def _inside(name: str, event: Event) -> Event:
    """Another event, as one of the augmented system."""
    seen, change, own = event.condition, event.change, event.lag

    def condition(system: Any, t: Time, y: State, inputs: Inputs) -> Any:
        assert seen is not None
        return seen(system.inner, t, y[0], inputs)

    def changed(system: Any, t: Time, y: State, inputs: Inputs, *value: Any) -> Any:
        return event.changed(system.inner, t, y[0], inputs, *value, name=name), y[1]

    after: Any = None if change is None else changed
    if seen is None:
        lag: Any = None if own is None else lambda system, values: own(system.inner, values)
        return Event(change=after, ends=event.ends, at=event.at, values=event.values, lag=lag)
    return Event(condition, event.direction, after, ends=event.ends, keep=event.keep)
