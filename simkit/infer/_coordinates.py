"""Unconstrained coordinates: what samplers move in."""

from typing import Any, Literal

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
        return self._each(_natural, u)

    def unconstrained(self, theta: Float[Array, " parameters"]) -> Float[Array, " parameters"]:
        """Natural units -> unconstrained coordinates."""
        return self._each(_unconstrained, theta)

    def log_volume(self, u: Float[Array, " parameters"]) -> Float[Array, ""]:
        """log |d theta / d u|, which turns a density of theta into one of u."""
        return jnp.sum(self._each(_log_volume, u))

    def _each(self, function: Any, values: Array) -> Array:
        rows = zip(self.kinds, values, self.lower, self.upper, strict=True)
        return jnp.stack([function(*row) for row in rows]) if self.kinds else values


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


def _natural(kind: Kind, u: Array, lower: Array, upper: Array) -> Array:
    if kind == "lower":
        return lower + jnp.exp(u)
    if kind == "upper":
        return upper - jnp.exp(u)
    return lower + (upper - lower) * jax.nn.sigmoid(u) if kind == "interval" else u


def _unconstrained(kind: Kind, theta: Array, lower: Array, upper: Array) -> Array:
    if kind == "lower":
        return jnp.log(theta - lower)
    if kind == "upper":
        return jnp.log(upper - theta)
    return jnp.log(theta - lower) - jnp.log(upper - theta) if kind == "interval" else theta


def _log_volume(kind: Kind, u: Array, lower: Array, upper: Array) -> Array:
    if kind in ("lower", "upper"):
        return u
    if kind == "interval":
        return jnp.log(upper - lower) + jax.nn.log_sigmoid(u) + jax.nn.log_sigmoid(-u)
    return 0 * u
