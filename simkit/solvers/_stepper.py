"""Steppers: Diffrax solvers that also say which family of systems they serve."""

from typing import Any, ClassVar

import diffrax
import equinox as eqx
from jaxtyping import Array, Bool

from ..core import System


class Stepper(diffrax.AbstractAdaptiveSolver):
    """One step of a method, as a Diffrax solver.

    Beside Diffrax's own abstract members a stepper names the family it serves, whether it estimates its error, whether it
    is meant for stiff problems, and how many evaluations of the vector field a step takes.
    """

    family: eqx.AbstractClassVar[type[System]]
    adaptive: eqx.AbstractClassVar[bool]
    stiff: eqx.AbstractClassVar[bool]
    evaluations: eqx.AbstractClassVar[int]
    term_structure: ClassVar[Any] = diffrax.AbstractTerm

    def func(self, terms: Any, t0: Any, y0: Any, args: Any) -> Any:
        return terms.vf(t0, y0, args)


def reuse(made_jump: bool | Bool[Array, ""]) -> bool:
    """Whether the last slope of a step may serve as the first of the next; known while tracing where nothing jumps."""
    return made_jump is False
