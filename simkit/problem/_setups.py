"""The setups of experiments: system, start, inputs and events of each, and of all as one."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax

from .._errors import ArgumentError
from .._types import Inputs, State
from ..core import (
    NamedEvents,
    SampledSystem,
    Setup,
    StaticSystem,
    System,
    as_events,
    as_float_array,
    as_inputs,
    as_state,
    check_own_events,
    warn_of_unread,
)
from ._condition_table import stack
from ._doses import Doses
from ._experiment import Experiment
from ._schedule import alike_events, experiment_events, stacked_events


def experiment_setups(
    system: System,
    experiments: Sequence[Experiment],
    y0: State,
    inputs: Inputs,
    events: Any,
    noise: Mapping[str, Any],
    plain: bool,
) -> list[Setup]:
    """The setups of all experiments; `plain`: the system alone reads its inputs."""
    known, setups = as_events(events), []
    placebo = Doses() if any(e.doses is not None for e in experiments) else None
    for e in experiments:
        state = y0 if e.y0 is None else e.y0
        if state is None and isinstance(system, SampledSystem):
            state = system.blank()
        if state is None and not isinstance(system, StaticSystem):
            raise ArgumentError(
                f"Experiment `{e.name}` must have an initial state, but neither it nor the problem gives `y0`."
            )
        state, given = as_state(system, state, "y0"), inputs if e.inputs is None else e.inputs
        signals = as_inputs(system, given, state)
        happening = experiment_events(e, known, state, None if _has_dose(e, known) else placebo)
        check_own_events(system, happening)
        if plain and happening is None:
            warn_of_unread(system, state, signals, e.times[0], given)
        setups.append(Setup(system, state, jax.tree.map(as_float_array, signals), dict(noise), happening))
    return alike_events(setups, experiments)


def _has_dose(e: Experiment, known: NamedEvents | None) -> bool:
    """Tell whether an event of an experiment stands for its doses."""
    own = known if e.events is None else as_events(e.events)
    return own is not None and "dose" in own.names


def stacked_setups(system: System, setups: Sequence[Setup], experiments: Sequence[Experiment]) -> Setup:
    """The setups of all experiments as one, with a leading experiment axis on states, inputs and events."""
    return Setup(
        system,
        stack([s.y0 for s in setups], "initial states", experiments),
        stack([s.inputs for s in setups], "inputs", experiments),
        setups[0].noise,
        stacked_events([s.events for s in setups]),
    )


def check_events(setup: Setup, protocol: bool) -> None:
    """Refuse events that the simulations of a problem cannot serve."""
    if setup.events is None:
        return
    if protocol:
        raise ArgumentError(
            "Arguments `events` and `protocol` must not be given together, but both are: a protocol says itself what happens."
        )
    if any(event.ends for event in setup.events.events):
        raise ArgumentError(
            "The events of a problem must not end its simulations (`ends=True`): all data need a state."
        )
