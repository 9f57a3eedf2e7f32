"""Data as vectors that networks can learn from: of order 1, and near normal."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import ndtri

from ..._errors import ArgumentError, DataError
from ...problem import in_shape

Scale = Literal["plain", "log", "asinh"]
Summary = Callable[[Mapping[str, Array]], Any]

ENOUGH = 1.02
"""Ratio of correlations with normal scores from which on a curved scale is taken in place of the plain one."""

KNOWN = 2_000
"""Simulations at most by which scales are chosen."""


class Mask:
    """An array of truth values that compares and hashes by its content, so that compiled programs can depend on it."""

    def __init__(self, there: np.ndarray):
        self.there = there
        self._key = there.shape, there.tobytes()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mask) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


class Features(eqx.Module):
    r"""The map of data to a vector of features of order 1.

    Each number x of the data that is not missing, or of the summary, becomes (g(x) - center) / scale, where g is x, log x, or
    asinh((x - a) / b) with median a and a robust width b, whichever makes simulated numbers most normal.

    - `seen`: by output name, which data are there.
    - `whole`: which features have been whole numbers in all simulations.
    """

    kinds: tuple[Scale, ...] = eqx.field(static=True)
    middle: Float[Array, " features"]
    width: Float[Array, " features"]
    center: Float[Array, " features"]
    scale: Float[Array, " features"]
    whole: tuple[bool, ...] = eqx.field(static=True)
    seen: tuple[tuple[str, Mask], ...] = eqx.field(static=True)
    summary: Summary | None = eqx.field(static=True)

    @property
    def size(self) -> int:
        return len(self.kinds)

    def __call__(self, data: Mapping[str, Array]) -> Float[Array, " features"]:
        """The features of one data set, in the data's float type."""
        return self.scaled(self.raw(data))

    def raw(self, data: Mapping[str, Array]) -> Float[Array, " features"]:
        """The numbers of one data set behind its features."""
        return raw_features(data, self.seen, self.summary)

    def scaled(self, raw: Float[Array, "*batch features"]) -> Float[Array, "*batch features"]:
        """Numbers of the data as features."""
        if raw.ndim > 1:
            return jax.vmap(self.scaled)(raw)
        plain, logarithm = (np.array([kind == name for kind in self.kinds], bool) for name in ("plain", "log"))
        positive = jnp.log(jnp.where(logarithm, jnp.maximum(raw, jnp.finfo(raw.dtype).tiny), 1))
        curved = jnp.arcsinh((raw - self.middle) / self.width)
        return (jnp.where(plain, raw, jnp.where(logarithm, positive, curved)) - self.center) / self.scale

    def log_slope(self, raw: Float[Array, " features"]) -> Float[Array, ""]:
        """The logarithm of the volume by which features grow with data."""
        kinds = np.array(self.kinds)
        bent = jnp.where(kinds == "log", -jnp.log(jnp.where(kinds == "log", jnp.abs(raw), 1)), 0)
        curve = -0.5 * jnp.log1p(((raw - self.middle) / self.width) ** 2) - jnp.log(self.width)
        return jnp.sum(jnp.where(kinds == "asinh", curve, bent) - jnp.log(self.scale))

    def jittered(self, raw: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Simulated numbers with whole ones spread evenly between halves, so that they have a density."""
        noise = rng.uniform(-0.5, 0.5, raw.shape) * np.array(self.whole)
        return raw + noise


def raw_features(
    data: Mapping[str, Array], seen: tuple[tuple[str, Mask], ...], summary: Summary | None
) -> Float[Array, " numbers"]:
    """The numbers of one data set that are not missing, or its summary."""
    for name, mask in seen:
        if name not in data:
            raise DataError(f"The data of `{name}` must have the shape {mask.there.shape}, but there are none.")
    data = {name: in_shape(name, data[name], mask.there.shape, None) for name, mask in seen}
    if summary is not None:
        found = summary({name: jnp.where(mask.there, data[name], jnp.nan) for name, mask in seen})
        try:
            numbers = jnp.atleast_1d(jnp.asarray(found)).ravel()
        except (TypeError, ValueError) as error:
            raise DataError(f"The summary must return numbers of one array, but it does not: {error}") from error
        if not numbers.size:
            raise DataError("The summary must return at least one number, but it returns none.")
        return numbers.astype(next(iter(data.values())).dtype)
    return jnp.concatenate([jnp.asarray(data[name]).ravel()[np.flatnonzero(mask.there)] for name, mask in seen])


def features_of(raw: np.ndarray, seen: tuple[tuple[str, Mask], ...], summary: Summary | None) -> Features:
    """The features for numbers that simulations gave, shape `(simulation, number)`, all finite."""
    dtype, raw = raw.dtype, raw.astype(np.float64)  # squares of small units underflow in single precision
    kinds, columns, whole = [], [], []
    middle, width = np.median(raw, axis=0), robust_widths(raw)
    for x, a, b in zip(raw.T, middle, width, strict=True):
        whole.append(bool(np.all(x == np.round(x)) and np.ptp(x) > 0))
        choices: dict[Scale, np.ndarray] = {"plain": x, "asinh": np.arcsinh((x - a) / b)}
        if x.min() > 0:
            choices["log"] = np.log(x)
        straight = {kind: normality(values) for kind, values in choices.items()}
        best = max(straight, key=lambda kind: straight[kind])
        kinds.append(best if straight[best] > ENOUGH * straight["plain"] else "plain")
        columns.append(choices[kinds[-1]])
    moved = np.stack(columns, axis=1)
    center, spread = moved.mean(axis=0), moved.std(axis=0)
    spread = np.where(spread > 1e-12 * np.abs(center), spread, np.where(center == 0, 1, np.abs(center)))
    given = lambda x: jnp.asarray(x, dtype)
    return Features(
        tuple(kinds), given(middle), given(width), given(center), given(spread), tuple(whole), seen, summary
    )


def robust_widths(raw: np.ndarray) -> np.ndarray:
    """Half the distance of the 16 and the 84 % quantile of each column; where that is 0, its standard deviation, else 1."""
    low, high = np.quantile(raw, [0.16, 0.84], axis=0)
    spread = raw.std(axis=0)
    return np.where(high > low, (high - low) / 2, np.where(spread > 0, spread, 1.0))


def normality(values: np.ndarray) -> float:
    """The correlation of sorted values with normal scores, 1 for normal ones."""
    values = np.sort(values[:KNOWN])
    spread = values - values.mean()
    scores = ndtri((np.arange(len(values)) + 0.5) / len(values))
    size = np.sqrt(np.sum(spread**2) * np.sum(scores**2))
    return float(np.sum(spread * scores) / size) if size > 0 else 1.0


def check_summary(summary: Any) -> None:
    """Refuse a summary that is no function."""
    if summary is not None and not callable(summary):
        raise ArgumentError(
            "Argument `summary` must be a function of data by output name that returns numbers, such as "
            "`lambda data: jnp.mean(data['x'])`, but it is no function."
        )
