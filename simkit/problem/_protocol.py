"""Protocols: what happens in an experiment before and while it is measured."""

import abc

import equinox as eqx
from jaxtyping import Array

from ..core import Setup, Trajectory
from ..engine import Method


class AbstractProtocol(eqx.Module):
    """Protocol of an experiment whose trajectory is more than one simulation from the initial state.

    Initial states that follow from parameters, a steady state reached before the start, doses, several periods: `run` is traced
    once and batched over the experiments, and may use the engine's `integrate` as often as it needs. Each subclass is final.
    """

    @abc.abstractmethod
    def run(self, setup: Setup, times: Array, method: Method) -> tuple[Setup, Trajectory]:
        """One experiment.

        **Arguments:**

        - `setup`: its system, initial state, inputs and noise, the free parameters put in.
        - `times`: shape `(rows,)`: the start and the times of the data; equal neighbours are allowed.
        - `method`: solver and step.

        **Returns:** the setup as it was simulated, and a trajectory at `times` whose status tells of a failure.
        """

    def at_other_times(self) -> "AbstractProtocol":
        """The protocol for other times than those of the data; by default the same."""
        return self
