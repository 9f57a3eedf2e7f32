"""Members of a sweep: values that are held, or a rule that makes those of a chunk when it is computed."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from .._errors import ArgumentError
from ..core import Setup, check_member_numbers
from ._points import check_paths
from ._rules import Rule

PROBED = 5
"""Number of members of a rule at which a call is checked before it begins; `ensemble` looks at as many to choose a solver."""


@dataclasses.dataclass(frozen=True)
class Members:
    """The members of a sweep.

    - `setup`: what all of them have in common; `count`: how many there are.
    - `values`: path -> values of all, empty where there is a `rule`.
    - `probed`: path -> values of a few of them, the first and the last among them; of all of them where there is no rule.
    """

    setup: Setup
    count: int
    values: dict[str, np.ndarray]
    probed: dict[str, np.ndarray]
    rule: Rule | None = None

    @classmethod
    def of(cls, setup: Setup, over: object) -> "Members":
        """The members of an argument `over`.

        **Raises:** an `UnknownNameError` for a path that names nothing, an `ArgumentError` for values that do not fit.
        """
        if not isinstance(over, Rule):
            values = check_over(setup, over)
            check_member_numbers(setup.system, values)
            return cls(setup, len(next(iter(values.values()))), values, values)
        count = getattr(over, "count", None)
        if not isinstance(count, int | np.integer) or isinstance(count, bool) or count < 1:
            raise ArgumentError(
                f"The `count` of {type(over).__name__} must be a positive integer, the number of members, but it is {count!r}."
            )
        count = int(count)
        rows = np.unique(np.linspace(0, count - 1, PROBED).astype(int))
        return cls(setup, count, {}, _made(setup, over, rows), over)

    def at(self, first: int, count: int) -> dict[str, np.ndarray]:
        """The values of some members from a first one on.

        **Raises:** an `ArgumentError` where those of a rule do not fit.
        """
        if self.rule is None:
            return {path: value[first : first + count] for path, value in self.values.items()}
        found = _made(self.setup, self.rule, np.arange(first, first + count))
        if list(found) != list(self.probed):
            raise ArgumentError(
                f"{type(self.rule).__name__} must give values of the same paths to all members, but it gives "
                f"{', '.join(self.probed)} to the first and {', '.join(found)} to member {first}."
            )
        return found

    def definition(self) -> dict[str, Any]:
        """The definition of the members, for the identity of the sweep."""
        if self.rule is not None:
            first = {f"over {path}, first member": value[0] for path, value in self.probed.items()}
            return {"over": self.rule, **first}
        return {f"over {path}": value for path, value in self.values.items()}

    def shortened(self, count: int) -> dict[str, Any] | None:
        """`definition` of the first so many members; None where they are members of no rule of the same kind."""
        if self.rule is None:
            return {f"over {path}": value[:count] for path, value in self.values.items()}
        rule = self.rule.shortened(count)
        if rule is None or rule.count != count:
            return None
        # Rules whose first members depend on how many there are, such as a Latin hypercube, have other values at each.
        rows = np.unique(np.linspace(0, count - 1, PROBED).astype(int))
        before, after = (_made(self.setup, own, rows) for own in (rule, self.rule))
        same = list(before) == list(after) and all(
            np.array_equal(before[path], after[path], equal_nan=True) for path in before
        )
        return {**self.definition(), "over": rule} if same else None


def _made(setup: Setup, rule: Rule, numbers: np.ndarray) -> dict[str, np.ndarray]:
    """Values by a rule, checked as those that are held."""
    found = check_over(setup, rule.at(numbers))
    if len(next(iter(found.values()))) != len(numbers):
        path, value = next(iter(found.items()))
        raise ArgumentError(
            f"{type(rule).__name__} must give as many values as members are asked for, {len(numbers)}, but it gives {len(value)} "
            f"to `{path}`."
        )
    check_member_numbers(setup.system, found, numbers)
    return found


def check_over(setup: Setup, over: object) -> dict[str, np.ndarray]:
    """The values of the members as arrays, in the float types of what they replace.

    **Raises:** an `UnknownNameError` for a path that names nothing, an `ArgumentError` for values that do not fit.
    """
    if not isinstance(over, Mapping) or not over:
        raise ArgumentError(
            "Argument `over` must be a dictionary of path -> values with at least one path, or a rule of `simkit.sweeps`, but it "
            f"is {over!r}."
        )
    check_paths("over", over)
    found = {}
    for path, value in over.items():
        leaf = setup.get(path)
        try:
            array = np.asarray(value, leaf.dtype)
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"The values of `{path}` in `over` must be numbers, but: {error}.") from error
        if array.ndim != leaf.ndim + 1 or array.shape[1:] != leaf.shape or not len(array):
            shape = ", ".join(["members", *map(str, leaf.shape)])
            raise ArgumentError(
                f"The values of `{path}` in `over` must have the shape ({shape}), but it is {array.shape}."
            )
        found[path] = array
    sizes = {path: len(array) for path, array in found.items()}
    if len(set(sizes.values())) != 1:
        told = ", ".join(f"`{path}` {size}" for path, size in sizes.items())
        raise ArgumentError(
            f"All values of `over` must have one number of members, but they have: {told}. `simkit.sweeps.grid` makes all "
            "combinations."
        )
    return found
