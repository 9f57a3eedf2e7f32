"""The step of a discrete system, in the form of a stepper."""

from typing import Any, ClassVar

from jaxtyping import PyTree

from .._types import State, Time
from ..core import DiscreteSystem, System, SystemTerm, at_time
from ._stepper import Step, Stepper, straight


class DiscreteStepper(Stepper):
    """The step that a discrete system brings; `simkit.simulate` takes it for every one."""

    family: ClassVar[type[System]] = DiscreteSystem
    adaptive: ClassVar[bool] = False
    stiff: ClassVar[bool] = False
    evaluations: ClassVar[int] = 1
    order: ClassVar[int] = 1

    def advance(self, term: SystemTerm, t0: Time, t1: Time, h: Time, y0: State, memory: PyTree) -> Step:
        assert isinstance(term.system, DiscreteSystem)
        y1 = term.system.advance(t0, y0, at_time(term.inputs, t0))
        return Step(y1, None, {"y0": y0, "y1": y1}, None)

    def polynomial(self, dense: dict[str, Any]) -> tuple[State, ...]:
        return straight(dense)
