"""Doses: amounts given into compartments at known times, as a person writes them and as arrays."""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from .._doors import shown
from .._errors import ArgumentError, DataError, check_known

MOST_ADDITIONAL = 100_000
"""Most additional doses of one dose: a table that asks for a thousand million would fill the memory."""

Compartment = str | int
"""The name of a compartment, or its number from 1 on."""


@dataclasses.dataclass(frozen=True)
class Dose:
    """A dose, or equal doses at equal intervals.

    **Arguments:**

    - `amount`: how much is given each time; it must be positive.
    - `time`: when the first is given.
    - `into`: the compartment, its name or its number from 1 on.
    - `rate`, `duration`: of an infusion, one of the two, since rate = amount / duration; by default all at once (a bolus).
    - `every`: the interval between doses, and `additional`: how many follow the first (columns II and ADDL).
    - `steady`: whether equal doses at this interval have been given for ever before the first (column SS): True for a state that is
        theirs alone, "added" for one that is added to what is there (SS 2), which is meant for linear systems.
    - `resets`: whether the state is set back to its start before the first dose (EVID 4).

    **Raises:** a `DataError` that says which number is wrong.
    """

    amount: float
    time: float = 0.0
    into: Compartment = 1
    _: dataclasses.KW_ONLY
    rate: float | None = None
    duration: float | None = None
    every: float | None = None
    additional: int = 0
    steady: bool | str = False
    resets: bool = False

    def __post_init__(self) -> None:
        for name in ("amount", "time", "rate", "duration", "every"):
            value = getattr(self, name)
            wanted = value is not None or name in ("amount", "time")
            if wanted and (isinstance(value, bool | str) or not np.isscalar(value) or not np.isfinite(float(value))):  # pyright: ignore
                raise DataError(f"The `{name}` of a dose must be a finite number, but it is {shown(value)}.")
        if self.amount <= 0:
            raise DataError(f"The `amount` of a dose must be positive, but it is {self.amount:g}.")
        if self.rate is not None and self.duration is not None:
            raise DataError(
                f"A dose must have a `rate` or a `duration`, but both are given, {self.rate:g} and {self.duration:g}. One follows "
                "from the other: rate = amount / duration."
            )
        for name in ("rate", "duration", "every"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise DataError(f"The `{name}` of a dose must be positive, but it is {value:g}. Leave it out for none.")
        if (
            isinstance(self.additional, bool)
            or not isinstance(self.additional, int | np.integer)
            or self.additional < 0
        ):
            raise DataError(
                f"The `additional` doses must be a whole number from 0 on, but they are {self.additional!r}."
            )
        if self.additional > MOST_ADDITIONAL:
            raise DataError(
                f"The `additional` doses must be at most {MOST_ADDITIONAL:,}, but they are {self.additional:,}. "
                "Doses that have been given for ever are `steady` (SS)."
            )
        if not np.isfinite(self.time + (self.every or 0.0) * int(self.additional) + self.duration_of_one):
            raise DataError(
                "The last of the doses must end at a finite time, but `rate` is too small or `every` too long."
            )
        if self.steady not in (True, False, "added"):
            raise DataError(
                f'The argument `steady` of a dose must be True, False or "added", but it is {self.steady!r}.'
            )
        for name, needs in (("additional", self.additional > 0), ("steady", bool(self.steady))):
            if needs and self.every is None:
                raise DataError(f"A dose with `{name}` must have an interval `every`, but it has none.")
        if self.steady and self.duration_of_one > (self.every or 0):
            raise DataError(
                f"An infusion at steady state must end within its interval, {self.every:g}, but it lasts {self.duration_of_one:g}."
            )
        if isinstance(self.into, bool) or not isinstance(self.into, str | int | np.integer):
            raise DataError(f"A dose must go `into` the name or the number of a compartment, but it is {self.into!r}.")
        if not isinstance(self.into, str) and self.into < 1:
            raise DataError(f"Compartments are numbered from 1 on, but a dose goes into {self.into}.")

    @property
    def duration_of_one(self) -> float:
        """Time that one dose takes; 0 where it is given all at once."""
        if self.rate is not None:
            return self.amount / self.rate
        return 0.0 if self.duration is None else self.duration

    @property
    def times(self) -> Float[np.ndarray, " doses"]:
        """The times of all its doses."""
        return self.time + (self.every or 0.0) * np.arange(self.additional + 1)


class _Row(NamedTuple):
    time: float
    amount: float
    target: Compartment | None
    duration: float = 0.0
    interval: float = 0.0
    resets: bool = False
    steady: bool = False
    added: bool = False
    by_rate: bool = False


class Doses:
    """The doses of one subject, one row each in the order of time, as arrays that cannot be changed.

    - `times`, `amounts`, `targets`: when, how much, and into which compartment, a name or a number from 1 on.
    - `durations`: how long an infusion takes, 0 where all is given at once; `rates`: amount / duration, 0 there.
    - `by_rate`: whether an infusion was given with its rate, so that bioavailability changes its duration rather than its rate.
    - `resets`: whether the state is set back to its start before the dose. A reset alone has the amount 0 and the target None.
    - `steady`, `intervals`: whether equal doses at this interval have been given for ever before; the interval is 0 elsewhere.
        `added`: whether that state is added to what is there.

    **Arguments:**

    - `doses`: `Dose` after `Dose`, or one; additional ones become rows of their own. Those of one time keep their order.
    - `resets`: times at which the state is set back without a dose (EVID 3), before the doses of that time.
    - `compartments`: names of the compartments, where they are known: targets become names, and others are refused.

    **Raises:** a `DataError` where a compartment does not exist, or where a reset falls between additional doses: programs differ
    in what becomes of the rest.

    ```python
    import simkit
    doses = simkit.problem.Doses([simkit.problem.Dose(100.0, 0.0, "gut", every=24.0, additional=2)], compartments=("gut", "blood"))
    print(doses.times, doses.amounts, doses.targets)
    ```
    """

    times: Float[np.ndarray, " rows"]
    amounts: Float[np.ndarray, " rows"]
    durations: Float[np.ndarray, " rows"]
    intervals: Float[np.ndarray, " rows"]
    resets: Bool[np.ndarray, " rows"]
    steady: Bool[np.ndarray, " rows"]
    added: Bool[np.ndarray, " rows"]
    by_rate: Bool[np.ndarray, " rows"]
    targets: tuple[Compartment | None, ...]
    compartments: tuple[str, ...]

    __slots__ = (
        "added",
        "amounts",
        "by_rate",
        "compartments",
        "durations",
        "intervals",
        "resets",
        "steady",
        "targets",
        "times",
    )

    def __init__(
        self, doses: Dose | Sequence[Dose] = (), *, resets: Sequence[float] = (), compartments: Sequence[str] = ()
    ):
        given = (doses,) if isinstance(doses, Dose) else tuple(doses)
        for dose in given:
            if not isinstance(dose, Dose):
                raise ArgumentError(f"Argument `doses` must hold `Dose`s, but it holds {shown(dose)}.")
        names = tuple(compartments)
        breaks = [float(t) for t in resets] + [d.time for d in given if d.resets or d.steady is True]
        rows = [_Row(float(t), 0.0, None, resets=True) for t in resets]
        for dose in given:
            _check_not_cut(dose, breaks)
            target = compartment(dose.into, names)
            for i, time in enumerate(dose.times):
                first = i == 0
                steady = bool(dose.steady) and first
                rows.append(
                    _Row(
                        float(time),
                        float(dose.amount),
                        target,
                        duration=dose.duration_of_one,
                        interval=float(dose.every or 0.0) if steady else 0.0,
                        resets=dose.resets and first,
                        steady=steady,
                        added=steady and dose.steady == "added",
                        by_rate=dose.rate is not None,
                    )
                )
        rows.sort(key=lambda row: row.time)
        numbers = {"times": "time", "amounts": "amount", "durations": "duration", "intervals": "interval"}
        flags = {name: name for name in ("resets", "steady", "added", "by_rate")}
        for names_of, kind in ((numbers, float), (flags, bool)):
            for name, field in names_of.items():
                object.__setattr__(self, name, _fixed(np.array([getattr(row, field) for row in rows], kind)))
        object.__setattr__(self, "targets", tuple(row.target for row in rows))
        object.__setattr__(self, "compartments", names)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"Doses cannot be changed, but `{name}` was set. Make new ones.")

    @property
    def rates(self) -> Float[np.ndarray, " rows"]:
        """The rate of an infusion; 0 where all is given at once."""
        lasting = self.durations > 0
        return np.where(lasting, self.amounts / np.where(lasting, self.durations, 1.0), 0.0)

    def check_start(self, start: float) -> None:
        """Refuse doses before the time at which the state starts."""
        early = self.times < start
        if early.any():
            raise DataError(
                f"Doses must not be given before the start, {start:g}, but one is given at {self.times[early][0]:g}. Move the "
                "start, or leave the dose out."
            )

    def __len__(self) -> int:
        return len(self.times)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Doses):
            return NotImplemented
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in self.__slots__)

    def __hash__(self) -> int:
        return hash((self.times.tobytes(), self.amounts.tobytes(), self.targets))

    def __repr__(self) -> str:
        given = self.amounts > 0
        if not given.any():
            return f"Doses(none, {int(self.resets.sum())} resets)"
        infused, resets = int((self.durations > 0).sum()), int(self.resets.sum())
        more = [f"{infused} infused"] * bool(infused) + [f"{resets} resets"] * bool(resets)
        more += ["from a steady state"] * bool(self.steady.any())
        times = self.times[given]
        parts = [f"{int(given.sum())} from {times[0]:g} to {times[-1]:g}", f"{self.amounts.sum():g} in all", *more]
        return f"Doses({', '.join(parts)})"


def compartment(given: Compartment, names: Sequence[str]) -> Compartment:
    """A compartment by its name where names are known, else as it was given.

    **Raises:** a `DataError` or an `UnknownNameError` that lists the names.
    """
    if not names:
        return given
    if isinstance(given, str):
        check_known(given, names, "compartment")
        return given
    if given > len(names):
        listed = ", ".join(f"{i} `{name}`" for i, name in enumerate(names, 1))
        raise DataError(f"There is no compartment {given}. The compartments are {listed}.")
    return names[given - 1]


def _check_not_cut(dose: Dose, breaks: Sequence[float]) -> None:
    last = float(dose.times[-1])
    cut = [t for t in breaks if dose.time < t <= last]
    if cut:
        raise DataError(
            f"A reset or a steady state must not fall between additional doses, but that at {min(cut):g} comes before the last of "
            f"{dose.additional} additional doses of {dose.time:g}, at {last:g}. Programs differ in what becomes of the rest: write "
            "each as a dose."
        )


def _fixed(array: np.ndarray) -> np.ndarray:
    array.setflags(write=False)
    return array
