"""Experiments: one data set each, and what differs there."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpyro.distributions as dist

from .._doors import check_kind, check_mapping, shown
from .._errors import ArgumentError, DataError
from .._types import Inputs, State
from ._censored import Censored
from ._doses import Dose, Doses
from ._successes import Successes

Condition = Mapping[str, float | str | np.ndarray]
Observable = Callable[[Any, Any], Any]
"""A pure function of (system, trajectory) that returns an array with a leading time axis."""


class Experiment:
    """One data set.

    **Arguments:**

    - `name`: how messages, tables and plots call it.
    - `times`: shape `(times,)`, increasing: when the data were taken. For a `StaticSystem` the predictor instead, of shape
        `(data,)` or `(data, predictors)`, in any order.
    - `data`: output name to values with the leading shape `(times,)`; NaN is a missing value. `Censored` in place of values: data
        beyond limits of quantification. `Successes`: numbers of successes among trials.
    - `start`: when the initial state holds; by default the first time.
    - `y0`, `inputs`: the initial state and the inputs here; by default the problem's.
    - `events`: what happens here, as in `simulate`; by default the problem's. Known times may differ between experiments, functions
        not. `doses`: `Doses`, or `Dose`s, that are added to the state.
    - `set`: what else differs here, path to a number or to the name of a free parameter.
    - `errors`: output name to known relative sizes of the scatter, one a datum, by which the noise scale is multiplied: give
        standard deviations here and fix the scale at 1, or leave it free to estimate a common factor.
    - `individual`: whose data these are, where parameters differ between individuals (`Individual`); by default the
        experiment's own name. `covariates`: what is known of that individual, name -> number, or where it is missing the normal or
        log-normal distribution that it has in the population, such as `dist.Normal(70.0, 12.0)`.
    - `occasions`: where parameters differ between occasions (`Individual(occasion_spread=)`), the name of the one on which all of
        it was observed, or name -> the time at which each begins; the first holds before its time as well. Experiments of one
        individual that name the same occasion share it.
    - `groups`: where parameters differ between groups of individuals (`Individual(group_spreads=)`), level -> the name of the
        group, from the outermost level on: `{"country": "nl", "hospital": "north"}`. All experiments of an individual
        have the same.
    - `replicates`: whether a time may stand there several times in a row, one for each measurement.
    """

    def __init__(
        self,
        name: str,
        times: object,
        data: Mapping[str, Any],
        *,
        start: float | None = None,
        y0: State = None,
        inputs: Inputs = None,
        events: Any = None,
        doses: Doses | Dose | Sequence[Dose] | None = None,
        set: Condition | None = None,
        errors: Mapping[str, Any] | None = None,
        replicates: bool = False,
        individual: str | None = None,
        covariates: Mapping[str, float | dist.Distribution] | None = None,
        occasions: str | Mapping[str, float] | None = None,
        groups: Mapping[str, str] | None = None,
    ):
        check_kind("name", name, str, "a text", 'Write `simkit.Experiment("name", times, {"output": values})`.')
        check_mapping("data", data, "values by output", '{"hare": [30.0, 47.2]}')
        for argument, value in (("errors", errors), ("set", set), ("covariates", covariates)):
            if value is not None:
                check_mapping(argument, value, "numbers by name", '{"hare": 0.5}')
        self.name = str(name)
        self.times = _numbers(f"The times of experiment `{name}`", times)
        if self.times.ndim == 0 or self.times.shape[0] == 0:
            raise DataError(
                f"Experiment `{name}` must hold at least one time in an array, but it holds {shown(times)}."
            )
        if not np.all(np.isfinite(self.times)):
            raise DataError(
                f"The times of experiment `{name}` must be finite, but entry {_first_bad(self.times)} is not."
            )
        counted = {key: value for key, value in data.items() if isinstance(value, Successes)}
        data = {**data, **{key: value.shares for key, value in counted.items()}}
        limited = {key: value for key, value in data.items() if isinstance(value, Censored)}
        self.limits = {key: value.limits for key, value in limited.items()}
        plain = {key: limited[key].values if key in limited else value for key, value in data.items()}
        self.data = {key: self._series("data", key, value) for key, value in plain.items()}
        if not self.data:
            raise DataError(f"Experiment `{name}` must hold data for at least one output, but it holds none.")
        for key, values in self.data.items():
            if np.isinf(values).any():
                raise DataError(
                    f"The data of `{key}` in experiment `{name}` must be finite or NaN (missing), but some are infinite."
                )
            if np.isnan(values).all():
                raise DataError(f"The data of `{key}` in experiment `{name}` are all missing. Leave the output out.")
        self.counted = frozenset(counted)
        if both := sorted(self.counted & {*(errors or {})}):
            raise DataError(
                f"The data of `{both[0]}` in experiment `{name}` are successes, whose scatter follows from their trials. Leave "
                "`errors` out."
            )
        sizes = {**(errors or {}), **{key: value.trials for key, value in counted.items()}}
        self.errors = {key: self._series("errors", key, value) for key, value in sizes.items()}
        for key, values in self.errors.items():
            seen = np.isfinite(self.data[key]) if key in self.data else np.zeros(values.shape, bool)
            if key not in self.data:
                raise DataError(
                    f"The errors of `{key}` in experiment `{name}` belong to no data: give data of `{key}`, in a study file with "
                    f"a line in [noise], or leave its errors out."
                )
            if not np.all(values[seen] > 0):
                raise DataError(
                    f"The errors of `{key}` in experiment `{name}` must be positive wherever there are data, but some are not."
                )
        if start is not None:
            check_kind(
                "start",
                start,
                int | float | np.number | np.ndarray,
                "a time",
                "Write the number at which the state holds.",
            )
        self.start = None if start is None else float(start)
        self.y0, self.inputs, self.replicates = y0, inputs, replicates
        self.events = events
        self.doses = doses if doses is None or isinstance(doses, Doses) else Doses(doses)
        self.set: dict[str, float | str | np.ndarray] = dict(set or {})
        # Texts of tables are NumPy's, which would be taken for arrays.
        self.individual = str(name if individual is None else individual)
        self.covariates = _covariates(name, covariates)
        self.occasions = _occasions(name, occasions)
        self.groups = _groups(name, groups)

    def check_order(self) -> None:
        """Refuse times that do not increase strictly, or that lie before the start: what an integration needs."""
        if self.times.ndim != 1:
            raise DataError(
                f"The times of experiment `{self.name}` must have one dimension, but have {self.times.ndim}."
            )
        steps = np.diff(self.times)
        wrong = steps < 0 if self.replicates else steps <= 0
        if np.any(wrong):
            place = int(np.argmax(wrong))
            word = "is there twice" if steps[place] == 0 else f"is followed by {self.times[place + 1]:g}"
            raise DataError(
                f"The times of experiment `{self.name}` must increase, but {self.times[place]:g} {word} (entries {place} and "
                f"{place + 1}). Sort them; allow repeated measurements with `replicates=True`."
            )
        if self.start is not None and self.start > self.times[0]:
            raise DataError(
                f"The start of experiment `{self.name}` must not lie after its first time, {self.times[0]:g}, but it is "
                f"{self.start:g}."
            )

    def _series(self, what: str, key: str, values: object) -> np.ndarray:
        array = _numbers(f"The {what} of `{key}` in experiment `{self.name}`", values)
        if array.ndim == 0 or array.shape[0] != self.times.shape[0]:
            raise DataError(
                f"The {what} of `{key}` in experiment `{self.name}` must have one entry a time, {self.times.shape[0]}, but the "
                f"shape is {array.shape}."
            )
        return array

    def __repr__(self) -> str:
        count = {key: int(np.isfinite(value).sum()) for key, value in self.data.items()}
        beyond = {
            key: int(((self.data[key] <= own["low"]) | (self.data[key] >= own["high"])).sum())
            for key, own in self.limits.items()
        }
        censored = {key: f" ({number} censored)" if number else "" for key, number in beyond.items()}
        data = ", ".join(f"{key} {number}{censored.get(key, '')}" for key, number in count.items())
        return f"Experiment({self.name!r}: {self.times.shape[0]} times, data {data})"


def check_domain(name: str, key: str, values: np.ndarray, model: Any) -> None:
    """Refuse data on which the noise model has no density."""
    seen, domain, noise = values[np.isfinite(values)], model.domain, type(model).__name__
    if domain == "positive" and np.any(seen <= 0):
        raise ArgumentError(
            f"The noise model of `{key}` is {noise}, which needs positive data, but experiment `{name}` holds {seen.min():g}. "
            "Mark such values as missing (NaN), or take another noise model."
        )
    if domain == "share" and np.any((seen < 0) | (seen > 1)):
        raise ArgumentError(
            f"The noise model of `{key}` is {noise}, which needs shares between 0 and 1, but experiment `{name}` holds "
            f"{seen[(seen < 0) | (seen > 1)][0]:g}. Give counts as `simkit.Successes(counts, trials)`."
        )
    if domain == "count" and np.any((seen < 0) | (seen != np.round(seen))):
        bad = seen[(seen < 0) | (seen != np.round(seen))][0]
        raise ArgumentError(
            f"The noise model of `{key}` is {noise}, which needs counts 0, 1, 2, ..., but experiment `{name}` holds {bad:g}."
        )
    if seen.size and (most := model.largest()) is not None and seen.max() > most:
        raise ArgumentError(
            f"The noise model of `{key}` is {noise}, whose largest datum is {most:g}, but experiment `{name}` holds {seen.max():g}."
        )


def _occasions(experiment: str, given: str | Mapping[str, float] | None) -> dict[str, float]:
    """Occasion -> the time at which it begins, in their order; of one alone no time is asked."""
    if given is None or isinstance(given, str | int | np.integer):  # a number of a column is a name
        return {} if given is None else {str(given): -np.inf}
    check_mapping("occasions", given, "times by occasion", '{"first": 0.0, "second": 168.0}')
    found = {str(name): float(time) for name, time in given.items()}
    times = list(found.values())
    if not found or not np.isfinite(times).all() or not np.all(np.diff(times) > 0):
        raise DataError(
            f"The occasions of experiment `{experiment}` must begin at finite times that increase, but they are {found}."
        )
    return found


def _groups(experiment: str, given: Mapping[str, Any] | None) -> dict[str, str]:
    """Level -> group, from the outermost level on; a number of a column is a name."""
    if given is None:
        return {}
    check_mapping("groups", given, "groups by level", '{"country": "nl", "hospital": "north"}')
    for level, group in given.items():
        if not isinstance(group, str | int | np.integer) or level in ("occasion", "") or group == "":
            raise DataError(
                f"The groups of experiment `{experiment}` must be names by level, and no level is called `occasion`, but they have "
                f"`{level}` -> {shown(group)}."
            )
    return {str(level): str(group) for level, group in given.items()}


def _numbers(what: str, values: object) -> np.ndarray:
    try:
        return np.asarray(values, float)
    except (TypeError, ValueError) as error:
        raise DataError(f"{what} must be numbers, but: {error}.") from error


def _first_bad(array: np.ndarray) -> int:
    return int(np.argmin(np.isfinite(array.reshape(array.shape[0], -1)).all(axis=1)))


def _covariates(name: str, covariates: Mapping[str, Any] | None) -> dict[str, float | dist.Distribution]:
    """Return the covariates of an experiment: numbers, and distributions of those that are missing."""
    found: dict[str, float | dist.Distribution] = {}
    for key, value in (covariates or {}).items():
        if isinstance(value, dist.Distribution):
            if not isinstance(value, dist.Normal | dist.LogNormal) or value.batch_shape:
                raise ArgumentError(
                    f"The covariate `{key}` of experiment `{name}` must be a number, or where it is missing one normal or "
                    f"log-normal distribution, such as `dist.Normal(70.0, 12.0)`, but it is {shown(value)}. Model the groups of a "
                    "category apart, or leave out who has none."
                )
            found[key] = value
            continue
        try:
            found[key] = float(value)
        except (TypeError, ValueError) as error:
            raise ArgumentError(
                f"The covariate `{key}` of experiment `{name}` must be a number, but it is {shown(value)}."
            ) from error
    return found
