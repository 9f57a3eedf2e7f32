"""Unknowns: prior, bounds, and the coordinate in which a fit moves."""

import inspect
import math
from collections.abc import Sequence
from numbers import Real
from typing import Any, Literal, NamedTuple

import jax
import numpy as np
import numpyro.distributions as dist

from .._doors import shown
from .._errors import ArgumentError, check_known
from ..core import Support

Transform = Literal["linear", "log"]

PRIORS: dict[str, type[dist.Distribution]] = {
    "normal": dist.Normal,
    "log_normal": dist.LogNormal,
    "half_normal": dist.HalfNormal,
    "uniform": dist.Uniform,
    "log_uniform": dist.LogUniform,
    "gamma": dist.Gamma,
    "inverse_gamma": dist.InverseGamma,
    "exponential": dist.Exponential,
    "beta": dist.Beta,
    "student_t": dist.StudentT,
    "cauchy": dist.Cauchy,
    "half_cauchy": dist.HalfCauchy,
    "laplace": dist.Laplace,
}


DECADES = 100.0
"""Ratio of positive bounds from which on a parameter is known by its order of magnitude, not by its size."""


class Free(NamedTuple):
    """One unknown number.

    **Arguments:**

    - `prior`: a univariate NumPyro distribution. A normal is cut off at the quantity's support; any other
        must lie inside the support. Without one the prior is flat between the bounds: a fit is by maximum likelihood, and
        sampling needs both bounds finite.
    - `bounds`: hard limits `(lower, upper)`; None on a side leaves the limit of the quantity's support.
    - `transform`: the coordinate in which a fit moves, draws its starts and walks, "log" or "linear"; by default "log" where the
        support is positive, where the prior is a log-normal or log-uniform one, and where without a prior the bounds are
        positive and at least a factor of 100 apart.
    - `start`: where a fit starts; by default it starts from draws of the prior.
    """

    prior: dist.Distribution | None = None
    bounds: tuple[float | None, float | None] = (None, None)
    transform: Transform | None = None
    start: float | None = None


class Unknown(NamedTuple):
    """A free parameter checked against the quantity it stands for."""

    name: str
    prior: dist.Distribution | None
    lower: float
    upper: float
    log: bool
    start: float | None


def prior_from_text(name: str, kind: str, numbers: Sequence[Any]) -> dist.Distribution:
    """The prior that a study file names, such as `normal = [1.0, 0.5]`."""
    check_known(kind, PRIORS, f"prior (for `{name}`)")
    asked = [key for key in inspect.signature(PRIORS[kind].__init__).parameters if key not in ("self", "validate_args")]
    if len(numbers) != len(asked):
        count = f"{len(asked)} number{'s' if len(asked) > 1 else ''}"
        raise ArgumentError(
            f"The prior `{kind}` of `{name}` must be given {count} ({', '.join(asked)}), but it is given "
            f"{len(numbers)}: {numbers!r}."
        )
    try:
        values = [float(x) for x in numbers]
        return PRIORS[kind](*values, validate_args=True)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"The prior `{kind}` of `{name}` cannot take the numbers {numbers!r}: {error}") from error


def unknown(name: str, free: Free, support: Support) -> Unknown:
    """Check a free parameter against the support of its quantity, and complete it."""
    if not isinstance(free, Free):
        raise ArgumentError(f"The free parameter `{name}` must be a `Free(prior, bounds, ...)`, but it is {free!r}.")
    pair, numbers = (
        isinstance(free.bounds, tuple | list) and len(free.bounds) == 2,
        (int, float, np.number, np.ndarray, jax.Array),
    )
    if not pair or not all(bound is None or isinstance(bound, numbers) for bound in free.bounds):
        raise ArgumentError(
            f"The bounds of `{name}` must be a pair of numbers, such as `Free(bounds=(0.1, 2.0))`, None on a side without, but "
            f"they are {shown(free.bounds)}."
        )
    if free.prior is not None and not isinstance(free.prior, dist.Distribution):
        raise ArgumentError(
            f"The prior of `{name}` must be a distribution of NumPyro, such as `dist.Normal(1.0, 0.5)`, but it is "
            f"{shown(free.prior)}."
        )
    given = [limit if bound is None else float(bound) for bound, limit in zip(free.bounds, support, strict=True)]
    lower, upper = max(given[0], support.lower), min(given[1], support.upper)
    if not lower < upper:
        raise ArgumentError(
            f"The bounds of `{name}` must leave room inside its support {support}, but they are {tuple(free.bounds)}."
        )
    if free.transform not in (None, "linear", "log"):
        raise ArgumentError(f'The transform of `{name}` must be "linear" or "log", but it is {free.transform!r}.')
    prior, ends = _restrict(name, free.prior, support)
    lower, upper = max(lower, ends[0]), min(upper, ends[1])
    log = _logarithmic(free, lower, upper, support) if free.transform is None else free.transform == "log"
    if log and lower < 0:
        raise ArgumentError(
            f"`{name}` can be negative (support {support}), so its transform must be linear, or its bounds positive."
        )
    if free.start is not None and not isinstance(free.start, Real | np.ndarray | jax.Array):
        raise ArgumentError(
            f"The start of `{name}` must be a number, such as `Free(start=1.0)`, but it is {shown(free.start)}."
        )
    if free.start is not None and not (lower < free.start < upper):
        raise ArgumentError(
            f"The start of `{name}` must lie inside its bounds ({lower:g}, {upper:g}), but it is {free.start:g}."
        )
    return Unknown(name, prior, lower, upper, log, free.start)


def _logarithmic(free: Free, lower: float, upper: float, support: Support) -> bool:
    """Tell whether an unknown moves by its logarithm by default."""
    if support.positive:
        return True
    if free.prior is not None:
        return lower >= 0 and isinstance(free.prior, dist.LogNormal | dist.LogUniform)
    return lower > 0 and math.isfinite(upper) and upper >= DECADES * lower


def _restrict(
    name: str, prior: dist.Distribution | None, support: Support
) -> tuple[dist.Distribution | None, tuple[float, float]]:
    """The prior and the interval that holds all its weight: a normal is cut off at the support, others must lie inside."""
    if prior is None:
        return None, (support.lower, support.upper)
    if not isinstance(prior, dist.Distribution) or prior.event_shape or prior.batch_shape:
        raise ArgumentError(f"The prior of `{name}` must be a univariate NumPyro distribution, but it is {prior!r}.")
    if isinstance(prior, dist.Normal):
        if math.isinf(support.lower) and math.isinf(support.upper):
            return prior, (support.lower, support.upper)
        low = support.lower if math.isfinite(support.lower) else None
        high = support.upper if math.isfinite(support.upper) else None
        center, spread = np.asarray(prior.loc), np.asarray(prior.scale)
        return dist.TruncatedNormal(center, spread, low=low, high=high), (support.lower, support.upper)
    edges = (getattr(prior.support, "lower_bound", -math.inf), getattr(prior.support, "upper_bound", math.inf))
    lower, upper = (float(np.asarray(edge)) for edge in edges)
    if lower < support.lower or upper > support.upper:
        raise ArgumentError(
            f"The prior of `{name}` must lie inside its support {support}, but {type(prior).__name__} reaches from {lower:g} to "
            f"{upper:g}. Take a prior with that support, or a normal, which is cut off."
        )
    return prior, (lower, upper)
