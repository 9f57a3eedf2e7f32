"""Fits that are watched while they run."""

from collections.abc import Callable

import numpy as np

from .._progress import Progress
from ..problem import Problem
from ._fit_result import summarise
from ._marginal import Marginal, population_in
from ._method import FAILED, AbstractMethod, End


def watcher(problem: Problem, method: AbstractMethod, counter: Progress) -> Callable[[End], None] | None:
    """Return who hands the fit so far to the object that watches; None where nobody does."""
    if not counter.watched:
        return None
    integrated = problem.size - population_in(problem).shared if isinstance(method, Marginal) else 0

    def told(end: End) -> None:
        if not (np.asarray(end.status) == FAILED).all():
            counter.watch(problem, summarise(problem, method.name, end, end.iterations, end.failures, integrated))

    return told
