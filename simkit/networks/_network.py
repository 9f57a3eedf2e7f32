"""Reaction networks as systems."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from .._errors import ArgumentError
from .._types import Inputs
from ..core import Example, KnownJacobian, as_float_array
from ._large import LargeSystem, Rates
from ._values import Values


def _as_parameters(values: dict[str, Any]) -> dict[str, Any]:
    return {name: as_float_array(value) if eqx.is_array_like(value) else value for name, value in values.items()}


class ReactionNetwork(KnownJacobian):
    """A network of reactions between species: their rates are formulas, of which those of one shape are evaluated together.

    - `parameters`: the numbers of the network by name; their paths are the names alone.
    - `rates`: the rates of the species; `observed` its observables and functions; `initial` the amounts at the start.

    The state holds the amounts by species. Outputs are those, the observables and the functions. A parameter that is a formula
    follows the parameters that it names.
    """

    parameters: dict[str, Any] = eqx.field(converter=_as_parameters)
    rates: Rates = eqx.field(static=True)
    observed: Values = eqx.field(static=True)
    initial: Values = eqx.field(static=True)

    def start(self) -> dict[str, Array]:
        """Return the amounts at the start that the file gives, for the parameters of this system."""
        like = jnp.stack(jnp.broadcast_arrays(*map(jnp.asarray, self.parameters.values())) or [jnp.zeros(())])
        return self.initial(0.0, jnp.zeros(0, like.dtype), self.parameters)

    def encode(self, y: dict[str, Array]) -> Float[Array, "*rows species"]:
        return jnp.stack([jnp.asarray(y[name]) for name in self.rates.states], axis=-1)

    def decode(self, state: Float[Array, "*rows species"]) -> dict[str, Array]:
        return {name: state[..., i] for i, name in enumerate(self.rates.states)}

    def vector_field(self, t: ArrayLike, y: Array, inputs: Inputs) -> Array:
        return LargeSystem.of(self.rates, self.parameters, y).vector_field(t, y, inputs)

    def jacobian(self, t: ArrayLike, y: Array, inputs: Inputs) -> Float[Array, "species species"]:
        return LargeSystem.of(self.rates, self.parameters, y).jacobian(t, y, inputs)

    def outputs(self, t: ArrayLike, y: dict[str, Array], inputs: Inputs) -> dict[str, Array]:
        return y | self.observed(t, self.encode(y), self.parameters)

    @classmethod
    def example(cls) -> "Example[ReactionNetwork]":
        raise ArgumentError("A network that was read from a file has no example: simulate from its `start()`.")
