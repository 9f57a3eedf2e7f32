"""Steppers: Diffrax solvers that also say which family of systems they serve."""

from typing import TYPE_CHECKING, Any, ClassVar

import diffrax
from jaxtyping import Array, Bool

from ..core import System

if TYPE_CHECKING:
    from typing import ClassVar as AbstractClassVar
else:
    from equinox import AbstractClassVar  # type checkers would take it for an instance variable


class Stepper(diffrax.AbstractAdaptiveSolver):
    """One step of a method, as a Diffrax solver.

    Beside Diffrax's own abstract members a stepper names the family it serves, whether it estimates its error, whether it
    is meant for stiff problems, and how many evaluations of the vector field a step takes.
    """

    family: AbstractClassVar[type[System]]
    adaptive: AbstractClassVar[bool]
    stiff: AbstractClassVar[bool]
    evaluations: AbstractClassVar[int]
    term_structure: ClassVar[Any] = diffrax.AbstractTerm

    def func(self, terms: Any, t0: Any, y0: Any, args: Any) -> Any:
        return terms.vf(t0, y0, args)


def reuse(made_jump: bool | Bool[Array, ""]) -> bool:
    """Whether the last slope of a step may serve as the first of the next; known while tracing where nothing jumps."""
    return made_jump is False
