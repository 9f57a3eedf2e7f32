"""Coordinates in which networks learn: unbounded, and near normal under priors."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr, ndtri
from jaxtyping import Array, Float

from ...problem import Problem
from .._coordinates import Unconstrained, unconstrained_coordinates

REACH = 34.0
"""The largest logit that has a score: beyond it lies less than rounding."""


class Places(eqx.Module):
    """Places of parameters: normal scores between two bounds, where flat priors are normal, else unconstrained coordinates."""

    coordinates: Unconstrained

    def of(self, theta: Float[Array, " parameters"]) -> Float[Array, " parameters"]:
        """Natural units -> places."""
        u = self.coordinates.unconstrained(theta)
        logit = jnp.clip(jnp.where(self._between(), u, 0), -REACH, REACH)
        score = -jnp.sign(logit) * ndtri(
            jax.nn.sigmoid(-jnp.abs(logit))
        )  # of the smaller tail, which is not rounded to 1
        return jnp.where(self._between(), score, u)

    def natural(self, z: Float[Array, " parameters"]) -> Float[Array, " parameters"]:
        """Places -> natural units."""
        return self.coordinates.natural(self._unconstrained(z))

    def log_volume(self, z: Float[Array, " parameters"]) -> Float[Array, ""]:
        """log |d theta / d z|, which turns a density of theta into one of places."""
        score = jnp.where(self._between(), z, 0)
        slope = -0.5 * score**2 - 0.5 * math.log(2 * math.pi) - log_ndtr(score) - log_ndtr(-score)
        own = jnp.sum(jnp.where(self._between(), slope, 0))
        return own + self.coordinates.log_volume(self._unconstrained(z))

    def plain(self, theta: Float[Array, " parameters"]) -> Float[Array, " parameters"]:
        """Parameters between two bounds as shares of their distance, others as places: inputs of a network."""
        width = jnp.where(self._between(), self.coordinates.upper - self.coordinates.lower, 1)
        share = (theta - jnp.where(self._between(), self.coordinates.lower, 0)) / width
        return jnp.where(self._between(), share, self.coordinates.unconstrained(theta))

    def _unconstrained(self, z: Array) -> Array:
        score = jnp.where(self._between(), z, 0)
        return jnp.where(self._between(), log_ndtr(score) - log_ndtr(-score), z)

    def _between(self) -> np.ndarray:
        return np.array([kind == "interval" for kind in self.coordinates.kinds], bool)


def places_of(problem: Problem) -> Places:
    """The places of a problem's parameters, from its bounds."""
    return Places(unconstrained_coordinates(problem))
