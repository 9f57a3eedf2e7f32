"""Steppers: Diffrax solvers that also say which family of systems they serve."""

import abc
from typing import TYPE_CHECKING, Any, ClassVar

import diffrax
import jax
import jax.numpy as jnp
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

    @abc.abstractmethod
    def advance(self, terms: Any, t0: Any, t1: Any, h: Any, y0: Any, solver_state: Any, made_jump: Any) -> Any:
        """One step from t0 to t1, of length h; returns what Diffrax's `step` does.

        A length that a loop does not change is worked into the method's weights once, not at every step: on small systems
        a fixed step then costs a quarter of what it does when the length is a difference of two times.
        """

    @abc.abstractmethod
    def polynomial(self, dense: Any) -> tuple[Any, ...]:
        """The increments q of the dense output of a step, y(theta) = y0 + sum_j theta^(j+1) q[j] for theta from 0 to 1."""

    def step(self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any, solver_state: Any, made_jump: Any) -> Any:
        return self.advance(terms, t0, t1, t1 - t0, y0, solver_state, made_jump)

    def func(self, terms: Any, t0: Any, y0: Any, args: Any) -> Any:
        return terms.vf(t0, y0, args)


def straight(dense: Any) -> tuple[Any]:
    """The increment of a straight line between the ends of a step."""
    return (jax.tree.map(jnp.subtract, dense["y1"], dense["y0"]),)


def hermite(y0: Any, y1: Any, k0: Any, k1: Any) -> tuple[Any, Any, Any]:
    """The increments of the cubic polynomial with the values and the slopes, times the step, of both ends."""
    second = jax.tree.map(lambda a, b, k, m: 3 * (b - a) - 2 * k - m, y0, y1, k0, k1)
    third = jax.tree.map(lambda a, b, k, m: k + m - 2 * (b - a), y0, y1, k0, k1)
    return k0, second, third


def reuse(made_jump: bool | Bool[Array, ""]) -> bool:
    """Whether the last slope of a step may serve as the first of the next; known while tracing where nothing jumps."""
    return made_jump is False
