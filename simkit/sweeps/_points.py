"""Designs: the values of the members, as the dictionaries that `over` takes."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, PRNGKeyArray

from .._doors import check_count, shown
from .._errors import ArgumentError, check_known
from ..core import generator

Range = Any
"""`(low, high)` or `(low, high, "log")`."""

METHODS = ("random", "latin", "sobol")
"""The names of `points(method=...)`, which study files use, too."""


def grid(axes: Mapping[str, Any]) -> dict[str, Float[np.ndarray, " members"]]:
    """All combinations of values; the last path varies fastest.

    **Arguments:**

    - `axes`: path -> its values, numbers.

    **Returns:** path -> values, shape `(members,)`, where `members` is the product of the numbers of values.

    ```python
    import simkit
    points = simkit.sweeps.grid({"growth": [0.5, 1.0], "death": [0.8, 0.9, 1.0]})
    print(points["growth"])  # prints [0.5 0.5 0.5 1. 1. 1.]
    ```
    """
    values = grid_axes(axes)
    found = np.meshgrid(*values.values(), indexing="ij")
    return {path: array.ravel() for path, array in zip(values, found, strict=True)}


def grid_axes(axes: Mapping[str, Any]) -> dict[str, Float[np.ndarray, " values"]]:
    """The values of each path of a grid, as arrays.

    **Raises:** an `ArgumentError` where they are no lists of numbers.
    """
    if not isinstance(axes, Mapping):
        raise ArgumentError(f"Argument `axes` must be a table of paths and their values, but it is {shown(axes)}.")
    if not axes:
        raise ArgumentError("Argument `axes` must name at least one path, but it is empty.")
    try:
        values = {path: np.asarray(value, float) for path, value in axes.items()}
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"Argument `axes` must hold lists of numbers, but it is {shown(axes)}.") from error
    for path, value in values.items():
        if value.ndim != 1 or not value.size:
            raise ArgumentError(f"The values of `{path}` must be a list of numbers, but their shape is {value.shape}.")
    return values


def points(
    ranges: Mapping[str, Range],
    count: int,
    *,
    key: PRNGKeyArray,
    method: Literal["latin", "sobol", "random"] = "latin",
) -> dict[str, Float[np.ndarray, " members"]]:
    """Points that fill ranges, uniform over them or over their logarithms.

    **Arguments:**

    - `ranges`: path -> `(low, high)` or `(low, high, "log")`.
    - `count`: the number of points.
    - `key`: a random key.
    - `method`: `"latin"`, a Latin hypercube: each range, cut into `count` equal parts, has one point in every part. A good first
      choice. `"sobol"`, the scrambled Sobol sequence, which fills all ranges evenly together: means converge nearly as 1 / count,
      in place of 1 / sqrt(count), and `count` must be a power of two. `"random"`, independent points.

    **Returns:** path -> values, shape `(count,)`.

    **Raises:** an `ArgumentError` that names the path of a bad range, or for a bad `count` or `method`.

    **Source:** McKay, Beckman and Conover (1979), doi:10.1080/00401706.1979.10489755; Owen (1998), doi:10.1006/jcom.1998.0487.
    """
    from scipy.stats import qmc

    check_count("count", count)
    check_known(str(method), METHODS, "`method` of points")
    dimensions, draws = len(ranges), generator(key)
    if method == "random":
        return from_unit(ranges, draws.random((count, dimensions)))
    if method == "latin":
        return from_unit(ranges, qmc.LatinHypercube(dimensions, rng=draws).random(count))
    check_power_of_two("count", count)
    return from_unit(ranges, qmc.Sobol(dimensions, scramble=True, rng=draws).random_base2(count.bit_length() - 1))


def from_unit(ranges: Mapping[str, Range], unit: np.ndarray) -> dict[str, np.ndarray]:
    """Points of the unit cube, a column a path, moved into the ranges."""
    found = {}
    for (path, given), u in zip(check_ranges(ranges).items(), unit.T, strict=True):
        low, high, log = given
        # A straight line between logarithms can end a rounding error outside.
        inner = np.exp(np.log(low) + u * (np.log(high) - np.log(low))) if log else low + u * (high - low)
        found[path] = np.clip(inner, low, high)
    return found


def to_unit(ranges: Mapping[str, Range], values: Mapping[str, np.ndarray]) -> np.ndarray:
    """The inverse of `from_unit`."""
    columns = []
    for path, (low, high, log) in check_ranges(ranges).items():
        value = np.asarray(values[path], float)
        columns.append(np.log(value / low) / np.log(high / low) if log else (value - low) / (high - low))
    return np.stack(columns, axis=1)


def check_ranges(ranges: Mapping[str, Range]) -> dict[str, tuple[float, float, bool]]:
    """Ranges as low, high and whether they are logarithmic.

    **Raises:** an `ArgumentError` that names the path.
    """
    if not isinstance(ranges, Mapping) or not ranges:
        raise ArgumentError(f"Argument `ranges` must be a dictionary of path -> (low, high), but it is {ranges!r}.")
    check_paths("ranges", ranges)
    return {path: _range(path, given) for path, given in ranges.items()}


def check_paths(name: str, values: Mapping[Any, Any]) -> None:
    """Refuse a path that is no text.

    **Raises:** an `ArgumentError`.
    """
    for path in values:
        if not isinstance(path, str):
            raise ArgumentError(f"The paths in `{name}` must be texts, such as `system.growth`, but one is {path!r}.")


def check_power_of_two(name: str, count: object) -> None:
    """Refuse a number of points at which a Sobol sequence is out of balance."""
    if not isinstance(count, int | np.integer) or isinstance(count, bool):
        near = 1024
    elif count < 1 or count & (count - 1):
        near = 2 ** max(int(count) - 1, 1).bit_length()
    else:
        return
    raise ArgumentError(f"Argument `{name}` must be a power of two, such as {near}, but it is {count!r}.")


def _range(path: str, given: Range) -> tuple[float, float, bool]:
    what = f'The range of `{path}` must be (low, high) or (low, high, "log")'
    if (
        not isinstance(given, Sequence)
        or len(given) not in (2, 3)
        or (len(given) == 3 and given[2] not in ("log", "linear"))
    ):
        raise ArgumentError(f"{what}, but it is {given!r}.")
    try:
        low, high = map(float, given[:2])
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"{what}, but it is {given!r}.") from error
    log = list(given[2:]) == ["log"]
    if not (np.isfinite([low, high]).all() and low < high):
        raise ArgumentError(f"{what} with low below high, both finite, but it is {given!r}.")
    if log and low <= 0:
        raise ArgumentError(f"The range of `{path}` is logarithmic, so it must be positive, but it begins at {low:g}.")
    return low, high, log
