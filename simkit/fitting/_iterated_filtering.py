"""IteratedFiltering: the maximum of a likelihood that particles estimate, by particles whose parameters walk too."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from .._doors import check_count
from .._errors import ArgumentError
from ..core import as_float_array
from ..filters import ParticleFilter, Walk, perturbed_pass
from ..linear import eigenvalues
from ..problem import Problem, with_fresh_key
from ._method import CONVERGED, FAILED, LIMIT, End
from ._noisy_peak import noisy_peak
from ._optax import unbounded
from ._prior_model import prior_model, prior_slope_and_root
from ._quadratic import LocalModel
from ._swarm import AbstractSwarm, Settled

HALF_LIFE = 50.0
"""Number of iterations after which `cooling` of the perturbations is left."""

WIDEST = 20.0
"""Widest first design of places, in standard deviations of the parameters of the last particles."""


class IteratedFiltering(AbstractSwarm):
    r"""Iterated filtering (IF2) for problems whose likelihood is a `ParticleFilter`: stochastic systems and jump processes.

    Each particle carries parameters of its own, which take a step of a random walk before each datum, and goes on where its data
    were probable. Passes over all data follow each other while the steps become shorter, so that the parameters gather around the
    maximum of the posterior (of the likelihood, where priors are flat). No derivative and no density of a step is needed.

    Then a quadratic is laid through estimates of the log likelihood at random places around there, in three rounds. Its maximum is
    the estimate, its second derivatives are the information, and `repeats` fresh filters give the log likelihood there and the
    standard error of that estimate, `log_likelihood_error` of the result.

    **Arguments:**

    - `iterations`: passes over all data.
    - `perturbation`: standard deviation of a step, in coordinates without bounds: logarithms of positive numbers, logistic between
        two bounds, otherwise relative to the size of the start. Numbers of initial states take one step a pass, at the start, by
        this times the square root of the number of data.
    - `cooling`: the part of the perturbation that is left after 50 iterations.
    - `repeats`: fresh filters for the log likelihood at the end.

    The number of particles is that of the problem's filter; a few hundred are enough where `filters.spread` gives 1 or 2. The
    rounds at the end take 18 (p + 1)(p + 2) / 2 filters for p unknowns, so that the method is for up to some ten.

    **Good values:** the defaults, and `starts=4`; 200 iterations where starts are decades away.

    **Reference:** Ionides, Nguyen, Atchade, Stoev and King (2015), PNAS 112:719, doi:10.1073/pnas.1410597112, algorithm IF2.

    ```python
    import jax
    import simkit
    system, start, _, _ = simkit.odes.OrnsteinUhlenbeck.example()
    data = simkit.Experiment("walk", [1.0, 2.0, 3.0, 4.0], {"x": [0.9, 0.1, -0.2, 0.3]}, start=0.0, y0=start)
    problem = simkit.Problem(
        system,
        data,
        free={"reversion": simkit.Free(bounds=(0.05, 10.0))},
        noise={"x": simkit.noise.Normal(0.1)},
        step=0.25,
        likelihood=simkit.filters.ParticleFilter(100, key=jax.random.key(0)),
    )
    print(simkit.fit(problem, starts=1, method=simkit.IteratedFiltering(iterations=20)))
    ```
    """

    iterations: Int[Array, ""] = eqx.field(converter=lambda n: jnp.asarray(n, int), default=100)
    perturbation: Float[Array, ""] = eqx.field(converter=as_float_array, default=0.02)
    cooling: Float[Array, ""] = eqx.field(converter=as_float_array, default=0.5)
    repeats: int = eqx.field(static=True, default=20)

    def __init__(self, iterations: int = 100, *, perturbation: float = 0.02, cooling: float = 0.5, repeats: int = 20):
        check_count("iterations", iterations)
        check_count("repeats", repeats, least=2)
        for name, value, most in (("perturbation", perturbation, 1.0), ("cooling", cooling, 1.0)):
            if not (isinstance(value, int | float) and 0 < value <= most):
                raise ArgumentError(f"Argument `{name}` must lie above 0 and not above {most:g}, but it is {value!r}.")
        self.iterations, self.repeats = jnp.asarray(iterations, int), int(repeats)
        self.perturbation, self.cooling = as_float_array(perturbation), as_float_array(cooling)

    @property
    def name(self) -> str:
        return "iterated filtering"

    @property
    def dead(self) -> str:
        return "no particle survived."

    def check(self, problem: Problem) -> None:
        if not isinstance(problem.likelihood, ParticleFilter):
            raise ArgumentError(
                "`IteratedFiltering` is for a likelihood that particles estimate, but this problem has "
                f"`{type(problem.likelihood).__name__}`. Give the problem `likelihood=simkit.filters.ParticleFilter(...)`, or take "
                "`GaussNewton()` or `LBFGS()`."
            )

    def settle(self, problem: Problem, z: Float[Array, " parameters"], key: PRNGKeyArray) -> Settled:
        likelihood: Any = problem.likelihood
        _, x, back = unbounded(problem, z, jnp.zeros(z.shape, bool))
        for_passes, for_peak, for_value = jax.random.split(key, 3)
        cooling = self.cooling.astype(z.dtype) ** (1 / HALF_LIFE)
        width = jnp.full(z.shape, self.perturbation.astype(z.dtype))
        early = _early(problem)
        natural = lambda x: problem.natural(back(x))
        log_prior = lambda x: problem.unknowns.log_prior_at(back(x))

        def once(i: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            particles, dead = carry
            walk = Walk(width * cooling ** i.astype(z.dtype), cooling, early)
            found, more = perturbed_pass(
                problem, particles, natural, log_prior, walk, jax.random.fold_in(for_passes, i)
            )
            return found, dead + more

        begin = jnp.broadcast_to(x, (likelihood.particles, x.size)), jnp.zeros((), int)
        particles, dead = jax.lax.fori_loop(0, self.iterations, once, begin)
        middle, root = _around(problem, particles, back, width * cooling ** self.iterations.astype(z.dtype))

        prior = lambda z: prior_slope_and_root(problem, z)
        value = lambda z, key: estimate(problem, z, key)
        peak = noisy_peak(value, prior, problem.coordinate_bounds(), middle, root, for_peak)
        mean, error = mean_estimate(problem, peak.z, for_value, self.repeats)
        return Settled(_end(problem, peak.z, mean, peak.rows, peak.found, self.iterations, dead), error)


def estimate(problem: Problem, z: Float[Array, " parameters"], key: PRNGKeyArray) -> Float[Array, ""]:
    """An estimate of the log likelihood with these random numbers, -inf where there is none."""
    found = with_fresh_key(problem, key).log_likelihood(problem.natural(z))[0]
    return jnp.where(jnp.isfinite(found), found, -jnp.inf)


def mean_estimate(problem: Problem, z: Array, key: PRNGKeyArray, repeats: int) -> tuple[Array, Array]:
    """The log likelihood by several filters, and the standard error of that."""
    return log_mean(jax.lax.map(lambda key: estimate(problem, z, key), jax.random.split(key, repeats)))


def log_mean(estimates: Float[Array, " repeats"]) -> tuple[Array, Array]:
    """The logarithm of the mean of likelihoods, from their logarithms, and its standard error to first order."""
    count, best = estimates.shape[0], jnp.max(estimates)
    parts = jnp.exp(estimates - jnp.where(jnp.isfinite(best), best, 0))
    mean = jnp.mean(parts)
    error = jnp.std(parts, ddof=1) / jnp.where(mean > 0, mean, 1) / count**0.5
    return best + jnp.log(jnp.where(mean > 0, mean, 1)), error


def _early(problem: Problem) -> Array:
    """Tell of each unknown whether it is part of initial states alone."""
    place, start, other = jnp.arange(problem.size), [], []
    for path, (index, constant) in problem.table.items():
        count = constant[0].size
        hits = ((index >= 0)[:, None] & (place[None] >= index[:, None]) & (place[None] < index[:, None] + count)).any(
            axis=0
        )
        (start if path.startswith("y0.") else other).append(hits)
    nothing = jnp.zeros((1, problem.size), bool)
    any_of = lambda found: jnp.concatenate([nothing, *(hits[None] for hits in found)]).any(axis=0)
    return any_of(start) & ~any_of(other)


def _around(problem: Problem, particles: Array, back: Any, width: Array) -> tuple[Array, Array]:
    """The mean of all particles and a guess of the root of the estimate's covariance, in the coordinates of the fit.

    Where walk and selection balance each other, particles with the covariance P of walks by W before each of n data lie around a
    maximum with the information n W P^-2.
    """
    mean = jnp.mean(particles, axis=0)
    apart = (particles - mean[None]) / width[None]
    values, vectors = eigenvalues(apart.T @ apart / particles.shape[0])
    data = jnp.maximum(sum(jnp.isfinite(x).any(axis=tuple(range(2, x.ndim))).sum() for x in problem.data.values()), 1)
    values = jnp.maximum(values, 1)
    wide = jnp.clip(values / jnp.sqrt(data.astype(mean.dtype)), jnp.sqrt(values), WIDEST * jnp.sqrt(values))
    z, slope = jax.jvp(back, (mean,), (jnp.ones_like(mean),))
    return z, (slope * width)[:, None] * vectors * wide[None]


def _end(
    problem: Problem, z: Array, value: Array, rows: Array, found: Array, iterations: Array, failures: Array
) -> End:
    """The end of a start at a place with this log likelihood and information."""
    penalty, _, curvature = prior_model(problem, z)
    nothing, good = jnp.zeros((), z.dtype), jnp.isfinite(value)
    model = LocalModel(
        jnp.where(good, penalty - value, jnp.inf),
        penalty,
        rows,
        jnp.zeros_like(z),
        jnp.zeros_like(z),
        curvature,
        nothing,
        nothing,
        good,
    )
    status = jnp.where(good, jnp.where(found, CONVERGED, LIMIT), FAILED)
    return End(z, model, status, iterations, failures)
