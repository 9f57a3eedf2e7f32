"""One model in many patches that are stepped as one array, and what moves between them."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from .._errors import ArgumentError
from .._types import Inputs, Outputs, Scalar, State, Time
from ._coupled_noise import Kind, Reading
from ._input import Input
from ._names import named_leaves, system_paths
from ._quantity import POSITIVE, quantity
from ._system import Example, PlainSystem, StochasticSystem, System
from ._term import common_processes

if TYPE_CHECKING:
    AbstractVar = Any
else:
    from equinox import AbstractVar


class Exchange(eqx.Module):
    r"""Linear exchange between patches; `Patches` makes it of a matrix E of rates:

    $$\dot x_i = s \sum_j (E_{ij} x_j - E_{ji} x_i)$$

    - `rate`: E, shape `(patches, patches)`; of a sparse matrix the rates of its `links`, shape `(links,)`.
    - `strength`: s, a factor of all rates.
    - `links`: of a sparse matrix the pairs (to, from) of its entries, row by row; else None.
    """

    rate: Array = quantity(unit="1/time", support=POSITIVE, doc="rates of moving, to each patch from each other")
    strength: Scalar = quantity(1.0, support=POSITIVE, doc="factor of all rates of moving")
    links: tuple[tuple[int, int], ...] | None = eqx.field(static=True, default=None)

    def __call__(self, x: Array) -> Array:
        """Return what each patch gains of a quantity, shape `(patches, ...)`. Its sum is zero to rounding."""
        flat, rate = x.reshape(x.shape[0], -1), self.strength * self.rate
        if self.links is None:
            return (rate @ flat - jnp.sum(rate, axis=0)[:, None] * flat).reshape(x.shape)
        there, here = np.asarray(self.links, int).reshape(-1, 2).T
        moving = rate[:, None] * flat[here]
        return jnp.zeros_like(flat).at[there].add(moving).at[here].add(-moving).reshape(x.shape)


class PatchedSystem(System):
    """Common part of systems in patches: the states, outputs and own values of each patch along the first axis.

    `Patches` makes them.

    - `patch`: the model; its parameters in `each` have a value for each patch.
    - `exchange`: an `Exchange` of all states, or one for each name of a state that moves.
    - `count`: the number of patches. `each`: paths of parameters, `own`: names of inputs, that have a value for each patch.
    """

    patch: AbstractVar[Any]
    exchange: AbstractVar[Any]
    count: AbstractVar[int]
    each: AbstractVar[tuple[str, ...]]
    own: AbstractVar[tuple[str, ...]]
    conserved: AbstractVar[Any]

    def own_events(self) -> dict[str, Any]:
        if self.patch.own_events():
            raise ArgumentError(
                "The model of the patches has events of its own, which no system of patches takes. Simulate it alone."
            )
        return {}

    def everywhere(self, function: Callable[[Any, State, Inputs], PyTree], y: State, inputs: Inputs = None) -> Any:
        """The results `function(patch, y, inputs)` of all patches, along a first axis."""
        model, fill_model = _apart(self.patch, system_paths(self.patch), self.each)
        given, fill_inputs = _apart(inputs, _paths(inputs), self.own)
        for value in given:
            if np.shape(value)[:1] != (self.count,):
                raise ArgumentError(
                    f"Inputs that `Patches` has by patch ({', '.join(self.own)}) must give a value for each of the "
                    f"{self.count} patches at each time, but one has the shape {np.shape(value)}. Write "
                    f"`Constant([...])` of {self.count} numbers, or leave its name out of `inputs=[...]` to share it."
                )
        one = lambda model, y, given: function(fill_model(model), y, fill_inputs(given))
        return jax.vmap(one, axis_size=self.count)(model, y, given)

    def moved(self, y: State) -> State:
        """Return what the states of each patch gain by exchange, with the structure of the state that users see."""
        if isinstance(self.exchange, Exchange):
            return jax.tree.map(self.exchange, y)
        known = named_leaves(y)
        mover: dict[str, Any] = {}
        for name, exchange in self.exchange.items():
            mover |= {path: exchange for path in known if f"{path}.".startswith(f"{name}.")}
        leaves, structure = jax.tree.flatten(y)
        gained = [mover[path](x) if path in mover else jnp.zeros_like(x) for path, x in zip(known, leaves, strict=True)]
        return jax.tree.unflatten(structure, gained)

    def field(self, t: Time, y: State, inputs: Inputs) -> State:
        """The time derivatives of the encoded states of all patches."""
        inside = self.everywhere(lambda patch, y, inputs: patch.vector_field(t, y, inputs), y, inputs)
        seen = self.decode(y)
        gained = jax.jvp(self.encode, (seen,), (self.moved(seen),))[1]
        return jax.tree.map(jnp.add, inside, gained)

    def outputs(self, t: Time, y: State, inputs: Inputs) -> Outputs:
        return self.everywhere(lambda patch, y, inputs: patch.outputs(t, y, inputs), y, inputs)

    def invariants(self, t: Time, y: State) -> dict[str, Array]:
        return {} if self.conserved is None else self.conserved(self, t, y)

    def reads(self) -> dict[str, Input] | None:
        return self.patch.reads()

    def encode(self, y: State) -> State:
        if type(self.patch).encode is System.encode:  # the state itself
            return y
        return self.everywhere(lambda patch, y, inputs: patch.encode(y), y)

    def decode(self, state: State) -> State:
        if type(self.patch).decode is System.decode:
            return state
        return self.everywhere(lambda patch, y, inputs: patch.decode(y), state)

    @classmethod
    def example(cls) -> Example:
        raise ArgumentError("A system in patches has no example: give its states and times.")


class PlainPatches(PatchedSystem, PlainSystem):
    """A model without noise in patches; `Patches` makes it."""

    patch: Any
    exchange: Exchange | dict[str, Exchange]
    count: int = eqx.field(static=True)
    each: tuple[str, ...] = eqx.field(static=True, default=())
    own: tuple[str, ...] = eqx.field(static=True, default=())
    conserved: Callable[..., Any] | None = eqx.field(static=True, default=None)

    def vector_field(self, t: Time, y: State, inputs: Inputs) -> State:
        return self.field(t, y, inputs)


class StochasticPatches(PatchedSystem, StochasticSystem):
    """A stochastic model in patches, each with Wiener processes of its own; `Patches` makes it."""

    patch: Any
    exchange: Exchange | dict[str, Exchange]
    count: int = eqx.field(static=True)
    each: tuple[str, ...] = eqx.field(static=True, default=())
    own: tuple[str, ...] = eqx.field(static=True, default=())
    conserved: Callable[..., Any] | None = eqx.field(static=True, default=None)

    @property
    def interpretation(self) -> Reading:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The reading of the model."""
        return self.patch.interpretation

    @property
    def noise_kind(self) -> Kind:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The kind of noise of the model."""
        return self.patch.noise_kind

    def drift(self, t: Time, y: State, inputs: Inputs) -> State:
        return self.field(t, y, inputs)

    def diffusion(self, t: Time, y: State, inputs: Inputs) -> State:
        found = self.everywhere(lambda patch, y, inputs: patch.diffusion(t, y, inputs), y, inputs)
        if common_processes(found, y, type(self.patch).__name__) is None:
            return found
        return jax.tree.map(self._in_columns, found)

    def _in_columns(self, g: Float[Array, "patches ... m"]) -> Float[Array, "patches ... columns"]:
        """The factors of m processes of each patch as those of all processes, zero for the processes of other patches."""
        rows = g.reshape(self.count, -1, 1, g.shape[-1])
        own = jnp.eye(self.count, dtype=g.dtype)[:, None, :, None]
        return (rows * own).reshape(*g.shape[:-1], self.count * g.shape[-1])


def _apart(tree: PyTree, paths: list[str], mapped: tuple[str, ...]) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """The leaves with a value for each patch, and the function that puts those of one patch in their places."""
    leaves, structure = jax.tree.flatten(tree)
    places = [i for i, path in enumerate(paths) if any(f"{path}.".startswith(f"{name}.") for name in mapped)]

    def filled(values: list[Any]) -> Any:
        everything = list(leaves)
        for place, value in zip(places, values, strict=True):
            everything[place] = value
        return jax.tree.unflatten(structure, everything)

    return [leaves[place] for place in places], filled


def _paths(inputs: Inputs) -> list[str]:
    """The dotted names of the values of inputs."""
    return list(named_leaves(inputs)) if isinstance(inputs, Mapping) else [""] * len(jax.tree.leaves(inputs))
