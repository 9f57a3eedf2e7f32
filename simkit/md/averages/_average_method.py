"""Interface of the methods that differentiate an average."""

import abc
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
from jax.typing import ArrayLike
from jaxtyping import PRNGKeyArray

from ...engine import Fixed
from .._particles import Particles
from ..space._atoms import Atoms
from ._average import EnsembleAverage


class AverageMethod(eqx.Module):
    """Method to differentiate an average. A subclass runs the system and says whether to trust the result."""

    @abc.abstractmethod
    def average(
        self,
        observable: Callable[[Particles, Any], Any],
        system: Particles,
        y0: Atoms,
        times: ArrayLike | Sequence[float],
        step: Fixed,
        key: PRNGKeyArray | None,
        discard: int,
    ) -> EnsembleAverage:
        """The average over the states at `times[discard:]` of a run of a prepared system."""
