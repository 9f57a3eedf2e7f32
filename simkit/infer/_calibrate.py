"""calibrate: whether posteriors mean what they say, by simulation."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from .._errors import ArgumentError, SamplingError
from ..core import Status
from ..engine import note_trace, over_members
from ..problem import Problem
from ._nuts import NUTS, kernel_for
from ._target import Target, prior_draws, target_of

BINS = 10
LEAST = 20
"""So many simulations are needed before ranks tell anything."""


class Calibration(eqx.Module):
    """Ranks of the true values among posterior draws; uniform where inference is right.

    - `ranks`: shape `(simulation, parameter)`, from 0 to `draws`.
    - `used`: which simulations counted; those whose data or chain failed do not.
    """

    truths: Float[Array, "simulation parameter"]
    ranks: Int[Array, "simulation parameter"]
    used: Bool[Array, " simulation"]
    draws: int = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)

    def p_values(self) -> dict[str, float]:
        """For every parameter the probability of ranks at least this uneven if inference is right (chi-square, ten bins)."""
        from jax.scipy.special import gammaincc

        ranks = np.asarray(self.ranks)[np.asarray(self.used)]
        found = {}
        for i, name in enumerate(self.names):
            counts = np.histogram(ranks[:, i], bins=BINS, range=(-0.5, self.draws + 0.5))[0]
            expected = self._expected() * len(ranks)
            statistic = float(np.sum((counts - expected) ** 2 / expected))
            found[name] = float(gammaincc((BINS - 1) / 2, statistic / 2))
        return found

    def _expected(self) -> np.ndarray:
        """The share of the ranks 0 .. draws that falls in each bin."""
        return np.histogram(np.arange(self.draws + 1), bins=BINS, range=(-0.5, self.draws + 0.5))[0] / (self.draws + 1)

    def __repr__(self) -> str:
        if isinstance(self.ranks, Tracer):
            return f"Calibration(traced, parameters {self.names})"
        used, total = int(np.sum(self.used)), self.used.shape[0]
        lines = [
            f"Calibration: {used} of {total} simulations, ranks among {self.draws} draws; p-values of uniform ranks"
        ]
        for name, p in self.p_values().items():
            lines.append(f"  {name:<20} {p:.3f}" + ("  suspicious" if p < 0.01 / len(self.names) else ""))
        return "\n".join(lines)


def calibrate(
    problem: Problem,
    *,
    key: PRNGKeyArray,
    simulations: int = 100,
    draws: int = 49,
    thin: int = 5,
    warmup: int = 200,
    method: NUTS | None = None,
) -> Calibration:
    """Simulation-based calibration: true values from the prior, data from them, and the rank of each true value among draws of
    the posterior given those data, which is uniform exactly when prior, likelihood and sampler agree.

    The chains begin at the true values, which are draws of the posterior, so nothing depends on an optimiser.

    **Arguments:** `simulations` (100 find a gross error, 1000 a small one), `draws` kept a simulation (49 makes 50 ranks, in
    ten equal bins), `thin` (draws between those kept, so that they are nearly independent) and `warmup`.

    **Reference:** Talts et al. (2018), arXiv:1804.06788.
    """
    if simulations < LEAST:
        raise ArgumentError(
            f"Argument `simulations` must be at least {LEAST} for ranks to tell anything, but it is {simulations}."
        )
    target = target_of(problem)
    truth_key, run_key = jax.random.split(key)
    truths = prior_draws(problem, truth_key, simulations)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        keys = jax.random.split(run_key, simulations)
        ranks, used = _ranks(target, method or NUTS(), truths, keys, draws, thin, warmup)
    if int(jnp.sum(used)) < max(LEAST, simulations // 2):
        raise SamplingError(
            f"Only {int(jnp.sum(used))} of {simulations} simulations could be used: the priors reach where the model fails or the "
            "sampler diverges. Narrow the priors."
        )
    return Calibration(truths, ranks, used, draws, problem.names)


@eqx.filter_jit
def _ranks(
    target: Target, method: NUTS, truths: Array, keys: Array, draws: int, thin: int, warmup: int
) -> tuple[Array, Array]:
    note_trace(
        "calibrate",
        target.parts() | {"method": method, "simulations": truths, "draws": draws, "thin": thin, "warmup": warmup},
    )

    def one(target: Target, member: Any) -> tuple[Array, Array]:
        truth, key = member
        data_key, chain_key = jax.random.split(key)
        heads, status = target.problem.heads(truth)
        finite = jnp.stack([jnp.isfinite(location).all() for location, _ in heads.values()]).all()
        ok = jnp.all(status == Status.OK) & finite
        data = target.problem.simulate_data(truth, data_key)
        again = eqx.tree_at(lambda t: t.problem, target, target.problem.with_data(data))
        kernel = kernel_for(again, method, jnp.eye(truth.shape[0], dtype=truth.dtype))
        begin = again.coordinates.unconstrained(truth).astype(jnp.result_type(float))
        state = kernel.init(chain_key, warmup, init_params=begin)

        def step(state: Any, _: Any) -> Any:
            state = kernel.sample(state, (), {})
            return state, (again.coordinates.natural(state.z.astype(truth.dtype)), state.diverging)

        _, (theta, diverging) = jax.lax.scan(step, state, None, length=warmup + draws * thin)
        kept = theta[warmup + thin - 1 :: thin]
        moved = jnp.any(kept[1:] != kept[:-1])
        return jnp.sum(kept < truth, axis=0), ok & moved & (jnp.mean(diverging[warmup:]) < 0.2)

    return over_members(one, target, (truths, keys))
