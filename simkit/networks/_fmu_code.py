"""C source of formulas: one line for each node of their graph."""

import math
from collections.abc import Mapping, Sequence

from .._errors import ArgumentError
from ._expression import LOGIC, RELATIONS, Formulas

COMPARISONS = dict(zip(RELATIONS, ("<", "<=", ">", ">=", "==", "!="), strict=True))
INFIX = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}
ONE: Mapping[str, str] = {
    **{name: name for name in ("exp", "floor", "sin", "cos", "tan", "sinh", "cosh", "tanh", "log10", "log2")},
    "abs": "fabs",
    "ln": "log",
    "ceiling": "ceil",
    "negative": "-",
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "arcsinh": "asinh",
    "arccosh": "acosh",
    "arctanh": "atanh",
}


def c_lines(formulas: Formulas, roots: Sequence[int], symbols: Mapping[str, str]) -> list[str]:
    """The lines that compute some formulas: `n7` is the number of node 7.

    **Arguments:** `symbols`: what stands in C for each symbol.

    **Raises:** an `ArgumentError` for a function that C does not have.
    """
    return [f"const double n{i} = {_text(formulas, i, symbols)};" for i in formulas.reached(roots)]


SLOPES: Mapping[str, str] = {
    "exp": "{n}",
    "ln": "1 / {x}",
    "log10": f"1 / ({{x}} * {math.log(10)!r})",
    "log2": f"1 / ({{x}} * {math.log(2)!r})",
    "sin": "cos({x})",
    "cos": "-sin({x})",
    "tan": "1 + {n} * {n}",
    "sinh": "cosh({x})",
    "cosh": "sinh({x})",
    "tanh": "1 - {n} * {n}",
    "arcsin": "1 / sqrt(1 - {x} * {x})",
    "arccos": "-1 / sqrt(1 - {x} * {x})",
    "arctan": "1 / (1 + {x} * {x})",
    "arcsinh": "1 / sqrt({x} * {x} + 1)",
    "arccosh": "1 / sqrt({x} * {x} - 1)",
    "arctanh": "1 / (1 - {x} * {x})",
    "abs": "({x} > 0) - ({x} < 0)",
    "negative": "-1",
    "floor": "0",
    "ceiling": "0",
}
"""The derivative of each function of one operand x, whose value is n."""


def c_tangents(formulas: Formulas, roots: Sequence[int], symbols: Mapping[str, str]) -> list[str]:
    """The lines that compute derivatives along a direction, after those of `c_lines`: `d7` is that of node 7.

    **Arguments:** `symbols`: what stands in C for the direction of each symbol; one that is missing does not move.
    """
    return [f"const double d{i} = {_tangent(formulas, i, symbols)};" for i in formulas.reached(roots)]


def _tangent(formulas: Formulas, node: int, symbols: Mapping[str, str]) -> str:
    operation, *operands = formulas.nodes[node]
    if operation == "symbol":
        return symbols.get(operands[0], "0")
    if operation == "number" or operation in COMPARISONS or operation in LOGIC:
        return "0"
    n, d = [f"n{x}" for x in operands], [f"d{x}" for x in operands]
    if operation in ("add", "subtract"):
        return f"{d[0]} {INFIX[operation]} {d[1]}"
    if operation == "multiply":
        return f"times({n[1]}, {d[0]}) + times({n[0]}, {d[1]})"
    if operation == "divide":
        return f"times(1 / {n[1]}, {d[0]}) - times(n{node} / {n[1]}, {d[1]})"
    if operation == "power":
        by_exponent = f"{n[0]} > 0 ? n{node} * log({n[0]}) : 0"
        return f"times({n[1]} * power({n[0]}, {n[1]} - 1), {d[0]}) + times({by_exponent}, {d[1]})"
    if operation in ("min", "max"):  # of equal operands the first
        return "".join(f"n{node} == {x} ? {along} : " for x, along in zip(n, d, strict=True)) + "NAN"
    if operation == "choice":
        return "".join(f"{n[i + 1]} != 0 ? {d[i]} : " for i in range(0, len(n) - 1, 2)) + d[-1]
    return f"times({SLOPES[operation].format(x=n[0], n=f'n{node}')}, {d[0]})"


def _text(formulas: Formulas, node: int, symbols: Mapping[str, str]) -> str:
    operation, *operands = formulas.nodes[node]
    if operation == "number":
        return c_number(operands[0])
    if operation == "symbol":
        return symbols[operands[0]]
    names = [f"n{x}" for x in operands]
    if operation in INFIX:
        return f"{names[0]} {INFIX[operation]} {names[1]}"
    if operation in COMPARISONS:
        return f"{names[0]} {COMPARISONS[operation]} {names[1]}"
    if operation in LOGIC:
        return _logic(operation, names)
    if operation in ONE:
        return f"{ONE[operation]}({names[0]})"
    return _other(operation, names)


def _logic(operation: str, names: list[str]) -> str:
    if operation == "not":
        return f"!({names[0]} != 0)"
    return {"and": " && ", "or": " || "}[operation].join(f"({name} != 0)" for name in names)


def _other(operation: str, names: list[str]) -> str:
    """The operations with a form of their own."""
    first, last = names[0], names[-1]
    if operation == "power":
        return f"power({first}, {last})"
    if operation in ("min", "max"):
        text = first
        for name in names[1:]:
            text = f"{operation}imum({text}, {name})"
        return text
    if operation == "choice":
        text = last
        for i in range(len(names) // 2 - 1, -1, -1):
            text = f"({names[2 * i + 1]} != 0) ? {names[2 * i]} : ({text})"
        return text
    raise ArgumentError(f"The function `{operation}` has no form in C. Write the equations without it.")


def c_number(value: float) -> str:
    """A number of C: with all its digits, or by the macros of `math.h`."""
    if value != value:
        return "NAN"
    if value in (float("inf"), float("-inf")):
        return "INFINITY" if value > 0 else "-INFINITY"
    return repr(float(value))
