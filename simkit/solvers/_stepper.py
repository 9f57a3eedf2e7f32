"""The protocol of steppers: one step of a method, its dense output, and the facts by which a method is chosen."""

import abc
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from .._types import State, Time
from ..core import System, SystemTerm

if TYPE_CHECKING:
    from typing import ClassVar as AbstractClassVar
else:
    from equinox import AbstractClassVar  # type checkers would take it for an instance variable


class Step(NamedTuple):
    """Result of one step.

    `state` at its end; `error`, an estimate of the same structure or None; `dense`, a dictionary of arrays from which `polynomial`
    makes the dense output; `memory`, arrays that the next step reads, such as its first slope, or None; `between`, an estimate of
    the error of the dense output in the middle of the step, which counts where states are saved between the ends of steps, or None;
    `growth`, the length of the step to try next over that of this one, where the method finds it itself, as one of several steps
    does, else None.
    """

    state: State
    error: State | None
    dense: dict[str, Any]
    memory: Any
    between: State | None = None
    growth: Array | None = None


class Memory(NamedTuple):
    """Memory of a method of several steps.

    `past`, what derivatives pass through, all of it floating-point numbers: with the first state of a step it determines the
    step. `kept`, floating-point numbers without derivatives that outlive a rejected attempt, such as factors: the results do not
    depend on them, but for the tolerance to which equations are solved. The engine gives `tolerances`, the relative one and an
    absolute one for each number of the flat state; and where it takes a step again for derivatives `solved`, the flat state at the
    step's end, and no `kept`.
    """

    past: Any
    kept: Any = None
    tolerances: tuple[Array, Array] | None = None
    solved: Array | None = None


class Stepper(eqx.Module):
    """One step of a method.

    Beside its methods a stepper names the family of systems it serves, whether it estimates its error, whether it is meant for
    stiff problems, its order, and how many evaluations of the vector field a step takes. All methods are pure functions of
    arrays; `term.vf(t, y)` is the vector field, `term.system` and `term.inputs` serve methods that use more of the system.

    A method of several steps says so by `multistep`: its memory is a `Memory`, its `init` is of order 1, and it takes adaptive
    steps alone.
    """

    family: AbstractClassVar[type[System]]
    adaptive: AbstractClassVar[bool]
    stiff: AbstractClassVar[bool]
    evaluations: AbstractClassVar[int]
    order: AbstractClassVar[int]
    multistep: ClassVar[bool] = False
    constrained: ClassVar[bool] = False
    """Flag: the method steps a `ConstrainedSystem`, with its matrix M."""

    def init(self, term: SystemTerm, t: Time, y: State) -> Any:
        """Return the memory before the first step, and after a jump of an input. None unless overridden."""
        return None

    @abc.abstractmethod
    def advance(self, term: SystemTerm, t0: Time, t1: Time, h: Time, y0: State, memory: PyTree) -> Step:
        """Return the step from t0 to t1, of length h.

        A length that a loop does not change is worked into the method's weights once, not at every step: on small systems
        a fixed step then costs a quarter of what it does when the length is a difference of two times.
        """

    @abc.abstractmethod
    def polynomial(self, dense: dict[str, Any]) -> tuple[State, ...]:
        """Return the increments q of the dense output of a step, y(theta) = y0 + sum_j theta^(j+1) q[j], 0 <= theta <= 1.

        It must be linear in the arrays of `dense`.
        """


def straight(dense: dict[str, Any]) -> tuple[State]:
    """The increment of a straight line between the ends of a step."""
    return (jax.tree.map(jnp.subtract, dense["y1"], dense["y0"]),)


def hermite(y0: State, y1: State, k0: State, k1: State) -> tuple[State, State, State]:
    """The increments of the cubic polynomial with the values and the slopes, times the step, of both ends."""
    second = jax.tree.map(lambda a, b, k, m: 3 * (b - a) - 2 * k - m, y0, y1, k0, k1)
    third = jax.tree.map(lambda a, b, k, m: k + m - 2 * (b - a), y0, y1, k0, k1)
    return k0, second, third
