"""The reason why a constrained system has no consistent start, in words."""

import numpy as np

from .._types import State, Time
from ..core import SystemTerm, named_leaves
from ..linear import unmatched
from ._constrained import Equations, search, times_mass

SINGULAR = 1e-9
"""Smallest singular value, as a share of the largest one, below which algebraic equations do not determine their states."""

SHARE = 0.1
"""Share of the largest number of a vector from which a state or an equation is named."""

SHOWN = 6
"""Most names in a sentence."""


def reason_of_failure(term: SystemTerm, t: Time, y0: State) -> str:
    """Return what keeps the algebraic equations from being solved, with the equations and states that it is about."""
    names = _names(y0)
    equations = Equations(term, y0)
    mass = np.asarray(equations.mass(t), float)
    if not np.isfinite(mass).all():
        bad = np.flatnonzero(~np.isfinite(mass if mass.ndim == 1 else mass.sum(axis=1)))
        return (
            f"the numbers of `mass` in the equation of {_listed([names[i] for i in bad])} must be finite, but are not. Look at the "
            "parameters that it is made of"
        )
    found = search(term, t, y0)
    matrix = np.asarray(found.matrix, float)
    if not np.isfinite(matrix).all() or not np.isfinite(np.asarray(found.residual)).all():
        return "the algebraic equations, or their derivatives, are not finite at the guess"
    null, elsewhere = _null_space(matrix), _null_space(np.asarray(found.elsewhere, float))
    if len(null) and not len(elsewhere):
        return (
            f"the algebraic equations do not determine {_listed(_largest(names, np.abs(null).max(axis=0)))} where Newton's method "
            "ended, and do so elsewhere: no solution was found near this guess. Start from another one, or change the differential "
            "states, which it leaves as they are"
        )
    if len(null):
        states = _largest(names, np.abs(null).max(axis=0))
        missing, _ = unmatched(lambda y: equations.field(t, y) + times_mass(equations.mass(t), y), equations.like)
        said = (
            f" The equation of {_listed([names[i] for i in missing])} contains no unknown of its own."
            if missing
            else ""
        )
        return (
            f"the algebraic equations do not determine {_listed(states)}, so the index is above 1.{said} Differentiate by time the "
            "equations that should determine them, and give those that were differentiated as `hidden` constraints"
        )
    left = np.abs(np.asarray(found.residual)) / np.where(np.asarray(found.terms) > 0, np.asarray(found.terms), 1)
    equation = "equation" if len(_largest(names, left)) == 1 else "equations"
    return (
        f"the algebraic {equation} of {_listed(_largest(names, left))} could not be met from this guess: Newton's method ended "
        f"with {float(left.max()):.2g} of the size of the terms. Start nearer to a solution, or change the differential states, "
        "which it leaves as they are"
    )


def _null_space(matrix: np.ndarray) -> np.ndarray:
    """The directions that a matrix takes to zero, its rows being scaled; none of a matrix that is not finite."""
    if not np.isfinite(matrix).all():
        return np.zeros((0, len(matrix)))
    rows = np.abs(matrix).max(axis=1, keepdims=True)
    _, singular, right = np.linalg.svd(matrix / np.where(rows > 0, rows, 1))
    return right[singular <= SINGULAR * singular[0]]


def _names(y0: State) -> list[str]:
    """The name of each number of a flat state."""
    found = []
    for name, leaf in named_leaves(y0).items():
        indices = [".".join(map(str, index)) for index in np.ndindex(np.shape(leaf))]
        found += [".".join(part for part in (name or "y", index) if part) for index in indices]
    return found


def _largest(names: list[str], sizes: np.ndarray) -> list[str]:
    order = np.argsort(-sizes, kind="stable")
    return [names[i] for i in order if sizes[i] >= SHARE * sizes[order[0]]]


def _listed(names: list[str]) -> str:
    said = ", ".join(f"`{name}`" for name in names[:SHOWN])
    return said + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
