import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as stats

import simkit
from simkit import viz
from simkit.fitting._residuals import quantile_residuals, scatter_finding, serial_findings
from simkit.infer._influence import in_numpy, influences, local_view
from simkit.problem._autocorrelated import Autocorrelated
from simkit.problem._contaminated import ContaminatedNormal
from simkit.problem._noise import (
    Combined,
    Laplace,
    LogLaplace,
    LogNormal,
    NegativeBinomial,
    Normal,
    Poisson,
    StudentT,
)

X = np.linspace(0.0, 4.0, 30)
LINE = simkit.odes.from_response(lambda x, p: p["a"] * x + p["b"], {"a": 5.0, "b": 1.0})
FREE = {"a": simkit.Free(bounds=(0.1, 20.0), transform="linear"), "b": simkit.Free(bounds=(-5.0, 5.0))}
GOOD = 5 * X + 1 + np.random.default_rng(3).normal(size=30)
BENT = X**2 + 3

MODELS = {
    "autocorrelated": Autocorrelated(0.6, 2.0, 0.3),
    "normal": Normal(0.7),
    "contaminated_normal": ContaminatedNormal(0.6, 0.1, 4.0),
    "combined": Combined(0.5, 0.2),
    "log_normal": LogNormal(0.4),
    "student_t": StudentT(0.6, 3.5),
    "laplace": Laplace(0.9),
    "log_laplace": LogLaplace(0.3),
    "poisson": Poisson(),
    "negative_binomial": NegativeBinomial(6.0),
}


def problem_of(data, noise, **more):
    return simkit.Problem(LINE, simkit.Experiment("line", X, {"y": data}), free=FREE | more, noise={"y": noise})


@pytest.mark.parametrize("name", list(MODELS))
def test_quantile_residuals_are_normal_whatever_the_noise_model(name):
    location = np.tile(np.array([0.5, 3.0, 40.0]), 20_000)
    value = np.asarray(MODELS[name].sample(jax.random.key(5), jnp.array(location)))
    z = quantile_residuals(jax.tree.map(np.asarray, MODELS[name]), value, location)
    assert stats.kstest(z, "norm").pvalue > 1e-4  # one in 10,000 by chance, of a fixed key
    assert np.isfinite(z).all()


def test_quantile_residuals_of_normal_data_are_standardised_residuals_far_out_too():
    z = quantile_residuals(Normal(np.float64(2.0)), np.array([41.0, -79.0, np.nan]), np.array([1.0, 1.0, 1.0]))
    np.testing.assert_allclose(z[:2], [20.0, -40.0], rtol=1e-9)
    assert np.isnan(z[2])


def test_p_values_are_uniform_where_the_model_holds():
    problem = simkit.Problem(
        LINE,
        [simkit.Experiment(name, X, {"y": GOOD}) for name in ("one", "two")],
        free=FREE,
        noise={"y": Normal(1.0)},
    )
    rng, found = np.random.default_rng(0), {}
    for _ in range(1500):
        z = {"y": rng.normal(size=(2, 30))}
        rows = [scatter_finding(["y"], z, 0.0), *serial_findings(problem, ("one", "two"), z, 0.0)]
        for row in rows:
            found.setdefault((row.test, row.where), []).append(row.p)
    assert len(found) == 7
    for (test, _), p in found.items():
        # 1,500 sets, binomial errors of 0.56 and 0.26 points. Runs come in steps, so that p-values are too large; the
        # autocorrelation's distribution is taken as normal, which for 30 data is right to half a point.
        assert np.mean(np.array(p) < 0.05) < 0.05 + 4 * 0.0056, test
        assert np.mean(np.array(p) < 0.05) > (0.015 if test == "runs" else 0.05 - 4 * 0.0056), test
        assert np.mean(np.array(p) < 0.01) < 0.01 + 4 * 0.0026, test


def test_a_wrong_model_raises_flags_in_the_text_of_a_fit():
    found = simkit.fit(problem_of(BENT, Normal(0.05)), starts=2)
    assert 200 < float(found.chi_squared) / 28 < 1000
    text = str(found)
    assert "times as far around the model as its noise says" in text
    assert "Residuals of `y` in `line` stay on one side of the model" in text
    rescaled = found.rescale_errors()
    assert len(rescaled.misfit) == 1
    assert "stay on one side" in rescaled.misfit[0]
    assert simkit.fit(problem_of(GOOD, Normal(1.0)), starts=2).misfit == ()
    assert "scatter only" in str(simkit.fit(problem_of(GOOD, Normal(20.0)), starts=2))
    outlying = GOOD + 12.0 * (np.arange(30) == 7)
    (said,) = simkit.fit(problem_of(outlying, Normal(2.0)), starts=2).misfit
    assert "The datum of `y` in `line` at 0.965517 lies" in said


def test_check_of_a_fit_and_its_figure():
    problem = problem_of(BENT, Normal(0.5))
    found = simkit.check(problem, simkit.fit(problem, starts=2), draws=50)
    failed = {row["test"] for row in found.table() if row["failed"]}
    assert {"runs", "autocorrelation", "predictive runs", "predictive autocorrelation"} <= failed
    part = found.residuals["y"]
    np.testing.assert_allclose(part.raw, 0.5 * part.standardised, rtol=1e-9)
    np.testing.assert_allclose(part.quantile, part.standardised, rtol=1e-6)
    assert part.times.shape == part.quantile.shape == (1, 30)
    text = str(found)
    assert text.splitlines()[0].startswith("Check: The data speak against the model: ")
    assert "would move by" in text
    assert "<table" in found._repr_html_()
    assert len(viz.plot_check(found).axes) == 4

    good = problem_of(GOOD, Normal(1.0))
    fitted = simkit.fit(good, starts=2)
    fine = simkit.check(good, fitted, draws=50)
    assert not any(row["failed"] for row in fine.table())
    assert fine.verdict.startswith(("None of", "No test speaks clearly"))
    assert fine.warnings == ()
    other = problem_of(GOOD, Normal(1.0), **{"noise.y.scale": simkit.Free(bounds=(0.1, 10.0))})
    with pytest.raises(simkit.ArgumentError, match="must belong to the problem"):
        simkit.check(other, fitted)


def test_check_of_a_posterior_finds_longer_tails():
    rng = np.random.default_rng(1)
    data = 5 * X + 1 + rng.standard_t(1.1, size=30)
    problem = problem_of(data, Normal(1.0))
    posterior = simkit.sample(problem, chains=2, draws=100, warmup=50, key=jax.random.key(0))
    found = simkit.check(problem, posterior, draws=60)
    failed = {row["test"] for row in found.table() if row["failed"]}
    assert {"chi-square", "predictive chi-square", "largest residual", "predictive largest"} <= failed
    assert any("times as far around the model" in text for text in found.warnings)


def test_a_datum_left_out_moves_the_estimates_as_a_fit_without_it():
    """For a linear model with normal noise one Gauss-Newton step is exact."""
    problem = problem_of(GOOD, Normal(1.0))
    whole = simkit.fit(problem, starts=2)
    part = influences(problem, in_numpy(problem, local_view(problem.lean(), whole.z)))["y"]
    for place in (0, 17, 29):
        data = GOOD.copy()
        data[place] = np.nan
        left = simkit.fit(problem_of(data, Normal(1.0)), starts=np.asarray(whole.estimate)[None])
        moved = (np.asarray(left.z) - np.asarray(whole.z)) / np.asarray(whole.standard_error)
        np.testing.assert_allclose(part.shift[0, place], moved, atol=1e-6)
    np.testing.assert_allclose(part.leverage.sum(), 2.0, rtol=1e-9)


def test_check_sees_noise_models_that_state_no_tails():
    class Own(simkit.noise.AbstractNoise):
        scale: simkit.Scalar = simkit.quantity(1.0, support=simkit.POSITIVE)
        domain = "real"

        def log_prob(self, value, location):
            return Normal(self.scale).log_prob(value, location)

        def sample(self, key, location):
            return Normal(self.scale).sample(key, location)

    problem, known = problem_of(GOOD, Own(1.0)), problem_of(GOOD, Normal(1.0))
    fitted = simkit.fit(known, starts=2)
    found = simkit.check(problem, fitted, draws=20).residuals["y"]
    exact = simkit.check(known, fitted, draws=20).residuals["y"]
    # 2,000 ranks: an error of sqrt(u (1 - u) / 2000) / phi(z), 0.03 in the middle and 0.09 two standard deviations out
    kept = np.abs(exact.quantile) < 2
    np.testing.assert_allclose(found.quantile[kept], exact.quantile[kept], atol=0.3)
    np.testing.assert_allclose(found.standardised, exact.standardised, rtol=0.1)


def test_residuals_that_alternate_raise_a_flag():
    data = 5 * X + 1 + 0.8 * (-1.0) ** np.arange(30) + 0.3 * np.random.default_rng(4).normal(size=30)
    problem = problem_of(data, Normal(1.0))
    found = simkit.check(problem, simkit.fit(problem, starts=2))
    assert {f.test for f in found.findings if f.failed} >= {"runs", "autocorrelation"}
    assert any("change sign at nearly every datum" in text for text in found.warnings)


def test_a_datum_that_alone_determines_a_parameter():
    system = simkit.odes.from_response(lambda x, p: {"u": p["a"] * x, "v": p["b"] * x}, {"a": 1.0, "b": 1.0})
    data = {"u": [1.0, 2.1, 3.0, 3.9], "v": [np.nan, np.nan, np.nan, 9.0]}
    problem = simkit.Problem(
        system,
        simkit.Experiment("e", [1.0, 2.0, 3.0, 4.0], data),
        free={name: simkit.Free(bounds=(0.01, 20.0)) for name in "ab"},
        noise={name: simkit.noise.Normal(0.1) for name in "uv"},
    )
    found = simkit.check(problem, simkit.fit(problem, starts=2))
    assert found.influence["v"].distance[0, 3] == np.inf
    assert np.isfinite(found.influence["u"].distance).all()
    first = found.most_influential()[0]
    assert (first["output"], first["parameter"], first["shift"]) == ("v", "b", np.inf)
    assert any("`v` in `e` at 4" in text and "`b` is not determined by the others" in text for text in found.warnings)
