"""Covariates: numbers of individuals beside their data, some of which nobody wrote down."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float

from .._doors import shown
from .._errors import ArgumentError, check_known
from ._experiment import Experiment


class Missing(NamedTuple):
    r"""A covariate that some individuals lack: $x_i = m + s \xi_i$, or the exponential of it, with $\xi_i \sim N(0, 1)$.

    - `people`: the places of these individuals; `rows`: those of the effects of this covariate.
    - `log`: whether the logarithm is normal; `center`, `spread`: m and s of each of these individuals.
    """

    name: str
    people: tuple[int, ...]
    rows: tuple[int, ...]
    log: bool
    center: tuple[float, ...]
    spread: tuple[float, ...]

    def filled(
        self, covariates: Float[Array, "effect individual"], own: Float[Array, " missing"]
    ) -> Float[Array, "effect individual"]:
        """The covariates with those of these deviations."""
        values = jnp.asarray(self.center, covariates.dtype) + jnp.asarray(self.spread, covariates.dtype) * own
        values = jnp.exp(values) if self.log else values
        return covariates.at[np.array(self.rows)[:, None], np.array(self.people)[None]].set(values[None])


def missing_covariates(
    names: Sequence[str], labels: Sequence[str], owners: Sequence[str], experiments: Sequence[Experiment]
) -> tuple[Float[np.ndarray, "effect individual"], tuple[Missing, ...]]:
    """The covariate of each effect for all individuals, 0 where it is missing, and what is known of those."""
    found = [_values(name, owners, experiments) for name in names]
    lacking: list[Missing] = []
    for name in dict.fromkeys(names):
        own = found[names.index(name)]
        absent = [(i, known) for i, label in enumerate(labels) if isinstance(known := own[label], dist.Distribution)]
        for log in (False, True):
            chosen = [(i, _numbers(known)) for i, known in absent if isinstance(known, dist.LogNormal) == log]
            if chosen:
                rows = tuple(k for k, other in enumerate(names) if other == name)
                people, numbers = zip(*chosen, strict=True)
                center, spread = zip(*numbers, strict=True)
                lacking.append(Missing(name, people, rows, log, center, spread))
    numbers = [[own[label] if isinstance(own[label], float) else 0.0 for label in labels] for own in found]
    return np.array(numbers, float).reshape(-1, len(labels)), tuple(lacking)


def _numbers(known: Any) -> tuple[float, float]:
    """Mean and standard deviation of a normal distribution, or of the logarithm."""
    return float(known.loc), float(known.scale)


def _values(name: str, owners: Sequence[str], experiments: Sequence[Experiment]) -> dict[str, Any]:
    """One covariate of all individuals, by their names."""
    values: dict[str, Any] = {}
    for owner, experiment in zip(owners, experiments, strict=True):
        check_known(name, experiment.covariates, f"covariate (of experiment `{experiment.name}`)")
        value = experiment.covariates[name]
        first = values.setdefault(owner, value)
        if isinstance(value, dist.Distribution) and isinstance(first, type(value)):
            if _numbers(first) == _numbers(value):
                continue
        elif isinstance(value, float) and first == value and math.isfinite(value):
            continue
        raise ArgumentError(
            f"The covariate `{name}` of `{owner}` must be one finite number in all of its experiments, or one distribution where "
            f"it is missing, such as `dist.Normal(70.0, 12.0)`, but it is {_shown(first)} and {_shown(value)}."
        )
    return values


def _shown(value: Any) -> str:
    """A covariate in words."""
    return f"{value:g}" if isinstance(value, float) else shown(value)
