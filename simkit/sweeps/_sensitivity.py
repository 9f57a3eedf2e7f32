"""Global sensitivity: on which quantities an output depends over their whole ranges. SALib computes the indices."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Float, PRNGKeyArray

from .._doors import check_count, check_kind, shown
from .._errors import ArgumentError, missing_package
from ..core import generator, whole_number
from ._points import Range, check_power_of_two, check_ranges, from_unit, to_unit
from ._result import Sweep

DESIGNS = ("saltelli", "morris")
"""The names that study files have for the points of `sobol_design` and of `morris_design`."""


@dataclasses.dataclass(frozen=True)
class SobolIndices:
    """Shares of an output's variance, by path; of an output that is an array, of each of its elements.

    - `names`: the paths, the first axis of all arrays.
    - `first`: the share that goes with the quantity alone; `total`: with the quantity and all its interactions.
    - `second`: shape `(paths, paths, ...)`, the share of pairs above the diagonal, NaN elsewhere; None unless asked for.
    - `first_error`, `total_error`, `second_error`: half widths of their confidence intervals.
    - `confidence`: their level.
    """

    names: tuple[str, ...]
    first: Float[np.ndarray, "paths ..."]
    first_error: Float[np.ndarray, "paths ..."]
    total: Float[np.ndarray, "paths ..."]
    total_error: Float[np.ndarray, "paths ..."]
    second: Float[np.ndarray, "paths paths ..."] | None
    second_error: Float[np.ndarray, "paths paths ..."] | None
    confidence: float

    def __repr__(self) -> str:
        columns = {"first": self.first, "+-": self.first_error, "total": self.total, "+- ": self.total_error}
        return f"Sobol indices, {self.confidence:.0%} confidence\n" + _table(self.names, columns)


@dataclasses.dataclass(frozen=True)
class MorrisEffects:
    """Elementary effects on an output, by path, for a step over the whole range of a quantity.

    - `names`: the paths, the first axis of all arrays.
    - `mean`: their mean; `mean_absolute`: the mean of their magnitudes, by which to rank; `mean_absolute_error`: the half width
        of its confidence interval.
    - `deviation`: their standard deviation: large against `mean_absolute` where the effect is curved or hangs on other quantities.
    - `confidence`: the level of the interval.
    """

    names: tuple[str, ...]
    mean: Float[np.ndarray, "paths ..."]
    mean_absolute: Float[np.ndarray, "paths ..."]
    mean_absolute_error: Float[np.ndarray, "paths ..."]
    deviation: Float[np.ndarray, "paths ..."]
    confidence: float

    def __repr__(self) -> str:
        columns = {"mean |effect|": self.mean_absolute, "+-": self.mean_absolute_error}
        columns |= {"mean effect": self.mean, "deviation": self.deviation}
        return f"Elementary effects, {self.confidence:.0%} confidence\n" + _table(self.names, columns)


def sobol_design(
    ranges: Mapping[str, Range], count: int, *, key: PRNGKeyArray, second_order: bool = False
) -> dict[str, Float[np.ndarray, " members"]]:
    """The members whose sweep `sobol_indices` can analyse.

    There are `count (paths + 2)` of them, or `count (2 paths + 2)` with pairs (Saltelli 2002, doi:10.1016/S0010-4655(02)00280-1).

    **Arguments:**

    - `ranges`: path -> `(low, high)` or `(low, high, "log")`: uniform there, or in the logarithm, independent of each other.
    - `count`: a power of two. 1024 gives indices to some hundredths.
    - `key`: a random key.
    - `second_order`: whether the shares of pairs are wanted as well.

    **Raises:** a `MissingPackageError` where SALib is not installed.
    """
    check_power_of_two("count", count)
    check_kind("second_order", second_order, bool, "True or False", "It is False without it.")
    sample = _salib("sample.sobol").sample
    return from_unit(ranges, sample(_problem(ranges), count, calc_second_order=second_order, seed=whole_number(key)))


def sobol_indices(
    sweep: Sweep,
    ranges: Mapping[str, Range],
    output: str | Any,
    *,
    key: PRNGKeyArray,
    second_order: bool = False,
    confidence: float = 0.95,
    resamples: int = 100,
) -> SobolIndices:
    """Sobol's indices: which share of an output's variance goes with which quantity.

    With V the variance over all ranges, the first-order index of x_i is V(E(y | x_i)) / V and the total index
    E(V(y | all but x_i)) / V (Saltelli and others 2010, doi:10.1016/j.cpc.2009.09.018).

    **Arguments:**

    - `sweep`: a sweep over the points of `sobol_design`, with these `ranges` and `second_order`.
    - `output`: the name of a result, or numbers made of results, shape `(members, ...)`.
    - `key`, `resamples`: for the confidence intervals, which are bootstrapped.
    - `confidence`: their level.

    **Returns:** `SobolIndices`, which print as a table.

    **Raises:** an `ArgumentError` where members failed or are missing, or where the sweep is over other points, a
    `MissingPackageError` where SALib is not installed.
    """
    names, values = tuple(check_ranges(ranges)), _outputs(sweep, output)
    _check_settings(confidence, resamples)
    _check_blocks(sweep, ranges, second_order)
    analyze = _salib("analyze.sobol").analyze
    # SALib takes a seed of 0 for none.
    seed = whole_number(key) or generator(key)
    settings = {"calc_second_order": second_order, "num_resamples": resamples, "conf_level": confidence, "seed": seed}
    found = _each(values, lambda y: analyze(_problem(ranges), y, **settings))
    pairs = (found("S2"), found("S2_conf")) if second_order else (None, None)
    return SobolIndices(names, found("S1"), found("S1_conf"), found("ST"), found("ST_conf"), *pairs, confidence)


def morris_design(
    ranges: Mapping[str, Range], trajectories: int, *, key: PRNGKeyArray, levels: int = 4
) -> dict[str, Float[np.ndarray, " members"]]:
    """The members whose sweep `morris` can analyse: walks that change one quantity at a time.

    There are `trajectories (paths + 1)` of them (Morris 1991, doi:10.1080/00401706.1991.10484804).

    **Arguments:**

    - `ranges`: path -> `(low, high)` or `(low, high, "log")`.
    - `trajectories`: how many walks; 10 to 50 are good values.
    - `key`: a random key.
    - `levels`: how many values a quantity takes; an even number.
    """
    _check_levels(levels)
    check_count("trajectories", trajectories)
    sample = _salib("sample.morris").sample
    return from_unit(ranges, sample(_problem(ranges), trajectories, num_levels=levels, seed=whole_number(key)))


def morris(
    sweep: Sweep,
    ranges: Mapping[str, Range],
    output: str | Any,
    *,
    key: PRNGKeyArray,
    levels: int = 4,
    confidence: float = 0.95,
    resamples: int = 100,
) -> MorrisEffects:
    """Elementary effects: a screening that finds the quantities that matter at a cost of some ten simulations each.

    The effect of x_i at a point is (y(x + step e_i) - y(x)) / step, with ranges scaled to length 1 (Morris 1991; the mean of
    magnitudes: Campolongo and others 2007, doi:10.1016/j.envsoft.2006.10.004).

    The arguments are as in `sobol_indices`, for a sweep over the points of `morris_design` with these `ranges` and `levels`.
    """
    names, values = tuple(check_ranges(ranges)), _outputs(sweep, output)
    _check_settings(confidence, resamples)
    _check_levels(levels)
    unit = to_unit(ranges, _points(sweep, names))
    moved = ~np.isclose(np.diff(unit, axis=0), 0.0, atol=1e-9)
    inside = np.arange(1, len(unit)) % (len(names) + 1) != 0
    steps = np.abs(np.diff(unit, axis=0))[inside]
    if (
        len(unit) % (len(names) + 1)
        or not (moved[inside].sum(axis=1) == 1).all()
        or not np.allclose(steps[moved[inside]], levels / (2 * (levels - 1)), atol=1e-6)
    ):
        raise _other_points("morris_design(ranges, trajectories, levels=...)` with these `ranges` and `levels")
    analyze = _salib("analyze.morris").analyze
    seed = whole_number(key)
    settings = {"num_levels": levels, "num_resamples": resamples, "conf_level": confidence, "seed": seed}
    found = _each(values, lambda y: analyze(_problem(ranges), unit, y, **settings))
    return MorrisEffects(names, found("mu"), found("mu_star"), found("mu_star_conf"), found("sigma"), confidence)


def _salib(module: str) -> Any:
    import importlib

    try:
        return importlib.import_module(f"SALib.{module}")
    except ImportError as error:
        raise missing_package("Sensitivity analysis", "SALib", "sensitivity") from error


def _problem(ranges: Mapping[str, Range]) -> dict[str, Any]:
    """The unit cube, as SALib wants it told: the ranges are ours, logarithms and all."""
    names = list(check_ranges(ranges))
    return {"num_vars": len(names), "names": names, "bounds": [[0.0, 1.0]] * len(names)}


def _outputs(sweep: Sweep, output: str | ArrayLike | Sequence[Any]) -> np.ndarray:
    """The output of every member, or a sentence about those that have none."""
    label = f"Result `{output}`" if isinstance(output, str) else "Argument `output`"
    check_kind("sweep", sweep, Sweep, "a sweep", "`simkit.sweep(...)` or `simkit.sweeps.open(folder)` gives one.")
    values = np.asarray(sweep[output] if isinstance(output, str) else output, float)
    if values.ndim < 1 or len(values) != sweep.members:
        raise ArgumentError(
            f"{label} must have a value for each of {sweep.members} members, but its shape is {values.shape}."
        )
    bad = np.flatnonzero(~np.isfinite(values).reshape(len(values), -1).all(axis=1))
    if bad.size:
        where = ", ".join(f"{path} {value:.4g}" for path, value in sweep.member_values(int(bad[0])).items())
        raise ArgumentError(
            f"{label} must be finite for all members, but of {bad.size} it is not, the first being member {bad[0]}: {where}. "
            "Narrow the ranges to where the simulation succeeds, or measure something that is defined there as well."
        )
    if (values == values[0]).all():
        raise ArgumentError(
            f"{label} must vary between the members, but it is the same for all: nothing depends on the ranges."
        )
    return values


def _points(sweep: Sweep, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    if set(names) != set(sweep.values):
        raise ArgumentError(
            f"Argument `ranges` must name the paths of the sweep, {', '.join(sweep.values)}, but it names {', '.join(names)}."
        )
    return {name: np.asarray(sweep.values[name], float) for name in names}


def _check_settings(confidence: float, resamples: int) -> None:
    """Refuse settings of intervals that give none."""
    if not isinstance(confidence, int | float) or not 0 < confidence < 1:
        raise ArgumentError(f"Argument `confidence` must lie between 0 and 1, but it is {shown(confidence)}.")
    check_count("resamples", resamples, least=2)


def _check_levels(levels: object) -> None:
    if not isinstance(levels, int | np.integer) or levels < 2 or levels % 2:
        raise ArgumentError(f"Argument `levels` must be an even number of at least 2, but it is {levels!r}.")


def _check_blocks(sweep: Sweep, ranges: Mapping[str, Range], second_order: bool) -> None:
    """Check that the members come in blocks: a base point, points that differ from it in one quantity each, ...

    Base points are those of a Sobol sequence over the ranges: of a power of two of them each equal part of a range has one.
    """
    names = tuple(ranges)
    points = np.stack(list(_points(sweep, names).values()), axis=1)
    size = (2 if second_order else 1) * len(names) + 2
    wanted = "sobol_design(ranges, count" + (", second_order=True)" if second_order else ")")
    if len(points) % size:
        raise _other_points(wanted)
    blocks = points.reshape(-1, size, len(names))
    changed = blocks[:, 1 : len(names) + 1] != blocks[:, :1]
    if changed[:, ~np.eye(len(names), dtype=bool)].any():
        raise _other_points(wanted)
    unit = np.asarray(to_unit(ranges, {name: blocks[:, 0, k] for k, name in enumerate(names)}))
    parts = np.floor(np.clip(np.nan_to_num(unit), 0, 1 - 1e-9) * len(unit)).astype(int)
    if any(len(np.unique(column)) < 0.9 * len(unit) for column in parts.T):
        raise _other_points(f"{wanted.removesuffix(')')})` with these `ranges")


def _other_points(wanted: str) -> ArgumentError:
    return ArgumentError(
        f"The sweep must be over the points of `{wanted}`, but it is over others. Take them for `over`."
    )


def _each(values: np.ndarray, analyse: Callable[[np.ndarray], Any]) -> Callable[[str], np.ndarray]:
    """Analyse every element of the output; gives each index as an array with the elements' axes behind, NaN where an element is
    the same for all members."""
    columns = values.reshape(len(values), -1).T
    still = (columns == columns[:, :1]).all(axis=1)
    found = [None if same else analyse(column) for column, same in zip(columns, still, strict=True)]
    known = next(one for one in found if one is not None)

    def stacked(name: str) -> np.ndarray:
        number = lambda one: np.ma.filled(np.ma.asarray(one[name], float), np.nan)
        lost = np.full_like(number(known), np.nan)
        parts = np.stack([lost if one is None else number(one) for one in found], axis=-1)
        return parts.reshape(*parts.shape[:-1], *values.shape[1:])

    return stacked


def _table(names: tuple[str, ...], columns: Mapping[str, np.ndarray]) -> str:
    if next(iter(columns.values())).ndim > 1:
        shape = next(iter(columns.values())).shape[1:]
        return f"  {len(names)} paths ({', '.join(names)}), of an output of shape {shape}"
    width = max(map(len, names))
    lines = [" " * (width + 2) + "".join(f"{head:>15}" for head in columns)]
    for row, name in enumerate(names):
        lines.append(f"  {name:<{width}}" + "".join(f"{float(column[row]):>15.4g}" for column in columns.values()))
    return "\n".join(lines)
