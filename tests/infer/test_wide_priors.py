"""Priors that are wider than the posterior by many decades."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import simkit
from simkit import Experiment, Free, Problem


@pytest.mark.parametrize("width", [1e6, 1e9])
def test_chains_begin_where_the_fit_is(width):
    """Chains began as wide as a millionth of the prior: a straight line with flat priors had chains at densities of -1e9."""
    rng = np.random.default_rng(0)
    x = rng.uniform(58.0, 77.0, 400)
    y = 2.5 + 0.0255 * x + 0.39 * rng.standard_normal(400)
    line = simkit.odes.from_response(lambda x, p: p["a"] + p["b"] * x, {"a": 0.0, "b": 0.0})
    problem = Problem(
        line,
        Experiment("heights", x, {"y": y}),
        free={
            "a": Free(dist.Normal(0.0, width)),
            "b": Free(dist.Normal(0.0, width)),
            "noise.y.scale": Free(bounds=(1e-6, 1e6)),
        },
        noise={"y": simkit.noise.Normal(1.0)},
    )
    fit = simkit.fit(problem, starts=np.array([[2.5, 0.02, 0.4]]))
    posterior = simkit.sample(problem, key=jax.random.key(0), draws=100, warmup=100, start=fit)
    assert "Stuck" not in " ".join(posterior.warnings)
    # Least squares: the exact posterior means, and the standard deviation of the slope.
    design = np.stack([np.ones_like(x), x], axis=1)
    exact, left, _, _ = np.linalg.lstsq(design, y)
    spread = np.sqrt(left[0] / 398 * np.linalg.inv(design.T @ design)[1, 1])
    assert abs(float(posterior.flat()[:, 1].mean()) - exact[1]) < 0.25 * spread
    assert float(posterior.flat()[:, 1].std()) == pytest.approx(spread, rel=0.15)
