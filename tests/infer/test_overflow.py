"""Chains beside a cliff so deep that squares of gradients overflow."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import simkit
from simkit import Experiment, Free, Problem
from simkit.problem import AbstractLikelihood


class Recursive(AbstractLikelihood):
    """An ARMA(1, 1) model: where the moving average exceeds 1, errors grow to 1e100 within the series."""

    series: jax.Array
    names: tuple[str, ...] = eqx.field(static=True, default=("phi", "theta", "sigma"))

    def log_prob(self, theta, model, data):
        phi, average, sigma = theta

        def step(carry, now):
            before, error = carry
            error = now - (phi * before + average * error)
            return (now, error), error

        errors = jax.lax.scan(step, (jnp.zeros(()), jnp.zeros(())), self.series)[1]
        return jnp.sum(dist.Normal(0.0, sigma).log_prob(errors))


def test_no_chain_jumps_off_a_cliff():
    """The energy of a jump was minus infinity, and it was taken; a chain of four did in each run of posteriordb's ARMA(1, 1)."""
    noise = 0.15 * np.random.default_rng(1).standard_normal(200)
    series = np.zeros(200)
    for t in range(1, 200):
        series[t] = 0.95 * series[t - 1] + noise[t]
    problem = Problem(
        simkit.odes.from_response(lambda x, p: 0.0 * x, {"phi": 0.0, "theta": 0.0, "sigma": 1.0}),
        Experiment("none", [0.0], {"y": [0.0]}),
        free={
            "phi": Free(dist.Normal(0.0, 2.0)),
            "theta": Free(dist.Normal(0.0, 2.0)),
            "sigma": Free(dist.HalfCauchy(2.5)),
        },
        likelihood=Recursive(jnp.asarray(series)),
    )
    fit = simkit.fit(problem, starts=4, key=jax.random.key(0))
    for seed in range(3):
        posterior = simkit.sample(problem, key=jax.random.key(seed), draws=50, warmup=100, start=fit)
        assert posterior.warnings == () or "Stuck" not in " ".join(posterior.warnings)
        assert float(posterior.log_density.min()) > -1e3
