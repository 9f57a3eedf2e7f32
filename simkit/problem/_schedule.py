"""Events of experiments: doses as events, and the events of all experiments with one shape."""

from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from .._errors import ArgumentError, DataError
from .._types import Inputs, State, Time
from ..core import Event, NamedEvents, Setup, as_events, as_float_array, named_leaves, started
from ._doses import Compartment, Doses, compartment
from ._experiment import Experiment

Where = Mapping[Compartment, str | float]
"""Compartment -> the path of a number of the system, or a number."""


class Given(eqx.Module):
    """The change of a dose: an amount, times its bioavailability, is added to a compartment.

    - `share`, `lag`: for each number of the state the path of its bioavailability and of its lag, a number, or None.
    """

    share: tuple[str | float | None, ...] = eqx.field(static=True)
    lag: tuple[str | float | None, ...] = eqx.field(static=True)

    def __call__(self, system: Any, t: Time, y: State, inputs: Inputs, value: Any) -> Any:
        flat, unravel = ravel_pytree(y)
        amount = value["amount"].astype(flat.dtype) * value["into"].astype(flat.dtype)
        return unravel(flat + amount * _numbers(system, self.share, 1.0).astype(flat.dtype))

    def late(self, system: Any, values: Any) -> Array:
        """Return the lag of every dose."""
        into = values["into"]
        return jnp.sum(into * _numbers(system, self.lag, 0.0).astype(into.dtype)[None], axis=1)


def _numbers(system: Any, paths: Sequence[str | float | None], default: float) -> Array:
    setup = Setup(system)
    found = [default if path is None else setup.get(path) if isinstance(path, str) else path for path in paths]
    return jnp.stack([jnp.asarray(x, float) for x in found])


def dose_event(
    doses: Doses, y0: State, *, lag: Where | None = None, bioavailability: Where | None = None, name: str = "doses"
) -> Event:
    """The event of doses: at each time its amount is added to the state.

    **Arguments:**

    - `doses`: the doses. Their targets are names of the state's numbers, or their places from 1 on.
    - `y0`: a state, for its names and shapes.
    - `lag`: compartment -> how much later a dose arrives there: the path of a number of the system, such as "lag", or a number.
    - `bioavailability`: the same for the share of an amount that arrives.
    - `name`: in messages.

    **Raises:** a `DataError` for infusions, resets and steady states, which no simulation takes yet; an error with the names of
    compartments for one that does not exist.
    """
    for what, rows in (("infusions", doses.durations > 0), ("resets", doses.resets), ("steady states", doses.steady)):
        if rows.any():
            raise DataError(
                f"The {what} among {name}, the first at time {doses.times[rows][0]:g}, cannot be simulated yet. An infusion can be "
                "an input, `simkit.Pulses`, that the system adds; a steady state many doses before; a reset an event of its own."
            )
    state = jax.eval_shape(lambda: started(y0))
    names = _elements(state)
    if isinstance(state, Mapping) and (
        numbers := [x for x in doses.targets if x is not None and not isinstance(x, str)]
    ):
        raise DataError(
            f"Compartment {numbers[0]} of {name} has no meaning in a state whose numbers have names but no order. Name it, or say "
            f"which numbers they are: `compartments=({', '.join(map(repr, names))})` in their order, where doses are made or read."
        )
    places = [names.index(str(compartment(target, names))) for target in doses.targets if target is not None]
    into = np.zeros((len(doses), len(names)))
    into[np.arange(len(places)), places] = 1.0
    tables = []
    for given in (bioavailability or {}, lag or {}):
        own = {str(compartment(where, names)): value for where, value in given.items()}
        tables.append(tuple(own.get(element) for element in names))
    change = Given(*tables)
    values = {"amount": as_float_array(doses.amounts), "into": as_float_array(into)}
    late = Late(change) if lag else None
    return Event(at=as_float_array(doses.times), values=values, change=change, lag=late)


class Late(eqx.Module):
    """The lag of doses."""

    given: Given

    def __call__(self, system: Any, values: Any) -> Array:
        return self.given.late(system, values)


def _elements(state: State) -> list[str]:
    """Return the names of all numbers of a state, in the order in which it is flattened."""
    names = []
    for path, leaf in named_leaves(state).items():
        for place in np.ndindex(leaf.shape):
            names.append(".".join(filter(None, [path, *map(str, place)])) or "y")
    return names


def experiment_events(e: Experiment, given: NamedEvents | None, y0: State) -> NamedEvents | None:
    """The events of one experiment: its own or the problem's, after its doses."""
    own = given if e.events is None else as_events(e.events)
    if e.doses is None:
        return own
    start = e.times[0] if e.start is None else e.start
    e.doses.check_start(float(start))
    dose = dose_event(e.doses, y0, name=f"the doses of experiment `{e.name}`")
    if own is None:
        return NamedEvents(("dose",), (dose,))
    if "dose" in own.names:
        raise ArgumentError(f"Experiment `{e.name}` has doses, so no event of it may be named `dose`.")
    return NamedEvents(("dose", *own.names), (dose, *own.events))


def alike_events(setups: Sequence[Setup], experiments: Sequence[Experiment]) -> list[Setup]:
    """Setups whose events have one shape: known times are filled up with infinite ones.

    **Raises:** an `ArgumentError` where they are of different kinds.
    """
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
