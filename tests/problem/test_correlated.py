"""Residuals correlated between outputs beside dense normal distributions, and Zellner's seemingly unrelated regressions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as stats

import simkit
from simkit import ArgumentError, Experiment, Free, Problem
from simkit.noise import Autocorrelated, Combined, Correlated, LogNormal, Normal, Poisson, StudentT
from simkit.odes import from_response
from simkit.study import study_from_text

LINES = from_response(
    lambda t, p: {"u": p["a"] + p["b"] * t, "v": 2 * p["a"] + 0 * t, "w": p["a"] + 0.1 * t, "x": p["b"] * t},
    {"a": 3.0, "b": 0.5},
)
FREE = {"a": Free(bounds=(0.1, 30.0)), "b": Free(bounds=(-3.0, 10.0), transform="linear")}
NOISE = {
    "u": Normal(0.7),
    "v": Correlated(Combined(0.3, 0.2), {"u": 0.6}),
    "w": Correlated(LogNormal(0.4), {"u": -0.3, "v": 0.1}),
    "x": Normal(0.5),
}
NUMBERS = {
    "noise.u.scale": 0.8,
    "noise.v.marginal.additive": 0.4,
    "noise.v.marginal.proportional": 0.25,
    "noise.v.correlations.u": 0.5,
    "noise.w.marginal.scale": 0.3,
    "noise.w.correlations.u": -0.2,
    "noise.w.correlations.v": 0.35,
}
BOUNDS = {name: Free(bounds=(-0.95, 0.95) if "correlations" in name else (0.01, 9.0)) for name in NUMBERS}


def dense(theta, t, error):
    """Means and covariance of (u, v, log w) at one time."""
    a, b, su, additive, proportional, uv, sw, uw, vw = theta
    scale = np.array([su * error, np.hypot(additive, proportional * 2 * a), sw])
    correlation = np.array([[1, uv, uw], [uv, 1, vw], [uw, vw, 1]])
    return np.array([a + b * t, 2 * a, np.log(a + 0.1 * t)]), correlation * scale[:, None] * scale


def made():
    rng = np.random.default_rng(1)
    experiments = []
    for name, times in (("one", np.arange(1.0, 9.0)), ("two", np.array([0.5, 2.5, 3.0]))):
        data = {k: np.exp(rng.normal(1.0, 0.4, times.size)) for k in "uvwx"}
        data["u"][1] = np.nan
        data["w"][:2] = np.nan
        experiments.append(Experiment(name, times, data, errors={"u": np.linspace(0.5, 2.0, times.size)}))
    return experiments, Problem(LINES, experiments, free=FREE | BOUNDS, noise=NOISE)


def rows(experiments):
    for e in experiments:
        for i, t in enumerate(e.times):
            y = np.array([e.data["u"][i], e.data["v"][i], np.log(e.data["w"][i])])
            yield t, e.errors["u"][i], y, e.data["x"][i]


THETA = np.array([2.9, 0.55, *NUMBERS.values()])


def test_density_is_that_of_a_dense_normal_distribution_of_what_was_seen():
    experiments, problem = made()
    expected = 0.0
    for t, error, y, x in rows(experiments):
        mean, covariance = dense(THETA, t, error)
        k = np.isfinite(y)
        expected += stats.multivariate_normal.logpdf(y[k], mean[k], covariance[np.ix_(k, k)])
        expected += stats.norm.logpdf(x, THETA[1] * t, 0.5) - (y[2] if k[2] else 0.0)  # the slope of the logarithm
    value, status = problem.log_likelihood(jnp.asarray(THETA))
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    assert not status.any()


def test_information_is_that_of_dense_normal_distributions():
    experiments, problem = made()
    expected = np.zeros((9, 9))
    for t, error, y, _ in rows(experiments):
        k = np.isfinite(y)
        steps = 1e-5 * np.eye(9)
        both = [[dense(THETA + sign * step, t, error) for sign in (1, -1)] for step in steps]
        mean = np.stack([(up[0] - down[0])[k] / 2e-5 for up, down in both], axis=1)
        covariances = [(up[1] - down[1])[np.ix_(k, k)] / 2e-5 for up, down in both]
        inverse = np.linalg.inv(dense(THETA, t, error)[1][np.ix_(k, k)])
        expected += mean.T @ inverse @ mean
        expected += [[0.5 * np.trace(inverse @ one @ inverse @ two) for two in covariances] for one in covariances]
        expected[1, 1] += (t / 0.5) ** 2
    np.testing.assert_allclose(problem.information(jnp.asarray(THETA)), expected, rtol=1e-6, atol=1e-6)


def test_draws_have_the_stated_correlations_and_scatter():
    """Of 8,000 draws each; Fisher's transformed correlations within 4.5 of their standard errors, one in 50,000 by chance."""
    _, problem = made()
    draw = jax.jit(lambda key: problem.likelihood.sample(key, jnp.asarray(THETA), problem.model, problem.dataset))
    found = jax.vmap(draw)(jax.random.split(jax.random.key(0), 8000))
    u, v, w = (np.asarray(found[name])[:, 0, 4] for name in "uvw")
    mean, covariance = dense(THETA, 5.0, np.linspace(0.5, 2.0, 8)[4])
    drawn = np.stack([u, v, np.log(w)])
    expected = covariance / np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    apart = np.arctanh(np.corrcoef(drawn) - np.eye(3)) - np.arctanh(expected - np.eye(3))
    assert np.abs(apart).max() * np.sqrt(8000 - 3) < 4.5
    assert np.abs(drawn.mean(axis=1) - mean).max() < 4.5 * np.sqrt(np.diag(covariance).max() / 8000)


# Gross investment, value of shares and capital of two firms, 1935 to 1954: Grunfeld's data as in Zellner (1962), JASA 57, 348.
ELECTRIC = np.fromstring(
    "33.1 1170.6 97.8 45.0 2015.8 104.4 77.2 2803.3 118.0 44.6 2039.7 156.2 48.1 2256.2 172.6 74.4 2132.2 186.6 113.0 1834.1 220.9 "
    "91.9 1588.0 287.8 61.3 1749.4 319.9 56.8 1687.2 321.3 93.6 2007.7 319.6 159.9 2208.3 346.0 147.2 1656.7 456.4 "
    "146.3 1604.4 543.4 98.3 1431.8 618.3 93.5 1610.5 647.4 135.2 1819.4 671.3 157.3 2079.7 726.1 179.5 2371.6 800.3 "
    "189.6 2759.9 888.9",
    sep=" ",
).reshape(20, 3)
WESTINGHOUSE = np.fromstring(
    "12.93 191.5 1.8 25.90 516.0 .8 35.05 729.0 7.4 22.89 560.4 18.1 18.84 519.9 23.5 28.57 628.5 26.5 48.51 537.1 36.2 "
    "43.34 561.2 60.8 37.02 617.2 84.4 37.81 626.7 91.2 39.27 737.2 92.4 53.46 760.5 86.0 55.56 581.4 111.1 49.56 662.3 130.6 "
    "32.04 583.8 141.8 32.24 635.2 136.7 54.38 723.8 129.7 71.78 864.1 145.5 90.08 1193.5 174.8 68.60 1188.9 213.5",
    sep=" ",
).reshape(20, 3)


def test_seemingly_unrelated_regressions_are_those_that_zellner_published():
    """With the covariance of the residuals of least squares: estimates and standard errors as printed by SAS' example."""
    known = jnp.concatenate([jnp.asarray(ELECTRIC[:, 1:]), jnp.asarray(WESTINGHOUSE[:, 1:])], axis=1)
    response = lambda t, p: {
        "electric": p["g"] + p["g_value"] * known[t.astype(int), 0] + p["g_capital"] * known[t.astype(int), 1],
        "westinghouse": p["w"] + p["w_value"] * known[t.astype(int), 2] + p["w_capital"] * known[t.astype(int), 3],
    }
    names = ("g", "g_value", "g_capital", "w", "w_value", "w_capital")
    lines = from_response(response, dict.fromkeys(names, 0.1))
    left = []
    for firm in (ELECTRIC, WESTINGHOUSE):
        design = np.column_stack([np.ones(20), firm[:, 1:]])
        left.append(firm[:, 0] - design @ np.linalg.lstsq(design, firm[:, 0], rcond=None)[0])
    covariance = np.inner(left, left) / 17
    np.testing.assert_allclose(covariance[0, 1], 207.5871, rtol=1e-6)  # published
    scale = np.sqrt(np.diag(covariance))
    problem = Problem(
        lines,
        Experiment("firms", np.arange(20.0), {"electric": ELECTRIC[:, 0], "westinghouse": WESTINGHOUSE[:, 0]}),
        free={name: Free(bounds=(-200.0, 200.0), transform="linear") for name in names},
        noise={
            "electric": Normal(scale[0]),
            "westinghouse": Correlated(Normal(scale[1]), {"electric": covariance[0, 1] / scale.prod()}),
        },
    )
    fit = simkit.fit(problem, starts=2)
    np.testing.assert_allclose(fit.estimate, [-27.71932, 0.038310, 0.139036, -1.25199, 0.057630, 0.063978], rtol=2e-5)
    errors = np.sqrt(np.diag(np.asarray(fit.covariance)))
    np.testing.assert_allclose(errors, [29.32122, 0.014415, 0.024986, 7.545217, 0.014546, 0.053041], rtol=5e-5)


def level(seed, correlation, **noise):
    """Two constants seen 40 times together."""
    rng = np.random.default_rng(seed)
    z = rng.multivariate_normal([0, 0], [[1, correlation], [correlation, 1]], 40)
    levels = from_response(lambda t, p: {"u": p["u"] + 0 * t, "v": p["v"] + 0 * t}, {"u": 4.0, "v": 3.0})
    data = {"u": 5 + z[:, 0], "v": 2 + 0.1 * z[:, 1]}
    free = {name: Free(bounds=(-20.0, 20.0), transform="linear") for name in "uv"} | noise.pop("free", {})
    return data, Problem(levels, Experiment("x", np.arange(40.0), data), free=free, noise=noise)


def test_a_free_correlation_is_that_of_the_sample_with_its_standard_error():
    """The maximum of a bivariate normal likelihood in closed form; the error is (1 - r^2) / sqrt(n), Anderson (2003), 4.2."""
    numbers = ("noise.u.scale", "noise.v.marginal.scale", "noise.v.correlations.u")
    bounds = ((0.01, 9.0), (0.001, 9.0), (-0.99, 0.99))
    free = {name: Free(bounds=ends) for name, ends in zip(numbers, bounds, strict=True)}
    data, problem = level(3, 0.7, u=Normal(1.0), v=Correlated(Normal(0.1), {"u": 0.0}), free=free)
    fit = simkit.fit(problem, starts=3)
    r = np.corrcoef(data["u"], data["v"])[0, 1]
    expected = [data["u"].mean(), data["v"].mean(), data["u"].std(), data["v"].std(), r]
    np.testing.assert_allclose(fit.estimate, expected, rtol=1e-5)
    np.testing.assert_allclose(np.sqrt(np.asarray(fit.covariance)[4, 4]), (1 - r**2) / np.sqrt(40), rtol=1e-4)
    assert not any("correlated" in said for said in fit.misfit)


def test_a_fit_says_that_residuals_of_two_outputs_are_correlated():
    """Told where they are; of 300 sets without correlation the p-values are even, those of one set that has it are small."""
    _, problem = level(3, 0.7, u=Normal(1.0), v=Normal(0.1))
    assert any("`u` and `v` at one time are correlated" in said for said in simkit.fit(problem, starts=1).misfit)
    from simkit.fitting._residuals import cross_findings

    rng, low = np.random.default_rng(0), 0
    for _ in range(300):
        z = rng.normal(size=(2, 1, 40))
        (finding,) = cross_findings(problem, {"u": z[0], "v": z[1]}, 0.0)
        low += finding.p < 0.1
    assert stats.binomtest(low, 300, 0.1).pvalue > 1e-3


TWICE = {"u": Correlated(Normal(), {"v": 0.1}), "v": Correlated(Normal(), {"u": 0.1})}


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        ({"u": Normal(), "v": Correlated(Normal(), {"v": 0.5})}, "a correlation with itself"),
        (TWICE, "twice"),
        ({"u": StudentT(), "v": Correlated(Normal(), {"u": 0.5})}, "StudentT is not normal"),
        ({"u": Autocorrelated(), "v": Correlated(Normal(), {"u": 0.5})}, "one of both"),
    ],
)
def test_impossible_pairs_are_refused_by_name(noise, message):
    with pytest.raises(ArgumentError, match=message):
        level(0, 0.0, **noise)


def test_a_correlation_with_what_has_no_data_is_refused():
    with pytest.raises(simkit.UnknownNameError, match="`nothing`"):
        level(0, 0.0, u=Normal(), v=Correlated(Normal(), {"nothing": 0.5}))


def test_impossible_numbers_are_refused_by_name():
    with pytest.raises(ArgumentError, match=r"between -1 and 1, but it is 1\.5"):
        Correlated(Normal(), {"u": 1.5})
    with pytest.raises(ArgumentError, match="must be `Normal`, `Combined` or `LogNormal`"):
        Correlated(Poisson(), {"u": 0.5})
    three = NOISE | {"v": Correlated(Normal(), {"u": 0.9}), "w": Correlated(Normal(), {"u": 0.9, "v": -0.9})}
    with pytest.raises(ArgumentError, match="not possible together"):
        Problem(LINES, Experiment("x", [1.0], {k: [1.0] for k in "uvwx"}), free=FREE, noise=three)
    below = Experiment("x", [1.0, 2.0], {"u": [1.0, 2.0], "v": [1.0, 2.0], "w": [1.0, -2.0]})
    with pytest.raises(ArgumentError, match="positive"):
        Problem(LINES, below, free=FREE, noise=NOISE)


def test_impossible_correlations_of_one_experiment_name_it():
    """Set by experiment; and data of several numbers a time for an output of one."""
    times, data = [1.0, 2.0], {k: [1.0, 2.0] for k in "uvwx"}
    noise = NOISE | {"v": Correlated(Normal(), {"u": 0.6}), "w": Correlated(Normal(), {"u": 0.6, "v": 0.6})}
    experiments = [
        Experiment("good", times, data),
        Experiment("bad", times, data, set={"noise.w.correlations.v": -0.9}),
    ]
    with pytest.raises(ArgumentError, match="in experiment `bad` are not possible together"):
        Problem(LINES, experiments, free=FREE, noise=noise)
    several = {k: np.ones((2, 3)) for k in "uvwx"}
    for given in (NOISE, NOISE | {"v": Normal(), "w": Autocorrelated()}):
        with pytest.raises(ArgumentError, match="must have the shape of the output"):
            Problem(LINES, Experiment("x", times, several), free=FREE, noise=given)


STUDY = """
[system]
model = "lotka_volterra"
[y0]
hare = 30.0
lynx = 5.0
[noise]
hare = { model = "log_normal", scale = 0.2 }
[noise.lynx]
model = "correlated"
marginal = { model = "log_normal", scale = 0.3 }
correlations = { hare = 0.3 }
[experiments.bay]
times = [1, 2, 3]
data = { hare = [30, 40, 50], lynx = [4.0, 6.1, 9.8] }
[free]
growth = { bounds = [0.1, 2.0] }
noise.lynx.correlations.hare = { bounds = [-0.9, 0.9] }
noise.lynx.marginal.scale = { bounds = [0.01, 3.0] }
"""


def test_a_study_states_correlations():
    problem = study_from_text(STUDY).problem()
    assert problem.names == ("growth", "noise.lynx.correlations.hare", "noise.lynx.marginal.scale")
    assert problem.unknowns.bounds[1].tolist() == [-0.9, 0.9]
    told = problem.base.noise["lynx"]
    assert [float(x) for x in (told.correlations["hare"], told.marginal.scale)] == [0.3, 0.3]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("correlations = { hare = 1.3 }", "between -1 and 1"),
        ("correlations = 0.5", "must be a table such as { hare = 0.5 }"),
        ('marginal = "normal"', "must be a table such as { model"),
        ('marginal = { model = "poisson" }\ncorrelations = { hare = 0.5 }', "LogNormal"),
        ('marginal = { model = "normal", size = 3.0 }', "size"),
    ],
)
def test_a_study_with_impossible_correlations_names_the_place(given, message):
    text = STUDY.replace('marginal = { model = "log_normal", scale = 0.3 }\ncorrelations = { hare = 0.3 }', given)
    with pytest.raises(simkit.SimkitError, match=message) as raised:
        study_from_text(text).problem()
    assert "noise.lynx" in str(raised.value)
