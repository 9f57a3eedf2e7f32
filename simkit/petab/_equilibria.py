"""Algebraic rules that are not solved by hand, and fast reactions, as equations M dy/dt = f of the states."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from .._errors import DataError
from ..networks import TIME, Formulas, Graph
from ._model import FastReaction, Model

ROUNDING = 1e-12
"""Share of the terms of a difference of stoichiometric numbers below which the difference is nothing."""

POINTS = 8
"""Random points at all of which a rate is zero that is zero everywhere."""

Column = dict[str, int]
"""State -> the node of a stoichiometric number; states that are not there have 0."""


class Equations(NamedTuple):
    """Differential and algebraic equations of a model.

    - `rates`: state -> the node of its right side f.
    - `mass`: (row, column, node): the entries of M, rows and columns by the names of states.
    - `flow`: state -> the node of its rate of change by fast reactions alone; empty where there are none.
    """

    rates: dict[str, int]
    mass: tuple[tuple[str, str, int], ...]
    flow: dict[str, int]


def equations_of(model: Model) -> Equations | None:
    """The equations of a model with unknowns or fast reactions, None of one without.

    With slow rates s, fast ones v and stoichiometric numbers N of these, dy/dt = s + N w, where w is what keeps v at zero. A
    basis B of the columns of N has a state of its own, a pivot, for each column: 1 there, and 0 in the other columns. Where y_p
    are the pivots, d(y - B y_p)/dt = s - B s_p holds for the other states, whatever w is; the equations of the pivots are
    0 = (N v)_p, which is v = 0 where fast reactions are independent, and otherwise equilibrium of their sums.

    **Raises:** a `DataError` that names the fast reaction whose numbers change with the state or with time.
    """
    graph = model.graph
    fast = [r for r in model.fast if _happens(graph, r)]
    if not (fast or model.unknowns):
        return None
    _check(model, fast)
    scales = {state: node for r in fast for state, node in r.scales.items()}
    basis = _basis(graph, fast)
    rates, mass, flow = dict(model.rates), [], {}
    for state in scales:
        flow[state] = graph.add(*(graph.multiply(r.counts[state], r.rate) for r in fast if state in r.counts))
    for state in model.states:
        if state in model.unknowns:
            continue
        if state in basis:
            rates[state] = flow[state]
            continue
        mass.append((state, state, graph.number(1.0)))
        for pivot, column in basis.items():
            if state in column:
                share = graph.multiply(graph.make("divide", scales[state], scales[pivot]), column[state])
                mass.append((state, pivot, graph.make("negative", share)))
                rates[state] = graph.make("subtract", rates[state], graph.multiply(share, model.rates[pivot]))
    zero = graph.number(0.0)
    whole = {name: graph.multiply(scales[name], flow[name]) if name in flow else zero for name in model.states}
    return Equations(rates, tuple(mass), whole if fast else {})


def _happens(graph: Graph, reaction: FastReaction) -> bool:
    """Tell whether a reaction changes anything: its rate is not zero for all values of what it depends on."""
    if all(graph.value(count) == 0 for count in reaction.counts.values()):
        return False
    generator = np.random.default_rng(0)
    (found,) = Formulas(tuple(graph.nodes)).evaluate([reaction.rate], lambda name: generator.uniform(0.5, 1.5, POINTS))
    return bool(np.any(np.asarray(found) != 0))


def _check(model: Model, fast: list[FastReaction]) -> None:
    """Refuse fast reactions whose numbers change, and those whose rates need what an algebraic rule determines."""
    formulas, moving = Formulas(tuple(model.graph.nodes)), {*model.states, TIME}
    for r in fast:
        changing = sorted(formulas.symbols([*r.counts.values(), *r.scales.values()]) & moving)
        if changing:
            raise DataError(
                f"The fast reaction `{r.name}` of the model `{model.name}` must have stoichiometric numbers, volumes and "
                f"conversion factors that stay as they are, but they depend on `{changing[0]}`, which changes: not supported."
            )
        needed = sorted(formulas.symbols([r.rate]) & {*model.unknowns})
        if needed:
            raise DataError(
                f"The fast reaction `{r.name}` of the model `{model.name}` must not depend on `{needed[0]}`, for which the "
                f"algebraic rule `0 = {model.unknowns[needed[0]]}` cannot be solved by hand: not supported."
            )


def _basis(graph: Graph, fast: list[FastReaction]) -> Mapping[str, Column]:
    """Pivot -> the column of the basis that is 1 there, by elimination among the columns of reactions."""
    basis: dict[str, Column] = {}
    for r in fast:
        column = {state: node for state, node in r.counts.items() if graph.value(node) != 0}
        for pivot, other in basis.items():
            column = _without(graph, column, pivot, other)
        if not column:  # it follows from the others
            continue
        # A number before a formula, which may be zero for some values.
        named = Formulas(tuple(graph.nodes)).symbols([r.rate])
        pivot = max(column, key=lambda state: (graph.value(column[state]) is not None, state in named))
        column = {state: graph.make("divide", node, column[pivot]) for state, node in column.items()}
        column[pivot] = graph.number(1.0)
        basis = {state: _without(graph, other, pivot, column) for state, other in basis.items()} | {pivot: column}
    return basis


def _without(graph: Graph, column: Column, pivot: str, other: Column) -> Column:
    """A column less so much of another one that nothing is left at its pivot."""
    if pivot not in column:
        return column
    share, found = column[pivot], dict(column)
    for state, node in other.items():
        taken = graph.multiply(share, node)
        left = graph.make("subtract", column.get(state, graph.number(0.0)), taken)
        number, size = graph.value(left), graph.value(taken)
        nothing = number is not None and abs(number) <= ROUNDING * abs(size or 0.0)
        found[state] = graph.number(0.0) if nothing or state == pivot else left
    return {state: node for state, node in found.items() if graph.value(node) != 0}
