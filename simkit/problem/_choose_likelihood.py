"""The likelihood that a problem's system and noise models need."""

from collections.abc import Mapping, Sequence
from typing import Any

from .._errors import ArgumentError
from ..core import SampledDensity
from ._autocorrelated import Autocorrelated, AutocorrelatedData
from ._censored_rows import CensoredRows
from ._censored_series import CensoredSeries
from ._correlated import Correlated, CorrelatedData
from ._density_of_states import DensityOfStates
from ._experiment import Experiment
from ._likelihood import AbstractLikelihood, IndependentData


def likelihood_for(
    system: Any, noise: Any, experiments: Sequence[Experiment], given: AbstractLikelihood | None
) -> AbstractLikelihood:
    """The likelihood of a problem with this system and these noise models: the one that is given, or the one that they need.

    **Raises:** an `ArgumentError` for correlated residuals in a likelihood that would take them for independent ones.
    """
    of_kind = lambda kind: (
        [name for name, model in noise.items() if isinstance(model, kind)] if isinstance(noise, Mapping) else []
    )
    serial, joint = of_kind(Autocorrelated), of_kind(Correlated)
    if serial and joint:
        raise ArgumentError(
            f"The residuals of `{serial[0]}` are `Autocorrelated` and those of `{joint[0]}` are `Correlated`: a problem takes one "
            "of both. Take plain noise for the outputs whose correlation matters less."
        )
    if given is None and isinstance(system, SampledDensity):
        return DensityOfStates()
    hidden = any(e.limits for e in experiments)
    in_series, in_rows = AutocorrelatedData | CensoredSeries, CorrelatedData | CensoredRows
    if given is None and serial:
        return CensoredSeries() if hidden else AutocorrelatedData()
    if given is None and joint:
        return CensoredRows() if hidden else CorrelatedData()
    if given is None:
        return IndependentData()
    for names, kind, own in ((serial, Autocorrelated, in_series), (joint, Correlated, in_rows)):
        if names and not isinstance(given, own):
            raise ArgumentError(
                f"The residuals of `{names[0]}` are `{kind.__name__}`, which `{type(given).__name__}` does not know. Leave "
                "`likelihood` out, or take another noise model; the states of a stochastic system bring a correlation of their own."
            )
    return given
