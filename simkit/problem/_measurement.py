"""Measurements: how data come from states, where they are more than an output with a noise scale."""

import abc
from typing import TypeVar

import equinox as eqx
from jaxtyping import Array

from ..core import Setup, Trajectory
from ._closed_form import ClosedForm

Self = TypeVar("Self", bound="AbstractMeasurement")


class AbstractMeasurement(eqx.Module):
    """Observation model: expected value and scatter of every datum, as functions of states and parameters.

    It may treat each datum differently: scales and offsets that belong to one series, scatter that grows with the signal. Each
    subclass is final.
    """

    @abc.abstractmethod
    def locate(
        self, setups: Setup, trajectories: Trajectory, *, hold: bool
    ) -> tuple[dict[str, Array], dict[str, Array]]:
        """The location of each datum and its relative scale, by the name of the data, with the shape `(experiments, rows)`.

        **Arguments:**

        - `setups`, `trajectories`: with a leading experiment axis; the first row of a trajectory is the start.
        - `hold`: whether a failed experiment must show something finite in place of NaN.

        **Returns:** locations, and numbers by which the scale of the noise models is multiplied, for names that have them.
        """

    @property
    @abc.abstractmethod
    def closed_forms(self) -> tuple[ClosedForm, ...]:
        """Return the free parameters that no state depends on and that have best values in closed form."""

    @abc.abstractmethod
    def filled(self: Self, more: int) -> Self:
        """The same with `more` rows at the end, whose data are missing."""

    @abc.abstractmethod
    def at(self: Self, count: int) -> Self:
        """The same for predictions at `count` other times."""
