"""Pathfinder: normal approximations along paths of L-BFGS, joined by importance weights, through BlackJAX."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray
from scipy.special import logsumexp

from .._errors import ArgumentError, SamplingError
from ..engine import awaited, note_trace
from ..filters import systematic
from ._blackjax import blackjax_for
from ._counts import Counts
from ._modes import distances
from ._posterior import Posterior
from ._target import Target, prior_draws

LOOKED_AT = 256
"""Draws of the priors that say how wide each coordinate is."""
TRUSTED, DOUBTFUL = 0.7, 0.5
"""Pareto's k of the importance weights, above which they are not to be trusted, and above which errors fall slowly."""


class Pathfinder(eqx.Module):
    r"""A first look at a posterior, in some hundred gradients a path: L-BFGS climbs from draws of the priors, and at each of its
    steps its inverse Hessian is the covariance of a normal distribution; the one with the highest evidence lower bound is kept.
    Draws of all paths are drawn again by their importance weights $p(u) / q(u)$, smoothed by a Pareto distribution (PSIS).

    Unlike `LaplaceApproximation` it stands where the mass is, not at the peak, joins several modes, and says by Pareto's k how far
    the draws can be trusted: the warnings do so above 0.7. Needs no fit; needs BlackJAX: `pip install "simkit[samplers]"`.

    **Arguments:**

    - `paths`: starts, drawn from the priors.
    - `iterations`: the most steps of a path.
    - `lower_bound_draws`: draws for the evidence lower bound of each step.

    **Good values:** the defaults; more paths where the posterior has several modes.

    **Errors:** those of importance sampling, whose effective number of draws the warnings tell; where k is above 0.7 no bound. A
    mode in which no path ended is lost, and k cannot see it; of tails heavier than normal ones (Student t with two degrees of
    freedom) the last percents are cut, with k near 0.6.

    **References:** Zhang, Carpenter, Gelman & Vehtari (2022), Journal of Machine Learning Research 23:306; Vehtari, Simpson,
    Gelman, Yao & Gabry (2024), Journal of Machine Learning Research 25:72, for k.
    """

    paths: int = eqx.field(static=True, default=8)
    iterations: int = eqx.field(static=True, default=60)
    lower_bound_draws: int = eqx.field(static=True, default=30)

    def __check_init__(self) -> None:
        for name in ("paths", "iterations", "lower_bound_draws"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ArgumentError(f"Argument `{name}` must be an integer of at least 1, but it is {value!r}.")


class Ends(NamedTuple):
    """Draws of each path, in the units of the prior, their log densities, and the normal distribution that they come from."""

    white: Array
    log_p: Array
    mean: Array
    covariance: Array


def sample_pathfinder(target: Target, method: Pathfinder, counts: Counts, key: PRNGKeyArray) -> Posterior:
    """Draws of all paths at once, drawn again by their weights.

    **Raises:** a `SamplingError` where no path found a place that can be simulated.
    """
    blackjax = blackjax_for("Pathfinder")
    place, run, pick = jax.random.split(key, 3)
    wanted, problem = counts.chains * counts.draws, target.problem
    theta = prior_draws(problem, place, max(LOOKED_AT, method.paths))
    u = jax.vmap(target.coordinates.unconstrained)(theta)
    center, width = _widths(np.asarray(u, float))
    scale = jnp.asarray(width, u.dtype), jnp.asarray(center, u.dtype)
    each = -(-2 * wanted // method.paths)  # a pool of twice what is asked for
    keys = jax.random.split(run, method.paths)
    ends = awaited(_run(target, method, scale, u[: method.paths], keys, each), "sample", f"on {method.paths} paths")
    white, log_p, log_q = _pool(ends)
    ratios = np.where(np.isfinite(log_p), log_p - log_q, -np.inf)
    if not np.isfinite(ratios).any():
        raise SamplingError(
            f"None of {method.paths} paths came to a place that can be simulated. Take more `paths`, narrow the priors, or "
            "begin with `fit`."
        )
    weights, k = blackjax.util.psis_weights(jnp.asarray(ratios))
    share = np.exp(np.asarray(weights, float))
    share = share / share.sum()
    chosen = _chosen(pick, share, wanted)
    shape = counts.chains, counts.draws
    drawn = jnp.asarray(center + width * white[chosen], u.dtype).reshape(*shape, -1)
    theta, log_density = target.in_natural_units(drawn, jnp.asarray(log_p[chosen], u.dtype).reshape(shape))
    none = jnp.zeros(shape, bool)
    return Posterior(
        theta,
        log_density,
        none,
        none.astype(int),
        jnp.zeros_like(log_density),
        problem.names,
        problem.units,
        "Pathfinder",
        _in_words(float(k), 1 / float(np.sum(share**2)), wanted, problem.size),
    )


def _widths(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Median and half the interquartile range of draws of the priors: the unit in which a path begins."""
    low, center, high = np.quantile(u, [0.25, 0.5, 0.75], axis=0)
    width = 0.5 * (high - low)
    return center, np.where(width > 0, width, 1)


def _pool(ends: Ends) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draws of all paths that ended well, their log densities, and those of the mixture of all their normal distributions.

    Weighted by the distribution of its own path alone a mode would count as often as paths found it.
    """
    means, covariances = np.asarray(ends.mean, float), np.asarray(ends.covariance, float)
    known = (
        np.isfinite(means).all(axis=1)
        & np.isfinite(covariances).all(axis=(1, 2))
        & np.isfinite(ends.white).all(axis=(1, 2))
    )
    white = np.asarray(ends.white, float)[known].reshape(-1, means.shape[1])
    parts = []
    for mean, covariance in zip(means[known], covariances[known], strict=True):
        square, volume = distances(white, mean, covariance)
        parts.append(-0.5 * (square + volume))
    log_q = logsumexp(parts, axis=0) - np.log(max(len(parts), 1)) if parts else np.zeros(0)
    return white, np.asarray(ends.log_p, float)[known].ravel(), log_q - 0.5 * means.shape[1] * np.log(2 * np.pi)


def _chosen(key: PRNGKeyArray, share: np.ndarray, count: int) -> np.ndarray:
    """Systematic draws by their shares, in any order but for those that were drawn several times, which stand together.

    So an effective number of draws counts them as the one that they are.
    """
    first, order = jax.random.split(key)
    times = np.bincount(np.asarray(systematic(first, jnp.asarray(share), count)), minlength=len(share))
    mixed = np.asarray(jax.random.permutation(order, len(share)))
    return np.repeat(mixed, times[mixed])


def _in_words(k: float, effective: float, wanted: int, size: int) -> tuple[str, ...]:
    """Sentences on the draws: how many the weights leave, and whether they can be trusted."""
    found = [
        f"Draws of normal approximations, weighted: Pareto's k of the weights is {k:.2f}, and they are worth some {effective:.0f} "
        f"independent ones of {2 * wanted}."
    ]
    if not k <= TRUSTED:
        found.append(
            f"The approximation does not cover the posterior (k above {TRUSTED}): means and widths may be wrong by more than any "
            "error here. Take `NUTS()`, or `TemperedSMC()` for several modes."
        )
    elif k > DOUBTFUL:
        found.append(
            f"With k above {DOUBTFUL} errors fall slowly with more draws, and tails heavier than normal ones may be cut: compare "
            "with `NUTS()`."
        )
    if size > 1 and effective < 100:
        found.append("Few draws carry the weight: take more `draws` or `paths`.")
    return tuple(found)


@eqx.filter_jit
def _run(target: Target, method: Pathfinder, scale: tuple[Array, Array], starts: Array, keys: Array, each: int) -> Ends:
    """The best normal distribution of every path, and draws of it."""
    note_trace("sample", target.parts() | {"method": method, "draws": each})
    from blackjax.vi import pathfinder

    def path(target: Target, member: tuple[Array, PRNGKeyArray]) -> Ends:
        start, key = member
        dtype, wide = start.dtype, jnp.result_type(float)
        width, center = scale
        climb, draw = jax.random.split(key)
        natural = lambda white: center + width * white.astype(dtype)
        density = lambda white: target.log_density(natural(white)).astype(wide)
        # A failed simulation stops a line search; its gradient has to stay finite.
        kept = lambda white: (lambda value: jnp.where(jnp.isfinite(value), value, -1e30))(density(white))
        found: Any
        white: Any
        found, _ = pathfinder.approximate(
            climb,
            kept,
            ((start - center) / width).astype(wide),
            method.lower_bound_draws,
            maxiter=method.iterations,
            maxls=30,
            ftol=1e-8,
            gtol=1e-6,
        )
        white, _ = pathfinder.sample(draw, found, each)
        spread = jnp.diag(found.alpha) + found.beta @ found.gamma @ found.beta.T
        mean = found.position + spread @ found.grad_position
        return Ends(white, jax.vmap(density)(white), mean, 0.5 * (spread + spread.T))

    # On one device: BlackJAX decomposes matrices by LAPACK, whose threads on several wait for each other for ever.
    return jax.vmap(path, in_axes=(None, 0))(target, (starts, keys))
