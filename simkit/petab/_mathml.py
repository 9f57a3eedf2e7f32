"""Conversion of libSBML's syntax trees to the graph of formulas: nothing is ever evaluated as code."""

import itertools
import re
from collections.abc import Callable, Mapping
from typing import Any

import libsbml

from .._errors import DataError
from ..networks import TIME, Graph, Walk, walked

Symbol = Callable[[str], int]
"""Name -> its node; raises a `DataError` where there is no such name."""

AVOGADRO = 6.02214179e23  # as SBML Level 3 defines it

_SIMPLE = {
    libsbml.AST_MINUS: ("negative", "subtract"),
    libsbml.AST_DIVIDE: (None, "divide"),
    libsbml.AST_POWER: (None, "power"),
    libsbml.AST_FUNCTION_POWER: (None, "power"),
    libsbml.AST_FUNCTION_EXP: ("exp",),
    libsbml.AST_FUNCTION_LN: ("ln",),
    libsbml.AST_FUNCTION_ABS: ("abs",),
    libsbml.AST_FUNCTION_FLOOR: ("floor",),
    libsbml.AST_FUNCTION_CEILING: ("ceiling",),
    libsbml.AST_FUNCTION_FACTORIAL: ("factorial",),
    libsbml.AST_FUNCTION_QUOTIENT: (None, "quotient"),
    libsbml.AST_FUNCTION_REM: (None, "remainder"),
    libsbml.AST_LOGICAL_NOT: ("not",),
}
_MANY = {
    libsbml.AST_LOGICAL_AND: "and",
    libsbml.AST_LOGICAL_OR: "or",
    libsbml.AST_LOGICAL_XOR: "xor",
    libsbml.AST_FUNCTION_MIN: "min",
    libsbml.AST_FUNCTION_MAX: "max",
}
_RELATIONS = {
    libsbml.AST_RELATIONAL_LT: "lt",
    libsbml.AST_RELATIONAL_LEQ: "leq",
    libsbml.AST_RELATIONAL_GT: "gt",
    libsbml.AST_RELATIONAL_GEQ: "geq",
    libsbml.AST_RELATIONAL_EQ: "eq",
    libsbml.AST_RELATIONAL_NEQ: "neq",
}
_TRIGONOMETRIC = {
    getattr(libsbml, f"AST_FUNCTION_{name.upper()}"): name
    for stem in ("sin", "cos", "tan", "sec", "csc", "cot", "sinh", "cosh", "tanh", "sech", "csch", "coth")
    for name in (stem, f"arc{stem}")
}
_NUMBERS = {
    libsbml.AST_CONSTANT_E: 2.718281828459045,
    libsbml.AST_CONSTANT_PI: 3.141592653589793,
    libsbml.AST_CONSTANT_TRUE: 1.0,
    libsbml.AST_CONSTANT_FALSE: 0.0,
    libsbml.AST_NAME_AVOGADRO: AVOGADRO,
}
DEEPEST = 200
"""Deepest nesting of parentheses in a formula of a table."""
MOST_CALLS = 50_000
"""Calls of functions of a model with arguments that differ."""
LONGEST = 1_000_000
"""Characters of a formula of a table."""
OPERATORS = re.compile(r"[-+*/^&|<>=!%]+")
MOST_OPERATORS = 20_000
"""Operators of a formula of a table: libSBML's trees are that deep at worst, and it dies of some 100,000."""

_LOG = "logarithm_of"
_EXTRA = ("log2", "sign", "heaviside")


class Reader:
    """Reads syntax trees into a graph.

    **Arguments:**

    - `graph`: where the nodes go.
    - `symbol`: what a name stands for.
    - `functions`: name -> (names of the arguments, tree) of functions that the model defines.
    - `rate`: how fast what a name stands for changes; `delay`: the value of a node at an earlier time, a lag before.
    """

    def __init__(
        self,
        graph: Graph,
        symbol: Symbol,
        functions: Mapping[str, tuple[list[str], Any]] | None = None,
        rate: Symbol | None = None,
        delay: Callable[[int, int, str], int] | None = None,
    ):
        self.graph, self.symbol, self.functions, self.rate, self.delay = graph, symbol, functions or {}, rate, delay
        self._open: list[str] = []
        self._results: dict[tuple[str, tuple[int, ...]], int] = {}

    def read(self, tree: libsbml.ASTNode, where: str, bound: Mapping[str, int] | None = None) -> int:
        """The node of a tree; `where` names it in messages, `bound` holds arguments of a function."""
        return walked(self._read(tree, where, bound))

    def _read(self, tree: libsbml.ASTNode, where: str, bound: Mapping[str, int] | None) -> Walk:
        kind, graph = tree.getType(), self.graph
        children = [tree.getChild(i) for i in range(tree.getNumChildren())]
        if kind in (libsbml.AST_INTEGER, libsbml.AST_REAL, libsbml.AST_REAL_E, libsbml.AST_RATIONAL):
            return graph.number(tree.getValue())
        if kind in _NUMBERS:
            return graph.number(_NUMBERS[kind])
        if kind == libsbml.AST_NAME_TIME:
            return graph.symbol(TIME)
        if kind == libsbml.AST_NAME:
            name = tree.getName()
            if bound is not None and name in bound:
                return bound[name]
            return self.symbol(name)
        if kind == libsbml.AST_FUNCTION_RATE_OF and self.rate is not None and len(children) == 1:
            name = children[0].getName() if children[0].getType() == libsbml.AST_NAME else ""
            if bound is not None and name in bound:
                word, *rest = graph.nodes[bound[name]]
                name = rest[0] if word == "symbol" else ""
            if name:
                return self.rate(name)
        if kind == libsbml.AST_FUNCTION:
            return (yield self._called(tree.getName(), children, where, bound))
        parts: list[int] = []
        for child in children:
            parts.append((yield self._read(child, where, bound)))
        return self._operation(kind, tree, parts, where)

    def _operation(self, kind: int, tree: libsbml.ASTNode, parts: list[int], where: str) -> int:
        graph = self.graph
        if kind == libsbml.AST_PLUS:
            return graph.add(*parts)
        if kind == libsbml.AST_TIMES:
            return graph.multiply(*parts)
        if kind in _SIMPLE and 0 < len(parts) <= len(_SIMPLE[kind]):
            operation = _SIMPLE[kind][len(parts) - 1]
            if operation is not None:
                return graph.make(operation, *parts)
        if kind in _MANY and parts:
            return graph.make(_MANY[kind], *parts) if len(parts) > 1 else parts[0]
        if kind in _MANY and kind != libsbml.AST_FUNCTION_MIN and kind != libsbml.AST_FUNCTION_MAX:
            return graph.number(1.0 if kind == libsbml.AST_LOGICAL_AND else 0.0)
        if kind in _RELATIONS and len(parts) >= 2:
            pairs = [graph.make(_RELATIONS[kind], a, b) for a, b in itertools.pairwise(parts)]
            return graph.make("and", *pairs) if len(pairs) > 1 else pairs[0]
        if kind in _TRIGONOMETRIC and len(parts) == 1:
            return graph.make(_TRIGONOMETRIC[kind], *parts)
        if kind == libsbml.AST_FUNCTION_ROOT and parts:
            return graph.make("root", *(parts if len(parts) == 2 else [graph.number(2.0), *parts]))
        if kind == libsbml.AST_FUNCTION_LOG and parts:
            return self._logarithm(parts)
        if kind == libsbml.AST_FUNCTION_PIECEWISE and parts:
            missing = [] if len(parts) % 2 else [graph.number(0.0)]
            return graph.make("choice", *parts, *missing) if len(parts) > 1 else parts[0]
        if kind == libsbml.AST_LOGICAL_IMPLIES and len(parts) == 2:
            return graph.make("or", graph.make("not", parts[0]), parts[1])
        if kind == libsbml.AST_FUNCTION_DELAY and self.delay is not None and len(parts) == 2:
            return self.delay(parts[0], parts[1], where)
        named = tree.getName() or libsbml.formulaToL3String(tree)
        raise DataError(f"{where} must be made of functions that simkit knows, but holds `{named}`, which it does not.")

    def _logarithm(self, parts: list[int]) -> int:
        base = 10.0 if len(parts) == 1 else self.graph.value(parts[0])
        if base == 10:
            return self.graph.make("log10", parts[-1])
        return self.graph.make("log2", parts[-1]) if base == 2 else self.graph.make("log", *parts)

    def _called(self, name: str, children: list[Any], where: str, bound: Mapping[str, int] | None) -> Walk:
        own = name in self.functions
        logarithm = not own and name == _LOG and len(children) in (1, 2)
        if not own and not logarithm and not (name in _EXTRA and len(children) == 1):
            raise DataError(
                f"{where} must be made of functions that simkit knows, but calls `{name}`, which is not defined."
            )
        if name in self._open:
            raise DataError(f"{where} must not call a function that calls itself, but `{name}` does.")
        arguments = self.functions[name][0] if own else []
        if own and len(arguments) != len(children):
            raise DataError(
                f"{where} must give the function `{name}` {len(arguments)} arguments, but gives {len(children)}."
            )
        parts: list[int] = []
        for child in children:
            parts.append((yield self._read(child, where, bound)))
        if logarithm:
            return self._logarithm(parts[::-1]) if len(parts) == 2 else self.graph.make("ln", *parts)
        if not own:
            return self._extra(name, parts[0])
        # Each call is read once: a chain of functions that call each other twice would be read 2^n times.
        call = name, tuple(parts)
        if call not in self._results:
            if len(self._results) >= MOST_CALLS:
                raise DataError(
                    f"The formulas of a model must call functions at most {MOST_CALLS:,} times in all, but they do so more often. "
                    "Do functions call each other many times over?"
                )
            self._open.append(name)
            try:
                self._results[call] = yield self._read(
                    self.functions[name][1], f"The function `{name}`", dict(zip(arguments, parts, strict=True))
                )
            finally:
                self._open.pop()
        return self._results[call]

    def _extra(self, name: str, x: int) -> int:
        """Functions of PEtab's formulas that MathML does not have."""
        graph = self.graph
        if name == "log2":
            return graph.make("log2", x)
        zero, one = graph.number(0.0), graph.number(1.0)
        up, down = graph.make("gt", x, zero), graph.make("lt", x, zero)
        if name == "heaviside":
            return graph.make("choice", one, up, zero, down, graph.number(0.5))
        return graph.make("choice", one, up, graph.number(-1.0), down, zero)


def _cut(text: str) -> str:
    return text if len(text) < 300 else f"{text[:297]}..."


def _depth(text: str) -> int:
    return max(itertools.accumulate((x == "(") - (x == ")") for x in text), default=0)


def parsed(text: str, where: str) -> Any:
    """The syntax tree of a formula in a table, such as `scale * (A + B)`."""
    settings = libsbml.L3ParserSettings()
    settings.setParseLog(libsbml.L3P_PARSE_LOG_AS_LN)
    settings.setParseUnits(False)
    settings.setParseAvogadroCsymbol(False)
    settings.setComparisonCaseSensitivity(libsbml.L3P_COMPARE_BUILTINS_CASE_SENSITIVE)
    if _depth(text) > DEEPEST:
        raise DataError(
            f"{where} must not be nested more than {DEEPEST} deep, but is. Give parts of it names of their own."
        )
    if len(text) > LONGEST or sum(1 for _ in OPERATORS.finditer(text)) > MOST_OPERATORS:
        raise DataError(
            f"{where} must have at most {LONGEST:,} characters and {MOST_OPERATORS:,} operators, but it has more. Give parts of it "
            "names of their own."
        )
    # PEtab's logarithm has its base second, SBML's has it first.
    tree = libsbml.parseL3FormulaWithSettings(re.sub(r"\blog(?=\s*\()", _LOG, text.replace("**", "^")), settings)
    if tree is None:
        reason = " ".join(str(libsbml.getLastParseL3Error()).split())
        raise DataError(f"{where} must be a formula, but `{_cut(text)}` is none: {_cut(reason)}")
    return tree
