"""Simulated data sets to learn from: parameters drawn, data simulated at them in parts, and what failed."""

from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ..._errors import SamplingError
from ...engine import awaited
from ...problem import Problem
from .._simulated import simulated
from ._features import Mask, Summary, raw_features
from ._places import Places

PART = 2_048
"""Simulations of one call: so many data sets are held at once."""

FEW = 0.02
"""Share of simulations that must have data, below which there is nothing to learn from."""


class Simulations(NamedTuple):
    """Parameters in places, the numbers of the data simulated there, and which of them are all finite."""

    u: np.ndarray
    raw: np.ndarray
    fine: np.ndarray

    def joined(self, other: "Simulations") -> "Simulations":
        return Simulations(*(np.concatenate(parts) for parts in zip(self, other, strict=True)))

    @property
    def failed(self) -> int:
        return int(np.sum(~self.fine))


def simulations_at(
    problem: Problem,
    places: Places,
    theta: Float[Array, "simulation parameter"],
    summary: Summary | None,
    key: PRNGKeyArray,
) -> Simulations:
    """Data sets simulated at given parameters, one each."""
    count, seen = theta.shape[0], seen_data(problem)
    keys = jax.random.split(key, count)
    part, numbers, fine = min(PART, count), [], []
    for first in range(0, count, part):
        rows = np.minimum(np.arange(first, first + part), count - 1)  # the last part is filled up: one program for all
        data, good = awaited(
            simulated(problem, theta[rows], keys[rows]), "sample", f"after {first} of {count} simulations"
        )
        raw = np.asarray(_raw(data, seen, summary))
        keep = min(part, count - first)
        numbers.append(raw[:keep])
        fine.append((np.asarray(good) & np.isfinite(raw).all(axis=1))[:keep])
    u = np.asarray(jax.vmap(places.of)(theta))
    return Simulations(u, np.concatenate(numbers), np.concatenate(fine) & np.isfinite(u).all(axis=1))


def seen_data(problem: Problem) -> tuple[tuple[str, Mask], ...]:
    """The data that are there, by output name."""
    return tuple((name, Mask(np.isfinite(np.asarray(values)))) for name, values in problem.data.items())


@eqx.filter_jit
def _raw(data: dict[str, Array], seen: tuple[tuple[str, Mask], ...], summary: Summary | None) -> Array:
    return jax.vmap(lambda data: raw_features(data, seen, summary))(data)


def check_enough(found: Simulations) -> None:
    """Refuse simulations of which hardly any has data.

    **Raises:** a `SamplingError`.
    """
    count = len(found.fine)
    if np.sum(found.fine) < max(FEW * count, min(50, count // 2)):
        raise SamplingError(
            f"Of {count} simulations only {int(np.sum(found.fine))} gave finite data: there is nothing to learn from. Narrow the "
            "priors to where the model can be simulated, or ask for more `simulations`."
        )
