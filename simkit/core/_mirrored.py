"""Systems seen backwards in time: s = -t, dy/ds = -f(-s, y), so that solvers step forwards."""

from typing import Any

import jax
from jaxtyping import Array, Float

from .._errors import ArgumentError
from .._types import Inputs, Outputs, State, Time
from ._beside import just_before
from ._coupled_system import CoupledSystem
from ._event import Event, NamedEvents
from ._regimen import Regimen
from ._signals import AbstractSignal
from ._sparse_matrix import SparseMatrix
from ._system import (
    ConstrainedSystem,
    Example,
    KnownJacobian,
    PlainSystem,
    SeparableSystem,
    SplitSystem,
    System,
)


class MirroredSignal(AbstractSignal):
    """A signal as a function of s = -t."""

    inner: AbstractSignal

    def __call__(self, t: Time) -> Array:
        return self.inner(_just_before(-t))

    def jumps(self) -> Float[Array, " jumps"]:
        return -self.inner.jumps()

    def length(self) -> int:
        return self.inner.length()

    def padded(self, length: int) -> "MirroredSignal":
        return MirroredSignal(self.inner.padded(length))


class _Mirrored(System):
    """The common part of mirrored families: a system's own functions at the time -s."""

    inner: Any

    def outputs(self, t: Time, y: State, inputs: Inputs) -> Outputs:
        return self.inner.outputs(-t, y, inputs)

    def invariants(self, t: Time, y: State) -> dict[str, Array]:
        return self.inner.invariants(-t, y)

    def encode(self, y: State) -> State:
        return self.inner.encode(y)

    def decode(self, state: State) -> State:
        return self.inner.decode(state)

    @classmethod
    def example(cls) -> Example:
        raise NotImplementedError("A mirrored system has no example of its own.")


class MirroredPlain(_Mirrored, PlainSystem):
    """A plain system backwards in time."""

    def vector_field(self, t: Time, y: State, inputs: Inputs) -> State:
        return _negative(self.inner.vector_field(-t, y, inputs))


class MirroredKnown(_Mirrored, KnownJacobian):
    """A system with a known Jacobian backwards in time."""

    def vector_field(self, t: Time, y: State, inputs: Inputs) -> State:
        return _negative(self.inner.vector_field(-t, y, inputs))

    def jacobian(self, t: Time, y: Array, inputs: Inputs) -> Array | SparseMatrix:
        return -self.inner.jacobian(-t, y, inputs)


class MirroredConstrained(_Mirrored, ConstrainedSystem):
    """A constrained system backwards in time."""

    def vector_field(self, t: Time, y: State, inputs: Inputs) -> State:
        return _negative(self.inner.vector_field(-t, y, inputs))

    def mass(self, t: Time) -> Any:
        return self.inner.mass(-t)

    def hidden(self, t: Time, y: State, inputs: Inputs) -> dict[str, Array]:
        return self.inner.hidden(-t, y, inputs)


class MirroredSeparable(_Mirrored, SeparableSystem):
    """A separable system backwards in time."""

    def velocity(self, momentum: Any) -> Any:
        return _negative(self.inner.velocity(momentum))

    def force(self, t: Time, position: Any, inputs: Inputs) -> Any:
        return _negative(self.inner.force(-t, position, inputs))


class MirroredSplit(_Mirrored, SplitSystem):
    """A split system backwards in time: what decayed grows."""

    def linear(self) -> Any:
        return _negative(self.inner.linear())

    def nonlinear(self, t: Time, state: State, inputs: Inputs) -> State:
        return _negative(self.inner.nonlinear(-t, state, inputs))


MIRRORED: tuple[tuple[type[System], type[_Mirrored]], ...] = (
    (SeparableSystem, MirroredSeparable),
    (SplitSystem, MirroredSplit),
    (ConstrainedSystem, MirroredConstrained),
    (KnownJacobian, MirroredKnown),
    (PlainSystem, MirroredPlain),
)


def mirrored_system(system: System) -> System:
    """A system as a function of s = -t.

    **Raises:** an `ArgumentError` for families that have no backward time.
    """
    if isinstance(system, CoupledSystem):
        for part in system.parts.values():
            mirrored_system(part)  # refuses what runs forwards only
    for family, kind in MIRRORED:
        if isinstance(system, family):
            return kind(system)
    raise ArgumentError(
        f"Argument `times` must increase for `{type(system).__name__}`: noise, delays, transport on a grid (whose schemes look "
        "upstream) and particles with a step of their own run forwards only. Particles without friction or noise go back when "
        "their momenta change sign."
    )


def mirrored_inputs(inputs: Inputs) -> Inputs:
    """Signals as functions of s = -t; numbers stay."""
    mirror = lambda signal: MirroredSignal(signal) if isinstance(signal, AbstractSignal) else _late(signal)
    return jax.tree.map(mirror, inputs, is_leaf=callable)


def mirrored_events(events: NamedEvents | None) -> NamedEvents | None:
    """Events as functions of s = -t; their directions are those of the run."""
    return (
        None if events is None else NamedEvents(events.names, tuple(map(_mirrored_event, events.names, events.events)))
    )


def _mirrored_event(name: str, event: Event) -> Event:
    condition = event.condition
    if isinstance(event.change, Regimen):
        raise ArgumentError(
            "Argument `times` must increase where doses are given: an infusion or a steady state has no backward time."
        )
    changed = lambda system, t, *rest: event.changed(system.inner, -t, *rest, name=name)
    change: Any = None if event.change is None else changed
    if condition is None:
        assert event.at is not None
        own = event.lag
        lag: Any = None if own is None else lambda system, values: -own(system.inner, values)
        return Event(change=change, ends=event.ends, at=-event.at, values=event.values, lag=lag)
    passed = lambda system, t, y, inputs: condition(system.inner, -t, y, inputs)
    return Event(passed, event.direction, change, ends=event.ends)


def _late(signal: Any) -> Any:
    return (lambda t: signal(-t)) if callable(signal) else signal


def _just_before(t: Time) -> Time:
    """The number before a time. A signal has its later value at a jump, and a run backwards wants the earlier one there."""
    held = jax.lax.stop_gradient(t)
    return t + (just_before(held) - held)


def _negative(tree: Any) -> Any:
    return jax.tree.map(lambda x: -x, tree)
