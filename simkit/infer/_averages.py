"""Posteriors of averages over draws: draws of several references, which must cover the posterior."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from .._budget import time_left
from .._errors import ArgumentError, TimeUpError
from ..fitting import FieldFit, FitResult, covering, fit, kept_work, uncovered
from ..problem import Problem
from ._journal_blocks import up
from ._posterior import Posterior

CHECKED = 200
"""Draws of the posterior at which it is seen whether the frames cover them."""

ALLOWED = 0.01
"""The part of the draws that may lie where too few frames count."""


def sample_averages(
    problem: Problem,
    start: FitResult | FieldFit | None,
    key: PRNGKeyArray,
    once: Callable[[Problem, FitResult, PRNGKeyArray, Any], Posterior],
    store: Any,
) -> Posterior:
    """Draw frames at the optimum and around it, sample, and see whether the frames covered the posterior.

    **Arguments:** `once`: sampling of a problem with draws, from a fit, into a store; `store` gets a folder for each of the three.
    """
    fit_key, draw_key, run_key, look = jax.random.split(key, 4)
    below = (lambda name: None) if store is None else (lambda name: f"{store}/{name}")
    asked = {"start": start, "key": key}
    if start is None:
        start = fit(problem, key=fit_key, store=below("fit"), within=time_left())
        if getattr(start, "cut", False):
            raise TimeUpError(up("in the fit around which chains begin", store is not None))
    if not isinstance(start, FitResult):
        raise ArgumentError(
            "Argument `start` must be the fit of numbers, but it is that of fields, which averages do not have."
        )
    with kept_work(below("frames"), "covering", problem, asked) as held:
        covered = covering(problem, start, draw_key, held)
    if covered is None:
        raise TimeUpError(up("before the frames that cover the posterior", store is not None))
    found = once(covered, start, run_key, below("draws"))
    flat = np.asarray(found.flat())
    some = np.asarray(jax.random.choice(look, len(flat), (min(CHECKED, len(flat)),), replace=False))
    part = uncovered(covered, flat[some])
    if part > ALLOWED:
        text = (
            f"at {part:.0%} of the posterior's draws less than half of a run's frames count: there the averages are poor. Draw "
            "more frames, or give data that say more."
        )
        found = dataclasses.replace(found, warnings=(*found.warnings, text))
    return found
