"""Models side by side: a straight line and a constant, with what is known of both in closed form."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.stats as stats

import simkit
from simkit import ArgumentError, Experiment, Free, Problem
from simkit.infer._compare import leave_one_out, pointwise
from simkit.noise import Normal
from simkit.odes import from_response

X = np.linspace(-1.0, 1.0, 12)
Y = 0.5 + 0.8 * X + 0.3 * np.random.default_rng(3).normal(size=X.size)
LINE = from_response(lambda x, p: p["a"] + p["b"] * x, {"a": 0.0, "b": 0.0})


def problem(*names):
    free = {name: Free(dist.Normal(0.0, 2.0)) for name in names}
    return Problem(LINE, Experiment("line", X, {"y": Y}), free=free, noise={"y": Normal(0.3)})


@pytest.mark.slow
def test_the_line_is_preferred_to_the_constant():
    method = simkit.TemperedSMC("random_walk", moves=20)
    models, evidence, elpd = {}, {}, {}
    for name, made, design in (
        ("line", problem("a", "b"), np.stack([np.ones_like(X), X], 1)),
        ("constant", problem("a"), np.ones((X.size, 1))),
    ):
        posterior = simkit.sample(made, method=method, key=jax.random.key(1), chains=2, draws=400)
        models[name] = (made, simkit.fit(made, starts=1), posterior)
        covariance = 0.09 * np.eye(X.size) + 4.0 * design @ design.T
        evidence[name] = stats.multivariate_normal(np.zeros(X.size), covariance).logpdf(Y)
        # The density of each datum given all others, of a normal vector.
        precision = np.linalg.inv(covariance)
        variance = 1 / np.diag(precision)
        elpd[name] = stats.norm(Y - variance * (precision @ Y), np.sqrt(variance)).logpdf(Y).sum()
    found = simkit.compare(models)
    for row in found.rows:
        assert abs(row["log_evidence"] - evidence[row["name"]]) < 0.4
        np.testing.assert_allclose(row["loo"], elpd[row["name"]], atol=0.3)
        assert row["aic"] == models[row["name"]][1].aic
    assert np.log(found.bayes_factor("line", "constant")) == pytest.approx(
        evidence["line"] - evidence["constant"], abs=0.6
    )
    text = repr(found)
    assert "bic: line, by" in text
    assert "Bayes factor" in text
    theta = np.asarray(models["line"][2].draws[1, 7])
    expected = stats.norm(theta[0] + theta[1] * X, 0.3).logpdf(Y)
    np.testing.assert_allclose(pointwise(models["line"][0], models["line"][2].draws)[1, 7], expected, rtol=1e-9)


def test_a_datum_that_no_parameter_touches_counts_as_itself():
    pytest.importorskip("arviz")
    varying = np.random.default_rng(0).normal(-1.0, 0.3, size=(2, 200, 5))
    elpd, _ = leave_one_out(varying)
    more, error = leave_one_out(np.concatenate([varying, np.full((2, 200, 1), -0.7)], axis=-1))
    assert more == pytest.approx(elpd - 0.7, abs=1e-12)
    assert 0 < error < 5
    assert leave_one_out(np.full((2, 10, 3), -0.5)) == (-1.5, 0.0)


def test_refusals():
    made = problem("a")
    fit = simkit.fit(made, starts=1)
    with pytest.raises(ArgumentError, match="a fit or a posterior must be known"):
        simkit.compare({"a": (made,)})
    with pytest.raises(ArgumentError, match="evidence of `one` is not known"):
        simkit.compare({"one": (fit,), "two": (fit,)}).bayes_factor("one", "two")
    other = simkit.fit(made.with_data({"y": Y[None] + 0.1}), starts=1)
    with pytest.raises(ArgumentError, match="their times or values differ"):
        simkit.compare({"one": fit, "two": other})
    assert simkit.compare({"one": [fit, made], "two": simkit.fit(problem("a", "b"), starts=1)}).rows
