"""Secant correction: the part of the second derivatives that the Fisher information lacks, from the gradients along the way."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ._prior_model import times_prior
from ._quadratic import LocalModel

SWITCH = 1.5
"""Factor by which the prediction of the other of the two models must be better for a change between them."""


class Secant(NamedTuple):
    """The matrix S of a structured secant method (Dennis, Gay & Welsch 1981, doi:10.1145/355958.355965), and whether it counts.

    The second derivatives are those of the local model plus S. Where residuals are large, or where a valley bends, a model
    without it zigzags; far from a minimum it is the better one, so each step is by the model that foresaw the last one better.
    """

    missing: Float[Array, "parameters parameters"]
    counts: Float[Array, ""]

    def matrix(self) -> Float[Array, "parameters parameters"]:
        """S where it counts, else 0."""
        return self.counts * self.missing


def updated(
    secant: Secant,
    model: LocalModel,
    trial: LocalModel,
    move: Float[Array, " parameters"],
    gain: Float[Array, ""],
    taken: Bool[Array, ""],
) -> Secant:
    """After a step from `model` to `trial`, which gained `gain` and was `taken` or not."""
    old, turn = secant.missing, trial.gradient - model.gradient
    plain = -(model.gradient @ move) - 0.5 * move @ _curved(model, move)
    full = plain - 0.5 * move @ old @ move
    own, other = jnp.where(secant.counts > 0, full, plain), jnp.where(secant.counts > 0, plain, full)
    turns = trial.good & (SWITCH * jnp.abs(gain - other) < jnp.abs(gain - own))
    counts = jnp.where(turns, 1 - secant.counts, secant.counts)
    # S must turn the gradient by what the new Fisher information does not; it is made smaller first where it would be too large.
    wanted, have = turn - _curved(trial, move), move @ old @ move
    size = jnp.where(have == 0, 1, jnp.abs(move @ wanted) / jnp.where(have == 0, 1, jnp.abs(have)))
    old = jnp.minimum(1, size) * old
    rest, along = wanted - old @ move, turn @ move
    usable = taken & (along > 1e-10 * jnp.linalg.norm(turn) * jnp.linalg.norm(move))
    safe = jnp.where(usable, along, 1)
    cross = jnp.outer(rest, turn) / safe
    new = old + cross + cross.T - (rest @ move) / safe * jnp.outer(turn, turn) / safe
    return Secant(jnp.where(usable & jnp.isfinite(new).all(), new, secant.missing), counts)


def _curved(model: LocalModel, move: Array) -> Array:
    return model.rows.T @ (model.rows @ move) + times_prior(model.curvature, move)
