"""Tempered sequential Monte Carlo: many particles from the prior to the posterior, whatever its modes, and the evidence."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from .._errors import ArgumentError, SamplingError
from ..engine import awaited, note_trace, over_members
from ..filters import systematic
from ..linear import cholesky
from ..problem import bisected
from ._counts import Counts
from ._diagnostics import describe_quality
from ._posterior import Posterior
from ._target import Target, prior_draws
from ._tempered_moves import ACCEPTANCE, Kernel, moved, parts_of

BISECTIONS = 50
MOST_TEMPERATURES = 500


class TemperedSMC(eqx.Module):
    r"""Particles drawn from the prior are led to the posterior: weighted, drawn again in proportion to their weights, and moved,
    through densities $p(\theta)\, p(y \mid \theta)^\beta$ with $\beta$ from 0 to 1.

    It finds the modes that the prior's draws fall into, in the right proportions, and the evidence $p(y)$, by which models are
    compared. Each `chain` of `sample` is one run, `draws` is the number of its particles, and all particles move together; several
    runs tell how sure the evidence is. There is no warm-up and no fit.

    **Arguments:**

    - `kernel`: "hmc" moves along gradients, "random_walk" needs none; both by the covariance of the particles, with
        steps tuned on the way.
    - `moves`: moves of every particle at each temperature.
    - `leapfrog`: steps of one move of "hmc".
    - `ess`: the next temperature is where the effective number of particles falls to this share.

    **Good values:** the defaults with 1000 draws; twice the `moves` where runs disagree.

    **References:** Del Moral, Doucet & Jasra (2006), doi:10.1111/j.1467-9868.2006.00553.x; Jasra et al. (2011),
    doi:10.1111/j.1467-9469.2010.00723.x, for the temperatures.
    """

    kernel: Kernel = eqx.field(static=True, default="hmc")
    moves: int = eqx.field(static=True, default=8)
    leapfrog: int = eqx.field(static=True, default=6)
    ess: float = eqx.field(static=True, default=0.5)

    def __check_init__(self) -> None:
        if self.kernel not in ACCEPTANCE:
            raise ArgumentError(f'Argument `kernel` must be "hmc" or "random_walk", but it is {self.kernel!r}.')
        if not 0 < self.ess < 1:
            raise ArgumentError(f"Argument `ess` must lie between 0 and 1, but it is {self.ess}.")


class Cloud(NamedTuple):
    """The particles of one run, and how far they are."""

    u: Array
    prior: Array
    likelihood: Array
    beta: Array
    evidence: Array
    step: Array
    accept: Array
    temperatures: Array
    key: Any


def sample_tempered(target: Target, method: TemperedSMC, counts: Counts, key: PRNGKeyArray) -> Posterior:
    """All runs at once, over all devices."""
    chains, draws, _ = counts
    place, run = jax.random.split(key)
    problem = target.problem
    theta = prior_draws(problem, place, chains * draws)
    u = jax.vmap(target.coordinates.unconstrained)(theta).reshape(chains, draws, -1)
    found = awaited(_run(target, method, u, jax.random.split(run, chains)), "sample", "while tempering")
    if not np.all(np.asarray(found.beta) == 1):
        raise SamplingError(
            f"Tempering did not reach the posterior within {MOST_TEMPERATURES} temperatures (it came to "
            f"{float(np.min(found.beta)):.3g}): hardly any draw of the priors can be simulated. Narrow the priors."
        )
    theta, log_density = target.in_natural_units(found.u, found.prior + found.likelihood)
    shape = found.prior.shape
    moves = method.moves * (method.leapfrog if method.kernel == "hmc" else 1)
    steps = jnp.broadcast_to((found.temperatures * moves)[:, None], shape)
    accept = jnp.broadcast_to(found.accept[:, None], shape)
    warnings = describe_quality(theta, np.zeros(shape, bool))
    return Posterior(
        theta,
        log_density,
        jnp.zeros(shape, bool),
        steps,
        accept,
        problem.names,
        problem.units,
        f"tempered SMC, {int(jnp.max(found.temperatures))} temperatures",
        tuple(warnings),
        found.evidence,
    )


@eqx.filter_jit
def _run(target: Target, method: TemperedSMC, u: Array, keys: Array) -> Cloud:
    note_trace("sample", target.parts() | {"method": method, "particles": u})

    def one(target: Target, member: tuple[Array, PRNGKeyArray]) -> Cloud:
        u, key = member
        zero = 0 * u[0, 0]
        prior, likelihood = jax.vmap(lambda u: parts_of(target, u))(u)
        size = 0.2 if method.kernel == "hmc" else 2.38 / u.shape[1] ** 0.5
        start = Cloud(u, prior, likelihood, zero, zero, size + zero, zero, jnp.zeros((), int), key)
        goes_on = lambda cloud: (cloud.beta < 1) & (cloud.temperatures < MOST_TEMPERATURES)
        return jax.lax.while_loop(goes_on, lambda cloud: _next(target, method, cloud), start)

    return over_members(one, target, (u, keys))


def _next(target: Target, method: TemperedSMC, cloud: Cloud) -> Cloud:
    """One temperature further."""
    key, pick, move = jax.random.split(cloud.key, 3)
    count = cloud.u.shape[0]
    top = jnp.max(cloud.likelihood)
    relative = cloud.likelihood - jnp.where(jnp.isfinite(top), top, 0)

    def effective(rise: Array) -> Array:
        weights = jnp.where(jnp.isfinite(relative), jnp.exp(rise * relative), 0)
        return jnp.sum(weights) ** 2 / jnp.maximum(jnp.sum(weights**2), jnp.finfo(weights.dtype).tiny)

    goal = method.ess * jnp.sum(jnp.isfinite(relative))

    whole = 1 - cloud.beta
    low, _ = bisected(lambda rise: effective(rise) < goal, 0 * whole, whole, BISECTIONS)
    last = effective(whole) >= goal
    rise = jnp.where(last, whole, low)
    beta = jnp.where(last, jnp.ones_like(whole), cloud.beta + rise)
    weights = jnp.where(jnp.isfinite(relative), jnp.exp(rise * relative), 0)
    evidence = cloud.evidence + jnp.log(jnp.mean(weights)) + rise * jnp.where(jnp.isfinite(top), top, 0)
    chosen = systematic(pick, weights)
    u, prior, likelihood = cloud.u[chosen], cloud.prior[chosen], cloud.likelihood[chosen]
    centred = u - jnp.mean(u, axis=0)[None]
    covariance = centred.T @ centred / count
    spread = jnp.diag(covariance)
    covariance = covariance + jnp.diag(1e-10 * jnp.where(spread > 0, spread, 1))
    root = cholesky(covariance)
    root = jnp.where(jnp.isfinite(root).all(), root, jnp.diag(jnp.sqrt(jnp.diag(covariance))))

    def move_all(state: tuple[Array, Array, Array, Array], key: PRNGKeyArray) -> Any:
        u, prior, likelihood, step = state
        at = u, prior, likelihood
        after, rate = moved(target, method.kernel, method.leapfrog, beta, root, step, at, key)
        return (*after, step * jnp.exp(rate - ACCEPTANCE[method.kernel])), rate

    state, rates = jax.lax.scan(move_all, (u, prior, likelihood, cloud.step), jax.random.split(move, method.moves))
    return Cloud(*state[:3], beta, evidence, state[3], jnp.mean(rates), cloud.temperatures + 1, key)
