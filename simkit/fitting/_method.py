"""Interface of the minimisers."""

import abc
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ..problem import Problem
from ._quadratic import LocalModel

T = TypeVar("T")

CONVERGED, LIMIT, FAILED, STALLED, HOPELESS = 0, 1, 2, 3, 4


class End(eqx.Module):
    """End point of a start, with its status.

    - `z`: in the coordinates of the fit; `model`: the local model there.
    - `status`: 0 converged, 1 stopped before that, 2 no simulation ended, 3 steps gained nothing any more before it converged,
        4 given up, since it was far from the best start and gained too little.
    - `iterations`, `failures`: iterations taken, and failed simulations met on the way.
    """

    z: Float[Array, "*starts parameters"]
    model: LocalModel
    status: Int[Array, "*starts"]
    iterations: Int[Array, "*starts"]
    failures: Int[Array, "*starts"]


def merged(chosen: np.ndarray, first: End, other: End) -> End:
    """The ends of `first` for the starts that are chosen, of `other` for the rest."""

    def pick(a: Array, b: Array) -> Array:
        return jnp.where(chosen.reshape((-1,) + (1,) * (np.ndim(a) - 1)), np.asarray(a), np.asarray(b))

    return jax.tree.map(pick, first, other)


class AbstractMethod(eqx.Module):
    """A way to minimise the negative log posterior from one start."""

    @abc.abstractmethod
    def descend(self, problem: Problem, z: Float[Array, " parameters"], held: Bool[Array, " parameters"]) -> End:
        """Descend from `z`, in the coordinates of the fit, to a minimum; `held` coordinates stay. Pure: it jits, vmaps and
        shards."""

    @abc.abstractmethod
    def loosened(self, tolerance: float, max_steps: int | None = None) -> "AbstractMethod":
        """The same method, compiled to the same program, with a tolerance no tighter and a step limit no higher."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """Name of the method in results."""


def ended(model: LocalModel, converged: Bool[Array, ""], stalled: Bool[Array, ""] | bool = False) -> Int[Array, ""]:
    """The status of a start."""
    return jnp.where(model.good, jnp.where(converged, CONVERGED, jnp.where(stalled, STALLED, LIMIT)), FAILED)


def select(condition: Bool[Array, ""], new: T, old: T) -> T:
    """One of two pytrees."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), new, old)
