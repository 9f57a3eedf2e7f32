"""Maximum of a log likelihood that is known by noisy estimates: a quadratic through estimates at many places."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ..linear import eigenvalues, inverse, solve
from ._inside import margin

ROUNDS = 3
"""Number of designs, each around the maximum of the one before and as wide as the uncertainty that it found."""

PLACES = 6
"""Number of places of a design for each coefficient of the quadratic."""

REACH = 2.0
"""Longest step from a design to its maximum, in standard errors; the quadratic is not known further out."""

FLAT = 0.1
"""A direction along which the log posterior bends by less than this part of what its design was made for counts as flat."""

RIDGE = 1e-6
"""Weight of a second derivative of zero beside that of a place."""


class Peak(NamedTuple):
    """Maximum of the log posterior, in the coordinates of a fit.

    - `rows`: a root of the information of the data there.
    - `found`: whether the log posterior curves downwards in all directions, and the last design lay around its maximum.
    """

    z: Float[Array, " parameters"]
    rows: Float[Array, "parameters parameters"]
    found: Bool[Array, ""]


def coefficients(size: int) -> int:
    """Number of coefficients of a quadratic."""
    return 1 + size + size * (size + 1) // 2


def noisy_peak(
    value: Callable[[Array, PRNGKeyArray], Array],
    prior: Callable[[Array], tuple[Array, Array]],
    bounds: Float[Array, "parameters 2"],
    z: Float[Array, " parameters"],
    root: Float[Array, "parameters parameters"],
    key: PRNGKeyArray,
) -> Peak:
    """The maximum of a quadratic through estimates of the log likelihood at random places.

    Each round draws places around the maximum so far, and fits all places that there are. Those count most that lie near the top of
    the quadratic; estimates that are not finite, or far below the others, do not. For quadratics through noisy log likelihoods see
    Ionides et al. (2017), doi:10.1098/rsif.2017.0126.

    **Arguments:** `value`: a place and a key -> an estimate of the log likelihood; `prior`: a place -> the gradient of the negative
    log prior and a root of its second derivative; `z`, `root`: the middle of the first design, and a root of its covariance.
    """
    size, gap = z.size, margin(bounds)
    lower, upper = bounds[:, 0] + gap[:, 0], bounds[:, 1] - gap[:, 1]
    count = PLACES * coefficients(size)

    def reached(z: Array, step: Array) -> Array:
        """The share of a step that stays within the bounds."""
        room = jnp.where(step > 0, upper - z, z - lower)
        share = jnp.where(step == 0, 1, room / jnp.where(step == 0, 1, jnp.abs(step)))
        return jnp.clip(jnp.min(share), 0, 1)

    def design(carry: tuple[Array, Array, Array, Array], now: tuple[Array, PRNGKeyArray]) -> tuple[Any, Peak]:
        (z, root, places, estimates), (done, key) = carry, now
        for_places, for_values = jax.random.split(key)
        white = jax.random.normal(for_places, (count, size), z.dtype)
        found = jax.vmap(lambda w: z + root @ w * reached(z, root @ w))(white)
        told = jax.lax.map(lambda now: value(*now), (found, jax.random.split(for_values, count)))
        places = jax.lax.dynamic_update_slice_in_dim(places, found, done * count, 0)
        estimates = jax.lax.dynamic_update_slice_in_dim(estimates, told, done * count, 0)
        back = inverse(root)
        slope, information, many = _quadratic((places - z[None]) @ back.T, estimates)
        prior_slope, prior_root = prior(z)
        known = prior_root @ root
        values, vectors = eigenvalues(information + known.T @ known)
        bounded = jnp.maximum(values, FLAT)
        step = vectors @ ((vectors.T @ (slope - root.T @ prior_slope)) / bounded)
        length = jnp.sqrt(step @ (vectors @ (bounded * (vectors.T @ step))))
        step = step * jnp.minimum(1, REACH / jnp.where(length > 0, length, 1))
        usable = jnp.isfinite(step).all()
        step = root @ jnp.where(usable, step, 0)
        own, turned = eigenvalues(jnp.where(usable, information, 0))
        rows = jnp.sqrt(jnp.maximum(own, 0))[:, None] * turned.T @ back
        after = z + step * reached(z, step)
        root = jnp.where(usable, root @ (vectors / jnp.sqrt(bounded)[None]), root)
        return (after, root, places, estimates), Peak(after, rows, usable & (values > FLAT).all() & many & (length < 1))

    nowhere = jnp.zeros((ROUNDS * count, size), z.dtype), jnp.full((ROUNDS * count,), -jnp.inf, z.dtype)
    rounds = jnp.arange(ROUNDS), jax.random.split(key, ROUNDS)
    _, peaks = jax.lax.scan(design, (z, root, *nowhere), rounds)
    return jax.tree.map(lambda leaf: leaf[-1], peaks)


def _quadratic(white: Array, estimates: Array) -> tuple[Array, Array, Array]:
    """Slope and information at 0 of the quadratic through estimates, and whether half a design was usable."""
    (places, size), dtype = white.shape, white.dtype
    first, second = np.triu_indices(size)
    best = jnp.max(estimates)
    fine = jnp.isfinite(estimates) & (estimates > best - 6 - 3 * size)
    terms = jnp.concatenate([jnp.ones((places, 1), dtype), white, white[:, first] * white[:, second]], axis=1)
    terms, told = jnp.where(fine[:, None], terms, 0), jnp.where(fine, estimates - best, 0)
    ridge = jnp.concatenate([jnp.zeros(1 + size, dtype), jnp.full(first.size, RIDGE * places, dtype)])
    fitted = lambda weight: solve(terms.T @ (weight[:, None] * terms) + jnp.diag(ridge), terms.T @ (weight * told))
    level = terms @ fitted(fine.astype(dtype))
    # By the height of the quadratic, not of the estimates, which would favour lucky ones.
    drop = jnp.max(jnp.where(fine, level, -jnp.inf)) - level
    found = fitted(jnp.where(fine, jnp.exp(-jnp.where(jnp.isfinite(drop), drop, 0)), 0))
    bend = jnp.zeros((size, size), dtype).at[first, second].set(found[1 + size :])
    return found[1 : 1 + size], -(bend + bend.T), jnp.sum(fine) > places // (2 * ROUNDS)
