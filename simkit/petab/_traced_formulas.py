"""Functions written in JAX as formulas: their traces, operation by operation."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.extend
import numpy as np
from jax.typing import ArrayLike

from .._errors import ArgumentError
from ..linear import CALLS, called_program, evaluated  # internal
from ..networks import Graph

_SIMPLE = {
    "add": "add",
    "add_any": "add",
    "sub": "subtract",
    "mul": "multiply",
    "div": "divide",
    "neg": "negative",
    "pow": "power",
    "exp": "exp",
    "log": "ln",
    "abs": "abs",
    "floor": "floor",
    "ceil": "ceiling",
    "max": "max",
    "min": "min",
    "lt": "lt",
    "le": "leq",
    "gt": "gt",
    "ge": "geq",
    "eq": "eq",
    "ne": "neq",
    "and": "and",
    "or": "or",
    "not": "not",
    **{name: name for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{f"a{name}": f"arc{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
}
_SAME = ("convert_element_type", "copy", "stop_gradient", "optimization_barrier", "reduce_precision")
_MOVES = frozenset(
    [
        *(
            "broadcast_in_dim",
            "concatenate",
            "expand_dims",
            "reshape",
            "rev",
            "slice",
            "split",
            "squeeze",
            "stack",
            "tile",
        ),
        *("transpose", "unstack"),
    ]
)

Nodes = np.ndarray
"""Nodes of a graph, in the shape of the array whose elements they are."""


def traced(
    function: Callable[..., Any], arguments: Sequence[Any], nodes: Sequence[Any], graph: Graph, what: str
) -> Any:
    """The results of a function as nodes of a graph, in its own structure.

    **Arguments:**

    - `function`, `arguments`: what is traced; `nodes` are pytrees of the nodes that stand for the arguments.
    - `what`: how messages call it.
    """
    jaxpr, shape = jax.make_jaxpr(function, return_shape=True)(*arguments)
    given = [np.asarray(x) for x in jax.tree.leaves(list(nodes))]
    found = _Walk(graph, what).run(jaxpr.jaxpr, jaxpr.consts, given)
    return jax.tree.unflatten(jax.tree.structure(shape), found)


class _Walk:
    def __init__(self, graph: Graph, what: str):
        self.graph, self.what = graph, what

    def run(self, jaxpr: jax.extend.core.Jaxpr, constants: Sequence[Any], given: Sequence[Nodes]) -> list[Nodes]:
        values: dict[Any, Nodes] = dict(zip(jaxpr.constvars, map(self.numbers, constants), strict=True))
        values |= dict(zip(jaxpr.invars, given, strict=True))
        read = lambda v: self.numbers(v.val) if isinstance(v, jax.extend.core.Literal) else values[v]
        for equation in jaxpr.eqns:
            found = self.operation(equation, [read(v) for v in equation.invars])
            values |= dict(zip(equation.outvars, found, strict=True))
        return [read(v) for v in jaxpr.outvars]

    def numbers(self, value: ArrayLike) -> Nodes:
        array = np.asarray(value, float)
        return np.array([self.graph.number(x) for x in array.ravel()], int).reshape(array.shape)

    def each(self, operation: str, *arrays: Nodes) -> Nodes:
        spread = np.broadcast_arrays(*arrays)
        combine = {"add": self.graph.add, "multiply": self.graph.multiply}.get(operation)
        make = combine or (lambda *x: self.graph.make(operation, *x))
        rows = zip(*(x.ravel() for x in spread), strict=True)
        return np.array([make(*map(int, row)) for row in rows], int).reshape(spread[0].shape)

    def operation(self, equation: jax.extend.core.JaxprEqn, operands: list[Nodes]) -> list[Nodes]:
        name, settings = equation.primitive.name, equation.params
        if name in CALLS:
            return self.run(*called_program(settings), operands)
        if name in _SIMPLE:
            return [self.each(_SIMPLE[name], *operands)]
        if name in _SAME:
            return operands
        if name in _MOVES:
            return evaluated(equation, operands)
        number = self.graph.number
        if name == "integer_pow":
            return [self.each("power", operands[0], np.asarray(number(float(settings["y"]))))]
        if name == "square":
            return [self.each("power", operands[0], np.asarray(number(2.0)))]
        if name in ("sqrt", "rsqrt"):
            return [self.each("power", operands[0], np.asarray(number(0.5 if name == "sqrt" else -0.5)))]
        one = np.asarray(number(1.0))
        if name == "log1p":
            return [self.each("ln", self.each("add", one, operands[0]))]
        if name == "expm1":
            return [self.each("subtract", self.each("exp", operands[0]), one)]
        if name == "logistic":
            return [
                self.each("divide", one, self.each("add", one, self.each("exp", self.each("negative", operands[0]))))
            ]
        if name == "sign":
            zero, less = np.asarray(number(0.0)), np.asarray(number(-1.0))
            up, down = self.each("gt", operands[0], zero), self.each("lt", operands[0], zero)
            return [self.each("choice", one, up, less, down, zero)]
        if name == "select_n" and len(operands) == 3:
            return [self.each("choice", operands[2], operands[0], operands[1])]
        if name == "clamp":
            return [self.each("min", operands[2], self.each("max", operands[0], operands[1]))]
        if name == "reduce_sum":
            return [self.summed(operands[0], settings["axes"])]
        raise ArgumentError(
            f"{self.what} must be made of operations that SBML has, but uses `{name}`, which it has not. Write it with sums, "
            "products, powers, exponentials, logarithms and `jnp.where`."
        )

    def summed(self, operand: Nodes, axes: Sequence[int]) -> Nodes:
        kept = tuple(i for i in range(operand.ndim) if i not in axes)
        rows = np.transpose(operand, (*kept, *axes)).reshape(*(operand.shape[i] for i in kept), -1)
        flat = rows.reshape(-1, rows.shape[-1])
        return np.array([self.graph.add(*map(int, row)) for row in flat], int).reshape(rows.shape[:-1])
