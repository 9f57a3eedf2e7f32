"""Solvers by the names that study files and the argument `solver` take."""

import sys
from typing import TYPE_CHECKING, Any

import equinox as eqx

from .._doors import check_kind
from .._errors import ArgumentError, check_known
from ._from_diffrax import FromDiffrax
from ._registry import SOLVERS
from ._stepper import Stepper

if TYPE_CHECKING:
    from diffrax import AbstractSolver
else:
    AbstractSolver = eqx.Module  # what it is, without the import of Diffrax

SolverLike = Stepper | str | AbstractSolver
"""Solver as users give it: a stepper, its name, or a solver of Diffrax."""


def as_solver(solver: Any) -> Stepper | None:
    """The solver that a user gave as a stepper, by its name, as a solver of Diffrax, or not at all.

    **Raises:** an `ArgumentError` for a class, an `UnknownNameError` for an unknown name, a `PluginError` for one of another
    package that cannot be used.
    """
    if solver is None or isinstance(solver, Stepper):
        return solver
    if isinstance(solver, str):
        return _made(solver.lower() if solver.lower() in SOLVERS.own else solver)
    diffrax: Any = sys.modules.get("diffrax")  # whoever holds one of its solvers has imported it
    if diffrax is not None and isinstance(solver, diffrax.AbstractSolver):
        name = type(solver).__name__.lower()
        return SOLVERS.own[name]() if name in SOLVERS.own else FromDiffrax(solver)
    check_kind("solver", solver, Stepper, "a solver", "Take one of `simkit.solvers`, such as `simkit.solvers.Tsit5()`.")
    return solver


def _made(name: str) -> Stepper:
    """A solver of a registered class, with what its arguments have by default."""
    check_known(name, SOLVERS, "solver")
    kind = SOLVERS[name]
    try:
        return kind()
    except TypeError as error:
        raise ArgumentError(
            f"The solver `{name}` must be made without arguments to be given by name, but: {error}. Give an instance of "
            f"`{kind.__name__}`."
        ) from error
