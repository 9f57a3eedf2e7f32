"""Interface of the methods that differentiate an average."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx

from ...engine import Fixed
from .._particles import Particles
from ._average import EnsembleAverage


class AverageMethod(eqx.Module):
    """Method to differentiate an average. A subclass runs the system and says whether to trust the result."""

    @abc.abstractmethod
    def average(
        self,
        observable: Callable[[Particles, Any], Any],
        system: Particles,
        y0: Any,
        times: Any,
        step: Fixed,
        key: Any,
        discard: int,
    ) -> EnsembleAverage:
        """The average over the states at `times[discard:]` of a run of a prepared system."""
