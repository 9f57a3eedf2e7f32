"""Places where chains begin: around the optima of a fit."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ..engine import note_trace
from ..linear import eigenvalues
from ..problem import Problem
from ._target import Target

TRIED = 8
"""Number of places that are looked at for each chain."""


@eqx.filter_jit
def laplace_start(target: Target, estimate: Array, z: Array, covariance: Array) -> tuple[Array, Array]:
    """The fit's optimum and covariance in unconstrained coordinates; a covariance that is not usable becomes the identity."""
    note_trace("sample, normal approximation", target.parts())
    problem, coordinates = target.problem, target.coordinates
    center = coordinates.unconstrained(_strictly_inside(problem, estimate))
    slope = jax.jacfwd(lambda z: coordinates.unconstrained(_strictly_inside(problem, problem.natural(z))))(z)
    turned = slope @ covariance @ slope.T
    unit = _units(target, turned)
    variances = jnp.diag(turned)
    usable = jnp.isfinite(turned).all() & (variances > 0).all()
    # Of what the data tell far better than the prior its own width is the unit: rounding, not the prior, is what is cut off below.
    unit = jnp.where(usable, jnp.minimum(unit, jnp.sqrt(jnp.where(usable, variances, 1))), unit)
    turned = jnp.where(usable, turned / unit[:, None] / unit[None], jnp.eye(center.shape[0], dtype=center.dtype))
    # A flat direction has a huge variance; priors bound the posterior, so no coordinate needs more than some ten units.
    values, vectors = eigenvalues(turned)
    wide = vectors * unit[:, None]
    return center, (wide * jnp.clip(values, 1e-12, 1e2 + len(values))) @ wide.T


def _units(target: Target, covariance: Array) -> Array:
    """The widths that unconstrained coordinates can have: 1, and of those in natural units the standard deviation of the prior."""
    widths = []
    for kind, prior, variance in zip(
        target.coordinates.kinds, target.problem.priors, jnp.diag(covariance), strict=True
    ):
        own = jnp.asarray(prior.variance, variance.dtype) if kind == "real" and prior is not None else variance
        known = jnp.where(jnp.isfinite(own) & (own > 0), own, jnp.where(variance > 0, variance, 1))
        widths.append(jnp.sqrt(known) if kind == "real" else jnp.ones_like(variance))
    return jnp.stack(widths)


def _strictly_inside(problem: Problem, theta: Array) -> Array:
    """A point on a bound, where unconstrained coordinates are infinite, moved a little inside; all others as they are.

    Between bounds many decades apart a millionth of their distance is far from a point near the lower one.
    """
    lower, upper = problem.bounds.T
    known = jnp.abs(theta) + (theta == 0)
    width = jnp.where(jnp.isfinite(upper - lower), upper - lower, known)
    near = 8 * jnp.finfo(theta.dtype).eps
    step = lambda bound: 1e-6 * jnp.where(bound == 0, width, jnp.minimum(width, jnp.abs(bound)))
    on = lambda bound: jnp.isfinite(bound) & (jnp.abs(theta - bound) <= near * (jnp.abs(bound) + jnp.abs(theta)))
    inside = jnp.where((theta <= lower) | on(lower), lower + step(lower), theta)
    return jnp.where((theta >= upper) | on(upper), upper - step(upper), inside)


def spread_starts(
    densities: Callable[[np.ndarray], np.ndarray],
    centers: Float[np.ndarray, "chain d"],
    roots: Float[np.ndarray, "chain d d"],
    mode: Int[np.ndarray, " chain"],
    key: PRNGKeyArray,
) -> Int[np.ndarray, " chain"]:
    """Look at starting points drawn from normal approximations, and say for each chain which was the first that is not hopeless.

    Hopeless beside those of its mode: no chain begins where a simulation fails, and the starts keep their spread.

    **Arguments:** `densities`: places, one for each chain -> the log densities there, once for each of `TRIED` candidates;
    `centers`, `roots`: for each chain the center and a root of the covariance; `mode`: the mode of each chain.
    """
    count, size = np.shape(centers)
    # NumPy's generator: a program for some hundred numbers would take longer to compile than what it draws serves for.
    random = np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel().tolist())
    white = random.standard_normal((count, TRIED, size))
    places = centers[:, None] + np.einsum("cij,ckj->cki", roots, white)
    density = np.stack([densities(places[:, k]) for k in range(TRIED)], axis=1)
    best = np.max(np.where(mode[:, None] == mode[None], np.max(density, axis=1)[None], -np.inf), axis=1)
    fine = density > best[:, None] - (10.0 + 6.0 * (size / 2) ** 0.5)
    return np.where(np.any(fine, axis=1), np.argmax(fine, axis=1), np.argmax(density, axis=1))
