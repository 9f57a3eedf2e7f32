"""Formulas that are straight lines in one symbol."""

from collections.abc import Callable
from typing import Any

from ..networks import LEAVES, Graph, Walk, walked


def line(
    graph: Graph, node: int, variable: str, still: Callable[[str], bool] = lambda name: True
) -> tuple[int, int] | None:
    """A formula as its value where a symbol is 0 and its slope; None where it is no line, or where a symbol is not `still`."""
    return walked(_line(graph, node, variable, still, {}))


def _line(graph: Graph, node: int, variable: str, still: Callable[[str], bool], found: dict[int, Any]) -> Walk:
    if node not in found:
        operation, *operands = graph.nodes[node]
        lines: list[Any] = []
        for x in operands if operation not in LEAVES else ():
            lines.append((yield _line(graph, x, variable, still, found)))
        found[node] = _of_parts(graph, node, lines, variable, still)
    return found[node]


def _of_parts(
    graph: Graph, node: int, lines: list[tuple[int, int] | None], variable: str, still: Callable[[str], bool]
) -> tuple[int, int] | None:
    """A formula as a line, from the lines of its operands."""
    operation, *operands = graph.nodes[node]
    zero = graph.number(0.0)
    if operation == "number":
        return node, zero
    if operation == "symbol":
        if operands[0] == variable:
            return zero, graph.number(1.0)
        return (node, zero) if still(operands[0]) else None
    known = [x for x in lines if x is not None]
    if len(known) < len(lines):
        return None
    if all(graph.value(slope) == 0 for _, slope in known):
        return node, zero
    if operation in ("add", "subtract"):
        (a, b), (c, d) = known
        return graph.make(operation, a, c), graph.make(operation, b, d)
    if operation == "negative":
        return graph.make("negative", known[0][0]), graph.make("negative", known[0][1])
    if operation == "multiply":
        (a, b), (c, d) = known
        if graph.value(d) == 0:
            return graph.multiply(a, c), graph.multiply(b, c)
        return (graph.multiply(a, c), graph.multiply(a, d)) if graph.value(b) == 0 else None
    if operation == "divide" and graph.value(known[1][1]) == 0:
        return graph.make("divide", known[0][0], known[1][0]), graph.make("divide", known[0][1], known[1][0])
    return None
