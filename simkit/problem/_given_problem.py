"""The check that a verb was given a problem."""

import copy

import equinox as eqx
import numpy as np
from jaxtyping import PRNGKeyArray

from .._doors import check_kind
from .._errors import ArgumentError
from ..core import SampledSystem, traced
from ._field_prior import AbstractField
from ._likelihood import AbstractLikelihood
from ._problem import Problem


def check_problem(problem: object, drawn: bool = True) -> None:
    """Refuse what is no problem, such as a system; and a sampled system without draws, where these must be `drawn`.

    **Raises:** an `ArgumentError`.
    """
    remedy = (
        "Make one of system, data and unknowns: `simkit.Problem(system, experiments, free={...}, noise={...}, y0=...)`."
    )
    check_kind("problem", problem, Problem, "a problem", remedy)
    if drawn and isinstance(problem, Problem) and isinstance(problem.base.system, SampledSystem):
        _check_drawn(problem)


def _check_drawn(problem: Problem) -> None:
    setup = problem.model.base_setup(0)
    if not traced(setup) and np.isnan(float(setup.system.effective_share(setup.y0))):
        raise ArgumentError(
            f"The outputs of `{type(setup.system).__name__}` are averages over draws, and none were made at parameters near by. "
            "Draw first: `problem = simkit.refresh(problem, fit.estimate, key=key)`. `fit` and `sample` do so themselves."
        )


def check_independent(problem: Problem, verb: str) -> None:
    """Refuse a problem whose data are not independent given a simulation, for what reads single data.

    **Raises:** an `ArgumentError`.
    """
    if not problem.likelihood.independent:
        raise ArgumentError(
            f"{verb} compares each datum with a noise model around one simulation, but the likelihood "
            f"`{type(problem.likelihood).__name__}` has data that depend on each other. `fit`, `profile`, `sample` and `compare` "
            "by evidence take it."
        )


def check_gaussian(problem: Problem, verb: str) -> None:
    """Refuse priors of fields that have no density to draw from.

    **Raises:** an `ArgumentError`.
    """
    for block, prior in problem.unknowns.fields:
        if not isinstance(prior, AbstractField):
            raise ArgumentError(
                f"{verb} needs Gaussian priors of fields, but that of `{block.name}` is a `{type(prior).__name__}`, which is for "
                "estimates by `FieldLBFGS` alone. Take `Matern` where uncertainty is asked for."
            )


def check_sequential(problem: Problem, verb: str) -> None:
    """Refuse a problem that does not state the distribution of each datum given those before it.

    **Raises:** an `ArgumentError`.
    """
    if not problem.likelihood.sequential:
        raise ArgumentError(
            f"{verb} compares each datum with its distribution given those before it, which the likelihood "
            f"`{type(problem.likelihood).__name__}` does not state. `fit`, `profile`, `sample` and `compare` by evidence take it."
        )


def with_fresh_key(problem: Problem, key: PRNGKeyArray) -> Problem:
    """The problem with other random numbers in its likelihood, which must draw some."""
    return eqx.tree_at(lambda p: p.likelihood, problem, problem.likelihood.with_key(key))


def with_likelihood(problem: Problem, likelihood: AbstractLikelihood) -> Problem:
    """The problem with another likelihood, one whose data are not independent given a simulation."""
    other = copy.copy(problem)
    object.__setattr__(other, "likelihood", likelihood)  # `dataclasses.replace` would go through `__init__`
    object.__setattr__(other, "closed", ())
    return other
