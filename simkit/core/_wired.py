"""One part of a coupled system by itself, while the states of the others are held."""

from typing import Any

import equinox as eqx
from jaxtyping import Array

from .._errors import ArgumentError
from .._types import Inputs, State, Time
from ._coupled_system import CoupledSystem
from ._system import Example, PlainSystem, SplitSystem, StiffTransportSystem, System, TransportSystem


class _Wired(System):
    """Common part of these systems: wires see the part's own state as it is, and the others as they are held.

    `held` are the decoded states of all parts, and the inputs are those of the whole.
    """

    part: Any
    whole: CoupledSystem
    held: dict[str, Any]
    name: str = eqx.field(static=True)

    def received(self, t: Time, state: State, inputs: Inputs) -> Any:
        """The values of the part's inputs, at this (encoded) state of its own."""
        seen = {**self.held, self.name: self.part.decode(state)}
        return self.whole.received(self.name, t, seen, inputs)

    @classmethod
    def example(cls) -> Example:
        raise ArgumentError("A part of a coupled system has no example of its own.")


class WiredPlain(_Wired, PlainSystem):
    """A part of which steppers know the vector field."""

    def vector_field(self, t: Time, y: State, inputs: Inputs) -> State:
        return self.part.vector_field(t, y, self.received(t, y, inputs))


class WiredSplit(_Wired, SplitSystem):
    """A part with a stiff diagonal linear part; its wires count to the rest."""

    def linear(self) -> Any:
        return self.part.linear()

    def nonlinear(self, t: Time, state: State, inputs: Inputs) -> State:
        return self.part.nonlinear(t, state, self.received(t, state, inputs))

    def encode(self, y: State) -> State:
        return self.part.encode(y)

    def decode(self, state: State) -> State:
        return self.part.decode(state)


class WiredTransport(_Wired, TransportSystem):
    """A part on a grid."""

    def vector_field(self, t: Time, y: State, inputs: Inputs) -> State:
        return self.part.vector_field(t, y, self.received(t, y, inputs))

    def longest_step(self, t: Time, state: State, inputs: Inputs) -> Array:
        return self.part.longest_step(t, state, self.received(t, state, inputs))


class WiredStiffTransport(_Wired, StiffTransportSystem):
    """A part on a grid with stiff diffusion or friction."""

    stiff: bool = eqx.field(static=True, kw_only=True)

    def vector_field(self, t: Time, y: State, inputs: Inputs) -> State:
        return self.part.vector_field(t, y, self.received(t, y, inputs))

    def longest_step(self, t: Time, state: State, inputs: Inputs) -> Array:
        return self.part.longest_step(t, state, self.received(t, state, inputs))

    def smoothed(self, state: State, change: State, time: Time) -> State:
        return self.part.smoothed(state, change, time)


def wired(whole: CoupledSystem, name: str, states: State) -> System:
    """A part with its wires, of the family that its stepper needs; `states` are those that all parts encode."""
    part = whole[name]
    known = part, whole, {key: whole[key].decode(state) for key, state in states.items()}, name
    if isinstance(part, SplitSystem):
        return WiredSplit(*known)
    if isinstance(part, StiffTransportSystem):
        return WiredStiffTransport(*known, stiff=part.stiff)
    return WiredTransport(*known) if isinstance(part, TransportSystem) else WiredPlain(*known)


def wired_family(part: System) -> type[System]:
    """The family to which a part belongs while it is stepped by itself.

    One of separable parts is not separable any more, since wires may read its momenta.
    """
    for family in (SplitSystem, StiffTransportSystem, TransportSystem):
        if isinstance(part, family):
            return family
    return PlainSystem
