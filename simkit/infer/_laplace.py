"""Normal approximations of the posterior: from the fit's covariance, or by variational inference."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
import optax
from jaxtyping import Array, Float, PRNGKeyArray, PyTree
from numpyro.infer import SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoMultivariateNormal

from .._doors import check_count, shown
from .._errors import ArgumentError
from ..engine import awaited, note_trace
from ._modes import Modes, describe_modes
from ._posterior import Posterior
from ._target import Target


class LaplaceApproximation(eqx.Module):
    """A normal distribution around the fit's optimum with its covariance, in unconstrained coordinates. Instant, and exact
    for a posterior that is normal there."""


class Variational(eqx.Module):
    """Stochastic variational inference through NumPyro: the normal distribution, with full covariance in unconstrained
    coordinates, that is closest to the posterior in the sense of Kullback and Leibler.

    **Arguments:** `steps` of the Adam optimiser, its `learning_rate`, and `particles` (draws per estimate of the objective).

    **Reference:** Kucukelbir et al. (2017), Journal of Machine Learning Research 18:14.
    """

    steps: int = eqx.field(static=True, default=2000)
    learning_rate: float = eqx.field(static=True, default=0.01)
    particles: int = eqx.field(static=True, default=4)

    def __check_init__(self) -> None:
        for name in ("steps", "particles"):
            check_count(name, getattr(self, name))
        rate = self.learning_rate
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate < math.inf:
            raise ArgumentError(
                f"Argument `learning_rate` must be a positive number, such as 0.01, but it is {shown(rate)}."
            )


def sample_laplace(
    target: Target,
    method: LaplaceApproximation,
    modes: Modes,
    chains: int,
    draws: int,
    key: PRNGKeyArray,
) -> Posterior:
    """Independent draws of the normal approximation: of several modes each in proportion to its mass."""
    warnings: tuple[str, ...] = ()
    us = jnp.asarray(_normal(key, modes, 0, (chains, draws)))
    if len(modes.shares) > 1:
        picked = jax.random.choice(
            jax.random.fold_in(key, 0), len(modes.shares), (chains, draws), p=jnp.asarray(modes.shares)
        )
        for k in range(1, len(modes.shares)):
            us = jnp.where((picked == k)[..., None], _normal(jax.random.fold_in(key, k), modes, k, (chains, draws)), us)
        warnings = (
            f"A mixture of {len(modes.shares)} normal distributions, one for each mode, weighted by Laplace's approximation.",
        )
    return _as_posterior(target, us, "Laplace approximation", warnings)


def _normal(key: PRNGKeyArray, modes: Modes, k: int, shape: tuple[int, ...]) -> Array:
    center, covariance = jnp.asarray(modes.centers[k]), jnp.asarray(modes.covariances[k])
    return jax.random.multivariate_normal(key, center, covariance, shape).astype(center.dtype)


def sample_variational(
    target: Target, method: Variational, modes: Modes, chains: int, draws: int, key: PRNGKeyArray
) -> Posterior:
    """Independent draws of the fitted normal distribution. The optimiser moves in the coordinates that the Laplace
    approximation whitens, so that one learning rate serves every problem."""
    center, root = jnp.asarray(modes.centers[0]), jnp.asarray(modes.roots()[0])
    fit, draw = jax.random.split(key)
    guide = _fit_guide(target, method, center, root, fit, draw, chains * draws)
    white, losses = awaited(guide, "sample", f"in {method.steps} steps of variational inference")
    us = (center + white @ root.T).reshape(chains, draws, -1)
    tail = losses[-max(10, method.steps // 10) :]
    drift = float(jnp.mean(tail[: tail.size // 2]) - jnp.mean(tail[tail.size // 2 :]))
    noise = float(jnp.std(tail)) / max(1, tail.size // 2) ** 0.5
    warnings: tuple[str, ...] = (
        "A normal approximation: its tails and correlations are not checked by any diagnostic here.",
        *describe_modes(modes, chains, None),
    )
    if not bool(jnp.all(jnp.isfinite(tail))) or drift > max(0.05, 4 * noise):
        warnings += (f"The objective was still falling, by {drift:.2g} over the last steps: raise `steps`.",)
    return _as_posterior(target, us, "variational inference", warnings)


@eqx.filter_jit
def _fit_guide(
    target: Target, method: Variational, center: Array, root: Array, fit: PRNGKeyArray, draw: PRNGKeyArray, count: int
) -> tuple[Float[Array, "draws parameters"], Float[Array, " steps"]]:
    note_trace("sample", target.parts() | {"method": method, "draws": count})
    size = center.shape[0]

    def model() -> None:
        flat = dist.ImproperUniform(dist.constraints.real_vector, (), (size,))
        white = numpyro.sample("white", flat)
        density = target.log_density(center + root @ white)
        # A failed simulation must repel the guide and keep its gradient finite.
        numpyro.factor("posterior", jnp.where(jnp.isfinite(density), density, -1e6))

    guide = AutoMultivariateNormal(
        model, init_loc_fn=numpyro.infer.init_to_value(values={"white": jnp.zeros(size)}), init_scale=0.8
    )
    svi = SVI(model, guide, optax.adam(method.learning_rate), Trace_ELBO(num_particles=method.particles))
    state = svi.init(fit)

    def one(state: PyTree, _: None):
        return svi.update(state)

    state, losses = jax.lax.scan(one, state, None, length=method.steps)
    draws = guide.sample_posterior(draw, svi.get_params(state), sample_shape=(count,))
    return draws["white"], losses


def _as_posterior(target: Target, us: Array, method: str, warnings: tuple[str, ...]) -> Posterior:
    theta = jax.vmap(jax.vmap(target.coordinates.natural))(us)
    density = _natural_density(target, us.reshape(-1, us.shape[-1])).reshape(us.shape[:2])
    none = jnp.zeros(us.shape[:2], bool)
    zeros = jnp.zeros(us.shape[:2], int)
    problem = target.problem
    units = problem.units
    return Posterior(theta, density, none, zeros, jnp.zeros_like(density), problem.names, units, method, warnings)


@eqx.filter_jit
def _natural_density(target: Target, us: Array) -> Array:
    note_trace("sample, densities", target.parts() | {"draws": us})
    return jax.lax.map(lambda u: target.log_density(u) - target.coordinates.log_volume(u), us)
