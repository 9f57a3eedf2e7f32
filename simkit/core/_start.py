"""Starts: initial states that are made from other numbers than their own."""

import abc

import equinox as eqx

from .._types import State


class Start(eqx.Module):
    """Start of a simulation, given by other numbers than those of the state.

    A field on a grid has thousands of numbers, few of which data can tell apart. A `Start` has as many as one wants to fit, as
    quantities with paths (`y0.weights`), and makes the state of them. It stands wherever a `y0` does.
    """

    @abc.abstractmethod
    def state(self) -> State:
        """The state, a pure function of the numbers of this module."""


def started(y0: State) -> State:
    """The state that a simulation starts from."""
    return y0.state() if isinstance(y0, Start) else y0
