"""Priors and step rules in words."""

import numpy as np
import numpyro.distributions as dist

from ..engine import Adaptive, Courant, Method

TRUNCATED = (
    dist.LeftTruncatedDistribution,
    dist.RightTruncatedDistribution,
    dist.TwoSidedTruncatedDistribution,
)


def describe_prior(prior: dist.Distribution | None) -> str:
    if prior is None:
        return "flat"
    if isinstance(prior, TRUNCATED):
        return f"{type(prior.base_dist).__name__}, cut off"
    return type(prior).__name__


def describe_step(method: Method) -> str:
    step = method.step
    if isinstance(step, Adaptive):
        least, largest = (float(f(np.asarray(step.atol))) for f in (np.min, np.max))
        atol = f"{least:.3g}" if least == largest else f"{least:.3g} to {largest:.3g} by state"
        return f"adaptive, rtol {float(step.rtol):g}, atol {atol}"
    if isinstance(step, Courant):
        return f"Courant number {float(step.number):g}"
    return f"{step.substeps} fixed step(s) between times"
