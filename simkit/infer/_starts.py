"""Places where chains begin: around the optima of a fit."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from ..engine import note_trace
from ..linear import eigenvalues
from ..problem import Problem
from ._target import Target


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


@eqx.filter_jit
def spread_starts(target: Target, centers: Array, roots: Array, mode: Array, key: PRNGKeyArray) -> Array:
    """Starting points drawn from normal approximations, each the first of eight that is not hopeless beside those of its mode.

    No chain begins where a simulation fails, and the starts keep their spread.

    **Arguments:** `centers`, `roots`: for each chain the center and a root of the covariance; `mode`: the mode of each chain.
    """
    count, size = centers.shape
    note_trace("sample, starts", target.parts() | {"chains": count})
    white = jax.random.normal(key, (count, 8, size), centers.dtype)
    candidates = centers[:, None] + jnp.einsum("cij,ckj->cki", roots, white)
    density = jax.lax.map(target.log_density, candidates.reshape(count * 8, size)).reshape(count, 8)
    best = jnp.max(jnp.where(mode[:, None] == mode[None], jnp.max(density, axis=1)[None], -jnp.inf), axis=1)
    fine = density > best[:, None] - (10.0 + 6.0 * (size / 2) ** 0.5)
    chosen = jnp.where(jnp.any(fine, axis=1), jnp.argmax(fine, axis=1), jnp.argmax(density, axis=1))
    return jnp.take_along_axis(candidates, chosen[:, None, None], axis=1)[:, 0]
