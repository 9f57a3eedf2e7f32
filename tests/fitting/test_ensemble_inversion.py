"""Ensemble Kalman inversion against the closed form of linear problems, and where simulations fail or have no derivative."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import simkit
from simkit import ArgumentError, EnsembleKalmanInversion, Experiment, Free, Problem, SimulationError
from simkit.fitting._starts import drawn_starts
from simkit.noise import LogNormal, Normal, StudentT

X = np.linspace(0.0, 2.0, 12)
DESIGN = np.stack([np.ones(12), X, np.sin(3 * X)], axis=1)
VALUES = DESIGN @ np.array([1.0, -0.5, 2.0]) + 0.3 * np.random.default_rng(0).normal(size=12)
SCALES, MEANS = np.array([2.0, 1.0, 3.0]), np.array([0.5, 0.0, 1.0])


def line(response, **given):
    system = simkit.odes.from_response(response, {"a": 1.0, "b": 1.0, "c": 1.0})
    data = given.pop("data", VALUES)
    free = {name: Free(dist.Normal(m, s)) for name, m, s in zip("abc", MEANS, SCALES, strict=True)}
    return Problem(system, Experiment("line", X, {"y": data}), **({"free": free, "noise": {"y": Normal(0.3)}} | given))


def linear(x, p):
    return p["a"] + p["b"] * x + p["c"] * jnp.sin(3 * x)


def posterior(mean, covariance):
    precision = np.linalg.inv(covariance) + DESIGN.T @ DESIGN / 0.09
    wide = np.linalg.inv(precision)
    return wide @ (np.linalg.solve(covariance, mean) + DESIGN.T @ VALUES / 0.09), wide


def test_a_linear_problem_is_the_closed_form():
    """Exactly, for the sample moments of the first members; near to that of the prior itself, by how far those are off."""
    problem, key, count = line(linear), jax.random.key(1), 500
    fit = simkit.fit(problem, method=EnsembleKalmanInversion(count), key=key)
    first = np.asarray(drawn_starts(problem.lean(), jax.random.split(key)[0], count))
    mean, covariance = posterior(first.mean(axis=0), np.cov(first.T))
    # Rounding: the weights of data are 1e2 times those of priors.
    np.testing.assert_allclose(fit.estimate, mean, rtol=1e-9)
    np.testing.assert_allclose(np.cov(np.asarray(fit.members).T), covariance, rtol=1e-7, atol=1e-12)
    best, wide = posterior(MEANS, np.diag(SCALES**2))
    # What the sample of priors is off by: S = wide P0^-1 turns an error of the prior's mean into one of the posterior's; that of
    # the covariance, of relative size sqrt(2 / N), acts on P0^-1 (m0 - best) and is counted at its largest, in all directions.
    turned = wide / SCALES**2
    error = np.sqrt((turned**2 @ SCALES**2 + (np.abs(turned) @ (np.abs(MEANS - best) * np.sqrt(2))) ** 2) / count)
    assert (np.abs(np.asarray(fit.estimate) - best) < 4 * error).all()
    assert fit.reached == 1
    assert len(fit.misfits) > 3
    assert fit.failures == 0
    np.testing.assert_allclose(fit.standard_error("b"), np.sqrt(covariance[1, 1]), rtol=1e-7)
    low, high = np.asarray(fit.interval("b"))
    # Quantiles of 500 numbers: 1.645 deviations to some 0.1.
    assert abs((high - low) / (2 * 1.645 * float(fit.standard_error("b"))) - 1) < 0.2
    assert "500 members, 3 unknowns, 12 data" in repr(fit)
    drawn = simkit.predict(problem, fit.members, X, key=jax.random.key(0))
    assert drawn is not None


def test_missing_data_and_failures_without_derivatives():
    """Rounded outputs, which have no derivatives; simulations that fail for a part of the members; bounds in place of a prior."""

    def rounded(x, p):
        found = jnp.round(linear(x, p) * 1e6) / 1e6
        return jnp.where(p["a"] > 3.5, jnp.nan, found)

    values = VALUES.copy()
    values[4] = np.nan
    free = {"a": Free(bounds=(-6.0, 6.0)), "b": Free(dist.Normal(0.0, 1.0)), "c": Free(dist.Normal(1.0, 3.0))}
    problem = line(rounded, data=values, free=free)
    fit = simkit.fit(problem, method=EnsembleKalmanInversion(200), key=jax.random.key(2))
    assert 10 < fit.failures < 100
    seen = np.isfinite(values)
    precision = np.diag([0.0, 1.0, 1 / 9]) + DESIGN[seen].T @ DESIGN[seen] / 0.09
    best = np.linalg.solve(precision, DESIGN[seen].T @ values[seen] / 0.09 + np.array([0.0, 0.0, 1 / 9]))
    width = np.sqrt(np.diag(np.linalg.inv(precision)))
    # The normal score bends little over the posterior, a fortieth of the width between the bounds.
    assert (np.abs(np.asarray(fit.estimate) - best) < 0.2 * width).all()
    spread = np.asarray([float(fit.standard_error(name)) for name in "abc"])
    np.testing.assert_allclose(spread, width, rtol=0.2)


def test_more_unknowns_than_members_are_told():
    size = 150
    system = simkit.odes.from_response(lambda x, p: p["w"][0] * x, {"w": np.zeros(size)})
    problem = Problem(
        system,
        Experiment("line", [1.0, 2.0], {"y": [1.0, 2.0]}),
        free={"w": Free(dist.Normal(0.0, 1.0))},
        noise={"y": LogNormal(0.1)},
    )
    text = "no more members than unknowns"
    assert text in repr(simkit.fit(problem, method=EnsembleKalmanInversion(20)))


def test_what_inversion_refuses():
    method = EnsembleKalmanInversion(20)
    free = {"a": Free(bounds=(-6.0, 6.0))}
    for call, text in (
        (lambda: EnsembleKalmanInversion(2), "`members` must be a whole number of at least 3"),
        (lambda: EnsembleKalmanInversion(max_steps=0), "`max_steps` must be"),
        (lambda: simkit.fit(line(linear), method=method, starts=np.ones((1, 3))), "`starts` must be left out"),
        (lambda: simkit.fit(line(linear), method=method, windows=3), "`windows` does not go with"),
        (lambda: simkit.fit(line(linear, noise={"y": StudentT(0.1)}), method=method), "but `y` has StudentT"),
        (
            lambda: simkit.fit(line(linear, free=free | {"noise.y.scale": Free(bounds=(0.1, 1.0))}), method=method),
            "`noise.y.scale` is free",
        ),
    ):
        with pytest.raises(ArgumentError, match=text):
            call()
    with pytest.raises(SimulationError, match="Fewer than three of 20 draws"):
        simkit.fit(line(lambda x, p: jnp.nan * linear(x, p)), method=method)
