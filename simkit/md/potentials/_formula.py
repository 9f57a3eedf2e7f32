"""Formulas of energies as text, in the notation that force-field files and OpenMM use."""

import ast
import functools
import keyword
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from ..._errors import ArgumentError
from ...core import ELEMENTARY

Function = Callable[..., Any]
KEYWORDS = re.compile(rf"\b({'|'.join(keyword.kwlist)})\b")
"""Python's words, which a formula may use as names."""
NAME = re.compile(r"[A-Za-z_]\w*")

FUNCTIONS: Mapping[str, Function] = {
    **ELEMENTARY,
    "sqrt": jnp.sqrt,
    "log": jnp.log,
    "asin": jnp.arcsin,
    "acos": jnp.arccos,
    "atan": jnp.arctan,
    "atan2": jnp.arctan2,
    "erf": lambda x: lax.erf(jnp.asarray(x, float) if isinstance(x, int) else x),
    "erfc": lambda x: lax.erfc(jnp.asarray(x, float) if isinstance(x, int) else x),
    "square": lambda x: x * x,
    "cube": lambda x: x * x * x,
    "recip": lambda x: 1 / x,
    "ceil": jnp.ceil,
    "min": jnp.minimum,
    "max": jnp.maximum,
    "step": lambda x: jnp.where(x >= 0, 1.0, 0.0).astype(jnp.result_type(x)),
    "delta": lambda x: jnp.where(x == 0, 1.0, 0.0).astype(jnp.result_type(x)),
    "select": lambda x, y, z: jnp.where(x != 0, y, z),
}
"""Functions that every formula knows."""

OPERATORS: Mapping[type, Function] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
}


class Formula:
    """An expression with definitions after it, such as `"4*e*(x^2 - x); x = (s/r)^6; e = sqrt(e1*e2)"`.

    Two formulas of one text are equal, so that a formula may stand in a static field.

    **Raises:** an `ArgumentError` that quotes what cannot be read.
    """

    def __init__(self, text: str):
        self.text = " ".join(text.split())
        first, *rest = [part for part in self.text.split(";") if part.strip()] or [""]
        self.nodes = {"": _parsed(first, self.text)}
        for part in rest:
            name, sign, value = part.partition("=")
            if not sign or not NAME.fullmatch(name.strip()):
                raise _unread(part, self.text)
            self.nodes[name.strip()] = _parsed(value, self.text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Formula) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Formula({self.text!r})"

    def __call__(self, values: Mapping[str, Any], functions: Mapping[str, Function] | None = None) -> Any:
        """Return the value where names stand for `values`; `functions` are known beside the usual ones."""
        return _Evaluation(self, values, {**FUNCTIONS, **(functions or {})})("")

    @functools.cached_property
    def names(self) -> frozenset[str]:
        """Names that the text uses and does not define."""
        found: set[str] = set()
        for node in self.nodes.values():
            called = {id(part.func) for part in ast.walk(node) if isinstance(part, ast.Call)}
            found |= {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and id(part) not in called}
        return frozenset(found - set(self.nodes))

    def split(self, variables: Iterable[str]) -> tuple["Formula", dict[str, "Formula"]]:
        """Divide the formula into one of the variables and of few new names, and the formulas of those names.

        The new names stand for the largest parts that depend on no variable: they need be computed once where the whole is computed
        for many values of the variables.
        """
        moving, apart = set(variables), {}
        depends = functools.cache(lambda name: self._depends(name, moving))

        def lifted(node: ast.expr) -> ast.expr:
            if isinstance(node, ast.Constant):  # an exponent must stay one, so that whole powers are products
                return node
            if not self._moves(node, moving, depends):
                part = ast.unparse(node)
                name = next((key for key, text in apart.items() if text == part), f"part{len(apart)}_")
                apart[name] = part
                return ast.Name(name)
            if isinstance(node, ast.Name):
                return node
            if isinstance(node, ast.BinOp):
                return ast.BinOp(lifted(node.left), node.op, lifted(node.right))
            if isinstance(node, ast.UnaryOp):
                return ast.UnaryOp(node.op, lifted(node.operand))
            assert isinstance(node, ast.Call), "refused before"
            return ast.Call(node.func, [lifted(part) for part in node.args], [])

        whole = {name: ast.unparse(lifted(node)) for name, node in self.nodes.items() if name == "" or depends(name)}
        text = "; ".join([whole.pop(""), *(f"{name} = {part}" for name, part in whole.items())])
        still = "; ".join(
            f"{name} = {ast.unparse(node)}" for name, node in self.nodes.items() if name and not depends(name)
        )
        return Formula(_caret(text)), {name: Formula(_caret(f"{part}; {still}")) for name, part in apart.items()}

    def _depends(self, name: str, moving: set[str]) -> bool:
        if name in moving:
            return True
        node = self.nodes.get(name)
        return node is not None and self._moves(node, moving, lambda other: self._depends(other, moving))

    @staticmethod
    def _moves(node: ast.AST, moving: set[str], depends: Callable[[str], bool]) -> bool:
        return any(isinstance(part, ast.Name) and depends(part.id) for part in ast.walk(node))


class _Evaluation:
    """The values of a formula's definitions, each computed once."""

    def __init__(self, formula: Formula, values: Mapping[str, Any], functions: Mapping[str, Function]):
        self.formula, self.values, self.functions, self.found = formula, values, functions, {}

    def __call__(self, name: str) -> Any:
        if name not in self.found:
            self.found[name] = self.of(self.formula.nodes[name])
        return self.found[name]

    def of(self, node: ast.AST) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return self.named(node.id)
        if isinstance(node, ast.UnaryOp):
            value = self.of(node.operand)
            return -value if isinstance(node.op, ast.USub) else value
        if isinstance(node, ast.BinOp):
            a, b = self.of(node.left), self.of(node.right)
            return _power(a, b) if isinstance(node.op, ast.Pow) else OPERATORS[type(node.op)](a, b)
        assert isinstance(node, ast.Call), "refused before"
        assert isinstance(node.func, ast.Name), "refused before"
        return self.call(node.func.id, node.args)

    def named(self, name: str) -> Any:
        if name in self.formula.nodes:
            return self(name)
        if name in self.values:
            value = self.values[name]
            return value() if callable(value) else value
        raise ArgumentError(
            f"The formula `{self.formula.text}` must use known names only, but it uses `{name}`. Known are "
            f"{', '.join(sorted(self.values)) or 'none'}."
        )

    def call(self, name: str, given: list[ast.expr]) -> Any:
        if name not in self.functions:
            raise ArgumentError(
                f"The formula `{self.formula.text}` must use known functions only, but it uses `{name}`. Known are "
                f"{', '.join(sorted(self.functions))}."
            )
        return self.functions[name](*(self.of(part) for part in given))


def _power(a: Any, b: Any) -> Any:
    """A power; products where the exponent is a whole number."""
    if isinstance(b, float) and b == int(b):
        b = int(b)
    if isinstance(b, float) and b == 0.5:
        return jnp.sqrt(a)
    return a**b


def _parsed(text: str, whole: str) -> ast.expr:
    try:
        node = ast.parse(KEYWORDS.sub(r"keyword_\1", text.strip().replace("^", "**")), mode="eval").body
    except SyntaxError:
        raise _unread(text, whole) from None
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            part.id = part.id.removeprefix("keyword_")
        known = isinstance(part, ast.BinOp | ast.UnaryOp | ast.Call | ast.Name | ast.Constant | ast.Load)
        if not known and not isinstance(part, ast.operator | ast.unaryop):
            raise _unread(text, whole)
        if isinstance(part, ast.BinOp) and type(part.op) not in {*OPERATORS, ast.Pow}:
            raise _unread(text, whole)
        if isinstance(part, ast.UnaryOp) and not isinstance(part.op, ast.USub | ast.UAdd):
            raise _unread(text, whole)
        if isinstance(part, ast.Call) and (part.keywords or not isinstance(part.func, ast.Name)):
            raise _unread(text, whole)
        if isinstance(part, ast.Constant) and not isinstance(part.value, int | float):
            raise _unread(text, whole)
    return node


def _unread(part: str, whole: str) -> ArgumentError:
    return ArgumentError(
        f"A formula must be an expression, with definitions such as `; a = 2*b` after it, but `{part.strip()}` of `{whole}` cannot "
        "be read. Use + - * / ^, parentheses, names, numbers and functions."
    )


def _caret(text: str) -> str:
    return text.replace("**", "^")


def lookup(table: np.ndarray) -> Function:
    """Return a function of as many whole numbers as the table has axes; each is counted from 0."""
    values = np.asarray(table)

    def look(*places: Array) -> Array:
        index = tuple(jnp.round(jnp.asarray(place)).astype(jnp.int32) for place in places)
        return jnp.asarray(values)[index].astype(jnp.result_type(*places))

    return look
