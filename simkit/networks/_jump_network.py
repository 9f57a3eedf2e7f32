"""Reaction networks as jump processes: laws of reactions as propensities of whole numbers."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._errors import ArgumentError
from .._types import Inputs, Time
from ..core import Example, KnownProducts, Products
from ._expression import TIME, Formulas
from ._factors import Factors
from ._values import Values, numbers_of

FEW = 32
"""Reactions that are evaluated one by one, so that lanes work on each; more of them go by batches of one shape."""


@dataclasses.dataclass(frozen=True)
class Reactions:
    """The reactions of a network; hashable by its formulas.

    - `formulas`, `laws`: the graph, and in it the propensities by the names of the reactions.
    - `changes`: by reaction what it adds to which species.
    """

    formulas: Formulas
    laws: tuple[tuple[str, int], ...]
    changes: tuple[tuple[tuple[str, float], ...], ...]

    def __hash__(self) -> int:
        return hash((self.formulas, len(self.laws)))


@functools.lru_cache(maxsize=64)
def _together(reactions: Reactions, states: tuple[str, ...], parameters: tuple[str, ...]) -> Values:
    """The propensities of many reactions, in batches of one shape."""
    return Values(reactions.formulas, reactions.laws, states, parameters)


@functools.lru_cache(maxsize=64)
def _read_time(reactions: Reactions) -> bool:
    """Tell whether a law reads the time."""
    return TIME in reactions.formulas.symbols([node for _, node in reactions.laws])


@functools.lru_cache(maxsize=64)
def _factors(reactions: Reactions, states: tuple[str, ...]) -> Factors:
    """The propensities as products of amounts."""
    return Factors.of(reactions.formulas, [node for _, node in reactions.laws], {x: i for i, x in enumerate(states)})


@functools.lru_cache(maxsize=64)
def _rest(reactions: Reactions, states: tuple[str, ...], parameters: tuple[str, ...]) -> Values:
    """The propensities that are no products."""
    laws = tuple((str(node), node) for node in _factors(reactions, states).others)
    return Values(reactions.formulas, laws, states, parameters)


class JumpNetwork(KnownProducts):
    """A network of reactions as a jump process: the law of each reaction is its propensity, amounts are whole numbers.

    Where a reaction takes several of one species its law counts pairs, x (x - 1), and so on. `parameters`, states, outputs and
    `start()` are those of the `ReactionNetwork` that it was made from.
    """

    parameters: dict[str, Any] = eqx.field(converter=numbers_of)
    reactions: Reactions = eqx.field(static=True)
    observed: Values = eqx.field(static=True)
    initial: Values = eqx.field(static=True)

    def start(self) -> dict[str, Array]:
        """Return the amounts at the start that the file gives, for the parameters of this system."""
        return self.initial.of_parameters(self.parameters)

    def propensities(self, t: Time, y: dict[str, Array], inputs: Inputs) -> dict[str, Any]:
        dtype = jnp.result_type(*y.values())
        known = {**self.parameters, **y, TIME: t}
        laws = self.reactions.laws
        if len(laws) <= FEW:
            found = self.reactions.formulas.evaluate([node for _, node in laws], lambda name: known[name])
            return {name: jnp.asarray(x, dtype) for (name, _), x in zip(laws, found, strict=True)}
        state = jnp.stack([y[name] for name in self.observed.states])
        laws = _together(self.reactions, self.observed.states, self.observed.parameters)
        return {"reaction": laws.vector(self._time(t), state, self.parameters)}

    def _time(self, t: Time) -> Time:
        """The time where a law reads it: it stands among all constants, as if all laws did."""
        return t if _read_time(self.reactions) else 0.0

    def jumps(self) -> Mapping[str, Any]:
        laws, changes = self.reactions.laws, self.reactions.changes
        if len(laws) <= FEW:
            return {name: dict(change) for (name, _), change in zip(laws, changes, strict=True)}
        places = {name: i for i, name in enumerate(self.observed.states)}
        matrix = np.zeros((len(laws), len(places)))
        for row, change in zip(matrix, changes, strict=True):
            for name, amount in change:
                row[places[name]] = amount
        return {"reaction": matrix}

    def products(self) -> Products:
        return _factors(self.reactions, self.observed.states).products

    def coefficients(self) -> Float[Array, " coefficients"]:
        return _factors(self.reactions, self.observed.states).values(self.parameters)

    def others(self, t: Time, y: dict[str, Array], inputs: Inputs) -> Float[Array, " others"]:
        state = jnp.stack([y[name] for name in self.observed.states])
        return _rest(self.reactions, self.observed.states, self.observed.parameters).vector(
            self._time(t), state, self.parameters
        )

    def outputs(self, t: Time, y: dict[str, Array], inputs: Inputs) -> dict[str, Array]:
        state = jnp.stack([y[name] for name in self.observed.states], axis=-1)
        return y | self.observed(t, state, self.parameters)

    @classmethod
    def example(cls) -> "Example[JumpNetwork]":
        raise ArgumentError("A network that was read from a file has no example: simulate from its `start()`.")
