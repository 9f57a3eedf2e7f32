"""Occasions within experiments: parameters of individuals that switch at known times while a simulation goes on."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from .._errors import ArgumentError
from ..core import (
    OCCASIONS,
    PiecewiseConstant,
    Regimen,
    Setup,
    StaticSystem,
    System,
    as_float_array,
    switched_events,
    switched_system,
    traced,
)
from ._condition_table import Table
from ._experiment import Experiment
from ._individual import Population


def with_occasions(
    system: System,
    setups: Sequence[Setup],
    experiments: Sequence[Experiment],
    population: Population | None,
    table: Table,
    plain: bool,
) -> tuple[System, Sequence[Setup], Table]:
    """System, setups and table of a population: parameters are those of the individual, and of the occasion where they differ.

    `plain`: nothing but outputs is compared with data.
    """
    if population is None:
        return system, setups, table
    visits = _visits_by_experiment(population, experiments)
    more, paths = _switched_table(population, table, visits)
    table = population.redirected(table, visits) | more
    if not paths:
        return system, setups, table
    return *_switched_setups(system, setups, experiments, paths, plain), table


def _visits_by_experiment(population: Population, experiments: Sequence[Experiment]) -> list[list[int]]:
    """The occasions of each experiment, by their places in `population.visits`; nothing where no parameter differs."""
    if not population.switching:
        return []
    places = {(population.labels[visit.individual], visit.name): i for i, visit in enumerate(population.visits)}
    return [[places[e.individual, name] for name in e.occasions] for e in experiments]


def _switched_table(
    population: Population, table: Table, visits: Sequence[Sequence[int]]
) -> tuple[Table, tuple[str, ...]]:
    """The rows of a table for signals of what switches within an experiment, and the paths of these parameters.

    The rows of an experiment with fewer occasions repeat its last one.
    """
    most = max(map(len, visits), default=1)
    if most < 2:
        return {}, ()
    found: Table = {}
    paths: dict[str, None] = {}
    for k in population.switching:
        mean, first = population.means[k], population.visited(k)
        for path, (index, constant) in table.items():
            own = np.asarray(index) == mean
            if not own.any():
                continue
            if path.split(".")[0] in ("y0", "inputs", "noise", "events"):
                raise ArgumentError(
                    f"`{population.names[k]}` differs between occasions within one experiment, so it must be a parameter of the "
                    f"system, but it stands for `{path}`. Write an experiment for each occasion, of the same `individual`."
                )
            paths[path] = None
            for row in range(most):
                place = np.array([first + own_visits[min(row, len(own_visits) - 1)] for own_visits in visits])
                where = jnp.asarray(np.where(own, place, np.asarray(index)))
                found[f"inputs.{OCCASIONS}.{path}.values.{row}"] = where, constant
    return found, tuple(paths)


def _switched_setups(
    system: System, setups: Sequence[Setup], experiments: Sequence[Experiment], paths: tuple[str, ...], plain: bool
) -> tuple[System, list[Setup]]:
    """The system and the setups of experiments whose parameters at `paths` switch between occasions.

    **Raises:** an `ArgumentError` for what cannot go on while they switch.
    """
    if isinstance(system, StaticSystem):
        raise ArgumentError(
            "The occasions of a static system cannot begin at times, since nothing moves in time. Write an experiment for each "
            "occasion, of the same `individual`."
        )
    if not plain:
        raise ArgumentError(
            "Arguments `observables`, `protocol` and `measurement` do not go with occasions within one experiment, since they see "
            "one set of parameters. Make an observable an output of the system, or write an experiment for each occasion."
        )
    bare = setups[0].inputs is None
    switched, found = switched_system(system, paths, bare), []
    most = max(len(e.occasions) for e in experiments)
    for setup, e in zip(setups, experiments, strict=True):
        inputs: Any = {} if bare else setup.inputs
        if not isinstance(inputs, dict) or OCCASIONS in inputs:
            raise ArgumentError(
                f"The inputs of experiment `{e.name}` must be a dict without the name `{OCCASIONS}`, which holds parameters that "
                "differ between occasions."
            )
        times = np.array(list(e.occasions.values()), float)
        _check_steady(setup, e, times)
        # One occasion alone has no time: its value holds throughout.
        times = np.where(np.isfinite(times), times, float(e.times[0] if e.start is None else e.start))
        table = PiecewiseConstant(as_float_array(times), as_float_array(np.zeros(len(times)))).padded(most)
        signals = dict.fromkeys(paths, table)
        found.append(
            Setup(system, setup.y0, {**inputs, OCCASIONS: signals}, setup.noise, switched_events(setup.events))
        )
    return switched, found


def _check_steady(setup: Setup, e: Experiment, times: np.ndarray) -> None:
    """Refuse a steady state after the first occasion: the doses that lead to it would be those of the occasion before."""
    for event in () if setup.events is None else setup.events.events:
        if not isinstance(event.change, Regimen) or not event.change.steady or traced(event.at, event.values):
            continue
        late = np.asarray(event.at)[(np.asarray(event.values["steady"]) > 0)]
        if len(times) > 1 and late.size and late.max() >= times[1]:
            raise ArgumentError(
                f"Experiment `{e.name}` has a steady state of doses at {late.max():g}, after its first occasion, whose parameters "
                "would lead to it. A steady state forgets what was before: write an experiment for that occasion, of the same "
                "`individual`."
            )
