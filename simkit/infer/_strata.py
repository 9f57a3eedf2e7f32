"""Groups of individuals by a covariate."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from .._doors import shown
from .._errors import ArgumentError, check_known
from ..problem import Problem
from ._replicates import Replicates

MOST_GROUPS = 6
"""Most values of a covariate that are groups by themselves."""


def strata(problem: Problem, drawn: Replicates, by: str | Mapping[str, Any]) -> tuple[str, dict[str, Replicates]]:
    """The name of the covariate, and label -> the data of each group that holds any.

    **Raises:** an `ArgumentError` for bins that do not increase or leave individuals out, and for too many values without bins;
    an `UnknownNameError` for a covariate that an experiment does not have.
    """
    if not isinstance(by, str) and not (isinstance(by, Mapping) and len(by) == 1):
        raise ArgumentError(
            f"Argument `by` must name a covariate, or one covariate with the ends of its bins, but it is {shown(by)}. Write "
            '`"sex"` or `{"weight": [0, 60, 80, 120]}`.'
        )
    name, ends = (by, None) if isinstance(by, str) else next(iter(by.items()))
    values = np.array(_values(problem, drawn, name))
    if ends is None:
        kinds = np.unique(values)
        if len(kinds) > MOST_GROUPS:
            raise ArgumentError(
                f"The covariate `{name}` in argument `by` has {len(kinds)} values, but at most {MOST_GROUPS} may be groups. Give "
                f'ends of bins, such as `by={{"{name}": [{kinds[0]:.4g}, {np.median(values):.4g}, {kinds[-1]:.4g}]}}`.'
            )
        members = {f"{name} {kind:g}": values == kind for kind in kinds}
    else:
        members = _binned(name, values, ends)
    return name, {label: _part(drawn, own) for label, own in members.items() if own[drawn.individual].any()}


def _values(problem: Problem, drawn: Replicates, name: str) -> list[float]:
    """The covariate of each individual, which has to be the same in all of its experiments."""
    owners = range(len(problem.labels)) if problem.population is None else problem.population.rows
    found: dict[int, float] = {}
    for owner, label, covariates in zip(owners, problem.labels, problem.dataset.covariates, strict=True):
        check_known(name, dict(covariates), f"covariate (of experiment `{label}`)")
        value = dict(covariates)[name]
        if found.setdefault(owner, value) != value or not np.isfinite(value):
            raise ArgumentError(
                f"The covariate `{name}` of `{drawn.labels[owner]}` must be one finite number in all of its experiments to make "
                f"groups, but it is {found[owner]:g} and {value:g}."
            )
    return [found[owner] for owner in sorted(found)]


def _binned(name: str, values: np.ndarray, ends: Any) -> dict[str, np.ndarray]:
    """Label -> members of each bin, whose lower end belongs to it; the last has both."""
    try:
        edges = np.asarray(ends, float)
    except (TypeError, ValueError):
        edges = np.zeros(0)
    if edges.ndim != 1 or len(edges) < 2 or not (np.diff(edges) > 0).all():
        raise ArgumentError(f"The ends in argument `by` must be two or more and increase, but they are {shown(ends)}.")
    if values.min() < edges[0] or values.max() > edges[-1]:
        raise ArgumentError(
            f"The bins in argument `by` must hold all individuals, but `{name}` reaches from {values.min():g} to "
            f"{values.max():g} and the bins from {edges[0]:g} to {edges[-1]:g}."
        )
    place = np.minimum(np.searchsorted(edges, values, side="right") - 1, len(edges) - 2)
    return {f"{name} {edges[i]:g} to {edges[i + 1]:g}": place == i for i in range(len(edges) - 1)}


def _part(drawn: Replicates, members: np.ndarray) -> Replicates:
    """The data of some individuals."""
    kept = members[drawn.individual]
    rows = {field: getattr(drawn, field)[kept] for field in ("times", "observed", "low", "high", "individual")}
    typical = None if drawn.typical is None else drawn.typical[kept]
    return drawn._replace(**rows, simulated=drawn.simulated[:, kept], typical=typical)
