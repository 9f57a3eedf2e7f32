"""The check that a verb was given a fit of its problem."""

from typing import Any

from .._doors import check_kind
from .._errors import ArgumentError
from ..problem import Problem
from ._fit_result import FitResult


def check_fit(fit: Any, problem: Problem, name: str = "fit") -> None:
    """Refuse what is no fit, or one of other parameters; unless it is where something else only starts, of other data.

    **Raises:** an `ArgumentError`.
    """
    check_kind(name, fit, FitResult, "the result of a fit", "`simkit.fit(problem)` gives one.")
    if fit.names != problem.names:
        raise ArgumentError(
            f"Argument `{name}` must be a fit of the same problem, with the parameters {problem.names}, but it has {fit.names}."
        )
    if name != "start" and fit.data_checksum is not None and int(fit.data_checksum) != problem.dataset.checksum():
        raise ArgumentError(
            f"Argument `{name}` must be a fit of the same data, but it is one of other times or values: call `simkit.fit` for this "
            "problem."
        )
