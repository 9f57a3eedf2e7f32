"""Discrete systems: a rule that leads from one state to the next, with a step of its own."""

import abc
from typing import TYPE_CHECKING, Any

import jax

from .._types import Inputs, State, Time
from ._scaled import scaled
from ._system import System

if TYPE_CHECKING:
    AbstractVar = Any
else:
    from equinox import AbstractVar


class DiscreteSystem(System):
    r"""$y_{n+1} = F(t_n, y_n)$: a map from one (encoded) state to the next, a time `step` later.

    `step` belongs to the equation, so that `simulate` needs none; saved times are whole numbers of steps apart. A subclass writes
    `advance` (F) and `example`, and has the field `step`, `eqx.field(static=True)`. Inputs are those of the start of a step.
    """

    step: AbstractVar[float]
    """Time between two states: a static number."""

    @abc.abstractmethod
    def advance(self, t: Time, y: State, inputs: Inputs) -> State:
        """Return the (encoded) state one step after that at `t`."""

    def vector_field(self, t: Time, y: State, inputs: Inputs) -> State:
        """Return the mean slope of the step that follows."""
        after = self.advance(t, y, inputs)
        return jax.tree.map(lambda a, b: scaled(1 / self.step, a - b), after, y)
