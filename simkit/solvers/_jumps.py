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
        check_most("max_jumps", self.max_jumps)


def _plain(value: Any) -> Any:
    """A number of NumPy as one of Python, which a static field may hold."""
    return float(value) if isinstance(value, float) else value


@SOLVERS.named("tau_leaping")
class TauLeaping(AbstractJumpMethod):
    r"""Leaps over many jumps, in which propensities are taken to stay what they are: an approximation for large counts.

    In a leap of the time $\tau$ reaction j happens a Poisson number of times, with the mean $a_j \tau$. The leap is as long as mean
    and standard deviation of the change of each number $y_i$ that propensities read stay below $\max(\epsilon y_i / g_i, 1)$,

    $$\tau = \min_i \min\left( \frac{\max(\epsilon y_i / g_i, 1)}{|\sum_j S_{ij} a_j|},
    \frac{\max(\epsilon y_i / g_i, 1)^2}{\sum_j S_{ij}^2 a_j} \right)$$

    so that no propensity is expected to change by more than its part $\epsilon$. $g_i$ is the order of the reactions that read
    $y_i$, the largest $\sum_k |y_k \, \partial a_j / \partial y_k| / a_j$: 1 and 2 for laws of mass action with one and two
    reactants, $2 + 1/(y - 1)$ for pairs of one kind.

    Reactions that could happen less than `critical` times before something is used up happen one at a time, at exact times. A
    leap that led below 0 nevertheless is given up and halved. Where a leap would hold less than `fewest` jumps, one jump is drawn
    exactly.

    Means err by a part of the order of $\epsilon$. Numbers that fluctuate by less than the part $\epsilon$ are passed over in leaps
    as long as their own relaxation, and their variances come out too large: what relaxes at the rate k in leaps h has $1 / (1 - k h
    / 2)$ times its variance. For 2,000 things with Poisson fluctuations that is 1.5 with 0.03, and 1.05 with 0.01.

    **Arguments:**

    - `epsilon`: the part by which propensities may change in a leap; 0.03 is a good value for means. Variances want less than the
        relative fluctuations, a third of 1 over the root of the numbers.
    - `critical`, `fewest`: as above.
    - `max_steps`: after how many leaps and jumps a path gives up with the status `STEP_LIMIT`.

    Cao, Gillespie and Petzold (2006), J. Chem. Phys. 124:044109, doi:10.1063/1.2159468.
    """

    family: ClassVar[type[System]] = JumpSystem
    adaptive: ClassVar[bool] = False
    stiff: ClassVar[bool] = False
    evaluations: ClassVar[int] = 1
    order: ClassVar[int] = 1
    epsilon: float = eqx.field(static=True, default=0.03, converter=_plain)
    critical: int = eqx.field(static=True, default=10)
    fewest: int = eqx.field(static=True, default=10)
    max_steps: int = eqx.field(static=True, default=100_000_000)

    def __check_init__(self):
        number = isinstance(self.epsilon, float | int) and not isinstance(self.epsilon, bool)
        if not (number and 0 < self.epsilon < 1):
            raise ArgumentError(
                f"Argument `epsilon` must be a number between 0 and 1, but it is {shown(self.epsilon)}. 0.03 is a good value."
            )
        check_most("critical", self.critical)
        check_most("fewest", self.fewest)
        check_most("max_steps", self.max_steps)


def check_most(name: str, most: Any) -> None:
    """Refuse a bound that is no positive whole number.

    **Raises:** an `ArgumentError`.
    """
    if not isinstance(most, int) or isinstance(most, bool) or not 1 <= most < 2**31:
        raise ArgumentError(f"Argument `{name}` must be an integer from 1 to 2^31 - 1, but it is {shown(most)}.")
