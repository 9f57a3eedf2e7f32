"""C source of formulas: one line for each node of their graph."""

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
