"""Steps of stochastic systems: the method of adaptive ones, the cuts at jumps, and what neither serves."""

from typing import Any

from .._errors import ArgumentError
from .._types import Inputs, State
from ..core import StochasticSystem, System, jumps_too, noise_kind_of, refuse_jumps
from ..solvers import AbstractStochasticStepper, Stepper, WithJumps, half_steps
from .task._step import Adaptive, Fixed
from .task._task import Task

ADAPTIVE = "Adaptive steps follow a Brownian path alone"


def varied(solver: Stepper, system: System, y0: State, inputs: Inputs, *, given: bool) -> Stepper:
    """The method that varies its steps in place of a stochastic one; others as they are.

    **Raises:** an `ArgumentError` where no method serves.
    """
    if not (isinstance(solver, AbstractStochasticStepper) and isinstance(system, StochasticSystem)):
        return solver
    refuse_jumps(system, ADAPTIVE, "give `step` a number or `Fixed(substeps)`.")
    return half_steps(solver, noise_kind_of(system, y0, inputs), system.interpretation, given)


def cut_at_jumps(task: Task) -> Task:
    """A task whose steps are cut at the jumps of its system, where it has some.

    **Raises:** an `ArgumentError` for what does not go with jumps.
    """
    if not jumps_too(task.system):
        return task
    _check_jumps(task.system, task.step, task.events is not None)
    return task._replace(solver=WithJumps(task.solver))


def _check_jumps(system: System, step: Any, events: bool) -> None:
    if not isinstance(step, Fixed):
        refuse_jumps(system, ADAPTIVE, "give `step` a number or `Fixed(substeps)`.")
    if events:
        refuse_jumps(
            system,
            "Events, and doses among them, do not go with random jumps yet",
            "look for the event among the saved states, or give what happens at known times as an input.",
        )


def check_noisy_steps(system: System, step: Any, events: bool, reduce: bool) -> None:
    """Refuse what adaptive steps of a stochastic system do not serve.

    **Raises:** an `ArgumentError`.
    """
    _check_jumps(system, step, events)
    if isinstance(system, StochasticSystem) and isinstance(step, Adaptive) and (events or reduce):
        raise ArgumentError(
            f"Adaptive steps of a stochastic system take no {'events' if events else 'reducers'}: give `step` a number or "
            "`Fixed(substeps)`."
        )
