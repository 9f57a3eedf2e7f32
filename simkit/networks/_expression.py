"""Formulas as one graph in which equal parts are one node, evaluated by JAX without a line of generated code."""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from .._errors import DataError
from ..core import ELEMENTARY

Node = tuple[Any, ...]
"""(operation, operands...): operands are indices of nodes, but for the number of "number" and the name of "symbol"."""

LEAVES = ("number", "symbol")
RELATIONS = ("lt", "leq", "gt", "geq", "eq", "neq")
LOGIC = ("and", "or", "xor", "not")
MOST_NODES = 1_000_000
"""Operations of all formulas of a model; the largest published models have some 100,000."""
TIME = "the time"
"""The symbol of time, which no identifier can be: it is two words."""


class Graph:
    """A growing graph of formulas. Building a node that exists gives the index of that node."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._index: dict[Node, int] = {}

    def number(self, value: float) -> int:
        """A constant."""
        return self._add(("number", float(value)))

    def symbol(self, name: str) -> int:
        """A name whose value is given at evaluation."""
        return self._add(("symbol", name))

    def make(self, operation: str, *operands: int) -> int:
        """An operation on nodes, simplified where that is exact."""
        if operation not in LOGIC:
            # A truth value among numbers counts as 1 or 0; conditions, which stand second in `choice`, stay what they are.
            paired = len(operands) - 1 if operation == "choice" else 0
            operands = tuple(x if i < paired and i % 2 else self.counted(x) for i, x in enumerate(operands))
        values = [self.value(x) for x in operands]
        if operation not in LEAVES and values and all(v is not None for v in values):
            found = _constant(operation, [v for v in values if v is not None])
            if found is not None:
                return self.number(found)
        return self._simplified(operation, operands, values)

    def add(self, *terms: int) -> int:
        """A sum; of nothing it is 0."""
        return self._folded("add", terms, 0.0)

    def multiply(self, *factors: int) -> int:
        """A product; of nothing it is 1."""
        return self._folded("multiply", factors, 1.0)

    def value(self, node: int) -> float | None:
        """The number that a node is, None where it is no number."""
        kind = self.nodes[node]
        return kind[1] if kind[0] == "number" else None

    def replaced(self, node: int, others: Mapping[int, int]) -> int:
        """A formula with other nodes in place of some."""
        made: dict[Any, Any] = dict(others)
        for i in reached(self.nodes, [node]):
            operation, *operands = self.nodes[i]
            if i not in made and operation not in LEAVES:
                made[i] = self.make(operation, *(made.get(x, x) for x in operands))
        return made.get(node, node)

    def counted(self, node: int) -> int:
        """A formula as a number: a truth value counts as 1 or 0."""
        truth = self.nodes[node][0] in (*RELATIONS, *LOGIC)
        return self._add(("choice", self.number(1.0), node, self.number(0.0))) if truth else node

    def _add(self, node: Node) -> int:
        key = (node[0], repr(node[1])) if node[0] == "number" else node  # 0.0 and -0.0 are equal, but not the same
        if key not in self._index:
            if len(self.nodes) >= MOST_NODES:
                raise DataError(
                    f"The formulas of a model must have at most {MOST_NODES:,} operations in all, but they have more. Do functions "
                    "call each other many times over?"
                )
            self._index[key] = len(self.nodes)
            self.nodes.append(node)
        return self._index[key]

    def _folded(self, operation: str, operands: Sequence[int], neutral: float) -> int:
        kept = [x for x in operands if self.value(x) != neutral]
        if operation == "multiply" and any(self.value(x) == 0 for x in kept):
            return self.number(0.0)
        if not kept:
            return self.number(neutral)
        result = kept[0]
        for x in kept[1:]:
            result = self.make(operation, result, x)
        return result

    def _simplified(self, operation: str, operands: Sequence[int], values: Sequence[float | None]) -> int:
        if operation == "subtract" and values[1] == 0:
            return operands[0]
        if operation == "negative" and self.nodes[operands[0]][0] == "negative":
            return self.nodes[operands[0]][1]
        if operation == "divide" and values[1] == 1:
            return operands[0]
        if operation == "divide" and values[0] == 0:
            return operands[0]
        if operation == "power" and values[1] == 1:
            return operands[0]
        if operation == "power" and values[1] == 2:
            return self.make("multiply", operands[0], operands[0])
        if operation in ("add", "multiply") and operands[0] > operands[1]:
            operands = operands[::-1]
        return self._add((operation, *operands))


@dataclasses.dataclass(frozen=True)
class Formulas:
    """A finished graph: hashable, so that it can be the static part of a module."""

    nodes: tuple[Node, ...]

    @functools.cached_property
    def mark(self) -> int:
        """The hash, which differs from process to process: no field, so that definitions of computations do not hold it."""
        return hash(self.nodes)

    def __hash__(self) -> int:
        return self.mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Formulas, (self.nodes,)

    def symbols(self, roots: Sequence[int]) -> frozenset[str]:
        """The names that some formulas depend on."""
        return frozenset(self.nodes[i][1] for i in self.reached(roots) if self.nodes[i][0] == "symbol")

    def reached(self, roots: Sequence[int]) -> list[int]:
        """The nodes that some formulas are made of, parts first."""
        return reached(self.nodes, roots)

    def evaluate(self, roots: Sequence[int], lookup: Callable[[str], Any]) -> list[Any]:
        """The values of some formulas.

        **Arguments:**

        - `roots`: their nodes.
        - `lookup`: name -> value, asked once a name.
        """
        values: dict[int, Any] = {}
        for i in self.reached(roots):
            operation, *operands = self.nodes[i]
            if operation == "number":
                values[i] = operands[0]
            elif operation == "symbol":
                values[i] = lookup(operands[0])
            else:
                values[i] = OPERATIONS[operation](*(values[x] for x in operands))
        return [values[i] for i in roots]


def reached(nodes: Sequence[Node], roots: Sequence[int]) -> list[int]:
    """The nodes that some formulas are made of, parts first."""
    seen: set[int] = set()
    stack = list(roots)
    while stack:
        i = stack.pop()
        if i in seen:
            continue
        seen.add(i)
        if nodes[i][0] not in LEAVES:
            stack.extend(nodes[i][1:])
    return sorted(seen)  # parts are built before what they are part of


def _constant(operation: str, values: list[float]) -> float | None:
    """A number made of numbers; None where Python and JAX may not agree."""
    simple: dict[str, Callable[..., float]] = {
        "add": lambda a, b: a + b,
        "subtract": lambda a, b: a - b,
        "multiply": lambda a, b: a * b,
        "divide": lambda a, b: a / b,
        "negative": lambda a: -a,
        "power": lambda a, b: a**b,
    }
    if operation not in simple:
        return None
    try:
        found = simple[operation](*values)
    except (ArithmeticError, ValueError):
        return None
    return found if isinstance(found, float) and math.isfinite(found) else None


def power(base: ArrayLike, exponent: ArrayLike) -> Any:
    """base**exponent, real everywhere: a base that an approximate solution has made a little negative counts as 0."""
    if _plain(base) and _plain(exponent):
        base = jnp.asarray(base, float)  # Python's own numbers raise errors: 0.0**-1.0, 1e300**2.0
    if isinstance(exponent, float):
        if abs(exponent) < 64 and exponent == int(exponent):
            return jax.lax.integer_pow(jnp.asarray(base), int(exponent))
        if exponent == 0.5:
            return jnp.sqrt(jnp.maximum(base, 0))
        return jnp.power(jnp.maximum(base, 0), exponent)
    exponent = jnp.asarray(exponent)
    broken = jnp.less(base, 0) & (exponent != jnp.round(exponent))
    return jnp.power(jnp.where(broken, 0, base), exponent)


def _divide(a: ArrayLike, b: ArrayLike) -> Any:
    """A quotient by IEEE rules: Python's own numbers raise an error where the divisor is 0."""
    return jnp.divide(a, b) if _plain(b) and b == 0 else a / b


def _plain(value: object) -> bool:
    return isinstance(value, float | int)


def _truth(value: ArrayLike) -> Any:
    return value if jnp.result_type(value) == "bool" else jnp.not_equal(value, 0)


def _choice(*operands: ArrayLike) -> Any:
    """value, condition, value, condition, ..., and what holds otherwise."""
    *pairs, result = operands
    for value, condition in zip(pairs[-2::-2], pairs[::-2], strict=True):
        result = jnp.where(_truth(condition), value, result)
    return result


def _all(*operands: ArrayLike) -> Any:
    result = _truth(operands[0])
    for x in operands[1:]:
        result = jnp.logical_and(result, _truth(x))
    return result


def _any(*operands: ArrayLike) -> Any:
    result = _truth(operands[0])
    for x in operands[1:]:
        result = jnp.logical_or(result, _truth(x))
    return result


def _odd(*operands: ArrayLike) -> Any:
    result = _truth(operands[0])
    for x in operands[1:]:
        result = jnp.logical_xor(result, _truth(x))
    return result


OPERATIONS: dict[str, Callable[..., Any]] = {
    **ELEMENTARY,
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": _divide,
    "negative": lambda a: -a,
    "power": power,
    "root": lambda degree, x: power(x, _divide(1.0, degree)),
    "ln": jnp.log,
    "log": lambda base, x: jnp.log(x) / jnp.log(base),
    "log10": lambda x: jnp.log(x) / math.log(10),
    "log2": lambda x: jnp.log(x) / math.log(2),
    "ceiling": jnp.ceil,
    "factorial": lambda x: jnp.exp(jax.scipy.special.gammaln(x + 1.0)),
    "quotient": lambda a, b: jnp.trunc(_divide(a, b)),
    "remainder": lambda a, b: a - b * jnp.trunc(_divide(a, b)),
    "min": lambda *xs: _reduced(jnp.minimum, xs),
    "max": lambda *xs: _reduced(jnp.maximum, xs),
    "choice": _choice,
    "lt": jnp.less,
    "leq": jnp.less_equal,
    "gt": jnp.greater,
    "geq": jnp.greater_equal,
    "eq": jnp.equal,
    "neq": jnp.not_equal,
    "and": _all,
    "or": _any,
    "xor": _odd,
    "not": lambda x: jnp.logical_not(_truth(x)),
    "arcsin": jnp.arcsin,
    "arccos": jnp.arccos,
    "arctan": jnp.arctan,
    "arcsec": lambda x: jnp.arccos(_divide(1.0, x)),
    "arccsc": lambda x: jnp.arcsin(_divide(1.0, x)),
    "arccot": lambda x: jnp.arctan(_divide(1.0, x)),
    "sech": lambda x: 1 / jnp.cosh(x),
    "csch": lambda x: 1 / jnp.sinh(x),
    "coth": lambda x: 1 / jnp.tanh(x),
    "arcsinh": jnp.arcsinh,
    "arccosh": jnp.arccosh,
    "arctanh": jnp.arctanh,
    "arcsech": lambda x: jnp.arccosh(_divide(1.0, x)),
    "arccsch": lambda x: jnp.arcsinh(_divide(1.0, x)),
    "arccoth": lambda x: jnp.arctanh(_divide(1.0, x)),
}


def _reduced(function: Callable[..., Any], values: Sequence[Any]) -> Any:
    result = values[0]
    for x in values[1:]:
        result = function(result, x)
    return result
