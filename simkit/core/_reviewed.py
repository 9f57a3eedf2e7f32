"""Systems that look at a start and a step before a simulation, or at a state where one failed."""

import abc
from typing import Any, ClassVar

import equinox as eqx

from .._types import State, Time


class Reviewed(eqx.Module):
    """Protocol of systems that check known values before a simulation.

    `simulate` asks it outside transformations, where values are known; inside `jit` nobody is asked.
    """

    @abc.abstractmethod
    def review(self, y0: State, step: float | None, solver: Any) -> None:
        """Warn of a start, or refuse a step that cannot be stable.

        `step` is the longest fixed step of the `solver`, None where steps are adaptive. Raises an `ArgumentError`.
        """


class Noted(eqx.Module):
    """A system that looks at the state in which a simulation ended.

    `simulate` asks it outside transformations, after a run that succeeded, and adds what it says to the trajectory's notes.
    """

    @abc.abstractmethod
    def note(self, t: Time, y: State) -> str:
        """A sentence on what makes a known last state doubtful, such as a grid that does not resolve it; "" where nothing does."""


class Explained(eqx.Module):
    """Protocol of systems that explain from a state why a simulation fails soon after it.

    What a `certain` one says takes the place of the general message; that of others is added to it.
    """

    certain: ClassVar[bool] = False

    @abc.abstractmethod
    def explain(self, t: Time, y: State) -> str:
        """A sentence on what is wrong with a known state, or closest to it: which cell, and when."""
