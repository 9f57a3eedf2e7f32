"""Sentences about what the data do not determine."""

import jax.numpy as jnp
import numpy as np

from ._fitted import AbstractFit
from ._inside import margin

NULL = {4: 1e-3, 8: 1e-7}
"""A singular value of the scaled sensitivities this small against the largest is taken for 0, by bytes of the float type.

It lies between the rounding of an exact dependence, some 1e-15 in double precision and 1e-9 through an adaptive solve, and
the worst problems that are still identified, such as 4e-5 for NIST's Bennett5.
"""

WEAK = 3.0
"""A combination known to no better than a factor of e^3 = 20, or three times its own size, is called weakly constrained."""

NEGLIGIBLE = 1e-6
"""Nearer to a bound than this share of its standard error an estimate stands on it."""

PRIOR_SHARE = 0.9
"""Share of the information from which on the prior determines an estimate rather than the data."""


def null_directions(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return a mask of the singular values of column-scaled sensitivities that count as zero."""
    return values <= NULL[np.dtype(dtype).itemsize] * max(values.max(), np.finfo(dtype).tiny)


MOST_TOLD = 3
"""Number of directions that are told each for itself."""


def findings(result: AbstractFit) -> list[str]:
    """One sentence for every direction that the data do not constrain, every parameter on a bound, every prior in charge."""
    estimate, log = np.asarray(result.estimate, float), np.array(result.log, bool)
    # The step of each coordinate that changes its parameter by its own size.
    own = np.where(log | (estimate == 0), 1.0, np.abs(estimate))
    information = np.asarray(result.information, float)
    size = np.sqrt(np.diag(information))
    sentences, blind = [], size == 0
    for name, none in zip(result.names, blind, strict=True):
        if none:
            sentences.append(
                f"The data do not depend on `{name}`. Fix it, or measure an output that depends on it; with a prior alone the "
                "prior comes back."
            )
    seen = np.flatnonzero(~blind)
    if seen.size:
        sentences += _directions(result, information[np.ix_(seen, seen)], size[seen], own[seen], seen)
    sentences += _bounds(result)
    share = np.asarray(result.curvature, float) * np.diag(np.asarray(result.covariance, float))
    for i in np.flatnonzero((share > PRIOR_SHARE) & ~blind):
        sentences.append(
            f"The estimate of `{result.names[i]}` is mostly its prior's ({min(1.0, share[i]):.0%} of the information). Check that "
            "the prior is meant, or measure more."
        )
    return sentences


def _directions(
    result: AbstractFit, information: np.ndarray, size: np.ndarray, own: np.ndarray, seen: np.ndarray
) -> list[str]:
    # The information is a square, so its small eigenvalues hold rounding errors of eps; the square root of that bounds what
    # can be told from zero, hence the larger threshold here than for singular values themselves.
    values, vectors = np.linalg.eigh(information / size[:, None] / size)
    limit = max(NULL[np.dtype(result.information.dtype).itemsize] ** 2, 64 * np.finfo(result.information.dtype).eps)
    open_ones = [
        vector / size / own for value, vector in zip(values, vectors.T, strict=True) if value <= limit * values[-1]
    ]
    if len(open_ones) > MOST_TOLD:
        # Any mixture of so many directions is one of them, so that their own names would say little.
        part = np.sum(vectors[:, : len(open_ones)] ** 2, axis=1)
        names = [result.names[seen[i]] for i in np.flatnonzero(part > 0.5)] or [result.names[i] for i in seen]
        return [
            f"The data leave {len(open_ones)} of {len(seen)} directions open, among {_listed(names)}. The place is no optimum to "
            "trust: start elsewhere, fix some of these, or give them priors."
        ]
    sentences = [_unconstrained(result, direction / np.abs(direction).max(), seen) for direction in open_ones]
    if sentences or not _scale_known(result):
        return sentences
    relative, vectors = np.linalg.eigh(information * own[:, None] * own)
    for value, vector in zip(relative, vectors.T, strict=True):
        if value < WEAK**-2:
            text, _ = _combination(result, vector / np.abs(vector).max(), seen)
            spread = 1 / np.sqrt(max(value, np.finfo(float).tiny))
            sentences.append(
                f"The data constrain {text} only weakly: one standard error is {spread:.2g} times its size (in logarithms where "
                "it moves by them). Measure more or at other times, or give a prior."
            )
    return sentences


def _scale_known(result: AbstractFit) -> bool:
    """Tell whether the size of the noise model agrees with the scatter, without which sizes of errors mean nothing."""
    freedom = int(result.data_count) - len(result.names)
    return freedom > 0 and 0.1 < float(result.chi_squared) / freedom < 10


def _unconstrained(result: AbstractFit, direction: np.ndarray, seen: np.ndarray) -> str:
    text, kept = _combination(result, direction, seen)
    if kept:
        return (
            f"The data do not constrain {text}: they determine only {kept}. Fix one of the two, give one a tighter prior, or "
            "measure an output that depends on them separately."
        )
    return (
        f"The data do not constrain {text}. Fix one of its parameters, give one a tighter prior, or measure an output that "
        "depends on them separately."
    )


def _combination(result: AbstractFit, direction: np.ndarray, seen: np.ndarray) -> tuple[str, str]:
    """The combination that moves along a direction, in words, and for two parameters the one that stays.

    `direction` is relative: the change of each parameter in multiples of its own size, the largest 1.
    """
    parts = np.flatnonzero(np.abs(direction) > 0.1)
    names = [result.names[seen[i]] for i in parts]
    powers = direction[parts] * np.sign(direction[parts][0])
    if len(names) == 1:
        return f"`{names[0]}`", ""
    logs = all(result.log[seen[i]] for i in parts)
    if len(names) > 2:
        joined = " * ".join(_power(n, p) for n, p in zip(names, powers, strict=True))
        return f"the combination `{joined}`" if logs else f"a combination of {_listed(names)}", ""
    first, second = names
    if logs:
        # What stays is at right angles to what moves: a^p b^q moves, a^q / b^p stays.
        product, ratio = _product(first, second, powers), _product(first, second, np.array([1, -powers[0] / powers[1]]))
        words = ("the product", "the ratio")
        moved, stays = words if powers[1] > 0 else words[::-1]
        return f"{moved} `{product}`", f"{stays} `{ratio}`"
    # In plain numbers two sizes of the same change make a sum or a difference; only near the estimate it is a line.
    estimate = np.asarray(result.estimate, float)[seen[parts]]
    step = powers * np.where(estimate == 0, 1, np.abs(estimate))
    slope = step[1] / step[0]
    moved = f"{'the sum' if slope > 0 else 'the difference'} `{_line(first, second, slope)}`"
    stays = f"{'the difference' if slope > 0 else 'the sum'} `{_line(first, second, -1 / slope)}` (near the estimate)"
    return moved, stays


def _product(first: str, second: str, powers: np.ndarray) -> str:
    sign = "*" if powers[1] / powers[0] > 0 else "/"
    power = abs(powers / np.abs(powers).min())
    return f"{_power(first, power[0])} {sign} {_power(second, power[1])}"


def _power(name: str, power: float) -> str:
    rounded = round(float(power), 2)
    return name if rounded == 1 else f"{name}^{rounded:g}"


def _line(first: str, second: str, slope: float) -> str:
    factor = round(abs(slope), 3)
    other = second if factor == 1 else f"{factor:g} {second}"
    return f"{first} {'+' if slope > 0 else '-'} {other}"


def _listed(names: list[str]) -> str:
    return f"`{names[0]}`" if len(names) == 1 else ", ".join(f"`{name}`" for name in names[:-1]) + f" and `{names[-1]}`"


def _bounds(result: AbstractFit) -> list[str]:
    z, log = np.asarray(result.z, float), np.array(result.log, bool)[:, None]
    natural = np.asarray(result.bounds, float)
    with np.errstate(divide="ignore"):
        bounds = np.where(log, np.log(np.where(log, natural, 1)), natural)
    # A fit that runs into a bound ends within a few margins of it; at a bound of zero, which has no size, far below its error.
    near = max(1e-9, 32 * float(np.finfo(result.z.dtype).eps))
    margins, errors = (
        np.asarray(margin(jnp.asarray(bounds))),
        np.sqrt(np.abs(np.diag(np.asarray(result.covariance, float)))),
    )
    sentences = []
    for i, name in enumerate(result.names):
        for word, end, shown, side in zip(("lower", "upper"), bounds[i], natural[i], margins[i], strict=True):
            close = max(near * max(1.0, abs(end)) if log[i] else near * abs(end), NEGLIGIBLE * errors[i])
            with np.errstate(invalid="ignore"):
                close = max(min(close, 1e-3 * (bounds[i, 1] - bounds[i, 0])), 10 * side)
            if np.isfinite(end) and abs(z[i] - end) <= close:
                sentences.append(
                    f"`{name}` ended on its {word} bound, {shown:g}: its standard error does not hold there. Widen the bound, or "
                    "fix the parameter."
                )
    return sentences
