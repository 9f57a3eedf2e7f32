"""Calls of the two versions of FMI, 2.0 and 3.0, by the same names; FMPy holds their C types."""

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._errors import missing_package

MOST_ITERATIONS = 100
"""Updates of discrete states at one time before a unit counts as one that does not come to rest."""


def fmpy_package() -> Any:
    """FMPy, or the error that says how to install it."""
    try:
        import fmpy
        import fmpy.fmi2
        import fmpy.fmi3
    except ImportError as error:
        raise missing_package("A functional mock-up unit", "fmpy", "fmi") from error
    return fmpy


class RestlessError(Exception):
    """An event of a unit that a pure function of its numbers cannot follow."""


class Calls:
    """One instance of a unit for model exchange.

    **Arguments:** `folder`, where the unit was unpacked; `known`, FMPy's model description.
    """

    def __init__(self, folder: Path, known: Any):
        kind = fmpy_package().fmi3.FMU3Model if known.fmiVersion.startswith("3") else fmpy_package().fmi2.FMU2Model
        self.is_third = known.fmiVersion.startswith("3")
        self.fmu = kind(
            guid=known.guid,
            modelIdentifier=known.modelExchange.modelIdentifier,
            unzipDirectory=str(folder),
            instanceName=known.modelName,
        )
        self.said = ""  # the last message of the unit
        if self.is_third:
            self.fmu.instantiate(logMessage=self._third_log)
        else:
            fmi2 = fmpy_package().fmi2
            own = fmi2.fmi2CallbackFunctions()
            own.logger = fmi2.fmi2CallbackLoggerTYPE(self._second_log)
            own.allocateMemory, own.freeMemory = fmi2.defaultCallbacks.allocateMemory, fmi2.defaultCallbacks.freeMemory
            self.fmu.instantiate(callbacks=own)

    def _second_log(self, environment: Any, name: Any, status: Any, category: Any, message: Any) -> None:
        self.said = (message or b"").decode(errors="replace")

    def _third_log(self, environment: Any, status: Any, category: Any, message: Any) -> None:
        self.said = (message or b"").decode(errors="replace")

    def initialize(self, time: float, numbers: Any, others: Sequence[tuple[str, int, Any]]) -> None:
        """Bring the unit from its first state into continuous time.

        **Arguments:** `numbers`, the references and the values of its floating-point variables; `others`, the type, reference and
        value of each that is no such number.

        **Raises:** a `RestlessError` for a unit that does not come to rest, or that has an event at a known time.
        """
        self.fmu.reset()
        if not self.is_third:
            self.fmu.setupExperiment(startTime=time)
        for kind, reference, value in others:
            getattr(self.fmu, f"set{kind}")([reference], [value])
        self.set(*numbers)
        if self.is_third:
            self.fmu.enterInitializationMode(startTime=time)
        else:
            self.fmu.enterInitializationMode()
        self.fmu.exitInitializationMode()
        self.settle()

    def settle(self) -> bool:
        """Update discrete states in event mode until they rest, then go on in continuous time.

        **Returns:** whether continuous states have changed.
        """
        update = self.fmu.updateDiscreteStates if self.is_third else self.fmu.newDiscreteStates
        changed = False
        for _ in range(MOST_ITERATIONS):
            needed, ends, _, has_new_values, is_timed, time = update()
            changed |= has_new_values
            if ends:
                raise RestlessError("it asks for the end of the simulation")
            if not needed:
                break
        else:
            raise RestlessError(f"its discrete states do not rest after {MOST_ITERATIONS} updates")
        if is_timed:
            raise RestlessError(f"it has an event at the known time {time:g}, which is not taken")
        self.fmu.enterContinuousTimeMode()
        return changed

    def event(self) -> bool:
        """Let the unit look at its conditions, and change what they change; tell whether continuous states have changed."""
        self.fmu.enterEventMode()
        return self.settle()

    def indicators(self, size: int) -> np.ndarray:
        """The event indicators."""
        found = np.zeros(size)
        if size:
            self.fmu.getEventIndicators(_doubles(found), size)
        return found

    def set(self, references: Sequence[int], values: Any) -> None:
        """Set floating-point variables."""
        if len(references):
            (self.fmu.setFloat64 if self.is_third else self.fmu.setReal)(list(references), [float(x) for x in values])

    def get(self, references: Sequence[int]) -> np.ndarray:
        """The numbers of floating-point variables."""
        if not len(references):
            return np.zeros(0)
        return np.asarray((self.fmu.getFloat64 if self.is_third else self.fmu.getReal)(list(references)), float)

    def at(self, time: float, states: np.ndarray) -> None:
        """Set time and continuous states."""
        self.fmu.setTime(time)
        if states.size:
            self.fmu.setContinuousStates(_doubles(np.ascontiguousarray(states, float)), states.size)

    def states(self, size: int) -> np.ndarray:
        """The continuous states."""
        found = np.zeros(size)
        if size:
            self.fmu.getContinuousStates(_doubles(found), size)
        return found

    def slopes(self, size: int) -> np.ndarray:
        """The derivatives of the continuous states."""
        found = np.zeros(size)
        if size:
            take = self.fmu.getContinuousStateDerivatives if self.is_third else self.fmu.getDerivatives
            take(_doubles(found), size)
        return found

    def nominals(self, size: int) -> np.ndarray:
        """The sizes of the continuous states as the unit declares them."""
        found = np.ones(size)
        if size:
            self.fmu.getNominalsOfContinuousStates(_doubles(found), size)
        return found

    def derivative(self, unknowns: Sequence[int], known: int) -> np.ndarray:
        """The derivatives of variables by one, as the unit gives them."""
        return np.asarray(self.fmu.getDirectionalDerivative(list(unknowns), [known], [1.0]), float)


def _doubles(values: np.ndarray) -> Any:
    return values.ctypes.data_as(ctypes.POINTER(ctypes.c_double))
