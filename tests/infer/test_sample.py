import warnings

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.stats as stats

import simkit
from simkit import ArgumentError, Experiment, Free, Problem
from simkit.infer import EnsembleSampler, LaplaceApproximation, Variational, calibrate, predict, prior_draws, sample
from simkit.infer import _nuts_run as run_module
from simkit.noise import Normal
from simkit.odes import from_function, from_response
from simkit.problem._information import Information
from simkit.problem._noise import AbstractNoise

# A straight line with known scatter and normal priors: the posterior is normal in closed form.
X = np.linspace(-1.0, 1.0, 12)
SCALE, PRIOR_SD = 0.3, 2.0
Y = 0.5 + 1.5 * X + SCALE * np.random.default_rng(3).normal(size=X.size)
DESIGN = np.stack([np.ones_like(X), X], 1)
PRECISION = DESIGN.T @ DESIGN / SCALE**2 + np.eye(2) / PRIOR_SD**2
COVARIANCE = np.linalg.inv(PRECISION)
MEAN = COVARIANCE @ DESIGN.T @ Y / SCALE**2
FREE = {"a": Free(dist.Normal(0.0, PRIOR_SD)), "b": Free(dist.Normal(0.0, PRIOR_SD))}
LINE = from_response(lambda x, p: p["a"] + p["b"] * x, {"a": 0.0, "b": 0.0})


def line_problem(**options):
    options = {"free": FREE, "noise": {"y": Normal(SCALE)}} | options
    return Problem(LINE, Experiment("line", X, {"y": Y}), **options)


def check_normal(posterior, slack=0.0):
    """Means within five Monte Carlo standard errors, standard deviations within five of theirs, sd / sqrt(2 ess)."""
    for i, row in enumerate(posterior.table()):
        sd = np.sqrt(COVARIANCE[i, i])
        ess = row["ess"]
        assert abs(row["mean"] - MEAN[i]) < 5 * sd / np.sqrt(ess) + slack * sd
        assert abs(row["sd"] - sd) < 5 * sd / np.sqrt(2 * ess) + slack * sd


@pytest.fixture(scope="module")
def fitted():
    problem = line_problem()
    return problem, simkit.fit(problem, key=jax.random.key(0), starts=4)


def test_nuts_draws_from_a_normal_posterior(fitted):
    problem, start = fitted
    posterior = sample(problem, start=start, key=jax.random.key(1), chains=4, draws=400, warmup=200)
    check_normal(posterior)
    assert posterior.draws.shape == (4, 400, 2)
    assert posterior.warnings == ()
    assert all(row["rhat"] < 1.02 for row in posterior.table())
    again = sample(problem, start=start, key=jax.random.key(1), chains=4, draws=400, warmup=200)
    np.testing.assert_array_equal(posterior.draws, again.draws)
    # the recorded density is that of the draws
    theta = posterior.draws[1, 7]
    np.testing.assert_allclose(posterior.log_density[1, 7], problem.log_posterior(theta), rtol=1e-9)


@pytest.mark.parametrize(
    ("method", "slack"),
    [
        (EnsembleSampler(), 0.0),
        (LaplaceApproximation(), 0.0),
        # stochastic optimisation stops some hundredths of a standard deviation from the optimum
        (Variational(steps=3000, learning_rate=0.003), 0.1),
    ],
)
def test_the_other_methods_agree(fitted, method, slack):
    problem, start = fitted
    posterior = sample(problem, method=method, start=start, key=jax.random.key(2), chains=4, draws=500, warmup=200)
    check_normal(posterior, slack)


def test_a_bounded_parameter_with_a_closed_form():
    """Poisson counts with a gamma prior: the posterior is gamma."""
    counts = np.array([3.0, 5.0, 2.0])
    model = from_response(lambda x, p: p["m"] + 0 * x, {"m": 1.0})
    free = {"m": Free(dist.Gamma(2.0, 0.5))}
    problem = Problem(
        model, Experiment("c", np.arange(3.0), {"y": counts}), free=free, noise={"y": simkit.noise.Poisson()}
    )
    posterior = sample(problem, key=jax.random.key(0), draws=500, warmup=200)
    exact = stats.gamma(2.0 + counts.sum(), scale=1 / (0.5 + 3))
    row = posterior.table()[0]
    assert abs(row["mean"] - exact.mean()) < 5 * exact.std() / np.sqrt(row["ess"])
    assert abs(row["sd"] / exact.std() - 1) < 5 * np.sqrt(
        1 / row["ess"]
    )  # heavier than normal: a little more than 1 / sqrt(2 n)
    assert float(posterior.draws.min()) > 0


def test_a_chain_in_a_poor_mode_is_started_again(monkeypatch):
    model = from_response(lambda x, p: p["a"] ** 2 + 0 * x, {"a": 1.0})
    free = {"a": Free(dist.Normal(1.5, 0.25))}
    problem = Problem(
        model, Experiment("s", np.arange(5.0), {"y": np.full(5, 4.0)}), free=free, noise={"y": Normal(0.1)}
    )
    start = simkit.fit(problem, key=jax.random.key(0), starts=jnp.array([[2.0]]))

    def places(*values: float):
        spread = np.full((4, 1, 1), 1e-3)
        begin = lambda run, modes, mode, frame, key: run.looked_at(frame, spread, np.array(values)[:, None])
        monkeypatch.setattr(run_module, "_first_places", begin)

    places(2.0, 2.0, -2.0, 2.0)
    posterior = sample(problem, start=start, key=jax.random.key(0), draws=200, warmup=100)
    assert float(posterior.draws.min()) > 0
    assert any("chain 3" in text and "started again" in text for text in posterior.warnings)
    places(2.0, 2.0, -2.0, -2.0)
    monkeypatch.setattr(run_module, "RESTARTS", 0)
    with pytest.raises(simkit.SamplingError, match=r"chain 3.*chain 4.*must not be averaged"):
        sample(problem, start=start, key=jax.random.key(0), draws=200, warmup=100)


def test_failed_simulations_do_not_stop_the_sampler():
    """y' = k y^2 has no solution at t = 1 for k > 1, which the prior reaches."""
    system = from_function(lambda t, y, p: {"a": p["k"] * y["a"] ** 2}, {"k": 0.5})
    experiment = Experiment("g", [0.5, 1.0], {"a": [1.6, 5.0]}, start=0.0)
    free = {"k": Free(dist.LogNormal(-0.3, 0.5))}
    problem = Problem(
        system,
        experiment,
        y0={"a": 1.0},
        free=free,
        noise={"a": simkit.noise.Normal(0.5)},
        step=0.02,
    )
    assert problem.log_likelihood(jnp.array([1.5]))[0] == -jnp.inf
    posterior = sample(problem, key=jax.random.key(0), draws=150, warmup=150, chains=2)
    assert bool(jnp.all(jnp.isfinite(posterior.draws)))
    assert bool(jnp.all(jnp.isfinite(posterior.log_density)))
    assert float(posterior.draws.max()) < 1.0


def test_float32(fitted):
    problem, start = simkit.cast(fitted, jnp.float32)
    posterior = sample(problem, start=start, key=jax.random.key(1), draws=300, warmup=200)
    assert posterior.draws.dtype == jnp.float32
    check_normal(posterior, slack=0.05)  # float32 energies blur the acceptance a little


def test_predictive_bands_are_those_of_the_normal(fitted):
    problem, start = fitted
    posterior = sample(problem, method=LaplaceApproximation(), start=start, key=jax.random.key(2), draws=1000)
    at = np.array([0.0, 3.0])
    prediction = predict(problem, posterior, at, key=jax.random.key(3), count=4000)
    design = np.stack([np.ones_like(at), at], 1)
    mean, variance = design @ MEAN, np.einsum("ij,jk,ik->i", design, COVARIANCE, design)
    for noisy, total in ((False, variance), (True, variance + SCALE**2)):
        lower, middle, upper = (x[0] for x in prediction.band("y", 0.9, noisy))
        sd = np.sqrt(total)
        # quantiles of 4000 draws: standard error of the 5 % point is 2.1 sd / sqrt(n), of the median 1.25 sd / sqrt(n)
        np.testing.assert_allclose(middle, mean, atol=5 * 1.25 * sd.max() / np.sqrt(4000))
        np.testing.assert_allclose(upper, mean + 1.6449 * sd, atol=5 * 2.1 * sd.max() / np.sqrt(4000))
        np.testing.assert_allclose(lower, mean - 1.6449 * sd, atol=5 * 2.1 * sd.max() / np.sqrt(4000))
    assert "y at 2 times" in repr(prediction)


def test_prior_draws_respect_priors_and_bounds():
    free = {"a": Free(dist.Normal(0.0, 1.0), bounds=(0.5, 1.0)), "b": Free(bounds=(-1.0, 1.0))}
    draws = np.asarray(prior_draws(line_problem(free=free), jax.random.key(0), 2000))
    assert draws[:, 0].min() >= 0.5
    assert draws[:, 0].max() <= 1.0
    inside = stats.truncnorm(0.5, 1.0)
    assert stats.kstest(draws[:, 0], inside.cdf).pvalue > 1e-4
    assert stats.kstest(draws[:, 1], stats.uniform(-1, 2).cdf).pvalue > 1e-4


class Boastful(AbstractNoise):
    """Says that data scatter half as much as they do."""

    scale: simkit.Scalar = simkit.quantity(1.0)
    domain = "real"

    def log_prob(self, value, location):
        return Normal(0.5 * self.scale).log_prob(value, location)

    def information(self, location):
        return Information.diagonal(4 * self.scale**-2 + 0 * location, 2 * self.scale**-2)

    def sample(self, key, location):
        return Normal(self.scale).sample(key, location)


@pytest.mark.slow
def test_calibration_accepts_the_right_and_rejects_the_wrong_likelihood():
    options = {"key": jax.random.key(0), "simulations": 200, "draws": 19, "thin": 3, "warmup": 100}
    with pytest.raises(simkit.ArgumentError, match="at least 20"):
        calibrate(line_problem(), **options | {"simulations": 10})
    right = calibrate(line_problem(), **options)
    assert min(right.p_values().values()) > 1e-3  # fails by chance once in 500 keys; the key is fixed
    wrong = calibrate(line_problem(noise={"y": Boastful(SCALE)}), **options)
    assert max(wrong.p_values().values()) < 1e-4
    assert "suspicious" in repr(wrong)


def test_arviz_holds_chains_and_draws(fitted):
    problem, start = fitted
    posterior = sample(problem, method=LaplaceApproximation(), start=start, key=jax.random.key(2), chains=2, draws=50)
    tree = posterior.to_arviz()
    np.testing.assert_array_equal(np.asarray(tree["posterior"]["a"]), posterior.draws[..., 0])
    assert tree["sample_stats"]["diverging"].dims == ("chain", "draw")


def test_bad_arguments(fitted):
    problem, start = fitted
    with pytest.raises(simkit.ArgumentError, match="prior or two finite bounds for `a`"):
        sample(line_problem(free={"a": Free()}), key=jax.random.key(0))
    with pytest.raises(simkit.ArgumentError, match="`draws` must be a positive integer"):
        sample(problem, start=start, key=jax.random.key(0), draws=0)
    with pytest.raises(simkit.ArgumentError, match="fit of the same problem"):
        sample(line_problem(free={"b": FREE["b"]}), start=start, key=jax.random.key(0))
    with pytest.raises(simkit.ArgumentError, match="must have the shape"):
        predict(problem, np.ones((3, 5)))
    with pytest.raises(simkit.UnknownNameError, match="no predicted output `z`"):
        predict(problem, np.ones((3, 2))).band("z")


@pytest.mark.parametrize("unit", [1.0, 1e-12])
def test_parameters_without_bounds_in_any_unit(unit):
    """The adaptation of the mass matrix knows no size of its own: widths in closed form, of a line with normal priors."""
    x = np.array([1.0, 2.0, 3.0, 4.0])
    line = simkit.odes.from_response(lambda x, p: p["a"] / unit * x + p["b"], {"a": unit, "b": 1.0})
    problem = simkit.Problem(
        line,
        simkit.Experiment("e", x, {"y": [3.1, 4.9, 7.0, 9.0]}),
        free={"a": simkit.Free(dist.Normal(0.0, 5 * unit)), "b": simkit.Free(dist.Normal(0.0, 5.0))},
        noise={"y": simkit.noise.Normal(0.1)},
    )
    posterior = simkit.sample(problem, key=jax.random.key(0), chains=4, warmup=200, draws=300)
    assert posterior.warnings == ()
    design = np.stack([x, np.ones(4)], axis=1)
    widths = np.sqrt(np.diag(np.linalg.inv(design.T @ design / 0.1**2 + np.eye(2) / 25.0)))
    # 1,200 draws count as some 500: widths within 3.2 %, five of which are 16 %.
    np.testing.assert_allclose(np.asarray(posterior.flat()).std(axis=0) / [unit, 1.0], widths, rtol=0.16)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_depth": -1}, "`max_depth` of `NUTS` must be a positive integer, but it is -1"),
        ({"block": 0}, "`block` of `NUTS` must be a positive integer"),
        ({"target_accept": 1.0}, "between 0 and 1"),
        ({"target_accept": float("nan")}, "between 0 and 1"),
    ],
)
def test_what_nuts_cannot_be_asked_for(options, words):
    with pytest.raises(ArgumentError, match=words):
        simkit.infer.NUTS(**options)


def test_blocks_leave_no_trace(fitted):
    """Draws do not depend on how many go together, nor on the windows that cut them."""
    problem, start = fitted
    ask = {"start": start, "chains": 2, "draws": 60, "warmup": 40, "key": jax.random.key(3)}
    one, other = (sample(problem, method=simkit.infer.NUTS(block=block), **ask) for block in (50, 7))
    np.testing.assert_array_equal(one.draws, other.draws)


def test_one_draw_tells_nothing(fitted):
    problem, start = fitted
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        posterior = sample(problem, start=start, chains=1, draws=1, warmup=5, key=jax.random.key(0))
        assert "Fewer than 4 draws" in repr(posterior)
