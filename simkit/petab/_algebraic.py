"""Algebraic rules of SBML: which name each of them determines."""

from collections.abc import Mapping, Sequence
from typing import Any

import libsbml

from ..networks import Graph
from ._lines import line


def determined(model: libsbml.Model, taken: set[str]) -> dict[str, Any] | None:
    """Name -> the algebraic rule that determines it; None where there is no such assignment of the rules to names.

    **Arguments:** `model`, of libSBML; `taken`, what other rules and events determine.
    """
    rules = [rule for rule in model.getListOfRules() if rule.isAlgebraic() and rule.getMath() is not None]
    moved = {
        x.getSpecies() for r in model.getListOfReactions() for x in (*r.getListOfReactants(), *r.getListOfProducts())
    }
    free = {x.getId() for x in (*model.getListOfCompartments(), *model.getListOfParameters()) if not x.getConstant()}
    for s in model.getListOfSpecies():
        if not s.getConstant() and (s.getBoundaryCondition() or s.getId() not in moved):
            free.add(s.getId())
    # Where the rules leave a choice, what reactions could change is taken before what is outside of them.
    outside = {s.getId() for s in model.getListOfSpecies() if s.getBoundaryCondition()}
    choices = [sorted(names_of(rule.getMath()), key=lambda name: name in outside) for rule in rules]
    owners = _matched([[name for name in names if name in free - taken] for names in choices])
    return None if owners is None else {name: rules[i] for name, i in owners.items()}


def _matched(choices: Sequence[Sequence[str]]) -> Mapping[str, int] | None:
    """A name of its own for each rule, by augmenting paths."""
    owners: dict[str, int] = {}

    def placed(rule: int, seen: set[str]) -> bool:
        for name in choices[rule]:
            if name not in seen:
                seen.add(name)
                if name not in owners or placed(owners[name], seen):
                    owners[name] = rule
                    return True
        return False

    return owners if all(placed(rule, set()) for rule in range(len(choices))) else None


def names_of(tree: libsbml.ASTNode) -> list[str]:
    """The names in a formula, each once."""
    found: dict[str, None] = {}
    stack = [tree]
    while stack:
        part = stack.pop()
        if part.isName():
            found[part.getName()] = None
        stack += [part.getChild(i) for i in reversed(range(part.getNumChildren()))]
    return list(found)


def solved(graph: Graph, node: int, name: str) -> int | None:
    """The value of a name at which a formula is 0, None where the formula is no straight line in it."""
    found = line(graph, node, name)
    if found is None or graph.value(found[1]) == 0:
        return None
    return graph.make("divide", graph.make("negative", found[0]), found[1])
