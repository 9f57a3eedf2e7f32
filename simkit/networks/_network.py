"""Reaction networks as systems."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from .._errors import ArgumentError
from .._types import Inputs
from ..core import Example, KnownJacobian, SparseMatrix
from ._jump_network import JumpNetwork, Reactions
from ._large import LargeSystem, Rates
from ._values import Values, numbers_of


class ReactionNetwork(KnownJacobian):
    """A network of reactions between species: their rates are formulas, of which those of one shape are evaluated together.

    - `parameters`: the numbers of the network by name; their paths are the names alone.
    - `rates`: the rates of the species; `observed` its observables and functions; `initial` the amounts at the start;
        `reactions` each by itself.

    The state holds the amounts by species. Outputs are those, the observables and the functions. A parameter that is a formula
    follows the parameters that it names.
    """

    parameters: dict[str, Any] = eqx.field(converter=numbers_of)
    rates: Rates = eqx.field(static=True)
    observed: Values = eqx.field(static=True)
    initial: Values = eqx.field(static=True)
    reactions: Reactions = eqx.field(static=True)

    def start(self) -> dict[str, Array]:
        """Return the amounts at the start that the file gives, for the parameters of this system."""
        return self.initial.of_parameters(self.parameters)

    def as_jumps(self) -> JumpNetwork:
        """Return the same network as a jump process: its laws are propensities, its amounts whole numbers."""
        return JumpNetwork(self.parameters, self.reactions, self.observed, self.initial)

    def encode(self, y: dict[str, Array]) -> Float[Array, "*rows species"]:
        return jnp.stack([jnp.asarray(y[name]) for name in self.rates.states], axis=-1)

    def decode(self, state: Float[Array, "*rows species"]) -> dict[str, Array]:
        return {name: state[..., i] for i, name in enumerate(self.rates.states)}

    def vector_field(self, t: ArrayLike, y: Array, inputs: Inputs) -> Array:
        return LargeSystem.of(self.rates, self.parameters, y).vector_field(t, y, inputs)

    def jacobian(self, t: ArrayLike, y: Array, inputs: Inputs) -> SparseMatrix:
        return LargeSystem.of(self.rates, self.parameters, y).jacobian(t, y, inputs)

    def outputs(self, t: ArrayLike, y: dict[str, Array], inputs: Inputs) -> dict[str, Array]:
        return y | self.observed(t, self.encode(y), self.parameters)

    @classmethod
    def example(cls) -> "Example[ReactionNetwork]":
        raise ArgumentError("A network that was read from a file has no example: simulate from its `start()`.")
