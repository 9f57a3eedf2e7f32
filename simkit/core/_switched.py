"""Systems some of whose parameters take other values from known times on: signals among the inputs hold the values."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
from jaxtyping import Array

from .._errors import ArgumentError
from .._types import Inputs, Outputs, State, Time
from ._event import Event, NamedEvents
from ._names import Setup
from ._regimen import Regimen
from ._sparse_matrix import SparseMatrix
from ._system import Example, KnownJacobian, PlainSystem, System

OCCASIONS = "occasions"
"""The input that holds a signal for each parameter that switches, by its path."""


class _Switched(System):
    """The common part of switched families: a system with the parameters of the moment.

    - `unswitched`: the system, with the values of the first occasion. Its numbers keep their paths.
    - `paths`: the parameters that switch. `bare`: whether the system itself has no inputs.
    """

    unswitched: Any
    paths: tuple[str, ...] = eqx.field(static=True)
    bare: bool = eqx.field(static=True)

    def now(self, inputs: Inputs) -> tuple[Any, Inputs]:
        """The system with the parameters of the moment, and its own inputs."""
        own = {name: value for name, value in inputs.items() if name != OCCASIONS}
        values = {path: inputs[OCCASIONS][path] for path in self.paths}
        return Setup(self.unswitched).put(values).system, None if self.bare else own

    def outputs(self, t: Time, y: State, inputs: Inputs) -> Outputs:
        system, own = self.now(inputs)
        return system.outputs(t, y, own)

    def encode(self, y: State) -> State:
        return self.unswitched.encode(y)

    def decode(self, state: State) -> State:
        return self.unswitched.decode(state)

    @classmethod
    def example(cls) -> Example:
        raise NotImplementedError("A system with parameters that switch has no example of its own.")


class SwitchedPlain(_Switched, PlainSystem):
    """A plain system with the parameters of the moment."""

    def vector_field(self, t: Time, y: State, inputs: Inputs) -> State:
        system, own = self.now(inputs)
        return system.vector_field(t, y, own)


class SwitchedKnown(_Switched, KnownJacobian):
    """A system with a known Jacobian and the parameters of the moment."""

    def vector_field(self, t: Time, y: State, inputs: Inputs) -> State:
        system, own = self.now(inputs)
        return system.vector_field(t, y, own)

    def jacobian(self, t: Time, y: Array, inputs: Inputs) -> Array | SparseMatrix:
        system, own = self.now(inputs)
        return system.jacobian(t, y, own)


def switched_system(system: System, paths: tuple[str, ...], bare: bool) -> System:
    """A system whose parameters at `paths` follow signals in the input `occasions`.

    **Raises:** an `ArgumentError` for families whose parameters cannot switch.
    """
    for family, kind in ((KnownJacobian, SwitchedKnown), (PlainSystem, SwitchedPlain)):
        if isinstance(system, family):
            return kind(system, paths, bare)
    raise ArgumentError(
        f"Parameters that switch between occasions within one experiment need a system given by its derivative alone, but "
        f"`{type(system).__name__}` is of another family. Write an experiment for each occasion, of the same `individual`."
    )


def system_at(system: Any, inputs: Inputs) -> Any:
    """A system with its parameters of the moment, from the values of inputs at a time."""
    return system.now(inputs)[0] if isinstance(system, _Switched) else system


def unswitched(system: Any) -> Any:
    """The system that users gave, where its parameters switch."""
    return system.unswitched if isinstance(system, _Switched) else system


def switched_events(events: NamedEvents | None) -> NamedEvents | None:
    """Events whose functions see the system with the parameters of the moment, and its own inputs."""
    return None if events is None else NamedEvents(events.names, tuple(map(_switched_event, events.events)))


class _OfTheMoment(eqx.Module):
    """A function of an event that sees the system with the parameters of the moment."""

    function: Callable[..., Any]

    def __call__(self, system: Any, t: Time, y: State, inputs: Inputs, *value: Any) -> Any:
        now, own = system.now(inputs)
        return self.function(now, t, y, own, *value)


def _switched_event(event: Event) -> Event:
    if isinstance(event.change, Regimen):
        return event
    seen = lambda function: None if function is None else _OfTheMoment(function)
    if event.condition is None:
        return Event(change=seen(event.change), ends=event.ends, at=event.at, values=event.values, lag=event.lag)
    return Event(seen(event.condition), event.direction, seen(event.change), ends=event.ends, keep=event.keep)
