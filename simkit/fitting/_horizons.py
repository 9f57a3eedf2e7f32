"""Horizons of a fit: the fractions of the data that are fitted one after the other."""

from collections.abc import Sequence

from .._errors import ArgumentError
from ..core import StaticSystem
from ..problem import Problem

HORIZONS = (0.25, 0.5, 1.0)


def check_horizons(problem: Problem, horizons: Sequence[float] | None) -> tuple[float, ...]:
    """The horizons that are asked for, or the default of the problem.

    **Raises:** an `ArgumentError` for fractions that do not increase to 1.
    """
    events = () if problem.base.events is None else problem.base.events.events
    # Observables may list the times of events, whose rows do not stand in the order of time.
    listed = bool(problem.observables) and any(not event.timed for event in events)
    whole = problem.population is not None or not problem.likelihood.independent or listed
    if isinstance(problem.base.system, StaticSystem) or (horizons is None and whole):
        return (1.0,)
    stages = HORIZONS if horizons is None else tuple(float(h) for h in horizons)
    if not stages or stages[-1] != 1 or any(a >= b for a, b in zip((0.0, *stages), stages, strict=False)):
        raise ArgumentError(
            f"Argument `horizons` must be increasing fractions that end with 1, such as (0.25, 0.5, 1), but it is {horizons}."
        )
    return stages
