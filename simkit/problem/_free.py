"""Unknowns: prior, bounds, and the coordinate in which a fit moves."""

import inspect
import math
from collections.abc import Sequence
from numbers import Real
from typing import Any, Literal, NamedTuple

import jax
import numpy as np
import numpyro.distributions as dist
from jax.typing import ArrayLike

from .._doors import shown
from .._errors import ArgumentError, check_known
from ..core import Support
from ._field_prior import AbstractFieldPrior

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
    """One unknown number, or an array of them.

    **Arguments:**

    - `prior`: a univariate NumPyro distribution, of an array for each of its numbers. A normal is cut off at the quantity's
        support; any other must lie inside the support. Without one the prior is flat between the bounds: a fit is by maximum
        likelihood, and sampling needs both bounds finite. For an array also a prior of fields, such as `simkit.fields.Matern`.
    - `bounds`: hard limits `(lower, upper)`; None on a side leaves the limit of the quantity's support.
    - `transform`: the coordinate in which a fit moves, draws its starts and walks, "log" or "linear"; by default "log" where the
        support is positive, where the prior is a log-normal or log-uniform one, and where without a prior the bounds are
        positive and at least a factor of 100 apart. A field with a prior of fields is positive with "log": the prior is then one
        of its logarithm.
    - `start`: where a fit starts, a number or an array of the unknown's shape; by default it starts from draws of the prior.
    """

    prior: dist.Distribution | AbstractFieldPrior | None = None
    bounds: tuple[float | None, float | None] = (None, None)
    transform: Transform | None = None
    start: ArrayLike | None = None


class Unknown(NamedTuple):
    """A free parameter checked against the quantity it stands for; of `shape` () for a single number."""

    name: str
    prior: dist.Distribution | AbstractFieldPrior | None
    lower: float
    upper: float
    log: bool
    start: ArrayLike | None
    shape: tuple[int, ...] = ()


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


def unknown(name: str, free: Free, support: Support, shape: tuple[int, ...] = ()) -> Unknown:
    """Check a free parameter, an array of `shape`, against the support of its quantity, and complete it."""
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
    if free.prior is not None and not isinstance(free.prior, dist.Distribution | AbstractFieldPrior):
        raise ArgumentError(
            f"The prior of `{name}` must be a distribution of NumPyro, such as `dist.Normal(1.0, 0.5)`, or one of fields, but it "
            f"is {shown(free.prior)}."
        )
    given = [limit if bound is None else float(bound) for bound, limit in zip(free.bounds, support, strict=True)]
    if given[0] > given[1] and None not in free.bounds:
        raise ArgumentError(
            f"The bounds of `{name}` must be (lower, upper), but they are {tuple(free.bounds)}: turn them round."
        )
    lower, upper = max(given[0], support.lower), min(given[1], support.upper)
    if not lower < upper:
        raise ArgumentError(
            f"The bounds of `{name}` must leave room inside its support {support}, but they are {tuple(free.bounds)}."
        )
    if free.transform not in (None, "linear", "log"):
        raise ArgumentError(f'The transform of `{name}` must be "linear" or "log", but it is {free.transform!r}.')
    if isinstance(free.prior, AbstractFieldPrior):
        _check_field(name, free, support, shape)
        lower = 0.0 if free.transform == "log" else lower
    prior, ends = _restrict(name, free.prior, support)
    lower, upper = max(lower, ends[0]), min(upper, ends[1])
    log = _logarithmic(free, lower, upper, support) if free.transform is None else free.transform == "log"
    if log and lower < 0:
        raise ArgumentError(
            f"`{name}` can be negative (support {support}), so its transform must be linear, or its bounds positive."
        )
    _check_start(name, free.start, shape, lower, upper)
    return Unknown(name, prior, lower, upper, log, free.start, shape)


def _check_start(name: str, start: Any, shape: tuple[int, ...], lower: float, upper: float) -> None:
    """Refuse a start of another shape than the unknown, or outside of its bounds."""
    if start is None:
        return
    known: Any = start
    of_numbers = isinstance(start, Real | np.ndarray | jax.Array)
    if not of_numbers or np.shape(known) not in ((), shape):
        what = f"a number or an array of the shape {shape}" if shape else "a number, such as `Free(start=1.0)`"
        raise ArgumentError(f"The start of `{name}` must be {what}, but it is {shown(start)}.")
    known = np.asarray(known)
    outside = known[~((lower < known) & (known < upper))]
    if outside.size:
        raise ArgumentError(
            f"The start of `{name}` must lie inside its bounds ({lower:g}, {upper:g}), but it is {outside.flat[0]:g}."
        )


def _check_field(name: str, free: Free, support: Support, shape: tuple[int, ...]) -> None:
    """Refuse a prior of fields on what is no field, or whose support it does not have."""
    assert isinstance(free.prior, AbstractFieldPrior)
    free.prior.check(name, shape)
    if tuple(free.bounds) != (None, None):
        raise ArgumentError(
            f"`{name}` has a prior of fields, which reaches everywhere, so it must have no bounds, but they are "
            f'{tuple(free.bounds)}. A positive field is one with `Free(prior, transform="log")`.'
        )
    if math.isfinite(support.upper) or support.lower not in (-math.inf, 0.0):
        raise ArgumentError(
            f"A prior of fields goes with a quantity that is real or positive, but the support of `{name}` is {support}. Write the "
            "system with an unbounded field, of which the quantity is a function."
        )
    if support.lower == 0 and free.transform == "linear":
        raise ArgumentError(
            f'`{name}` is positive (support {support}), so a prior of fields must be one of its logarithm: `transform="log"`.'
        )


def _logarithmic(free: Free, lower: float, upper: float, support: Support) -> bool:
    """Tell whether an unknown moves by its logarithm by default."""
    if support.positive or (isinstance(free.prior, AbstractFieldPrior) and support.lower == 0):
        return True
    if free.prior is not None:
        return lower >= 0 and isinstance(free.prior, dist.LogNormal | dist.LogUniform)
    return lower > 0 and math.isfinite(upper) and upper >= DECADES * lower


def _restrict(
    name: str, prior: dist.Distribution | AbstractFieldPrior | None, support: Support
) -> tuple[dist.Distribution | AbstractFieldPrior | None, tuple[float, float]]:
    """The prior and the interval that holds all its weight: a normal is cut off at the support, others must lie inside."""
    if prior is None or isinstance(prior, AbstractFieldPrior):
        return prior, (support.lower, support.upper)
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
