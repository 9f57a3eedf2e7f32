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
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from .._errors import ArgumentError, DataError
from ._fmu_calls import Calls, RestlessError, fmpy_package

STEP = float(np.cbrt(np.finfo(float).eps))
"""Steps of central differences, relative to the size of a number: their error is some 1e-10."""

SHORTEST, LONGEST = -26, -10
"""Powers of 4 between which the step past an event lies, relative to the time or the span: 2e-16 to 1e-6."""

SAME = 1e-6
"""The relative difference of slopes above which a unit that was started anew is another one than after its event."""

Kind = Literal["slopes", "outputs", "start", "indicators", "after"]
Group = Literal["time", "states", "inputs", "parameters"]


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
    - `exact`: whether the unit gives directional derivatives; elsewhere they are central differences.
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
    exact: bool
    span: tuple[float, float]

    def count(self, kind: Kind) -> int:
        """How many numbers there are of a kind."""
        if kind == "indicators":
            return self.indicators
        return len(self.outputs if kind == "outputs" else self.states)

    def values(self, kind: Kind, *point: Any) -> np.ndarray:
        """Numbers of a kind at points along leading axes; NaN where the unit fails.

        `after` are the states after the event at a point, and `start` those at the start, which follow from parameters alone.
        """
        return self._over(point, (self.count(kind),), lambda instance, at: instance.value(kind, at))

    def columns(self, kind: Kind, group: Group, *point: Any) -> np.ndarray:
        """The derivatives of `values` by one group of numbers, a column for each."""
        width = 1 if group == "time" else len(getattr(self, group))
        shape = self.count(kind), width
        return self._over(point, shape, lambda instance, at: instance.columns(kind, group, at))

    def _over(
        self, point: Any, shape: tuple[int, ...], function: "Callable[[_Instance, Point], np.ndarray]"
    ) -> np.ndarray:
        given = [np.asarray(x) for x in point]
        dtype, lead = given[1].dtype, given[0].shape
        rows = (math.prod(lead),)
        time, states, inputs, parameters = (x.astype(float).reshape(rows + x.shape[len(lead) :]) for x in given)
        found = np.full((len(time), *shape), np.nan)
        instance = _instance(self)
        with instance.lock:
            for i in range(len(time)):
                at = Point(float(time[i]), states[i], inputs[i], parameters[i])
                if all(np.isfinite(x).all() for x in at):
                    found[i] = instance.guarded(function, at, found[i])
        return found.reshape(*lead, *shape).astype(dtype)


class _Instance:
    """The unit unpacked and loaded in this process. Its parameters are set by a new start, so that nothing is remembered."""

    def __init__(self, unit: Unit):
        self.unit, self.lock = unit, threading.RLock()
        known, self.folder = unpacked(unit.path, unit.digest)
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        self.known, self.calls, self.begun = known, Calls(Path(self.folder), known), None
        self.sizes = np.ones(len(unit.states))

    def guarded(self, function: "Callable[[_Instance, Point], np.ndarray]", at: Point, failed: Any) -> np.ndarray:
        """What a function of this instance finds; `failed` where the unit returns an error, after which it begins anew."""
        try:
            return function(self, at)
        except (fmpy_package().fmi1.FMICallException, RestlessError):
            self.calls, self.begun = Calls(Path(self.folder), self.known), None
            return failed

    def begin(self, at: Point) -> None:
        """Start the unit with its parameters, unless it has them."""
        begun = at.parameters.tobytes()
        if begun == self.begun:
            return
        unit, self.begun = self.unit, None
        references = [one.reference for one in (*unit.inputs, *unit.parameters)]
        values = [*(one.start or 0.0 for one in unit.inputs), *at.parameters]
        self.calls.initialize(unit.span[0], (references, values), unit.fixed)
        self.sizes = self.calls.nominals(len(unit.states))
        self.begun = begun

    def value(self, kind: Kind, at: Point) -> np.ndarray:
        """Numbers of a kind at one point."""
        unit = self.unit
        if kind == "start":
            self.begun = None
            self.begin(at)
            return self.calls.states(len(unit.states))
        if kind == "after":
            return self._after(at)
        self.place(at)
        if kind == "slopes":
            return self.calls.slopes(len(unit.states))
        if kind == "indicators":
            return self.calls.indicators(unit.indicators)
        return self.calls.get([one.reference for one in unit.outputs])

    def place(self, at: Point) -> None:
        """Set everything, conditions too: as they are at this point, whatever they were before."""
        self.begin(at)
        self._move(at)
        if self.unit.indicators and self.calls.event():
            # What the unit did at this event it may remember beside its states.
            self.begun = None
            self.calls.at(at.time, at.states)

    def _move(self, at: Point) -> None:
        self.calls.at(at.time, at.states)
        self.calls.set([one.reference for one in self.unit.inputs], at.inputs)

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
            self.begun = None
            self.place(before)
            signs = self.calls.indicators(unit.indicators) > 0
            self._move(behind)
            if not (signs == (self.calls.indicators(unit.indicators) > 0)).all():
                return at.states + self._changed(behind)
        return at.states

    def _changed(self, at: Point) -> np.ndarray:
        """What the event at a point, where the unit stands, adds to the states."""
        count = len(self.unit.states)
        self.calls.event()
        after = self.calls.states(count)
        slopes = self.calls.slopes(count)
        self.begun = None
        if not np.allclose(slopes, self.value("slopes", at._replace(states=after)), rtol=SAME, atol=0):
            warnings.warn(
                f"The unit `{self.unit.path}` changes at its event at time {at.time:g} what its states do not hold: its trajectory ends "
                "there.",
                stacklevel=2,
            )
            raise RestlessError("it remembers")
        return after - at.states

    def columns(self, kind: Kind, group: Group, at: Point) -> np.ndarray:
        """The derivatives of `value` by a group of numbers."""
        unit = self.unit
        if unit.exact and kind in ("slopes", "outputs") and group in ("states", "inputs"):
            self.place(at)
            unknowns = [one.reference for one in (unit.outputs if kind == "outputs" else unit.slopes)]
            found = [self.calls.derivative(unknowns, one.reference) for one in getattr(unit, group)]
        else:
            found = [self._difference(kind, group, at, i) for i in range(np.size(getattr(at, group)))]
        return np.stack(found, axis=-1) if found else np.zeros((unit.count(kind), 0))

    def _difference(self, kind: Kind, group: Group, at: Point, place: int) -> np.ndarray:
        middle = np.atleast_1d(np.asarray(getattr(at, group), float))
        step = STEP * max(abs(middle[place]), self._size(group, place))

        def moved(by: float) -> tuple[float, np.ndarray]:
            one = middle.copy()
            one[place] += by
            there = at._replace(**{group: float(one[0]) if group == "time" else one})
            return one[place], self.value(kind, there)

        (up, high), (down, low) = moved(step), moved(-step)
        return (high - low) / (up - down)

    def _size(self, group: Group, place: int) -> float:
        """The size of a number that may be zero: its start value, else what the unit declares, else 1."""
        if group == "time":
            begin, end = self.unit.span
            return end - begin
        start = getattr(self.unit, group)[place].start
        return abs(start) if start else (self.sizes[place] if group == "states" else 1.0)


@functools.cache
def _made(unit: Unit, process: int) -> _Instance:
    return _Instance(unit)


def _instance(unit: Unit) -> _Instance:
    """The instance of this process: one that was forked loads the unit again."""
    return _made(unit, os.getpid())


def started(unit: Unit) -> None:
    """Load a unit and start it with the values of its file, so that what fails does so where it is read.

    **Raises:** a `DataError` with what the library says, an `ArgumentError` for events that a system cannot have.
    """
    numbers = [np.array([one.start or 0.0 for one in ones]) for ones in (unit.inputs, unit.parameters)]
    try:
        instance = _instance(unit)
        instance.begin(Point(unit.span[0], np.zeros(len(unit.states)), *numbers))
    except RestlessError as error:
        raise ArgumentError(f"The unit `{unit.path}` cannot be a system: {error}.") from error
    except (OSError, fmpy_package().fmi1.FMICallException) as error:
        raise DataError(f"The unit `{unit.path}` cannot be started: {error}") from error


def unpacked(path: str, digest: str) -> tuple[Any, str]:
    """FMPy's model description of a file and the folder that it was unpacked into.

    **Raises:** a `DataError` where the file has changed since it was read.
    """
    content = Path(path).read_bytes()
    if hashlib.sha256(content).hexdigest() != digest:
        raise DataError(f"The unit `{path}` has changed since it was read. Read it again.")
    folder = tempfile.mkdtemp(prefix="fmu-")
    fmpy = fmpy_package()
    fmpy.extract(path, unzipdir=folder)
    return fmpy.read_model_description(path, validate=False), folder
