"""Moves of particles at one temperature, by random walks or Hamiltonian dynamics.

The density at the inverse temperature beta is the prior times the likelihood to the power of beta.
"""

from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray, PyTree

from ._target import Target

ACCEPTANCE = {"hmc": 0.8, "random_walk": 0.3}
"""Mean acceptance probability that the steps of a kind of move are tuned to."""

Kernel = Literal["hmc", "random_walk"]

At = tuple[Array, Array, Array]
"""Places, log priors and log likelihoods of particles."""


def parts_of(target: Target, u: Array) -> tuple[Array, Array]:
    """Log prior in unconstrained coordinates, and log likelihood."""
    theta = target.coordinates.natural(u)
    prior = target.problem.log_prior(theta) + target.coordinates.log_volume(u)
    likelihood = target.problem.log_likelihood(theta)[0]
    fine = jnp.isfinite(prior)
    return jnp.where(fine, prior, -jnp.inf), jnp.where(fine & jnp.isfinite(likelihood), likelihood, -jnp.inf)


def moved(
    target: Target,
    kernel: Kernel,
    leapfrog: int,
    beta: Array,
    root: Array,
    step: Array,
    at: At,
    key: PRNGKeyArray,
) -> tuple[At, Array]:
    """The particles after one move by Metropolis' rule, and its mean acceptance probability.

    **Arguments:** `root`: of the covariance that the moves follow; `step`: their length beside it; `at`: where the particles are.
    """
    # Two keys by one split: `fold_in(key, 1)` is the second of `split(key)`, and a toss that shares the bits of a step's length
    # accepts short steps more often.
    propose, toss = jax.random.split(key)
    if kernel == "hmc":
        new, gain, one, two = _leap(target, leapfrog, beta, root, step, at, propose)
    else:
        new, gain, one, two = _walk(target, beta, root, step, at, propose)
    u, prior, likelihood = at
    taken = jnp.log(jax.random.uniform(toss, gain.shape, u.dtype)) < gain
    rate = jnp.mean(jnp.minimum(1, jnp.exp(jnp.where(jnp.isnan(gain), -jnp.inf, gain))))
    after = jnp.where(taken[:, None], new, u), jnp.where(taken, one, prior), jnp.where(taken, two, likelihood)
    return after, rate


def _walk(
    target: Target,
    beta: Array,
    root: Array,
    step: Array,
    at: At,
    key: PRNGKeyArray,
) -> tuple[Array, Array, Array, Array]:
    """A step of a random walk with the covariance of the particles: proposals, log acceptance ratios, and their densities."""
    u, prior, likelihood = at
    new = u + step * jax.random.normal(key, u.shape, u.dtype) @ root.T
    one, two = jax.vmap(lambda u: parts_of(target, u))(new)
    return new, _tempered(one, two, beta) - _tempered(prior, likelihood, beta), one, two


def _leap(
    target: Target,
    leapfrog: int,
    beta: Array,
    root: Array,
    step: Array,
    at: At,
    key: PRNGKeyArray,
) -> tuple[Array, Array, Array, Array]:
    """A few leapfrog steps of Hamiltonian dynamics in coordinates that the covariance of the particles whitens."""
    u, prior, likelihood = at
    shape, dtype = u.shape, u.dtype
    first, jitter = jax.random.split(key)
    momentum = jax.random.normal(first, shape, dtype)
    # Steps of random length, so that no orbit closes on itself.
    length = step * jax.random.uniform(jitter, (shape[0], 1), dtype, 0.6, 1.4)

    def density(u: Array) -> tuple[Array, tuple[Array, Array]]:
        one, two = parts_of(target, u)
        return _tempered(one, two, beta), (one, two)

    if target.gradient == "forward":
        doubled = lambda u: ((found := density(u))[0], found)
        ahead = jax.vmap(jax.jacfwd(doubled, has_aux=True))
        gradient = lambda u: ahead(u)[::-1]
    else:
        gradient = jax.vmap(jax.value_and_grad(density, has_aux=True))

    def leap(state: PyTree, _: None) -> Any:
        white, momentum, slope, _ = state
        momentum = momentum + 0.5 * length * slope
        white = white + length * momentum
        (_, parts), slope = gradient(u + white @ root.T)
        slope = jnp.where(jnp.isfinite(slope), slope, 0) @ root
        return (white, momentum + 0.5 * length * slope, slope, parts), None

    _, slope = gradient(u)
    start = jnp.zeros(shape, dtype), momentum, jnp.where(jnp.isfinite(slope), slope, 0) @ root, (prior, likelihood)
    (white, end, _, (one, two)), _ = jax.lax.scan(leap, start, None, length=leapfrog)
    kinetic = 0.5 * jnp.sum(momentum**2 - end**2, axis=1)
    return u + white @ root.T, _tempered(one, two, beta) - _tempered(prior, likelihood, beta) + kinetic, one, two


def _tempered(prior: Array, likelihood: Array, beta: Array) -> Array:
    return prior + jnp.where(jnp.isfinite(likelihood), beta * likelihood, -jnp.inf)
