"""Priors and step rules in words."""

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
        return f"adaptive, rtol {float(step.rtol):g}, atol {float(step.atol):g}"
    if isinstance(step, Courant):
        return f"Courant number {float(step.number):g}"
    return f"{step.substeps} fixed step(s) between times"
