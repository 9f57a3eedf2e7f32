"""Methods for jump processes."""

from typing import Any, ClassVar

import equinox as eqx
from jaxtyping import PyTree

from .._doors import shown
from .._errors import ArgumentError
from .._types import State, Time
from ..core import JumpSystem, System, SystemTerm
from ._registry import SOLVERS
from ._stepper import Step, Stepper


class AbstractJumpMethod(Stepper):
    """A method that goes from jump to jump: it takes no steps, and the engine has its loop."""

    def advance(self, term: SystemTerm, t0: Time, t1: Time, h: Time, y0: State, memory: PyTree) -> Step:
        raise ArgumentError(f"`{type(self).__name__}` goes from jump to jump, not by steps: take it with `simulate`.")

    def polynomial(self, dense: dict[str, Any]) -> tuple[State, ...]:
        raise ArgumentError(f"`{type(self).__name__}` goes from jump to jump and has no dense output.")


@SOLVERS.named("direct_method")
class DirectMethod(AbstractJumpMethod):
    r"""Gillespie's direct method, an exact path of a jump process.

    With the sum $a_0$ of all propensities the time to the next jump is $-\ln(u_1) / a_0$, and it is one of reaction j with
    probability $a_j / a_0$. At a save time the process begins anew, which changes nothing: it has no memory.

    **Arguments:** `max_jumps`: after how many jumps, and stops at save times, a path gives up with the status `STEP_LIMIT`.

    The random numbers are of 32 bits, so that a reaction with less than a 2^-32th of $a_0$ is never chosen (2^-24 where states are
    float32).

    Gillespie (1977), J. Phys. Chem. 81:2340, doi:10.1021/j100540a008.
    """

    family: ClassVar[type[System]] = JumpSystem
    adaptive: ClassVar[bool] = False
    stiff: ClassVar[bool] = False
    evaluations: ClassVar[int] = 1
    order: ClassVar[int] = 1
    max_jumps: int = eqx.field(static=True, default=100_000_000)

    def __check_init__(self):
        check_most(self.max_jumps)


def check_most(max_jumps: Any) -> None:
    """Refuse a bound of the number of jumps that is none.

    **Raises:** an `ArgumentError`.
    """
    if not isinstance(max_jumps, int) or isinstance(max_jumps, bool) or not 1 <= max_jumps < 2**31:
        raise ArgumentError(
            f"Argument `max_jumps` must be an integer from 1 to 2^31 - 1, but it is {shown(max_jumps)}."
        )
