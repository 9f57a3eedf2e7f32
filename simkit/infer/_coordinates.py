"""Unconstrained coordinates: what samplers move in."""

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..problem import AbstractFieldPrior, Block, Problem

Kind = Literal["real", "lower", "upper", "interval", "white"]


class Unconstrained(eqx.Module):
    """Maps between natural units and the real line, one parameter at a time.

    theta = u on the real line, lower + exp(u) or upper - exp(u) with one bound, lower + (upper - lower) / (1 + exp(-u)) with two.
    Fields with a prior of fields have its white coordinates, theta = m + L u, or exp(m + L u).

    - `blocks`, `priors`: of the fields.
    """

    lower: Float[Array, " parameters"]
    upper: Float[Array, " parameters"]
    kinds: tuple[Kind, ...] = eqx.field(static=True)
    blocks: tuple[Block, ...] = eqx.field(static=True)
    priors: tuple[AbstractFieldPrior, ...]

    def natural(self, u: Float[Array, " parameters"]) -> Float[Array, " parameters"]:
        """Unconstrained coordinates -> natural units."""
        lower, upper = self._edges(u)
        grown = jnp.exp(jnp.where(self._is("lower", "upper"), u, 0))
        one_sided = jnp.where(self._is("lower"), lower + grown, upper - grown)
        between = lower + (upper - lower) * jax.nn.sigmoid(jnp.where(self._is("interval"), u, 0))
        theta = jnp.where(self._is("real", "white"), u, jnp.where(self._is("interval"), between, one_sided))
        for block, field in self._fields(u):
            theta = theta.at[block.span].set((jnp.exp(field) if block.log else field).ravel())
        return theta

    def unconstrained(self, theta: Float[Array, " parameters"]) -> Float[Array, " parameters"]:
        """Natural units -> unconstrained coordinates."""
        lower, upper = self._edges(theta)
        above = jnp.log(jnp.where(self._is("lower", "interval"), theta - lower, 1))
        below = jnp.log(jnp.where(self._is("upper", "interval"), upper - theta, 1))
        bounded = jnp.where(self._is("upper"), below, jnp.where(self._is("interval"), above - below, above))
        u = jnp.where(self._is("real", "white"), theta, bounded)
        for block, prior in zip(self.blocks, self.priors, strict=True):
            field = theta[block.span].reshape(block.shape)
            field = jnp.log(field) if block.log else field
            u = u.at[block.span].set(prior.white(field - prior.centre(field)).ravel())
        return u

    def log_volume(self, u: Float[Array, " parameters"]) -> Float[Array, ""]:
        """log |d theta / d u|, which turns a density of theta into one of u."""
        lower, upper = self._edges(u)
        between = jnp.log(upper - lower) + jax.nn.log_sigmoid(u) + jax.nn.log_sigmoid(-u)
        total = jnp.sum(jnp.where(self._is("interval"), between, jnp.where(self._is("real", "white"), 0, u)))
        for (block, field), prior in zip(self._fields(u), self.priors, strict=True):
            total = total + prior.log_volume(block.shape, u.dtype) + (jnp.sum(field) if block.log else 0)
        return total

    def _fields(self, u: Array) -> list[tuple[Block, Array]]:
        """The fields, of positive ones their logarithms."""
        pairs = zip(self.blocks, self.priors, strict=True)
        return [(block, prior.field(u[block.span].reshape(block.shape))) for block, prior in pairs]

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
    kinds: list[Kind] = [table[bool(a), bool(b)] for a, b in zip(lower, upper, strict=True)]
    blocks, priors = zip(*problem.unknowns.fields, strict=True) if problem.unknowns.fields else ((), ())
    for block in blocks:
        kinds[block.span] = ["white"] * block.size
    return Unconstrained(problem.bounds[:, 0], problem.bounds[:, 1], tuple(kinds), tuple(blocks), tuple(priors))
