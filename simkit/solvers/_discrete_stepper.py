"""The step of a discrete system, in the form of a stepper."""

from typing import Any, ClassVar

import equinox as eqx
from jax import lax
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

    ragged: bool = eqx.field(static=True, default=False)
    """Flag of windows between save times that hold fewer steps than are offered: those past the end of a window change nothing."""

    def advance(self, term: SystemTerm, t0: Time, t1: Time, h: Time, y0: State, memory: PyTree) -> Step:
        system = term.system
        assert isinstance(system, DiscreteSystem)
        step = lambda y: system.advance(t0, y, at_time(term.inputs, t0))
        y1 = lax.cond(t1 - t0 > h / 2, step, lambda y: y, y0) if self.ragged else step(y0)
        return Step(y1, None, {"y0": y0, "y1": y1}, None)

    def polynomial(self, dense: dict[str, Any]) -> tuple[State, ...]:
        return straight(dense)
