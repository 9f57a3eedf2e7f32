"""Adaptive steps of stochastic systems: their method, and what they do not serve."""

from typing import Any

from .._errors import ArgumentError
from .._types import Inputs, State
from ..core import StochasticSystem, System, noise_kind_of
from ..solvers import AbstractStochasticStepper, Stepper, half_steps
from .task._step import Adaptive


def varied(solver: Stepper, system: System, y0: State, inputs: Inputs, *, given: bool) -> Stepper:
    """The method that varies its steps in place of a stochastic one; others as they are.

    **Raises:** an `ArgumentError` where no method serves.
    """
    if not (isinstance(solver, AbstractStochasticStepper) and isinstance(system, StochasticSystem)):
        return solver
    return half_steps(solver, noise_kind_of(system, y0, inputs), system.interpretation, given)


def check_noisy_steps(system: System, step: Any, events: bool, reduce: bool) -> None:
    """Refuse what adaptive steps of a stochastic system do not serve.

    **Raises:** an `ArgumentError`.
    """
    if isinstance(system, StochasticSystem) and isinstance(step, Adaptive) and (events or reduce):
        raise ArgumentError(
            f"Adaptive steps of a stochastic system take no {'events' if events else 'reducers'}: give `step` a number or "
            "`Fixed(substeps)`."
        )
