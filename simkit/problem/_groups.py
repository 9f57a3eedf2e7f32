"""Levels of groups above individuals, such as hospitals and countries of patients, and occasions below them."""

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from .._errors import ArgumentError, check_known
from ._experiment import Experiment

LISTED = 6
"""The most experiments that a message about groups lists."""


class Level(NamedTuple):
    """Groups of individuals, such as the hospitals of patients.

    - `name`, `labels`: the name of the level, and those of its groups.
    - `owners`: the group of each individual.
    - `effects`: the parameters with a spread between these groups, by their places in `Population.names`.
    """

    name: str
    labels: tuple[str, ...]
    owners: tuple[int, ...]
    effects: tuple[int, ...]

    @property
    def members(self) -> np.ndarray:
        """Number of individuals of each group."""
        return np.bincount(self.owners, minlength=len(self.labels))

    @property
    def first(self) -> np.ndarray:
        """The first individual of each group."""
        return np.unique(self.owners, return_index=True)[1]


def levels_of(
    spreads: Sequence[Mapping[str, object]], experiments: Sequence[Experiment], labels: Sequence[str]
) -> tuple[Level, ...]:
    """The levels that have spreads, the innermost first.

    **Arguments:** `spreads` has the spreads between groups of each parameter, by level; `labels` the individuals.

    **Raises:** an `ArgumentError` with the experiments where groups are missing, do not nest, or cannot be told apart.
    """
    asked = list(dict.fromkeys(level for own in spreads for level in own))
    if not asked:
        return ()
    order = _order(asked, experiments)
    found: list[Level] = []
    for name in order:
        groups = tuple(dict.fromkeys(e.groups[name] for e in experiments))
        owners = _owners(name, experiments, labels)
        effects = tuple(k for k, own in enumerate(spreads) if name in own)
        found.append(Level(name, groups, tuple(groups.index(owners[label]) for label in labels), effects))
    for inner, outer in itertools.pairwise(found):
        _check_nested(inner, outer, experiments)
    for level, below in zip(found, [len(labels), *(len(level.labels) for level in found)], strict=False):
        if len(level.labels) < 2 or len(level.labels) == below:
            what = "is only one group" if len(level.labels) < 2 else "has no group with more than one member"
            raise ArgumentError(
                f"A spread between groups of the level `{level.name}` needs several groups of several members, but the level "
                f"{what}. Leave `{level.name}` out of `group_spreads`."
            )
    return tuple(found)


def _order(asked: Sequence[str], experiments: Sequence[Experiment]) -> list[str]:
    """The levels from the innermost to the outermost: experiments name them the other way round."""
    orders: dict[tuple[str, ...], str] = {}
    for e in experiments:
        for name in asked:
            if not e.groups:
                raise ArgumentError(
                    f"Experiment `{e.name}` must name its group of the level `{name}`, for which there are `group_spreads`, but it "
                    f'has no groups. Write `Experiment(..., groups={{"{name}": "..."}})`.'
                )
            check_known(name, e.groups, f"level of groups (of experiment `{e.name}`)")
        orders.setdefault(tuple(name for name in e.groups if name in asked), e.name)
    if len(orders) > 1:
        (one, first), (other, second) = list(orders.items())[:2]
        raise ArgumentError(
            f"Experiments must name the levels of `groups` in one order, the outermost first, but `{first}` has {one} and "
            f"`{second}` {other}."
        )
    return list(next(iter(orders)))[::-1]


def _owners(level: str, experiments: Sequence[Experiment], labels: Sequence[str]) -> dict[str, str]:
    """Individual -> its group of a level."""
    found: dict[str, str] = {}
    for e in experiments:
        if found.setdefault(e.individual, e.groups[level]) != e.groups[level]:
            own = [
                f"`{other.name}` ({other.groups[level]})" for other in experiments if other.individual == e.individual
            ]
            raise ArgumentError(
                f"Each individual must lie within one group of the level `{level}`, but `{e.individual}` lies in several: "
                f"experiments {_listed(own)}. Levels that cross have no marginal likelihood here; let an individual change its "
                "group by another name of the individual, or make the level a covariate."
            )
    return {label: found[label] for label in labels}


def _check_nested(inner: Level, outer: Level, experiments: Sequence[Experiment]) -> None:
    """Refuse a group that lies within several groups of the level above."""
    for group in inner.labels:
        own = {e.groups[outer.name] for e in experiments if e.groups[inner.name] == group}
        if len(own) < 2:
            continue
        rows = [f"`{e.name}` ({e.groups[outer.name]})" for e in experiments if e.groups[inner.name] == group]
        raise ArgumentError(
            f"The group `{group}` of the level `{inner.name}` must lie within one group of the level `{outer.name}`, but it lies "
            f"in several: experiments {_listed(rows)}. Write the outermost level first, and give groups names of their own, "
            f"such as `{sorted(own)[0]} {group}`."
        )


def _listed(rows: Sequence[str]) -> str:
    more = len(rows) - LISTED
    return ", ".join(rows[:LISTED]) + (f" and {more} more" if more > 0 else "")


class Visit(NamedTuple):
    """An occasion of an individual: the place of the individual, its name for it, and which of its occasions it is, from 0 on."""

    individual: int
    name: str
    number: int


def visits_of(experiments: Sequence[Experiment], labels: Sequence[str]) -> tuple[Visit, ...]:
    """The occasions of all individuals, individual by individual, in the order in which experiments name them."""
    found: dict[str, dict[str, None]] = {label: {} for label in labels}
    for e in experiments:
        if not e.occasions:
            raise ArgumentError(
                f"A parameter has an `occasion_spread`, so each experiment must say its occasions, but `{e.name}` does not. Write "
                '`occasions="first"` where it is one, or `occasions={"first": 0.0, "second": 168.0}` with the times at which they '
                "begin."
            )
        found[e.individual] |= dict.fromkeys(e.occasions)
    visits = tuple(Visit(i, name, number) for i, label in enumerate(labels) for number, name in enumerate(found[label]))
    if len(visits) == len(labels):
        raise ArgumentError(
            "An `occasion_spread` needs an individual with more than one occasion, but none has: between individuals and between "
            "occasions cannot be told apart. Leave `occasion_spread` out."
        )
    return visits
