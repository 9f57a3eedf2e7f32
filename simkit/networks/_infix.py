"""Formulas as text: those of SBML and PEtab, and those of Python."""

import keyword
import math
import re
from collections.abc import Callable, Mapping, Sequence

from .._errors import ArgumentError
from ._expression import TIME, Formulas, Node
from ._walk import Walk, walked

DEEPEST = 60
"""Levels of one line; Python reads 200 parentheses within each other, and each level has up to three."""
TRUTHS = ("lt", "leq", "gt", "geq", "eq", "neq", "and", "or", "xor", "not")
_BINARY = {"add": ("+", 1), "subtract": ("-", 1), "multiply": ("*", 2), "divide": ("/", 2)}
_RELATIONS = {"lt": "<", "leq": "<=", "gt": ">", "geq": ">=", "eq": "==", "neq": "!="}
_SBML = {
    "ln": "ln",
    "ceiling": "ceil",
    "log2": "log2",
    "remainder": "rem",
    "choice": "piecewise",
}
_PYTHON = {
    "ln": "jnp.log",
    "ceiling": "jnp.ceil",
    "min": "jnp.minimum",
    "max": "jnp.maximum",
    "not": "jnp.logical_not",
    **{
        name: f"jnp.{name}"
        for name in ("exp", "log10", "log2", "abs", "floor", "sin", "cos", "tan", "sinh", "cosh", "tanh")
    },
    **{f"arc{name}": f"jnp.arc{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
}


class Printer:
    """Prints formulas.

    **Arguments:**

    - `formulas`: their graph.
    - `names`: node -> the name that stands for it, in place of its formula.
    - `symbols`: the text of a symbol.
    - `python`: whether to print Python in place of SBML's formulas.
    """

    def __init__(
        self, formulas: Formulas, names: Mapping[int, str], symbols: Callable[[str], str], *, python: bool = False
    ):
        self.formulas, self.names, self.symbols, self.python = formulas, names, symbols, python

    def text(self, node: int, *, whole: bool = False) -> str:
        """The text of a formula; `whole` prints it though it has a name itself."""
        return walked(self._text(node, 0, whole))

    def _text(self, node: int, outer: int, whole: bool = False) -> Walk:
        if node in self.names and not whole:
            return self.names[node]
        operation, *operands = self.formulas.nodes[node]
        if operation == "number":
            return _number(operands[0], outer)
        if operation == "symbol":
            return self.symbols(operands[0])
        if operation == "multiply" and self.formulas.nodes[operands[0]] == ("number", -1.0):
            return _within(f"-{(yield self._text(operands[1], 3))}", 1, outer)
        if operation in _BINARY:
            sign, level = _BINARY[operation]
            right = level + (operation in ("subtract", "divide"))
            first, last = (yield self._text(operands[0], level)), (yield self._text(operands[1], right))
            if operation == "add" and last.startswith("-"):
                return _within(f"{first} - {last[1:]}", level, outer)
            return _within(f"{first} {sign} {last}", level, outer)
        if operation == "negative":
            return _within(f"-{(yield self._text(operands[0], 3))}", 1, outer)
        if operation == "power":
            sign = "**" if self.python else "^"
            base, exponent = (yield self._text(operands[0], 5)), (yield self._text(operands[1], 5))
            return _within(f"{base}{sign}{exponent}", 4, outer)
        parts: list[str] = []
        for x in operands:
            parts.append((yield self._text(x, 0)))
        if operation in _RELATIONS:
            return f"({parts[0]} {_RELATIONS[operation]} {parts[1]})"
        return self._python(operation, parts) if self.python else self._sbml(operation, parts)

    def _sbml(self, operation: str, parts: Sequence[str]) -> str:
        if operation in ("and", "or"):
            return "(" + (" && " if operation == "and" else " || ").join(parts) + ")"
        if operation == "not":
            return f"(!{parts[0]})"
        if operation == "log2":
            return f"(ln({parts[0]}) / ln(2))"
        if operation == "log":
            return f"(ln({parts[1]}) / ln({parts[0]}))"
        return f"{_SBML.get(operation, operation)}({', '.join(parts)})"

    def _python(self, operation: str, parts: Sequence[str]) -> str:
        if operation == "choice":
            *pairs, result = parts
            for value, condition in zip(pairs[-2::-2], pairs[::-2], strict=True):
                result = f"jnp.where({condition}, {value}, {result})"
            return result
        if operation in ("and", "or", "xor", "min", "max"):
            name = _PYTHON.get(operation, f"jnp.logical_{operation}")
            result = parts[0]
            for part in parts[1:]:
                result = f"{name}({result}, {part})"
            return result
        if operation == "root":
            return f"({parts[1]}) ** (1 / ({parts[0]}))"
        if operation == "log":
            return f"(jnp.log({parts[1]}) / jnp.log({parts[0]}))"
        if operation == "factorial":
            return f"jnp.exp(jax.scipy.special.gammaln({parts[0]} + 1.0))"
        if operation not in _PYTHON:
            raise ArgumentError(
                f"The function `{operation}` of the model must be one with a name in Python, but is none."
            )
        return f"{_PYTHON[operation]}({', '.join(parts)})"


def shared(formulas: Formulas, roots: Sequence[int]) -> list[int]:
    """The operations that several formulas, or one at several places, are made of, parts first."""
    count: dict[int, int] = {}
    for node in formulas.reached(roots):
        for part in _parts(formulas.nodes[node]):
            count[part] = count.get(part, 0) + 1
    for root in roots:
        count[root] = count.get(root, 0) + 1
    named = [i for i in sorted(count) if count[i] > 1 and _parts(formulas.nodes[i])]
    return sorted({*named, *_deep(formulas, sorted(count), set(named))})


def _deep(formulas: Formulas, nodes: Sequence[int], named: set[int]) -> list[int]:
    """Operations that are given names so that no line is nested deeper than Python reads."""
    heights: dict[int, int] = {}
    found = []
    for i in nodes:
        if i in named:
            heights[i] = 0
            continue
        heights[i] = 1 + max((heights[x] for x in _parts(formulas.nodes[i])), default=0)
        if heights[i] > DEEPEST and formulas.nodes[i][0] not in TRUTHS:
            found.append(i)
            heights[i] = 0
    return found


def identifier(name: str) -> str:
    """A name that SBML, PEtab and Python take."""
    found = re.sub(r"\W", "_", name.replace(".", "__"))
    found = f"_{found}" if not found or found[0].isdigit() else found
    return f"{found}_" if keyword.iskeyword(found) else found


def time_as(word: str, other: Callable[[str], str]) -> Callable[[str], str]:
    """Symbols where time is a word of its own."""
    return lambda name: word if name == TIME else other(name)


def _parts(node: Node) -> tuple[int, ...]:
    return () if node[0] in ("number", "symbol") else node[1:]


def _number(value: float, outer: int) -> str:
    if math.isinf(value) or math.isnan(value):
        return repr(value)
    text = repr(int(value)) + ".0" if value == int(value) and abs(value) < 1e6 else repr(value)
    return f"({text})" if value < 0 and outer else text


def _within(text: str, level: int, outer: int) -> str:
    return f"({text})" if level < outer else text
