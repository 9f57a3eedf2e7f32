"""Several named systems side by side as one system, inputs of one fed by states and outputs of others."""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec
from jaxtyping import Array

from .._doors import shown
from .._errors import ArgumentError, check_known
from .._types import Inputs, Outputs, State, Time
from ._input import Input
from ._names import named_leaves
from ._system import ConstrainedSystem, Example, PlainSystem, System

if TYPE_CHECKING:
    AbstractVar = Any
else:
    from equinox import AbstractVar


MOST_LISTED = 20
"""Most outputs that a message lists."""


class Pair(NamedTuple):
    """Real and imaginary parts of an amplitude: beside real states a solver of the whole steps real numbers alone."""

    real: Array
    imag: Array


def apart(state: State) -> Any:
    """The encoded state of a part with complex numbers taken apart."""
    return jax.tree.map(lambda x: Pair(x.real, x.imag) if jnp.iscomplexobj(x) else x, state)


def together(state: State) -> Any:
    """The encoded state of a part as the part itself has it."""
    is_pair = lambda x: isinstance(x, Pair)
    return jax.tree.map(lambda x: lax.complex(x.real, x.imag) if is_pair(x) else x, state, is_leaf=is_pair)


class OutputWire(eqx.Module):
    """The wire that passes an output of a part on, by its path, such as `tank.outflow`."""

    path: str = eqx.field(static=True)
    target: str = eqx.field(static=True)  # the input that it feeds

    def __call__(self, system: "CoupledSystem", t: Time, y: Mapping[str, Any], outputs: Mapping[str, Any]) -> Any:
        name, *words = self.path.split(".")
        found = measured = outputs[name]
        for word in words:
            try:
                found = found[word] if isinstance(found, Mapping) else getattr(found, word)
            except (KeyError, AttributeError):
                known = [f"`{name}.{key}`" if key else f"`{name}`" for key in named_leaves(measured)]
                raise ArgumentError(
                    f"The wire to `{self.target}` names the output `{self.path}`, which `{name}`, a {type(system[name]).__name__}, "
                    f"does not have. It has {', '.join(known[:MOST_LISTED])}{', ...' if len(known) > MOST_LISTED else ''}."
                ) from None
        return found


class FunctionWire(eqx.Module):
    """The wire of a plain function, whose numbers are not quantities: they have no path."""

    function: Callable[..., Any] = eqx.field(static=True)

    def __call__(self, system: "CoupledSystem", t: Time, y: Mapping[str, Any], outputs: Mapping[str, Any]) -> Any:
        return self.function(system, t, y, outputs)


class CoupledSystem(System):
    """Common part of coupled systems: the state, outputs and inputs of each part under its name.

    `Coupled` makes them. A part by its name is `system["tank"]`.
    """

    parts: AbstractVar[dict[str, Any]]
    wires: AbstractVar[dict[str, dict[str, Any]]]
    conserved: AbstractVar[Any]

    def __getitem__(self, name: str) -> Any:
        return self.parts[name]

    def own_events(self) -> dict[str, Any]:
        for name, part in self.parts.items():
            if part.own_events():
                raise ArgumentError(
                    f"The part `{name}` has events of its own, which no coupled system takes. Simulate it alone."
                )
        return {}

    def reads(self) -> dict[str, Input] | None:
        """Return the inputs of the parts that no wire feeds, by dotted names; None where a part declares nothing."""
        found: dict[str, Input] = {}
        for name, part in self.parts.items():
            declared = part.reads()
            if declared is None:
                return None
            wired = self.wires.get(name, {})
            found |= {f"{name}.{key}": known for key, known in declared.items() if key not in wired}
        return found

    def field(self, t: Time, y: State, inputs: Inputs) -> dict[str, Any]:
        """The time derivatives of the encoded states of all parts."""
        seen = self.decode(y)
        slope = lambda name, part: part.vector_field(t, together(y[name]), self.received(name, t, seen, inputs))
        return {name: apart(slope(name, part)) for name, part in self.parts.items()}

    def received(self, name: str, t: Time, y: State, inputs: Inputs) -> Any:
        """The values of the inputs of a part: those given, among them defaults, and those of its wires."""
        found = _Received(self, name, t, y, inputs, ()).usable()
        return {key: found[key] for key in found} if isinstance(found, _Received) else found

    def given(self, name: str, inputs: Inputs) -> Any:
        """The part of the given inputs that belongs to a part.

        **Raises:** an `ArgumentError` where an input is both given and wired.
        """
        if inputs is None:
            return None
        if not isinstance(inputs, Mapping):
            raise ArgumentError(
                "Argument `inputs` of a coupled system must be a dictionary by the names of its parts, such as "
                f"`{{{next(iter(self.parts))!r}: {{...}}}}`, but it is {shown(inputs)}."
            )
        for key in inputs:
            check_known(str(key).split(".")[0], self.parts, "part of the coupled system with inputs")
        found = inputs.get(name)
        flat = {key.partition(".")[2]: value for key, value in inputs.items() if key.startswith(f"{name}.")}
        if flat or name in self.wires:
            if not (found is None or isinstance(found, Mapping)):
                raise ArgumentError(
                    f"The inputs of `{name}` must be a dictionary by their names, since wires feed others."
                )
            found = {**(found or {}), **flat} or None
        for key in self.wires.get(name, {}):
            if found is not None and key in found:
                raise ArgumentError(
                    f"The input `{key}` of `{name}` is fed by a wire, but argument `inputs` gives it, too. Leave one out."
                )
        return found

    def outputs(self, t: Time, y: State, inputs: Inputs) -> Outputs:
        return {name: part.outputs(t, y[name], self.received(name, t, y, inputs)) for name, part in self.parts.items()}

    def invariants(self, t: Time, y: State) -> dict[str, Array]:
        alone = [name for name in self.parts if not self.wires.get(name)]
        found = {
            f"{name}.{key}": value for name in alone for key, value in self.parts[name].invariants(t, y[name]).items()
        }
        return found if self.conserved is None else {**found, **self.conserved(self, t, y)}

    def encode(self, y: State) -> State:
        return {name: apart(part.encode(y[name])) for name, part in self.parts.items()}

    def decode(self, state: State) -> State:
        return {name: part.decode(together(state[name])) for name, part in self.parts.items()}

    def shardings(self, state: State) -> Any:
        """Return those of the parts; numbers of parts that no device divides are on all of them."""
        found = {name: part.shardings(together(state[name])) for name, part in self.parts.items()}
        known = jax.tree.leaves(found)
        if not known:
            return None
        whole = NamedSharding(known[0].mesh, PartitionSpec())
        is_pair = lambda x: isinstance(x, Pair)
        both = lambda x, y: Pair(x, x) if is_pair(y) else x
        each = lambda shardings, y: jax.tree.map(lambda y, x: both(x, y), y, shardings, is_leaf=is_pair)
        kept = lambda y: jax.tree.map(lambda _: whole, y)
        return {name: kept(state[name]) if x is None else each(x, state[name]) for name, x in found.items()}

    @classmethod
    def example(cls) -> Example:
        raise ArgumentError("A coupled system has no example: give the states of its parts and times.")


class PlainCoupled(CoupledSystem, PlainSystem):
    """Systems side by side, without algebraic equations; `Coupled` makes it."""

    parts: dict[str, Any]
    wires: dict[str, dict[str, Any]]
    conserved: Callable[..., Any] | None = eqx.field(static=True, default=None)

    def vector_field(self, t: Time, y: State, inputs: Inputs) -> State:
        return self.field(t, y, inputs)


class ConstrainedCoupled(CoupledSystem, ConstrainedSystem):
    """Systems side by side, some with algebraic equations; `Coupled` makes it."""

    parts: dict[str, Any]
    wires: dict[str, dict[str, Any]]
    conserved: Callable[..., Any] | None = eqx.field(static=True, default=None)

    def vector_field(self, t: Time, y: State, inputs: Inputs) -> State:
        return self.field(t, y, inputs)

    def mass(self, t: Time) -> Any:
        return {name: part.mass(t) if isinstance(part, ConstrainedSystem) else 1.0 for name, part in self.parts.items()}

    def hidden(self, t: Time, y: State, inputs: Inputs) -> dict[str, Array]:
        seen = self.decode(y)
        return {
            f"{name}.{key}": value
            for name, part in self.parts.items()
            if isinstance(part, ConstrainedSystem)
            for key, value in part.hidden(t, together(y[name]), self.received(name, t, seen, inputs)).items()
        }


class _Received(Mapping[str, Any]):
    """The inputs of a part, each computed when it is asked for; `pending` are the wires that are being evaluated.

    Nothing is kept: a value from inside another transformation would not be valid outside.
    """

    def __init__(
        self, system: CoupledSystem, name: str, t: Time, y: State, inputs: Inputs, pending: tuple[str, ...]
    ) -> None:
        self.system, self.name, self.t, self.y, self.inputs, self.pending = system, name, t, y, inputs, pending
        self.wired = system.wires.get(name, {})
        self.raw = system.given(name, inputs)
        self.given = dict(self.raw) if isinstance(self.raw, Mapping) else {}

    def __getitem__(self, key: str) -> Any:
        if key not in self.wired:
            return self.given[key]
        wire = f"{self.name}.{key}"
        if wire in self.pending:
            loop = self.pending[self.pending.index(wire) :]
            through = ", which reads an output that needs ".join(f"`{one}`" for one in (*loop, wire))
            raise ArgumentError(
                f"The wires form an algebraic loop: {through}. An output that depends on an input at once cannot feed that input: "
                "let a wire read a state, or make one of the parts a system that follows with a delay, a first-order lag."
            )
        seen = _Seen(self.system, self.t, self.y, self.inputs, (*self.pending, wire))
        return self.wired[key](self.system, self.t, self.y, seen)

    def usable(self) -> Any:
        """These inputs by name; the given ones as they are where they are no mapping, or where nothing is known by name."""
        by_name = self.raw is None or isinstance(self.raw, Mapping)
        return self if by_name and len(self) else self.raw

    def __contains__(self, key: object) -> bool:
        return key in self.wired or key in self.given

    def __iter__(self) -> Iterator[str]:
        return iter({**self.wired, **self.given})

    def __len__(self) -> int:
        return len({**self.wired, **self.given})


class _Seen(Mapping[str, Any]):
    """The outputs of all parts, those of a part computed when a wire asks for them."""

    def __init__(self, system: CoupledSystem, t: Time, y: State, inputs: Inputs, pending: tuple[str, ...]) -> None:
        self.system, self.t, self.y, self.inputs, self.pending = system, t, y, inputs, pending

    def __getitem__(self, name: str) -> Any:
        part = self.system[name]
        found = _Received(self.system, name, self.t, self.y, self.inputs, self.pending)
        return part.outputs(self.t, self.y[name], found.usable())

    def __iter__(self) -> Iterator[str]:
        return iter(self.system.parts)

    def __len__(self) -> int:
        return len(self.system.parts)
