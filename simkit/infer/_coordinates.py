"""Unconstrained coordinates: what samplers move in."""

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..problem import Problem

Kind = Literal["real", "lower", "upper", "interval"]


class Unconstrained(eqx.Module):
    """Maps between natural units and the real line, one parameter at a time.

    theta = u on the real line, lower + exp(u) or upper - exp(u) with one bound, lower + (upper - lower) / (1 + exp(-u)) with two.
    """

    lower: Float[Array, " parameters"]
    upper: Float[Array, " parameters"]
    kinds: tuple[Kind, ...] = eqx.field(static=True)

    def natural(self, u: Float[Array, " parameters"]) -> Float[Array, " parameters"]:
        """Unconstrained coordinates -> natural units."""
        lower, upper = self._edges(u)
        grown = jnp.exp(jnp.where(self._is("lower", "upper"), u, 0))
        one_sided = jnp.where(self._is("lower"), lower + grown, upper - grown)
        between = lower + (upper - lower) * jax.nn.sigmoid(jnp.where(self._is("interval"), u, 0))
        return jnp.where(self._is("real"), u, jnp.where(self._is("interval"), between, one_sided))

    def unconstrained(self, theta: Float[Array, " parameters"]) -> Float[Array, " parameters"]:
        """Natural units -> unconstrained coordinates."""
        lower, upper = self._edges(theta)
        above = jnp.log(jnp.where(self._is("lower", "interval"), theta - lower, 1))
        below = jnp.log(jnp.where(self._is("upper", "interval"), upper - theta, 1))
        bounded = jnp.where(self._is("upper"), below, jnp.where(self._is("interval"), above - below, above))
        return jnp.where(self._is("real"), theta, bounded)

    def log_volume(self, u: Float[Array, " parameters"]) -> Float[Array, ""]:
        """log |d theta / d u|, which turns a density of theta into one of u."""
        lower, upper = self._edges(u)
        between = jnp.log(upper - lower) + jax.nn.log_sigmoid(u) + jax.nn.log_sigmoid(-u)
        return jnp.sum(jnp.where(self._is("interval"), between, jnp.where(self._is("real"), 0, u)))

    def _is(self, *kinds: Kind) -> np.ndarray:
        return np.array([kind in kinds for kind in self.kinds], bool)

    def _edges(self, like: Array) -> tuple[Array, Array]:
        """Both bounds, something harmless where there is none."""
        lower = jnp.where(self._is("lower", "interval"), self.lower, 0)
        return lower.astype(like.dtype), jnp.where(self._is("upper", "interval"), self.upper, lower + 1).astype(
            like.dtype
        )


def unconstrained_coordinates(problem: Problem) -> Unconstrained:
    """The coordinates of a problem, from its bounds; the problem must be concrete, since their kind is structure."""
    lower, upper = np.isfinite(np.asarray(problem.bounds)).T
    table: dict[tuple[bool, bool], Kind] = {
        (False, False): "real",
        (True, False): "lower",
        (False, True): "upper",
        (True, True): "interval",
    }
    kinds: tuple[Kind, ...] = tuple(table[bool(a), bool(b)] for a, b in zip(lower, upper, strict=True))
    return Unconstrained(problem.bounds[:, 0], problem.bounds[:, 1], kinds)
