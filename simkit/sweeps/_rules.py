"""Rules: values of members by their numbers, made chunk by chunk, so that a sweep holds those of one chunk in memory."""

import abc
import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
from jaxtyping import Int, PRNGKeyArray

from .._doors import check_count, check_kind, shown
from .._errors import ArgumentError, check_known
from ..core import generator, whole_number
from ._points import Range, check_power_of_two, check_ranges, from_unit, grid_axes

Numbers = Int[np.ndarray, " n"]

ROUNDS = 8
"""Rounds of the permutation of a Latin hypercube. Four make a permutation that no test of few draws tells from a random one (Luby
and Rackoff, 1988, doi:10.1137/0217022); the halves of small numbers have few bits, so there are twice as many."""

MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
"""The constants of SplitMix64: Steele, Lea and Flood (2014), doi:10.1145/2660193.2660195."""


class Rule(abc.ABC):
    """Values of members that follow from their numbers, for `over` of `sweep`.

    A subclass is a frozen dataclass, whose fields and source text define the sweep, with the number of members as `count`.
    """

    count: int

    @abc.abstractmethod
    def at(self, numbers: Numbers) -> dict[str, np.ndarray]:
        """Return the values of the members with these numbers: path -> values, shape `(n,)` or `(n, *shape)`."""

    def shortened(self, count: int) -> "Rule | None":
        """Return the rule of the first members, of which a store may take more; None where it is no rule of this kind.

        Without a method of its own a rule whose `count` is a field has this with another `count`. A store takes more members
        only where they begin with those that it holds.
        """
        fields = {field.name: field for field in dataclasses.fields(self)} if dataclasses.is_dataclass(self) else {}
        known = "count" in fields and fields["count"].init
        return dataclasses.replace(self, count=count) if known else None  # pyright: ignore[reportArgumentType]


@dataclasses.dataclass(frozen=True)
class GridRule(Rule):
    """All combinations of values; the last path varies fastest: the members of `grid`.

    **Arguments:**

    - `axes`: path -> its values, numbers. A store takes more members where the first path gets more values behind its own.

    **Raises:** an `ArgumentError` for values that are no list of numbers.

    ```python
    import numpy as np
    import simkit
    rule = simkit.sweeps.GridRule({"growth": [0.5, 1.0], "death": [0.8, 0.9, 1.0]})
    print(rule.count, rule.at(np.array([0, 4])))
    ```
    """

    axes: Mapping[str, Any]

    def __post_init__(self):
        object.__setattr__(self, "axes", grid_axes(self.axes))

    @property
    def count(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return math.prod(len(values) for values in self.axes.values())

    def at(self, numbers: Numbers) -> dict[str, np.ndarray]:
        places = np.unravel_index(_within(self, numbers), [len(values) for values in self.axes.values()])
        return {path: values[place] for (path, values), place in zip(self.axes.items(), places, strict=True)}

    def shortened(self, count: int) -> "GridRule | None":
        (path, values), *others = self.axes.items()
        kept, rest = divmod(count, math.prod(len(other) for _, other in others))
        return None if rest else GridRule({path: values[:kept], **dict(others)})


@dataclasses.dataclass(frozen=True, init=False)
class PointsRule(Rule):
    """Points that fill ranges, uniform over them or over their logarithms, each from its number.

    **Arguments:**

    - `ranges`: path -> `(low, high)` or `(low, high, "log")`.
    - `count`: the number of points.
    - `key`: a random key.
    - `method`: `"sobol"`, the scrambled Sobol sequence: bit for bit the points of `points(method="sobol")`, a power of two, at
      most 2**30; a store takes more of them later. `"latin"`, a Latin hypercube by permutations of the members' numbers: each
      range, cut into `count` equal parts, has one point in every part. They are other points than those of `points`.

    **Raises:** an `ArgumentError` that names the path of a bad range, or for a bad `count` or `method`.

    **Source:** Owen (1998), doi:10.1006/jcom.1998.0487; Bratley and Fox (1988), doi:10.1145/42288.214372; permutations by a
    Feistel network, walked until they fall below `count`: Black and Rogaway (2002), doi:10.1007/3-540-45760-7_9.

    ```python
    import jax
    import numpy as np
    import simkit
    rule = simkit.sweeps.PointsRule({"growth": (0.3, 1.0)}, 2**24, key=jax.random.key(1))
    print(rule.at(np.array([0, 2**23])))
    ```
    """

    ranges: Mapping[str, Range]
    count: int
    key: PRNGKeyArray
    method: str

    def __init__(
        self,
        ranges: Mapping[str, Range],
        count: int,
        *,
        key: PRNGKeyArray,
        method: Literal["sobol", "latin"] = "sobol",
    ):
        check_count("count", count)
        check_known(str(method), ("sobol", "latin"), "`method` of PointsRule")
        if method == "sobol":
            check_power_of_two("count", count)
            if count > 2**MOST_BITS:
                raise ArgumentError(
                    f"Argument `count` must be at most 2**{MOST_BITS}, the length of the Sobol sequence, but it is {count}. Take "
                    '`method="latin"`.'
                )
        check_ranges(ranges)
        for name, value in (("ranges", dict(ranges)), ("count", count), ("key", key), ("method", str(method))):
            object.__setattr__(self, name, value)

    def at(self, numbers: Numbers) -> dict[str, np.ndarray]:
        numbers = _within(self, numbers).astype(np.uint64)
        return from_unit(self.ranges, self._sobol(numbers) if self.method == "sobol" else self._latin(numbers))

    def shortened(self, count: int) -> "PointsRule | None":
        if self.method != "sobol" or count & (count - 1):
            return None
        return PointsRule(self.ranges, count, key=self.key, method="sobol")

    def _sobol(self, numbers: np.ndarray) -> np.ndarray:
        """Points by the bytes of the Gray code of their numbers, each of which turns some bits of the first point."""
        first, tables = self._turns
        found = np.repeat(first[None], len(numbers), axis=0)
        gray = numbers ^ (numbers >> np.uint64(1))
        for byte, table in enumerate(tables):
            found ^= table[((gray >> np.uint64(8 * byte)) & np.uint64(255)).astype(np.intp)]
        return found.astype(float) * 2.0**-MOST_BITS

    @functools.cached_property
    def _turns(self) -> tuple[np.ndarray, list[np.ndarray]]:
        """The first point, and a table for each byte, as whole numbers."""
        first, directions = self._directions
        tables = []
        for begin in range(0, len(directions), 8):
            table = np.zeros((256, len(self.ranges)), np.uint64)
            for digit, direction in enumerate(directions[begin : begin + 8]):
                table[(np.arange(256) >> digit) & 1 == 1] ^= direction
            tables.append(table)
        return first, tables

    @functools.cached_property
    def _directions(self) -> tuple[np.ndarray, np.ndarray]:
        """The first point and the directions of a scrambled sequence, as whole numbers, from the points where digits first turn.

        SciPy goes there point by point, some seconds for 1e8 of them.
        """
        from scipy.stats import qmc

        sequence = qmc.Sobol(len(self.ranges), scramble=True, bits=MOST_BITS, rng=generator(self.key))
        whole = lambda unit: np.round(unit * 2.0**MOST_BITS).astype(np.uint64)
        first, directions, done = whole(sequence.random(1))[0], [], 1
        before = first
        for digit in range((self.count - 1).bit_length()):
            if (skipped := 2**digit - 1 - done) >= 0:
                sequence.fast_forward(skipped)
                before = whole(sequence.random(1))[0]
            after = whole(sequence.random(1))[0]
            directions.append(before ^ after)
            before, done = after, 2**digit + 1
        return first, np.array(directions, np.uint64).reshape(-1, len(self.ranges))

    def _latin(self, numbers: np.ndarray) -> np.ndarray:
        # Two words for each column: for its permutation, and for the places inside of its parts.
        begin, count = whole_number(self.key), 2 * len(self.ranges)
        words = _mixed(np.array([(begin + i * int(MIX[1])) % 2**64 for i in range(count)], np.uint64)).reshape(-1, 2)
        columns = []
        for order, salt in words:
            part = _permuted(numbers, self.count, order).astype(float)
            inside = (_mixed(numbers ^ salt) >> np.uint64(11)).astype(float) + 0.5
            columns.append((part + inside * 2.0**-53) / self.count)
        return np.stack(columns, axis=1)


@dataclasses.dataclass(frozen=True, init=False)
class SobolDesignRule(Rule):
    """Members whose sweep `sobol_indices` can analyse, each from its number: base points, with columns of others exchanged.

    There are `points (paths + 2)` of them, or `points (2 paths + 2)` with pairs, as of `sobol_design`, whose layout this is, from
    other base points: those of `PointsRule(method="sobol")` in twice as many columns.

    **Arguments:**

    - `ranges`: path -> `(low, high)` or `(low, high, "log")`.
    - `points`: the number of base points, a power of two; a store takes more of them later.
    - `key`: a random key.
    - `second_order`: whether the shares of pairs are wanted as well.

    **Raises:** an `ArgumentError` that names the path of a bad range, or for a bad number of points.

    **Source:** Saltelli (2002), doi:10.1016/S0010-4655(02)00280-1.

    ```python
    import jax
    import numpy as np
    import simkit
    rule = simkit.sweeps.SobolDesignRule({"growth": (0.3, 1.0), "death": (0.5, 1.2)}, 2**20, key=jax.random.key(1))
    print(rule.count, rule.at(np.arange(4)))
    ```
    """

    ranges: Mapping[str, Range]
    points: int
    key: PRNGKeyArray
    second_order: bool

    def __init__(self, ranges: Mapping[str, Range], points: int, *, key: PRNGKeyArray, second_order: bool = False):
        check_power_of_two("points", points)
        if points > 2**MOST_BITS:
            raise ArgumentError(
                f"Argument `points` must be at most 2**{MOST_BITS}, the length of the Sobol sequence, but it is {points}."
            )
        check_kind("second_order", second_order, bool, "True or False", "It is False without it.")
        check_ranges(ranges)
        told = {"ranges": dict(ranges), "points": points, "key": key, "second_order": second_order}
        for name, value in told.items():
            object.__setattr__(self, name, value)

    @property
    def size(self) -> int:
        """Members of a base point."""
        return (2 if self.second_order else 1) * len(self.ranges) + 2

    @property
    def count(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.points * self.size

    def at(self, numbers: Numbers) -> dict[str, np.ndarray]:
        block, place = np.divmod(_within(self, numbers), self.size)
        both = np.stack(list(self._base.at(block).values()), axis=1)
        paths = len(self.ranges)
        first, second = both[:, :paths], both[:, paths:]
        column = np.arange(paths)
        # A base point, that point with one column of the second, with pairs the second with one of the first, the second.
        mixed = np.where(place[:, None] == 1 + column, second, first)
        if self.second_order:
            mixed = np.where(
                place[:, None] > paths, np.where(place[:, None] == 1 + paths + column, first, second), mixed
            )
        return from_unit(self.ranges, np.where(place[:, None] == self.size - 1, second, mixed))

    def shortened(self, count: int) -> "SobolDesignRule | None":
        points, rest = divmod(count, self.size)
        if rest or points & (points - 1):
            return None
        return SobolDesignRule(self.ranges, points, key=self.key, second_order=self.second_order)

    @functools.cached_property
    def _base(self) -> PointsRule:
        columns = {str(i): (0.0, 1.0) for i in range(2 * len(self.ranges))}
        return PointsRule(columns, self.points, key=self.key)


@dataclasses.dataclass(frozen=True, init=False)
class FunctionRule(Rule):
    """Values by a function of the members' numbers.

    **Arguments:**

    - `function`: an array of whole numbers, shape `(n,)` -> path -> values, shape `(n,)` or `(n, *shape)`, each from its number
      alone. What it calls is not followed by the store.
    - `count`: the number of members. A store takes more of them later.

    ```python
    import numpy as np
    import simkit
    rule = simkit.sweeps.FunctionRule(lambda n: {"growth": 0.3 + 1e-8 * n}, 10**8)
    print(rule.at(np.array([5])))
    ```
    """

    function: Callable[[Numbers], Mapping[str, Any]]
    count: int

    def __init__(self, function: Callable[[Numbers], Mapping[str, Any]], count: int):
        check_count("count", count)
        if not callable(function):
            raise ArgumentError(
                f"Argument `function` must be a function of numbers of members, but it is {function!r}."
            )
        object.__setattr__(self, "function", function)
        object.__setattr__(self, "count", count)

    def at(self, numbers: Numbers) -> dict[str, np.ndarray]:
        found = self.function(_within(self, numbers))
        if not isinstance(found, Mapping) or not found:
            raise ArgumentError(
                f"The function of `FunctionRule` must return a dictionary of path -> values, but it returned {found!r}."
            )
        values = {path: np.asarray(value) for path, value in found.items()}
        for path, value in values.items():
            if np.iscomplexobj(value):
                raise ArgumentError(
                    f"The function of `FunctionRule` must return real numbers, but those of `{path}` are complex. Return their "
                    "real part, or real and imaginary part for paths of their own."
                )
        return values

    def shortened(self, count: int) -> "FunctionRule":
        return FunctionRule(self.function, count)


def _within(rule: Rule, numbers: Any) -> np.ndarray:
    """Numbers of members of a rule.

    **Raises:** an `ArgumentError` where there are others.
    """
    found = np.asarray(numbers)
    whole = np.issubdtype(found.dtype, np.integer) or found.size == 0
    if not whole or found.ndim != 1 or (found.size and (found.min() < 0 or found.max() >= rule.count)):
        raise ArgumentError(
            f"Argument `numbers` of `{type(rule).__name__}.at` must be an array of whole numbers from 0 to {rule.count - 1}, but "
            f"it is {shown(numbers)}. Give the rule a larger `count` for more members."
        )
    return found.astype(np.int64)


MOST_BITS = 30
"""Binary digits of SciPy's Sobol points."""


def _mixed(words: np.ndarray) -> np.ndarray:
    """The hash of SplitMix64."""
    with np.errstate(over="ignore"):
        words = words + MIX[0]
        words = (words ^ (words >> np.uint64(30))) * MIX[1]
        words = (words ^ (words >> np.uint64(27))) * MIX[2]
        return words ^ (words >> np.uint64(31))


def _permuted(numbers: np.ndarray, count: int, seed: np.uint64) -> np.ndarray:
    """The places of numbers below `count` in a permutation of them."""
    half = max(1, -(-(count - 1).bit_length() // 2))
    bits, mask = np.uint64(half), np.uint64(2**half - 1)
    keys = _mixed(seed ^ np.arange(ROUNDS, dtype=np.uint64))
    found = numbers.copy()
    outside = np.ones(len(found), bool)
    while outside.any():
        left, right = found[outside] >> bits, found[outside] & mask
        for key in keys:
            # The highest bits of a product depend on all bits of its factors; a single product would be a straight line.
            word = (right ^ key) * MIX[1]
            left, right = right, left ^ (((word ^ (word >> np.uint64(32))) * MIX[2]) >> (np.uint64(64) - bits))
        found[outside] = (left << bits) | right
        outside = found >= np.uint64(count)
    return found
