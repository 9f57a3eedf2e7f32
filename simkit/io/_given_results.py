"""Results that are given to `save` by place, sorted by what they are."""

from collections.abc import Sequence
from typing import Any

from .._doors import check_kind, shown
from .._errors import ArgumentError
from ..assimilation import Assimilation
from ..core import Trajectory
from ..fitting import FieldFit, FitResult, Profiles, SparseFit
from ..infer import LearnedLikelihood, LearnedPosterior, Posterior, Prediction
from ..md import Averages

KINDS: dict[str, Any] = {
    "fit": FitResult,
    "profiles": Profiles,
    "posterior": Posterior,
    "prediction": Prediction,
    "trajectory": Trajectory,
    "averages": Averages,
    "field_fit": FieldFit,
    "learned_posterior": LearnedPosterior,
    "learned_likelihood": LearnedLikelihood,
    "sparse_fit": SparseFit,
    "assimilation": Assimilation,
}
"""Kinds of results in a file, by the names of the fields of `Results`."""


def sorted_results(given: Sequence[Any], named: dict[str, Any]) -> dict[str, Any]:
    """All results by name, in the order of `KINDS`.

    **Raises:** an `ArgumentError` for what is no result, and for two results of one kind.
    """
    found = {name: named.get(name) for name in KINDS}
    for name, value in found.items():
        if value is not None:
            check_kind(name, value, KINDS[name], f"a `{KINDS[name].__name__}`", 'Write `simkit.save("fit.h5", fit)`.')
    for value in given:
        name = next((name for name, kind in KINDS.items() if isinstance(value, kind)), None)
        if name is None:
            kinds = ", ".join(f"`{kind.__name__}`" for kind in KINDS.values())
            raise ArgumentError(f"The results to save must be of {kinds}, but one is {shown(value)}.")
        if found[name] is not None:
            raise ArgumentError(
                f"A result file holds one `{KINDS[name].__name__}`, but two are given. Write two files."
            )
        found[name] = value
    return found
