"""Events of experiments: doses as events, and the events of all experiments with one shape."""

from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._errors import ArgumentError, DataError
from .._types import State
from ..core import Event, NamedEvents, Regimen, Setup, as_events, as_float_array, named_leaves, started, traced
from ._doses import Compartment, Doses, compartment
from ._experiment import Experiment

Where = Mapping[str, str | float] | Mapping[int, str | float]
"""Compartment -> the path of a number of the system, or a number."""


def dose_event(
    doses: Doses, y0: State, *, lag: Where | None = None, bioavailability: Where | None = None, name: str = "doses"
) -> Event:
    """The event of doses: amounts that are added to the state, infusions, resets, and steady states.

    What arrives of a dose is F times its amount, a lag after its time. An infusion that was given with its rate then lasts
    F amount / rate; one with its duration flows at F amount / duration; infusions into one compartment add. A reset puts the
    state back to its start. It and a steady state (SS 1) clear what is there: infusions end, and doses whose lag is not over
    do not come. A steady state is the fixed point of an interval of doses at the parameters of the simulation, found by
    Newton's method on the map over that interval and differentiated by the implicit function theorem; where there is none,
    states are NaN. With SS 2 it is added to the state, which is meant for linear systems.

    `simulate`, `ensemble` and `Problem` take it as `events={"dose": event}`. Its numbers have paths, such as `events.dose.at.0`,
    `events.dose.values.amount.0`, `.rate.0` and `.duration.0`; a dose with `resets` has two rows, the reset and the dose.

    **Arguments:**

    - `doses`: the doses. Their targets are names of the state's numbers, or their places from 1 on.
    - `y0`: a state, for its names and shapes.
    - `lag`: compartment -> how much later a dose arrives there: the path of a number of the system, such as "lag", or a number.
        It must not be negative nor, in a steady state, longer than the interval.
    - `bioavailability`: the same for the share of an amount that arrives. Where it or a lag is negative, states are NaN.
    - `name`: in messages.

    **Raises:** an error with the names of compartments for one that does not exist.

    Semantics of EVID, RATE, SS and II as in NONMEM (Beal, Sheiner, Boeckmann & Bauer, NONMEM Users Guides, part VI, chapter V).

    ```python
    import simkit
    Dose, Doses, dose_event = simkit.problem.Dose, simkit.problem.Doses, simkit.problem.dose_event
    body = simkit.from_function(lambda t, y, p: {"blood": -p["ke"] * y["blood"]}, {"ke": 0.2, "share": 0.5})
    given = dose_event(Doses(Dose(100.0, 0.0, "blood", duration=2.0)), {"blood": 0.0}, bioavailability={"blood": "share"})
    print(simkit.simulate(body, {"blood": 0.0}, [0.0, 1.0, 2.0, 8.0], events={"dose": given}).ys["blood"])
    ```
    """
    state = jax.eval_shape(lambda: started(y0))
    names = _elements(state)
    if isinstance(state, Mapping) and (
        numbers := [x for x in doses.targets if x is not None and not isinstance(x, str)]
    ):
        raise DataError(
            f"Compartment {numbers[0]} of {name} has no meaning in a state whose numbers have names but no order. Name it, or say "
            f"which numbers they are: `compartments={tuple(names)!r}` in their order, where doses are made or read."
        )
    tables = []
    for what, given in (("bioavailability", bioavailability or {}), ("lag", lag or {})):
        for where, value in given.items():
            if not isinstance(value, str) and value < 0:
                raise ArgumentError(f"The {what} of compartment `{where}` must not be negative, but it is {value:g}.")
        own = {str(compartment(where, names)): value for where, value in given.items()}
        tables.append(tuple(own.get(element) for element in names))
    rows = _rows(doses)
    into = np.zeros((len(rows), len(names)))
    for i, (row, dose) in enumerate(rows):
        if dose:
            into[i, names.index(str(compartment(_some(doses.targets[row]), names)))] = 1.0
    which = np.array([row for row, _ in rows], int)
    dose = np.array([dose for _, dose in rows], bool)
    table = {
        "amount": doses.amounts,
        "rate": np.where(doses.by_rate, doses.rates, 0.0),
        "duration": np.where(doses.by_rate, 0.0, doses.durations),
        "steady": doses.steady.astype(float) + doses.added,
        "interval": doses.intervals,
    }
    columns = {key: np.where(dose, column[which], 0.0) for key, column in table.items()}
    values = {key: as_float_array(x) for key, x in columns.items()}
    values |= {"into": as_float_array(into), "reset": as_float_array((~dose).astype(float))}
    infused = into[(columns["rate"] > 0) | (columns["duration"] > 0)].any(axis=0)
    places = tuple(int(i) for i in np.flatnonzero(infused))
    share, late = tables
    given = tuple(int(i) for i in np.flatnonzero(into.any(axis=0)))
    change = Regimen(share, late, places, bool((~dose).any()), int(doses.steady.sum()), given)
    return Event(at=as_float_array(doses.times[which]), values=values, change=change)


def _rows(doses: Doses) -> list[tuple[int, bool]]:
    """The rows of the event: (row of the doses, whether it is the dose or the reset before it)."""
    found = []
    for i in range(len(doses)):
        if doses.resets[i]:
            found.append((i, False))
        if doses.amounts[i] > 0:
            found.append((i, True))
    return found


def _some(target: Compartment | None) -> Compartment:
    assert target is not None
    return target


def _elements(state: State) -> list[str]:
    """Return the names of all numbers of a state, in the order in which it is flattened."""
    names = []
    for path, leaf in named_leaves(state).items():
        for place in np.ndindex(leaf.shape):
            names.append(".".join(filter(None, [path, *map(str, place)])) or "y")
    return names


def experiment_events(
    e: Experiment, given: NamedEvents | None, y0: State, doses: Doses | None = None
) -> NamedEvents | None:
    """The events of one experiment: its own or the problem's, after its doses; `doses` where it has none."""
    own = given if e.events is None else as_events(e.events)
    doses = doses if e.doses is None else e.doses
    if own is None and doses is None:  # a static system may have times with several predictors
        return None
    start = float(e.times[0] if e.start is None else e.start)
    if own is not None and e.events is not None:
        _check_within(e.name, own, start)
    if doses is None:
        return own
    doses.check_start(start)
    dose = dose_event(doses, y0, name=f"the doses of experiment `{e.name}`")
    if own is None:
        return NamedEvents(("dose",), (dose,))
    if "dose" in own.names:
        raise ArgumentError(f"Experiment `{e.name}` has doses, so no event of it may be named `dose`.")
    return NamedEvents(("dose", *own.names), (dose, *own.events))


def _check_within(name: str, events: NamedEvents, start: float) -> None:
    """Refuse events at known times before the state starts."""
    for key, event in events.items():
        if event.at is None or traced(event.at) or not (early := np.asarray(event.at) < start).any():
            continue
        raise DataError(
            f"The event `{key}` of experiment `{name}` must not happen before the start, {start:g}, but one is at "
            f"{np.asarray(event.at)[early][0]:g}. Move the start, or leave it out."
        )


def alike_events(setups: Sequence[Setup], experiments: Sequence[Experiment]) -> list[Setup]:
    """Setups whose events have one shape: known times are filled up with infinite ones.

    **Raises:** an `ArgumentError` where they are of different kinds.
    """
    setups = _alike_regimens(setups)
    first = setups[0].events
    kinds = [_kind(setup.events) for setup in setups]
    for e, kind in zip(experiments, kinds, strict=True):
        if kind != kinds[0]:
            raise ArgumentError(
                f"The events of all experiments must be of the same kinds with the same functions, but those of `{e.name}` differ "
                f"from those of `{experiments[0].name}`. Give an experiment without an event times that never come, `at=[inf]`."
            )
    if first is None:
        return list(setups)
    lengths = [max(_length(setup.events.events[i]) for setup in setups) for i in range(len(first.events))]
    filled = lambda events: NamedEvents(events.names, tuple(map(_filled, events.events, lengths)))
    return [Setup(s.system, s.y0, s.inputs, s.noise, filled(s.events)) for s in setups]


def _alike_regimens(setups: Sequence[Setup]) -> list[Setup]:
    """Setups whose regimens of one name provide for the same kinds of doses."""
    found = list(setups)
    for name in dict.fromkeys(name for s in setups if s.events is not None for name in s.events.names):
        own = [(i, _event_of(s.events, name)) for i, s in enumerate(setups)]
        given = [(i, event) for i, event in own if event is not None and isinstance(event.change, Regimen)]
        if not given:
            continue
        changes: list[Any] = [event.change for _, event in given]
        infused = tuple(sorted({place for change in changes for place in change.infused}))
        into = tuple(sorted({place for change in changes for place in change.given}))
        resets, steady = any(c.resets for c in changes), max(c.steady for c in changes)
        for (i, event), old in zip(given, changes, strict=True):
            new = Regimen(old.share, old.lag, infused, resets, steady, into)
            made = Event(at=event.at, values=event.values, change=new)
            events = found[i].events
            events = NamedEvents(events.names, tuple(made if n == name else e for n, e in events.items()))
            found[i] = Setup(found[i].system, found[i].y0, found[i].inputs, found[i].noise, events)
    return found


def _event_of(events: NamedEvents | None, name: str) -> Event | None:
    return events.events[events.names.index(name)] if events is not None and name in events.names else None


def stacked_events(events: Sequence[NamedEvents | None]) -> Any:
    """The events of all experiments with a leading experiment axis on every array."""
    return jax.tree.map(lambda *x: jnp.stack(x) if eqx.is_array(x[0]) else x[0], *events)


def _kind(events: NamedEvents | None) -> Any:
    if events is None:
        return None
    static = eqx.partition(events, eqx.is_array)[1]
    return jax.tree.structure(static), jax.tree.leaves(static)


def _length(event: Event) -> int:
    return 0 if event.at is None else event.at.shape[0]


def _filled(event: Event, length: int) -> Event:
    if event.at is None or event.at.shape[0] == length:
        return event
    more = length - event.at.shape[0]
    pad = lambda x, value: jnp.pad(x, [(0, more), *[(0, 0)] * (x.ndim - 1)], constant_values=value)
    values = jax.tree.map(lambda x: pad(x, 0), event.values)
    where = lambda e: [e.at, e.values] if event.values is not None else [e.at]
    return eqx.tree_at(
        where, event, [pad(event.at, np.inf), values] if event.values is not None else [pad(event.at, np.inf)]
    )
