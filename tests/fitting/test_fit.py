"""fit on problems with known answers."""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import simkit
from simkit import ArgumentError, Experiment, Free, Problem, SimulationError, cast
from simkit.fitting import FitResult, GaussNewton, fit
from simkit.noise import Normal, StudentT
from simkit.odes import from_response

ROOT = pathlib.Path(__file__).parents[2]

TIMES = np.linspace(0.0, 3.0, 13)
DECAY = from_response(lambda x, p: p["size"] * jnp.exp(-p["rate"] * x), {"size": 1.0, "rate": 1.0})
LINE = from_response(lambda x, p: p["intercept"] + p["slope"] * x, {"intercept": 0.0, "slope": 1.0})
# Fixed numbers that look like scatter, so that no random generator's version matters.
SCATTER = np.array([0.3, -0.1, 0.25, -0.4, 0.05, 0.2, -0.3, 0.1, -0.15, 0.35, -0.2, 0.0, -0.1])


def line_problem(*, scale=0.2, free_scale=False, y=None, priors=(None, None), starts=(0.0, 0.0)):
    y = 1.0 + 2.0 * TIMES + SCATTER if y is None else y
    free = {name: Free(prior, start=s) for name, prior, s in zip(("intercept", "slope"), priors, starts, strict=True)}
    if free_scale:
        free["noise.y.scale"] = Free(bounds=(1e-3, 10.0))
    return Problem(LINE, Experiment("line", TIMES, {"y": y}), free=free, noise={"y": Normal(scale)})


def decay_problem(y, *, free=None):
    free = free or {
        "size": Free(bounds=(0.1, 10.0), transform="log"),
        "rate": Free(bounds=(0.05, 5.0), transform="log"),
    }
    return Problem(DECAY, Experiment("decay", TIMES, {"y": y}), free=free, noise={"y": Normal(0.05)})


def design():
    return np.stack([np.ones_like(TIMES), TIMES], axis=1)


def test_linear_regression_is_exact():
    y = 1.0 + 2.0 * TIMES + SCATTER
    result = fit(line_problem(), starts=3)
    expected, *_ = np.linalg.lstsq(design(), y, rcond=None)
    covariance = 0.2**2 * np.linalg.inv(design().T @ design())
    # One QR of 13 rows: rounding only.
    np.testing.assert_allclose(result.estimate, expected, rtol=1e-12)
    np.testing.assert_allclose(result.covariance, covariance, rtol=1e-11)
    np.testing.assert_allclose(result.standard_error, np.sqrt(np.diag(covariance)), rtol=1e-11)
    residual = y - design() @ expected
    chi_squared = np.sum((residual / 0.2) ** 2)
    np.testing.assert_allclose(result.chi_squared, chi_squared, rtol=1e-12)
    log_likelihood = -0.5 * chi_squared - 13 * np.log(0.2 * np.sqrt(2 * np.pi))
    np.testing.assert_allclose(result.log_likelihood, log_likelihood, rtol=1e-12)
    assert result.agreeing() == 3
    assert (np.asarray(result.status) == 0).all()
    rescaled = result.rescale_errors()
    np.testing.assert_allclose(rescaled.covariance, covariance * chi_squared / 11, rtol=1e-11)
    correlation = covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1])
    np.testing.assert_allclose(result.correlation, [[1, correlation], [correlation, 1]], rtol=1e-11)
    lower, upper = np.asarray(result.interval(0.9)).T
    np.testing.assert_allclose(upper - lower, 2 * 1.6448536269514722 * np.sqrt(np.diag(covariance)), rtol=1e-10)
    assert result.identifiability() == []


def test_information_criteria():
    result = fit(line_problem(), starts=3)
    value = float(result.log_likelihood)
    assert result.aic == pytest.approx(4 - 2 * value)
    assert result.aicc == pytest.approx(4 - 2 * value + 12 / 10)
    assert result.bic == pytest.approx(2 * np.log(13) - 2 * value)


def test_normal_prior_gives_the_conjugate_posterior():
    result = fit(line_problem(priors=(dist.Normal(0.0, 0.1), dist.Normal(1.0, 0.5))), starts=4)
    precision = design().T @ design() / 0.2**2 + np.diag([0.1**-2, 0.5**-2])
    mean = np.linalg.solve(precision, design().T @ (1.0 + 2.0 * TIMES + SCATTER) / 0.2**2 + np.array([0, 1 / 0.5**2]))
    np.testing.assert_allclose(result.estimate, mean, rtol=1e-11)
    np.testing.assert_allclose(result.covariance, np.linalg.inv(precision), rtol=1e-10)


def test_noise_scale_is_estimated():
    result = fit(line_problem(free_scale=True), starts=6)
    expected, *_ = np.linalg.lstsq(design(), 1.0 + 2.0 * TIMES + SCATTER, rcond=None)
    spread = np.sqrt(np.mean((1.0 + 2.0 * TIMES + SCATTER - design() @ expected) ** 2))
    # Fisher scoring converges linearly to 1e-9 standard errors, here some 1e-10 of the values.
    np.testing.assert_allclose(result.estimate[:2], expected, rtol=1e-8)
    np.testing.assert_allclose(result.estimate[2], spread, rtol=1e-8)
    np.testing.assert_allclose(result.standard_error[2], spread / np.sqrt(2 * 13), rtol=1e-8)
    assert result.agreeing() == 6


def test_missing_values_are_as_if_not_there():
    y = 1.0 + 2.0 * TIMES + SCATTER
    holes = np.where(np.arange(13) % 3 == 1, np.nan, y)
    kept = np.isfinite(holes)
    expected, *_ = np.linalg.lstsq(design()[kept], y[kept], rcond=None)
    result = fit(line_problem(y=holes), starts=3)
    np.testing.assert_allclose(result.estimate, expected, rtol=1e-12)
    assert int(result.data_count) == kept.sum()


def test_solution_on_a_bound():
    y = 1.0 + 2.0 * TIMES + SCATTER
    free = {"intercept": Free(bounds=(-5.0, 0.5)), "slope": Free(bounds=(0.0, 10.0))}
    problem = Problem(LINE, Experiment("line", TIMES, {"y": y}), free=free, noise={"y": Normal(0.2)})
    result = fit(problem, starts=5)
    slope = np.sum(TIMES * (y - 0.5)) / np.sum(TIMES**2)
    # An iterate keeps 1e-10 from its bounds, four times that counts as on it.
    np.testing.assert_allclose(result.estimate, [0.5, slope], rtol=2e-9)
    assert result.agreeing() == 5
    assert (np.asarray(result.status) == 0).all()
    (sentence,) = result.identifiability()
    assert "`intercept` ended on its upper bound, 0.5" in sentence


def test_logarithmic_coordinates():
    y = 2.0 * np.exp(-0.7 * TIMES) + 0.05 * SCATTER
    moved = fit(decay_problem(y), starts=8)
    plain = {"size": Free(bounds=(0.1, 10.0)), "rate": Free(bounds=(0.05, 5.0))}
    straight = fit(decay_problem(y, free=plain), starts=8)
    assert moved.agreeing() == straight.agreeing() == 8
    np.testing.assert_allclose(moved.estimate, straight.estimate, rtol=1e-9)
    np.testing.assert_allclose(moved.z, np.log(moved.estimate), rtol=1e-12)
    np.testing.assert_allclose(moved.standard_error, straight.standard_error, rtol=1e-7)
    assert (np.asarray(moved.interval(0.999999)) > 0).all()


def test_experiments_share_parameters():
    """Two lines with one slope and an intercept each: ordinary least squares with an indicator column."""
    one, two = 1.0 + 2.0 * TIMES + SCATTER, -1.0 + 2.0 * TIMES[:9] - SCATTER[:9]
    experiments = [
        Experiment("one", TIMES, {"y": one}, set={"intercept": "first"}),
        Experiment("two", TIMES[:9], {"y": two}, set={"intercept": "second"}),
    ]
    free = {name: Free(bounds=(-9.0, 9.0)) for name in ("first", "slope", "second")}
    result = fit(Problem(LINE, experiments, free=free, noise={"y": Normal(0.2)}), starts=3)
    first = np.r_[np.ones(13), np.zeros(9)]
    matrix = np.stack([first, np.r_[TIMES, TIMES[:9]], 1 - first], axis=1)
    expected, *_ = np.linalg.lstsq(matrix, np.r_[one, two], rcond=None)
    np.testing.assert_allclose(result.estimate, expected, rtol=1e-11)


def test_outliers_pull_less_with_heavy_tails():
    """The Student t likelihood equation holds at the estimate: weighted least squares with the t weights."""
    y = 1.0 + 2.0 * TIMES + SCATTER + 8.0 * (np.arange(13) == 6)
    problem = Problem(
        LINE,
        Experiment("line", TIMES, {"y": y}),
        free={"intercept": Free(bounds=(-9.0, 9.0)), "slope": Free(bounds=(-9.0, 9.0))},
        noise={"y": StudentT(0.2, 4.0)},
    )
    result = fit(problem, starts=4)
    residual = y - design() @ np.asarray(result.estimate)
    weight = 5.0 / (4.0 + (residual / 0.2) ** 2)
    np.testing.assert_allclose(design().T @ (weight * residual), 0, atol=1e-8)
    assert abs(float(result.estimate[1]) - 2.0) < 0.1


def test_region_that_cannot_be_simulated():
    """log(rate - x) has no value for small rates: such trials shrink the step, such starts are drawn again."""
    system = from_response(lambda x, p: jnp.log(p["reach"] - x), {"reach": 10.0})
    problem = Problem(
        system,
        Experiment("part", TIMES, {"y": np.log(4.0 - TIMES)}),
        free={"reach": Free(bounds=(-20.0, 20.0), start=19.0)},
        noise={"y": Normal(0.1)},
    )
    result = fit(problem, starts=12)
    assert result.agreeing() == 12
    np.testing.assert_allclose(result.estimate, [4.0], rtol=1e-9)
    assert np.isfinite(np.asarray(result.thetas)).all()
    with pytest.raises(SimulationError, match=r"No simulation ended.*Horizons tried: 1 of"):
        fit(problem, starts=jnp.array([[1.0], [-3.0]]))


def test_unidentifiable_product_is_named():
    system = from_response(
        lambda x, p: p["yield_"] * p["dose"] * jnp.exp(-p["rate"] * x), {"yield_": 1.0, "dose": 1.0, "rate": 1.0}
    )
    free = {name: Free(bounds=(0.01, 100.0), transform="log") for name in ("yield_", "dose", "rate")}
    data = Experiment("decay", TIMES, {"y": 2.0 * np.exp(-0.7 * TIMES) + 0.05 * SCATTER})
    result = fit(Problem(system, data, free=free, noise={"y": Normal(0.05)}), starts=4)
    (sentence,) = result.identifiability()
    assert "do not constrain the ratio `yield_ / dose`" in sentence
    assert "determine only the product `yield_ * dose`" in sentence
    assert np.isinf(np.asarray(result.standard_error[:2])).all()
    assert np.isfinite(float(result.standard_error[2]))
    assert sentence in repr(result)
    prior = {**free, "dose": Free(dist.LogNormal(0.0, 0.1), bounds=(0.01, 100.0))}
    cured = fit(Problem(system, data, free=prior, noise={"y": Normal(0.05)}), starts=4)
    assert np.isfinite(np.asarray(cured.standard_error)).all()
    np.testing.assert_allclose(
        cured.estimate[0] * cured.estimate[1], result.estimate[0] * result.estimate[1], rtol=1e-6
    )


def test_unidentifiable_sum_and_blind_parameter_are_named():
    system = from_response(
        lambda x, p: p["left"] + p["right"] + 0 * p["idle"] * x, {"left": 1.0, "right": 1.0, "idle": 1.0}
    )
    free = {name: Free(bounds=(-9.0, 9.0)) for name in ("left", "right", "idle")}
    problem = Problem(system, Experiment("flat", TIMES, {"y": 3.0 + SCATTER}), free=free, noise={"y": Normal(0.2)})
    found = " ".join(fit(problem, starts=2).identifiability())
    assert "do not depend on `idle`" in found
    assert "do not constrain the difference `left - right`" in found


@pytest.mark.slow
def test_single_precision():
    # The likelihood in float32 resolves the minimum to about the root of its eps; Gauss-Newton steps go further, to some 1e-6.
    problem = cast(decay_problem(2.0 * np.exp(-0.7 * TIMES) + 0.05 * SCATTER), jnp.float32)
    result = fit(problem, starts=4)
    double = fit(decay_problem(2.0 * np.exp(-0.7 * TIMES) + 0.05 * SCATTER), starts=4)
    assert result.estimate.dtype == result.covariance.dtype == result.objective.dtype == jnp.float32
    np.testing.assert_allclose(result.estimate, double.estimate, rtol=1e-5)
    np.testing.assert_allclose(result.standard_error, double.standard_error, rtol=1e-4)
    assert result.agreeing() == 4


def test_other_data_of_the_same_shape_do_not_compile_again():
    traces = []

    def response(x, p):
        traces.append(None)
        return p["size"] * jnp.exp(-p["rate"] * x)

    system = from_response(response, {"size": 1.0, "rate": 1.0})

    def problem(y):
        free = {name: Free(bounds=(0.05, 10.0)) for name in ("size", "rate")}
        return Problem(system, Experiment("decay", TIMES, {"y": y}), free=free, noise={"y": Normal(0.05)})

    first = problem(2.0 * np.exp(-0.7 * TIMES))
    fit(first, starts=4)
    second, third = (
        problem(3.0 * np.exp(-0.5 * TIMES)),
        first.with_data({"y": jnp.asarray(3.0 * np.exp(-0.5 * TIMES))[None]}),
    )
    before = len(traces)
    for other in (second, third):
        result = fit(other, starts=4, key=jax.random.key(7))
        np.testing.assert_allclose(result.estimate, [3.0, 0.5], rtol=1e-8)
    fit(second, starts=4, method=GaussNewton(max_steps=7, tolerance=1e-3))
    assert len(traces) == before


def test_starts_are_given_drawn_and_kept():
    y = 2.0 * np.exp(-0.7 * TIMES)
    free = {"size": Free(bounds=(0.1, 10.0), start=2.5), "rate": Free(dist.LogNormal(0.0, 1.0), start=0.6)}
    untouched = fit(decay_problem(y, free=free), starts=5, method=GaussNewton(max_steps=1))
    assert (np.abs(np.asarray(untouched.thetas) - [2.5, 0.6]).max(axis=1) < 1e-12).sum() == 1
    assert (np.asarray(untouched.status) == 1).all()
    given = fit(decay_problem(y, free=free), starts=[[2.5, 0.6], [1.0, 1.0]], method=GaussNewton(max_steps=1))
    np.testing.assert_allclose(np.sort(np.asarray(given.thetas)[:, 0]), [1.0, 2.5])
    with pytest.raises(ArgumentError, match=r"start 0 has `rate` = -1"):
        fit(decay_problem(y, free=free), starts=[2.5, -1.0])
    with pytest.raises(ArgumentError, match=r"shape \(starts, 2\)"):
        fit(decay_problem(y, free=free), starts=[2.5])
    with pytest.raises(ArgumentError, match="`intercept` must have a prior"):
        fit(line_problem(starts=(None, None)))
    with pytest.raises(ArgumentError, match="horizons"):
        fit(simulated(), horizons=(0.5, 0.25))


def simulated():
    free = {"rate": Free(dist.LogNormal(0.0, 0.5))}
    data = Experiment("decay", [0.0, 1.0, 2.0], {"amount": [1.0, 0.6, 0.3]})
    system, y0, _, _ = simkit.odes.ExponentialDecay.example()
    return Problem(system, data, free=free, y0=y0, noise={"amount": Normal(0.1)}, step=0.1)


def test_result_prints_and_crosses_jit(capsys):
    result = fit(line_problem(), starts=3, progress=True)
    assert "data up to 100%" in capsys.readouterr().err
    text = repr(result)
    assert "intercept" in text
    assert "3 of 3 starts agree" in text
    assert [row["status"] for row in result.waterfall()] == ["converged"] * 3
    again = jax.jit(lambda r: r)(result)
    assert isinstance(again, FitResult)
    assert repr(again) == text


def test_screened_draws_find_the_best_of_many_optima():
    """A wave whose frequency has many local optima: few draws are near the best one, most of those that go on are."""
    wave = from_response(lambda x, p: jnp.sin(p["rate"] * x), {"rate": 1.0})
    data = Experiment("wave", TIMES, {"y": np.sin(5.0 * TIMES) + 0.1 * SCATTER})
    problem = Problem(wave, data, free={"rate": Free(bounds=(0.1, 12.0))}, noise={"y": Normal(0.05)})
    plain, screened = (fit(problem, starts=10, screen=screen, key=jax.random.key(3)) for screen in (1, 8))
    assert float(screened.estimate[0]) == pytest.approx(5.0, abs=0.05)
    assert int(screened.agreeing()) > int(plain.agreeing())
    assert len(screened.objective) == 10


@pytest.mark.parametrize(("screen", "starts"), [(0, 4), (True, 4), (3, np.zeros((2, 2)))])
def test_what_screen_cannot_be(screen, starts):
    with pytest.raises(ArgumentError, match="Argument `screen`"):
        fit(line_problem(), starts=starts, screen=screen)


@pytest.mark.slow
def test_starts_that_shorter_data_lead_astray_begin_again():
    """Half of these data leave the death of fleas open: where it ended there, no start could simulate the rest."""
    tables = simkit.io.read_table(
        ROOT / "data" / "tasks" / "pond.csv",
        {"time": "day", "algae": "algae_mg_per_l", "fleas": "fleas_per_l"},
        by="tank",
    )
    eaten = "grazing*algae*fleas/(half + algae)"
    names = {"growth": -0.5, "capacity": 2.2, "grazing": -2.3, "gain": 0.0, "death": -1.6, "half": 0.0}
    pond = simkit.from_equations(
        {"eaten": eaten, "d algae": "growth*algae*(1 - algae/capacity) - eaten", "d fleas": "gain*eaten - death*fleas"},
        parameters={name: simkit.quantity(np.exp(at), support=simkit.POSITIVE) for name, at in names.items()},
        name="Pond",
    )
    free = {name: Free(dist.LogNormal(at, 1.0 if name in ("growth", "death") else 1.5)) for name, at in names.items()}
    experiments = []
    for tank, table in tables.items():
        own = {f"y0.{name}": f"{name}_{tank}" for name in ("algae", "fleas")}
        free |= {name: Free(dist.LogNormal(0.7, 1.0)) for name in own.values()}
        data = {name: table[name] for name in ("algae", "fleas")}
        experiments.append(Experiment(tank, table["time"], data, set=own))
    problem = Problem(
        pond,
        experiments,
        y0=pond.State(algae=2.0, fleas=2.0),
        free=free | {"noise.algae.scale": Free(dist.LogNormal(-2.0, 1.0))},
        noise={"algae": simkit.noise.LogNormal(0.1), "fleas": simkit.noise.Poisson()},
    )
    found = simkit.fit(problem, starts=8)
    assert int(found.agreeing()) >= 4
    assert float(found.log_likelihood) > -94
