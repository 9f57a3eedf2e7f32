"""Functional mock-up units as systems."""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from .._errors import ArgumentError
from .._types import Inputs
from ..core import Event, Example, Input, KnownJacobian, StaticSystem, System, dotted
from ._fmu_unit import Group, Kind, Unit
from ._values import numbers_of

GROUPS: tuple[Group, ...] = ("time", "states", "inputs", "parameters")


class UnitFields(System):
    """Common part of systems of units.

    - `parameters`: the numbers of the unit by name; their paths are the names alone.
    - `unit`: the file and its variables.
    """

    parameters: dict[str, Any] = eqx.field(converter=numbers_of)
    unit: Unit = eqx.field(static=True)

    def reads(self) -> dict[str, Input] | None:
        return {one.name: Input(one.unit, one.start or 0.0, one.doc) for one in self.unit.inputs}

    def values(self, kind: Kind, t: ArrayLike, state: Array, inputs: Inputs) -> Array:
        """Return numbers of a kind at a point."""
        return _values(self.unit, kind, *self.point(t, state, inputs))

    def point(self, t: ArrayLike, state: Array, inputs: Inputs) -> tuple[Array, ...]:
        """Return all that the numbers follow from, as vectors."""
        given, dtype = dotted(inputs or {}), state.dtype
        reads = [given.get(one.name, one.start or 0.0) for one in self.unit.inputs]
        numbers = [self.parameters[one.name] for one in self.unit.parameters]
        return jnp.asarray(t, dtype), state, _vector(reads, dtype), _vector(numbers, dtype)

    def __repr__(self) -> str:
        unit = self.unit
        rows = [f"{type(self).__name__} of {unit.path}"]
        for what in ("states", "inputs", "parameters", "outputs"):
            names = [one.name for one in getattr(unit, what)]
            rows.append(f"  {what}: {', '.join(names[:12])}{', ...' if len(names) > 12 else ''}" if names else "")
        rows.append(
            f"  derivatives: {'of the unit, by ' + ', '.join(unit.exact) if unit.exact else 'central differences'}"
        )
        return "\n".join(row for row in rows if row)

    @classmethod
    def example(cls) -> "Example[UnitFields]":
        raise ArgumentError("A unit that was read from a file has no example: simulate from its `start()`.")


class FMUSystem(UnitFields, KnownJacobian):
    r"""A functional mock-up unit for model exchange: $\dot x = f(t, x, u, p)$ by the library that it holds.

    - `parameters`: its numbers by name; their paths are the names alone.
    - `unit`: the file and its variables.

    The state is a dictionary of the continuous states. Outputs are those, the outputs of the unit and the variables that
    `read_fmu` was asked for. First derivatives go forwards and backwards, by the directional derivatives of the unit where it
    gives them and by central differences elsewhere. Second ones are differences: `hessian`, and derivatives of events and of
    `Rodas5P`, have them. Each evaluation leaves JAX for the library, which costs 30 to 100 us, one after the other within a batch.
    """

    def start(self) -> dict[str, Array]:
        """Return the continuous states after the unit's own initialisation, for the parameters of this system."""
        return self.decode(self.values("start", self.unit.span[0], jnp.zeros(len(self.unit.states)), None))

    def encode(self, y: dict[str, Array]) -> Float[Array, "*rows states"]:
        names = [one.name for one in self.unit.states]
        for name in names:
            if name not in y:
                listed = ", ".join(f"`{known}`" for known in names[:12])
                raise ArgumentError(f"The state of a unit must hold {listed}, but `{name}` is missing.")
        return jnp.stack([jnp.asarray(y[name]) for name in names], axis=-1)

    def decode(self, state: Float[Array, "*rows states"]) -> dict[str, Array]:
        return {one.name: state[..., i] for i, one in enumerate(self.unit.states)}

    def vector_field(self, t: ArrayLike, y: Array, inputs: Inputs) -> Array:
        return self.values("slopes", t, y, inputs)

    def jacobian(self, t: ArrayLike, y: Array, inputs: Inputs) -> Array:
        return _columns(self.unit, "slopes", "states", *self.point(t, y, inputs))

    def outputs(self, t: ArrayLike, y: dict[str, Array], inputs: Inputs) -> dict[str, Array]:
        found = self.values("outputs", t, self.encode(y), inputs)
        return {one.name: found[i] for i, one in enumerate(self.unit.outputs)} | y

    def own_events(self) -> dict[str, Event]:
        """Return the events of the unit, for `events=`: where one of its indicators passes zero it may change its states.

        Between them its conditions are those of the point at hand. A unit that changes at an event what its states do not hold
        ends the run there, with a warning.
        """
        return {f"event{i}": _event(i) for i in range(self.unit.indicators)}

    def indicators(self, t: ArrayLike, y: dict[str, Array], inputs: Inputs) -> Array:
        """Return the event indicators, which pass zero where the unit has an event."""
        return self.values("indicators", t, self.encode(y), inputs)

    def after(self, t: ArrayLike, y: dict[str, Array], inputs: Inputs) -> dict[str, Array]:
        """Return the state that the unit has after an event at this point."""
        return self.decode(self.values("after", t, self.encode(y), inputs))


class StaticFMU(UnitFields, StaticSystem):
    r"""A functional mock-up unit without states: outputs $y = g(t, u, p)$, with first derivatives as `FMUSystem` has them.

    - `parameters`: its numbers by name; their paths are the names alone.
    - `unit`: the file and its variables.
    """

    def start(self) -> None:
        """Return the state of a system without dynamics, None."""

    def outputs(self, t: ArrayLike, y: Any, inputs: Inputs) -> dict[str, Array]:
        found = self.values("outputs", t, jnp.zeros(0), inputs)
        return {one.name: found[i] for i, one in enumerate(self.unit.outputs)}


@functools.cache
def _event(place: int) -> Event:
    """The event of one indicator; one object each, so that programs are found again."""
    return Event(
        lambda system, t, y, inputs: system.indicators(t, y, inputs)[place],
        change=lambda system, t, y, inputs: system.after(t, y, inputs),
    )


def _vector(values: list[Any], dtype: Any) -> Array:
    return jnp.stack([jnp.asarray(x, dtype) for x in values]) if values else jnp.zeros(0, dtype)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _values(unit: Unit, kind: Kind, *point: Array) -> Array:
    shape = jax.ShapeDtypeStruct((unit.count(kind),), point[1].dtype)
    return jax.pure_callback(functools.partial(unit.values, kind), shape, *point, vmap_method="broadcast_all")


@functools.partial(_values.defjvp, symbolic_zeros=True)
def _values_tangent(unit: Unit, kind: Kind, point: Any, tangents: Any) -> tuple[Array, Array]:
    found = _values(unit, kind, *point)
    along = jnp.zeros_like(found)
    for group, tangent in zip(GROUPS, tangents, strict=True):
        if not isinstance(tangent, SymbolicZero) and tangent.size:
            along += _columns(unit, kind, group, *point) @ jnp.atleast_1d(tangent)
    return found, along


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1, 2))
def _columns(unit: Unit, kind: Kind, group: Group, *point: Array) -> Array:
    shape = jax.ShapeDtypeStruct((unit.count(kind), unit.width(group)), point[1].dtype)
    return jax.pure_callback(functools.partial(unit.columns, kind, group), shape, *point, vmap_method="broadcast_all")


@functools.partial(_columns.defjvp, symbolic_zeros=True)
def _columns_tangent(unit: Unit, kind: Kind, group: Group, point: Any, tangents: Any) -> tuple[Array, Array]:
    found = _columns(unit, kind, group, *point)
    along = jnp.zeros_like(found)
    for by, tangent in zip(GROUPS, tangents, strict=True):
        if not isinstance(tangent, SymbolicZero) and tangent.size:
            along += _bent(unit, kind, group, by, *point) @ jnp.atleast_1d(tangent)
    return found, along


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1, 2, 3))
def _bent(unit: Unit, kind: Kind, group: Group, by: Group, *point: Array) -> Array:
    shape = jax.ShapeDtypeStruct((unit.count(kind), unit.width(group), unit.width(by)), point[1].dtype)
    return jax.pure_callback(functools.partial(unit.bent, kind, group, by), shape, *point, vmap_method="broadcast_all")


@_bent.defjvp
def _third(unit: Unit, kind: Kind, group: Group, by: Group, point: Any, tangents: Any) -> tuple[Array, Array]:
    raise ArgumentError(
        f"The unit `{unit.path}` has no third derivatives. Solve by `Tsit5` or `BDF`, whose steps have fewer in their derivatives."
    )
