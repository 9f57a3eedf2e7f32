"""Large reaction networks: the rates of all states as one vector."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from .._errors import ArgumentError
from .._types import Inputs
from ..core import Example, KnownJacobian, SparseMatrix
from ._batches import Batches, Jacobian
from ._expression import TIME, Formulas
from ._shapes import Place


@dataclasses.dataclass(frozen=True)
class Rates:
    """The rates of a model, ordered into batches; hashable.

    - `formulas`, `rates`: the graph, and in it the rates of the states by name.
    - `inputs`: the names of inputs.
    - `varying`: the parameters that may differ from experiment to experiment. The others are one vector for all of them.

    What depends on parameters alone is a value of its own, computed once a solve.
    """

    formulas: Formulas
    rates: tuple[tuple[str, int], ...]
    inputs: tuple[str, ...]
    varying: frozenset[str]
    states: tuple[str, ...] = dataclasses.field(init=False, compare=False)
    parameters: tuple[str, ...] = dataclasses.field(init=False, compare=False)
    changing: tuple[str, ...] = dataclasses.field(init=False, compare=False)
    still: Batches = dataclasses.field(init=False, compare=False)
    moving: Batches = dataclasses.field(init=False, compare=False)
    slope: Jacobian = dataclasses.field(init=False, compare=False)

    def __post_init__(self) -> None:
        nodes, roots = self.formulas.nodes, dict(self.rates)
        states = tuple(sorted(roots))  # the order of a dict's leaves
        symbols = self.formulas.symbols(list(roots.values()))
        found = sorted(symbols - set(states) - set(self.inputs) - {TIME})
        parameters = tuple(sorted(found, key=lambda name: name in self.varying))
        given = {name: ("c", i) for i, name in enumerate(parameters)}
        used = _fixed(self.formulas, list(roots.values()), frozenset(parameters))
        leaves = {i: given[nodes[i][1]] for i in self.formulas.reached(used) if nodes[i][0] == "symbol"}
        computed = [i for i in used if nodes[i][0] != "symbol"]
        # Without what no rate needs, most of all time: derivatives by it would pass through all batches.
        first, changing = len(parameters), tuple(name for name in (TIME, *self.inputs) if name in symbols)
        sizes = len(states), first + len(computed) + len(changing)
        places: dict[int, Place] = {}
        names = {name: ("y", i) for i, name in enumerate(states)} | given
        names |= {name: ("c", first + len(computed) + i) for i, name in enumerate(changing)}
        for i in self.formulas.reached(list(roots.values())):
            if nodes[i][0] == "symbol":
                places[i] = names[nodes[i][1]]
        places |= {node: ("c", first + i) for i, node in enumerate(computed)}
        put = lambda name, value: object.__setattr__(self, name, value)
        put("states", states)
        put("changing", changing)
        put("parameters", parameters)
        put("still", Batches(nodes, computed, leaves, (0, first)))
        put("moving", Batches(nodes, [roots[name] for name in states], places, sizes))
        put("slope", Jacobian(self.moving, len(states)))


def _fixed(formulas: Formulas, roots: Sequence[int], parameters: frozenset[str]) -> list[int]:
    """Return the nodes that depend on parameters alone and that others read."""
    nodes, fixed, used = formulas.nodes, set(), set()
    plain = {i for i in formulas.reached(roots) if nodes[i][0] == "number"}
    for i in formulas.reached(roots):
        operation, *operands = nodes[i]
        if operation == "symbol":
            if operands[0] in parameters:
                fixed.add(i)
        elif operation != "number":
            if all(x in fixed or x in plain for x in operands):
                fixed.add(i)
            else:
                used |= fixed & set(operands)
    return sorted(used | (fixed & set(roots)))


class LargeSystem(KnownJacobian):
    """The states of a large model as one vector.

    - `constants`: its parameters, and what depends on them alone.
    """

    constants: Float[Array, " constants"]
    rates: Rates = eqx.field(static=True)

    @classmethod
    def of(cls, rates: Rates, parameters: Mapping[str, Any], like: Array) -> "LargeSystem":
        """The system for given values of the parameters."""
        groups: list[list[Array]] = [[], []]
        for name in rates.parameters:
            groups[name in rates.varying].append(jnp.asarray(parameters[name], like.dtype))
        known = jnp.concatenate([jnp.stack(values) if values else jnp.zeros(0, like.dtype) for values in groups])
        return cls(jnp.concatenate([known, rates.still(known[:0], known)]), rates)

    def vector_field(self, t: ArrayLike, y: Array, inputs: Inputs) -> Array:
        return self.rates.moving(y, self._known(t, y, inputs))

    def jacobian(self, t: ArrayLike, y: Array, inputs: Inputs) -> SparseMatrix:
        return self.rates.slope(y, self._known(t, y, inputs))

    def _known(self, t: ArrayLike, y: Array, inputs: Inputs) -> Array:
        changing = [jnp.asarray(t if name == TIME else inputs[name], y.dtype) for name in self.rates.changing]
        return jnp.concatenate([self.constants, jnp.stack(changing)]) if changing else self.constants

    def packed(self, y: dict[str, Array]) -> Array:
        """States by their names as one vector."""
        return jnp.stack([y[name] for name in self.rates.states])

    def unpacked(self, y: Array) -> dict[str, Array]:
        """The states of vectors along the last axis, by their names."""
        return {name: y[..., i] for i, name in enumerate(self.rates.states)}

    def changed(self, y: Array, new: Mapping[str, Array]) -> Array:
        """The vector with other values of some states."""
        if not new:
            return y
        places = np.array([self.rates.states.index(name) for name in new])
        return y.at[places].set(jnp.stack([jnp.asarray(x, y.dtype) for x in new.values()]))

    @classmethod
    def example(cls) -> "Example[LargeSystem]":
        raise ArgumentError("A system read from SBML has no example: give its state and times.")
