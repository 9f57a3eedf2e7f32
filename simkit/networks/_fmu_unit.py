"""A functional mock-up unit as a pure function of time, states, inputs and parameters, in NumPy."""

import dataclasses
import functools
import hashlib
import math
import os
import shutil
import tempfile
import threading
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from .._errors import ArgumentError, DataError
from ..stores import reading
from ._fmu_calls import Calls, RestlessError, fmpy_package

STEP = float(np.cbrt(np.finfo(float).eps))
"""The longest step of central differences, relative to the size of a number: at that size their error is some 1e-10."""

STEPS = 6
"""The number of steps of differences, each a thousandth of the one before."""

LEAST = 64
"""The shortest step of a difference, in units of the last place of the number."""

AGREE = 1e-5
"""The relative difference up to which two steps say the same."""

DIFFERENT = 1e-4
"""The difference of a column of derivatives, relative to its largest number, above which a unit's own are not trusted."""

MOST_INSTANCES = 256
"""Instances of a unit in a process; one more set of parameters takes over that which was used longest ago."""

SHORTEST, LONGEST = -26, -10
"""Powers of 4 between which the step past an event lies, relative to the time or the span: 2e-16 to 1e-6."""

SAME = 1e-6
"""The relative difference of slopes above which a unit that was started anew is another one than after its event."""

Kind = Literal["slopes", "outputs", "start", "indicators", "after"]
Group = Literal["time", "states", "inputs", "parameters"]
"""The fields of a `Point`."""


class Variable(NamedTuple):
    """A floating-point variable of a unit: its name, reference and start value, None where it has none."""

    name: str
    reference: int
    start: float | None = None
    unit: str = "1"
    doc: str = ""


class Point(NamedTuple):
    """All that a unit's numbers follow from."""

    time: float
    states: np.ndarray
    inputs: np.ndarray
    parameters: np.ndarray


@dataclasses.dataclass(frozen=True)
class Unit:
    """A unit's file and the variables of it that a system knows; equal to another of the same file and variables.

    - `digest`: the SHA-256 of the file's bytes.
    - `states`, `slopes`, `inputs`, `parameters`, `outputs`: its variables; `fixed` further start values, each with type and
        reference.
    - `indicators`: how many event indicators there are.
    - `exact`: the groups by which the unit gives directional derivatives; elsewhere they are central differences.
    - `span`: the times of its default experiment.
    """

    path: str
    digest: str
    states: tuple[Variable, ...]
    slopes: tuple[Variable, ...]
    inputs: tuple[Variable, ...]
    parameters: tuple[Variable, ...]
    outputs: tuple[Variable, ...]
    fixed: tuple[tuple[str, int, Any], ...]
    indicators: int
    exact: tuple[Group, ...]
    span: tuple[float, float]

    def count(self, kind: Kind) -> int:
        """The number of values of a kind."""
        if kind == "indicators":
            return self.indicators
        return len(self.outputs if kind == "outputs" else self.states)

    def width(self, group: Group) -> int:
        """The number of numbers in a group."""
        return 1 if group == "time" else len(getattr(self, group))

    def values(self, kind: Kind, *point: Any) -> np.ndarray:
        """Numbers of a kind at points along leading axes; NaN where the unit fails.

        `after` are the states after the event at a point, and `start` those at the start, which follow from parameters alone.
        """
        return self._over(point, (self.count(kind),), lambda instance, at: instance.value(kind, at))

    def columns(self, kind: Kind, group: Group, *point: Any) -> np.ndarray:
        """The derivatives of `values` by one group of numbers, a column for each."""
        return self._over(
            point, (self.count(kind), self.width(group)), lambda instance, at: instance.columns(kind, group, at)
        )

    def bent(self, kind: Kind, group: Group, by: Group, *point: Any) -> np.ndarray:
        """The derivatives of `columns` by another group of numbers."""
        shape = self.count(kind), self.width(group), self.width(by)
        return self._over(point, shape, lambda instance, at: instance.bent(kind, group, by, at))

    def _over(self, point: Any, shape: tuple[int, ...], function: "Callable[..., np.ndarray]") -> np.ndarray:
        given = [np.asarray(x) for x in point]
        dtype, lead = given[1].dtype, given[0].shape
        rows = math.prod(lead)
        flat = [x.astype(float).reshape((rows, *x.shape[len(lead) :])) for x in given]
        finite = np.isfinite(np.concatenate([x.reshape(rows, -1) for x in flat], axis=1)).all(axis=1)
        found = np.full((rows, *shape), np.nan)
        instance = _instance(self)
        with instance.lock:
            for i in np.flatnonzero(finite):
                time, states, inputs, parameters = (x[i] for x in flat)
                found[i] = instance.guarded(function, [Point(float(time), states, inputs, parameters)], found[i])
        return found.reshape(*lead, *shape).astype(dtype)


class _Instance:
    """The unit loaded in this process: an instance for each set of parameters in use, so that nothing is remembered."""

    def __init__(self, unit: Unit):
        self.unit, self.lock = unit, threading.RLock()
        self.known, self.folder = unpacked(unit.path, unit.digest)
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        self.most = 1 if self.known.modelExchange.canBeInstantiatedOnlyOncePerProcess else MOST_INSTANCES
        self.begun: OrderedDict[bytes, Calls] = OrderedDict()
        self.spare: list[Calls] = []
        self.references = {
            name: [one.reference for one in getattr(unit, name)]
            for name in ("states", "slopes", "inputs", "parameters", "outputs")
        }
        self.sizes = np.ones(len(unit.states))

    def guarded(self, function: Callable[..., Any], points: list[Point], failed: Any) -> Any:
        """The result of a function of this instance; `failed` where the unit returns an error, after which it begins anew."""
        try:
            return function(self, *points)
        except (fmpy_package().fmi1.FMICallException, RestlessError):
            self.begun.clear()
            return failed

    def begin(self, at: Point) -> Calls:
        """An instance that was started with these parameters."""
        name = at.parameters.tobytes()
        if name in self.begun:
            self.begun.move_to_end(name)
            return self.begun[name]
        unit = self.unit
        if self.spare:
            calls = self.spare.pop()
        elif len(self.begun) >= self.most:
            calls = self.begun.popitem(last=False)[1]
        else:
            calls = Calls(Path(self.folder), self.known)
        references = self.references["inputs"] + self.references["parameters"]
        values = [*(one.start or 0.0 for one in unit.inputs), *at.parameters]
        calls.initialize(unit.span[0], (references, values), unit.fixed)
        self.sizes = calls.nominals(len(unit.states))
        self.begun[name] = calls
        return calls

    def forget(self, at: Point) -> None:
        """Have the unit begin anew with these parameters when it is needed next."""
        calls = self.begun.pop(at.parameters.tobytes(), None)
        if calls is not None:
            self.spare.append(calls)

    def value(self, kind: Kind, at: Point) -> np.ndarray:
        """Numbers of a kind at one point."""
        unit = self.unit
        if kind == "start":
            self.forget(at)
            return self.begin(at).states(len(unit.states))
        if kind == "after":
            return self._after(at)
        calls = self.place(at)
        if kind == "slopes":
            return calls.slopes(len(unit.states))
        if kind == "indicators":
            return calls.indicators(unit.indicators)
        return calls.get(self.references["outputs"])

    def place(self, at: Point) -> Calls:
        """An instance where everything is set, conditions too: as they are at this point, whatever they were before."""
        calls = self.begin(at)
        self._move(calls, at)
        if self.unit.indicators and calls.event():
            # What the unit did at this event it may remember beside its states.
            self.forget(at)
            calls.at(at.time, at.states)
        return calls

    def _move(self, calls: Calls, at: Point) -> None:
        calls.at(at.time, at.states)
        calls.set(self.references["inputs"], at.inputs)

    def _after(self, at: Point) -> np.ndarray:
        """The states after the event at a point.

        The unit itself changes where it is past the event by its own margin. So it is led along the slopes from before the point to
        behind it, in the shortest of steps that it answers to, and what it changes there is the change.
        """
        unit, begin, end = self.unit, *self.unit.span
        slopes = self.value("slopes", at)
        for power in range(SHORTEST, LONGEST):
            step = 4.0**power * max(abs(at.time), end - begin)
            before, behind = (at._replace(time=at.time + s, states=at.states + s * slopes) for s in (-step, step))
            self.forget(at)
            calls = self.place(before)
            signs = calls.indicators(unit.indicators) > 0
            self._move(calls, behind)
            if not (signs == (calls.indicators(unit.indicators) > 0)).all():
                return at.states + self._changed(calls, behind)
        return at.states

    def _changed(self, calls: Calls, at: Point) -> np.ndarray:
        """The change of the states by the event at a point, where the unit stands."""
        count = len(self.unit.states)
        calls.event()
        after = calls.states(count)
        slopes = calls.slopes(count)
        self.forget(at)
        if not np.allclose(slopes, self.value("slopes", at._replace(states=after)), rtol=SAME, atol=0):
            warnings.warn(
                f"The unit `{self.unit.path}` changes at its event at time {at.time:g} what its states do not hold: its "
                "trajectory ends there.",
                stacklevel=2,
            )
            raise RestlessError("it remembers")
        return after - at.states

    def columns(self, kind: Kind, group: Group, at: Point) -> np.ndarray:
        """The derivatives of `value` by a group of numbers."""
        unit = self.unit
        if group in unit.exact and kind in ("slopes", "outputs"):
            calls = self.place(at)
            found = [calls.derivative(self.references[kind], one) for one in self.references[group]]
        else:
            value = functools.partial(self.value, kind)
            found = [self.difference(value, group, at, i) for i in range(np.size(getattr(at, group)))]
        return np.stack(found, axis=-1) if found else np.zeros((unit.count(kind), 0))

    def bent(self, kind: Kind, group: Group, by: Group, at: Point) -> np.ndarray:
        """The derivatives of `columns` by another group of numbers, by central differences."""
        columns = functools.partial(self.columns, kind, group)
        found = [self.difference(columns, by, at, i) for i in range(np.size(getattr(at, by)))]
        return np.stack(found, axis=-1)

    def difference(self, function: Callable[[Point], np.ndarray], group: Group, at: Point, place: int) -> np.ndarray:
        """The derivative of a function of a point by one number, by central differences.

        Nothing says at which size of a number a unit bends. So steps go down by a thousand each, from its own size to its rounding,
        and each element is taken at that step which agrees with all shorter ones, as far as these are not rounding, with the least
        error.
        """
        middle = np.atleast_1d(np.asarray(getattr(at, group), float))
        size, least = self.scale(group, place, middle[place]), LEAST * np.spacing(abs(middle[place]))

        def moved(by: float) -> tuple[float, np.ndarray]:
            one = middle.copy()
            one[place] += by
            return one[place], function(at._replace(**{group: float(one[0]) if group == "time" else one}))

        steps = [STEP * size * 1e-3**k for k in range(STEPS)]
        ends = [(*moved(step), *moved(-step)) for step in steps if step >= least]
        slopes = np.stack([(high - low) / (up - down) for up, high, down, low in ends])
        widths = np.array([up - down for up, _, down, _ in ends]).reshape(-1, *(1,) * (slopes.ndim - 1))
        sizes = np.stack([np.maximum(np.abs(high), np.abs(low)) for _, high, _, low in ends])
        rounding = 8 * np.finfo(float).eps * sizes
        rounding = rounding + np.nan_to_num(np.abs(ends[-1][1] + ends[-1][3] - 2 * function(at)))
        return _best(slopes, rounding / widths)

    def scale(self, group: str, place: int, value: float) -> float:
        """The size of a number that may be zero: at least its start value, else what the unit declares, else 1."""
        if group == "time":
            begin, end = self.unit.span
            return max(abs(value), end - begin)
        start = getattr(self.unit, group)[place].start
        return max(abs(value), abs(start) if start else (self.sizes[place] if group == "states" else 1.0))


def _best(slopes: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """The best of slopes by ever shorter steps, with what rounding makes of each, for each element."""
    errors, agree = np.array(noise), np.isfinite(slopes)
    for k in range(len(slopes)):
        for j in range(k + 1, len(slopes)):
            apart = np.abs(slopes[k] - slopes[j])
            allowed = AGREE * np.maximum(np.abs(slopes[k]), np.abs(slopes[j])) + noise[k] + noise[j]
            agree[k] &= ~(apart > allowed)
        if k + 1 < len(slopes):
            errors[k] += np.nan_to_num(np.abs(slopes[k] - slopes[k + 1]), nan=np.inf)
    chosen = np.argmin(np.where(agree, errors, np.inf), axis=0)
    chosen = np.where(agree.any(axis=0), chosen, len(slopes) - 1)
    return np.take_along_axis(slopes, chosen[None], axis=0)[0]


@functools.cache
def _made(unit: Unit, process: int) -> _Instance:
    return _Instance(unit)


def _instance(unit: Unit) -> _Instance:
    """The instance of this process: one that was forked loads the unit again."""
    return _made(unit, os.getpid())


def started(unit: Unit) -> Unit:
    """Load a unit and start it with the values of its file, so that what fails does so where it is read.

    **Returns:** the unit; it goes by differences where its directional derivatives are not those of its slopes, and by parameters
    where it gives none, which the standard leaves open.

    **Raises:** a `DataError` with what the library says, an `ArgumentError` for events that a system cannot have.
    """
    numbers = [np.array([one.start or 0.0 for one in ones]) for ones in (unit.inputs, unit.parameters)]
    at = Point(unit.span[0], np.zeros(len(unit.states)), *numbers)
    try:
        instance = _instance(unit)
        start = instance.value("start", at)
        if not unit.exact:
            return unit
        groups: tuple[Group, ...] = ("states", "inputs", "parameters")
        check = functools.partial(_same_derivatives, start=start)
        right = tuple(group for group in groups if instance.guarded(functools.partial(check, group=group), [at], False))
        if not {"states", "inputs"} <= {*right}:
            warnings.warn(
                f"The directional derivatives of the unit `{unit.path}` are not those of its slopes. Differences stand in "
                "for them.",
                stacklevel=3,
            )
            right = ()
        return dataclasses.replace(unit, exact=right)
    except RestlessError as error:
        raise ArgumentError(f"The unit `{unit.path}` cannot be a system: {error}.") from error
    except (OSError, fmpy_package().fmi1.FMICallException) as error:
        raise DataError(f"The unit `{unit.path}` cannot be started: {error}") from error


def _same_derivatives(instance: _Instance, at: Point, group: Group, start: np.ndarray) -> bool:
    """Tell whether the unit's own derivatives agree with differences at the start, or else at two points beside it.

    At one point they may differ: where a formula has a kink, both are right.
    """
    sizes = np.array([instance.scale("states", i, x) for i, x in enumerate(start)])
    value, wrong = functools.partial(instance.value, "slopes"), 0
    for share in (0.0, 0.1, 0.17):
        point = at._replace(states=start + share * sizes)
        own = instance.columns("slopes", group, point)
        found = [instance.difference(value, group, point, i) for i in range(own.shape[1])]
        found = np.stack(found, axis=-1) if found else own
        scale = np.maximum(np.abs(own), np.abs(found)).max(initial=0.0, axis=0)
        if np.isnan(found).any() or (np.abs(own - found) <= DIFFERENT * scale).all():
            return True
        wrong += 1
    return wrong < 2


def unpacked(path: str, digest: str) -> tuple[Any, str]:
    """FMPy's model description of a file and the folder that it was unpacked into.

    **Raises:** a `DataError` where the file has changed since it was read.
    """
    with reading(path, "functional mock-up unit"):
        content = Path(path).read_bytes()
    if hashlib.sha256(content).hexdigest() != digest:
        raise DataError(f"The unit `{path}` has changed since it was read. Read it again.")
    folder = tempfile.mkdtemp(prefix="fmu-")
    fmpy = fmpy_package()
    fmpy.extract(path, unzipdir=folder)
    return fmpy.read_model_description(path, validate=False), folder
