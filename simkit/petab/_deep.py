"""Models that are nested deep, or whose rules name each other many deep."""

from collections.abc import Mapping
from typing import Any
from xml.parsers import expat

from .._errors import DataError
from ._algebraic import names_of

DEEPEST = 1_000
"""Elements within each other; libSBML dies of some 10,000."""

LONG = 30
"""Rules that name each other so many deep are read in an order of their own; each takes some ten calls of Python's stack."""


def check_depth(text: str, name: str) -> None:
    """Refuse what is nested so deep that libSBML, which calls itself for each level, would end the process."""
    parser, depth = expat.ParserCreate("utf-8"), 0

    def begin(element: str, attributes: object) -> None:
        nonlocal depth
        depth += 1
        if depth > DEEPEST:
            raise DataError(
                f"The SBML file `{name}`, line {parser.CurrentLineNumber}, must be nested at most {DEEPEST:,} deep, but is deeper. "
                "Give parts of the formula names of their own, as assignment rules."
            )

    def end(element: str) -> None:
        nonlocal depth
        depth -= 1

    parser.StartElementHandler, parser.EndElementHandler = begin, end
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        reason = expat.errors.messages[error.code]
        raise DataError(f"The file `{name}`, line {error.lineno} must be SBML, but: {reason}") from error


def long_chains(trees: Mapping[str, Any], file: str) -> list[str]:
    """Names in an order in which none waits for another; none where no chain of them is so long that Python's stack would end.

    **Arguments:** `trees` are the formulas by name, `file` is where they stand.

    **Raises:** a `DataError` where many of them form a ring.
    """
    if len(trees) < LONG:
        return []
    parts = {name: [part for part in names_of(tree) if part in trees] for name, tree in trees.items()}
    heights: dict[str, int] = {}
    opened: set[str] = set()
    stack = list(trees)
    while stack:
        name = stack[-1]
        rest = [part for part in parts[name] if part not in heights]
        waiting = [part for part in rest if part not in opened]
        if len(waiting) < len(rest):  # what is opened and not done is what led here
            ring = next(part for part in rest if part in opened)
            length = sum(part in opened for part in stack[stack.index(ring) :])
            if length >= LONG:  # shorter ones are told by name where they are read
                raise DataError(
                    f"The rule of `{ring}` in `{file}` must not depend on itself, but does, by way of {length - 1} others."
                )
        if name in heights or not waiting:
            stack.pop()
            heights.setdefault(name, 1 + max((heights.get(part, 0) for part in parts[name]), default=0))
        else:
            stack += waiting
        opened.add(name)
    return list(heights) if max(heights.values()) >= LONG else []
