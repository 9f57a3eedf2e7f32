"""Equations of a model as text, checked and read into one graph of formulas."""

import dataclasses
import functools
import keyword
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .._errors import ArgumentError, DataError, UnknownNameError, close_matches
from ..core import Input, Metadata
from ._expression import TIME, Formulas, Graph
from ._formula_text import FUNCTIONS, Reader

NAME = r"[A-Za-z]\w*"
DERIVATIVE = re.compile(rf"\s*(?:d\s+({NAME})(?:\s*/\s*dt)?|d({NAME})\s*/\s*dt|({NAME})')\s*")
TAKEN = (
    "t",
    "time",
    "y0",
    "inputs",
    "noise",
    "system",
    "parameters",
    "events",
    "state",
    "equations",
    "value",
    *FUNCTIONS,
)
"""Names that formulas and paths need for themselves."""
DEEPEST = 60
"""Most assignments that use each other one after the other."""
EXAMPLE = '"d algae" = "growth*algae*(1 - algae/capacity)"'


@dataclasses.dataclass(frozen=True)
class Equations:
    """The text of a model; hashable, so that it can be the static part of a system.

    - `name`: what the model is called. `rates`: the slope of each state as a formula, by name; `states` its unit and the like.
    - `assignments`: quantities that others use, by name. `observed`: outputs beside the states.
    - `parameters`: a name, a value and its unit and support. `inputs`: a name and its declaration.
    """

    name: str
    rates: tuple[tuple[str, str], ...]
    states: tuple[tuple[str, Metadata], ...]
    assignments: tuple[tuple[str, str], ...] = ()
    observed: tuple[tuple[str, str], ...] = ()
    parameters: tuple[tuple[str, float, Metadata], ...] = ()
    inputs: tuple[tuple[str, Input], ...] = ()

    def __post_init__(self) -> None:
        check_names(self)
        _ = self.compiled

    @functools.cached_property
    def compiled(self) -> tuple[Formulas, tuple[int, ...], tuple[int, ...]]:
        """The graph, the nodes of the rates and those of the observed outputs."""
        graph = Graph()
        rates, observed = read_equations(self, graph)
        return Formulas(tuple(graph.nodes)), tuple(rates), tuple(observed)

    def sorts(self) -> dict[str, str]:
        """The sort of each name: "state", "parameters", "inputs" or "assignment"."""
        found = {name: "state" for name, _ in self.rates} | {name: "parameters" for name, _, _ in self.parameters}
        return (
            found | {name: "inputs" for name, _ in self.inputs} | {name: "assignment" for name, _ in self.assignments}
        )


def read_equations(equations: Equations, graph: Any) -> tuple[list[int], list[int]]:
    """The nodes of rates and observed outputs; symbols are `SORT:NAME`, and assignments are read where they are used.

    **Raises:** a `DataError` or an `UnknownNameError` that names the equation.
    """
    sorts, texts = equations.sorts(), dict(equations.assignments)
    known: dict[str, int] = {}
    open_ones: list[str] = []

    def symbol(name: str) -> int:
        if name in ("t", "time()"):
            return graph.symbol(f"time:{TIME}")
        if name not in sorts:
            raise UnknownNameError(
                f"There is no state, parameter, input or assignment `{name}`. {close_matches(name, [*sorts, 't'])}"
            )
        if sorts[name] != "assignment":
            return graph.symbol(f"{sorts[name]}:{name}")
        if name not in known:
            known[name] = assigned(name)
        return known[name]

    def assigned(name: str) -> int:
        if name in open_ones:
            loop = " uses ".join(f"`{one}`" for one in [*open_ones[open_ones.index(name) :], name])
            raise DataError(f"Assignments must not use themselves, but {loop}. A quantity with a memory is a state.")
        if len(open_ones) >= DEEPEST:
            raise DataError(
                f"Assignments must use each other at most {DEEPEST} deep, but `{open_ones[0]}` goes deeper."
            )
        open_ones.append(name)
        node = read(texts[name], f"`{name}`")
        open_ones.pop()
        return node

    def read(text: str, where: str) -> int:
        return Reader(graph, symbol, no_call, {}, "the model").read(text, where)

    for name in texts:  # those that nothing uses are read, too, for their mistakes
        symbol(name)
    rates = [read(text, f"`d {name}`") for name, text in equations.rates]
    return rates, [read(text, f"The output `{name}`") for name, text in equations.observed]


def no_call(name: str, operands: Sequence[int]) -> int:
    raise DataError(f"the function `{name}` is not known")


def split_equations(equations: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """Rates by state and assignments by name, from equations by their left sides: "d x", "dx/dt" or "x'", and "x".

    **Raises:** an `ArgumentError`.
    """
    rates: dict[str, str] = {}
    assignments: dict[str, str] = {}
    for left, text in equations.items():
        found = DERIVATIVE.fullmatch(left)
        name = next(filter(None, found.groups())) if found else left.strip()
        if not found and not re.fullmatch(NAME, name):
            raise ArgumentError(
                f"The left side of an equation must be a derivative or a name, but one is `{left}`. Write {EXAMPLE}, or a name "
                "for a quantity that other equations use."
            )
        if isinstance(text, bool) or not isinstance(text, str | int | float):
            raise ArgumentError(
                f"The equation `{left}` must be a formula as text, but it is `{text!r}`. Write {EXAMPLE}."
            )
        if name in rates or name in assignments:
            raise ArgumentError(
                f"The name `{name}` must stand on the left once, but it stands there twice. Remove one."
            )
        (rates if found else assignments)[name] = text if isinstance(text, str) else repr(float(text))
    if not rates:
        raise ArgumentError(f"The equations must hold a derivative, but none does. Write {EXAMPLE}.")
    return rates, assignments


def check_names(equations: Equations) -> None:
    """Refuse names that are given twice or that something else has, and numbers outside of their supports."""
    rates = dict(equations.rates)
    for name, _ in equations.states:
        if name not in rates:
            raise UnknownNameError(
                f'The state `{name}` must have an equation, "d {name}" = "...", but it has none. {close_matches(name, rates)}'
            )
    seen: dict[str, str] = {}
    groups: dict[str, Sequence[str]] = {
        "a state": [name for name, _ in equations.rates],
        "an assignment": [name for name, _ in equations.assignments],
        "a parameter": [name for name, _, _ in equations.parameters],
        "an input": [name for name, _ in equations.inputs],
        "an output": [name for name, _ in equations.observed],
    }
    for what, names in groups.items():
        for name in names:
            if not re.fullmatch(NAME, name) or name in TAKEN:
                kind = "means something else in formulas" if name in TAKEN else "is no word of letters, digits and _"
                raise ArgumentError(f"The name `{name}` of {what} must be another one, since it {kind}. Rename it.")
            if keyword.iskeyword(name) and what in ("a state", "a parameter"):
                raise ArgumentError(
                    f"The name `{name}` of {what} must be another one, since it is a keyword of Python and no field can have it. "
                    "Rename it."
                )
            if name in seen:
                raise ArgumentError(
                    f"Names must be given once, but `{name}` is {seen[name]} and {what}. Rename one of them."
                )
            seen[name] = what
    for name, value, known in equations.parameters:
        check_number(f"The parameter `{name}`", value, known)


def check_number(what: str, value: float, known: Metadata) -> None:
    """Refuse a value that is not finite or lies outside of its support."""
    lower, upper = known.support
    if not math.isfinite(value):
        raise ArgumentError(f"{what} must be finite, but it is {value:g}.")
    if not lower <= value <= upper or (known.support.positive and value <= 0):
        good = "positive" if known.support.positive else f"between {lower:g} and {upper:g}"
        raise ArgumentError(f"{what} must be {good}, as its support says, but it is {value:g}.")


Render = Callable[[Any, int], str]
