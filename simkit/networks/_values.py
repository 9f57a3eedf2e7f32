"""Formulas of states and parameters by name, evaluated together."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ..core import as_float_array
from ._batches import Batches
from ._expression import TIME, Formulas
from ._shapes import Place


def numbers_of(values: dict[str, Any]) -> dict[str, Any]:
    """Parameters as arrays of the float type."""
    return {name: as_float_array(value) if eqx.is_array_like(value) else value for name, value in values.items()}


@dataclasses.dataclass(frozen=True)
class Values:
    """Formulas by name, ordered into batches; hashable.

    - `formulas`, `roots`: the graph, and in it the formulas by name.
    - `states`: the names of the states, in the order of their vector; `parameters` the names of all parameters.
    """

    formulas: Formulas
    roots: tuple[tuple[str, int], ...]
    states: tuple[str, ...]
    parameters: tuple[str, ...]
    batches: Batches = dataclasses.field(init=False, compare=False)

    def __post_init__(self) -> None:
        nodes, roots = self.formulas.nodes, [node for _, node in self.roots]
        places: dict[str, Place] = {name: ("y", i) for i, name in enumerate(self.states)}
        places |= {name: ("c", i) for i, name in enumerate((*self.parameters, TIME))}
        leaves = {i: places[nodes[i][1]] for i in self.formulas.reached(roots) if nodes[i][0] == "symbol"}
        sizes = len(self.states), len(self.parameters) + 1
        object.__setattr__(self, "batches", Batches(nodes, roots, leaves, sizes))

    def __call__(self, t: ArrayLike, y: Float[Array, " states"], parameters: Mapping[str, Any]) -> dict[str, Array]:
        """The values by name."""
        found = self.vector(t, y, parameters)
        return {name: found[i] for i, (name, _) in enumerate(self.roots)}

    def of_parameters(self, parameters: Mapping[str, Any]) -> dict[str, Array]:
        """The values by name of formulas that name no state."""
        like = jnp.stack(jnp.broadcast_arrays(*map(jnp.asarray, parameters.values())) or [jnp.zeros(())])
        return self(0.0, jnp.zeros(0, like.dtype), parameters)

    def vector(
        self, t: ArrayLike, y: Float[Array, " states"], parameters: Mapping[str, Any]
    ) -> Float[Array, " values"]:
        """The values in the order of their names."""
        known = [jnp.asarray(x, y.dtype) for x in (*(parameters[name] for name in self.parameters), t)]
        return self.batches(y, jnp.stack(known))
