"""Formulas of states and parameters by name, evaluated together."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ._batches import Batches
from ._expression import TIME, Formulas
from ._shapes import Place


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
        known = [jnp.asarray(x, y.dtype) for x in (*(parameters[name] for name in self.parameters), t)]
        found = self.batches(y, jnp.stack(known))
        return {name: found[i] for i, (name, _) in enumerate(self.roots)}
