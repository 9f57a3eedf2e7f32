"""Several modes: chains begin in all of them, and warnings say what their draws mean."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import simkit
from simkit import Experiment, Free, Problem
from simkit.infer import EnsembleSampler, LaplaceApproximation, calibrate, sample
from simkit.infer._modes import Modes, describe_modes
from simkit.noise import Normal, Poisson
from simkit.odes import from_response

X = np.linspace(1.0, 2.0, 10)
SQUARE = from_response(lambda x, p: p["a"] ** 2 * x, {"a": 1.0})
KEY = jax.random.key(0)


EVEN = Free(dist.Normal(0.0, 3.0))  # of the same kind as the other prior, so that one program serves both


def square(free=EVEN, scale=0.1):
    return Problem(SQUARE, Experiment("e", X, {"y": 4 * X}), free={"a": free}, noise={"y": Normal(scale)})


@pytest.fixture(scope="module")
def unequal():
    """The prior prefers the positive sign; the share of the other half line, integrated on a grid."""
    problem = square(Free(dist.Normal(1.0, 1.5)), scale=1.0)
    a = np.linspace(-6.0, 6.0, 4001)
    density = np.exp(jax.vmap(problem.log_posterior)(jnp.asarray(a)[:, None]))
    return problem, simkit.fit(problem, key=KEY), density[a < 0].sum() / density.sum()


def test_chains_begin_at_both_signs():
    posterior = sample(square(), chains=4, draws=100, key=KEY)
    draws = np.asarray(posterior.draws)[..., 0]
    np.testing.assert_allclose(np.abs(draws), 2.0, atol=0.04)  # seven standard deviations of 0.005
    assert sorted(np.sign(draws.mean(axis=1))) == [-1, -1, 1, 1]
    # R-hat sees the two halves: the chains' means are hundreds of standard deviations apart.
    assert posterior.table()[0]["rhat"] > 10
    text = posterior.warnings[0]
    assert "2 modes of comparable mass (0.5, 0.5" in text
    assert "None passed from one to another" in text
    assert "NUTS cannot estimate" in text
    assert "a bound keeps one of them" in text
    assert "different modes" in posterior.warnings[1]


def test_a_mode_of_a_single_chain_is_kept(unequal):
    problem, start, share = unequal
    assert 0.1 < share < 0.2
    posterior = sample(problem, start=start, chains=4, draws=100, key=KEY)
    draws = np.asarray(posterior.draws)[..., 0]
    assert (np.sign(draws) == np.sign(draws[:, :1])).all()
    assert sorted(np.sign(draws[:, 0])) == [-1, 1, 1, 1]
    assert not any("started again" in text for text in posterior.warnings)
    assert "`TemperedSMC()` weighs them" in posterior.warnings[0]


def test_the_normal_approximation_weighs_modes(unequal):
    problem, start, share = unequal
    posterior = sample(problem, start=start, method=LaplaceApproximation(), draws=1000, key=KEY)
    found = np.mean(np.asarray(posterior.draws) < 0)
    # Four standard errors of 4000 independent draws, and Laplace's error of some thousandths.
    assert abs(found - share) < 4 * np.sqrt(share * (1 - share) / 4000) + 0.003


@pytest.mark.slow
def test_walkers_begin_in_all_modes(unequal):
    problem, start, _ = unequal
    posterior = sample(problem, start=start, method=EnsembleSampler(walkers=20), draws=50, warmup=50, key=KEY)
    assert 0 < np.mean(np.asarray(posterior.draws) < 0) < 1
    assert any("2 modes" in text for text in posterior.warnings)


def modes(*shares):
    count = len(shares)
    return Modes(np.arange(count)[:, None], np.full((count, 1, 1), 1e-4), np.array(shares), np.arange(count), None)  # pyright: ignore


def test_chains_are_allotted_by_mass():
    assert modes(0.5, 0.5).allotted(4).tolist() == [0, 0, 1, 1]
    assert modes(0.998, 0.002).allotted(4).tolist() == [0, 0, 0, 1]
    assert modes(0.6, 0.3, 0.1).allotted(2).tolist() == [0, 1]
    assert modes(1.0).allotted(3).tolist() == [0, 0, 0]


def test_modes_without_a_chain_are_said(unequal):
    _, start, _ = unequal
    centers, optima = np.array([[2.0], [-2.0]]), np.arange(2)
    two = Modes(centers, np.full((2, 1, 1), 1e-4), np.array([0.9, 0.1]), optima, start)
    (text,) = describe_modes(two, 1, np.zeros((1, 50), int))
    assert "1 chain cannot begin in all of them (chain 1 near a = 1.999)" in text  # the prior pulls by 0.00117
    assert "Without draws: 1 of the modes; take `chains=2` or more" in text


def test_chains_that_mix_need_no_warning():
    at = np.tile([0, 1], (4, 50))
    (text,) = describe_modes(modes(0.5, 0.5), 4, at)
    assert "the draws weigh them" in text


@pytest.mark.slow
def test_calibration_finds_a_fit_that_misses_a_mode():
    options = {"key": KEY, "simulations": 60, "draws": 19, "thin": 3, "warmup": 50}
    right = calibrate(square(), **options)
    assert right.p_values()["a"] > 1e-3  # by chance once in a thousand keys; the key is fixed
    assert (np.asarray(right.modes) == 2).mean() > 0.9  # one where |a| is within its error of 0
    wrong = calibrate(square(), starts=1, **options)
    assert wrong.p_values()["a"] < 1e-6
    assert "suspicious" in repr(wrong)


@pytest.mark.slow
def test_calibration_counts_what_it_leaves_out():
    root = from_response(lambda x, p: jnp.sqrt(p["a"]) * x, {"a": 1.0})
    free = {"a": Free(bounds=(-1.0, 3.0))}
    problem = Problem(root, Experiment("e", X, {"y": X}), free=free, noise={"y": Normal(0.1)})
    found = calibrate(problem, key=KEY, simulations=40, draws=9, thin=1, warmup=30, starts=4)
    bad = np.asarray(found.truths)[:, 0] < 0
    np.testing.assert_array_equal(np.asarray(found.outcome) == 1, bad)
    assert f"{bad.sum()} simulations are left out whose data could not be simulated or drawn at" in repr(found)
    assert (np.asarray(found.ranks)[bad] == -1).all()


@pytest.mark.slow
def test_calibration_counts_data_that_cannot_be_drawn():
    """A Poisson distribution of a negative mean: jax.random draws -1, in which no start of a fit can be simulated."""
    line = from_response(lambda x, p: p["a"] * x, {"a": 1.0})
    data = {"y": np.round(X)}
    problem = Problem(line, Experiment("e", X, data), free={"a": Free(bounds=(-1.0, 5.0))}, noise={"y": Poisson()})
    found = calibrate(problem, key=KEY, simulations=30, draws=9, thin=1, warmup=30, starts=2)
    bad = np.asarray(found.truths)[:, 0] < 0
    assert bad.any()
    np.testing.assert_array_equal(np.asarray(found.outcome) == 1, bad)


def test_passages_on_bent_ridges_are_not_counted():
    """The data fix a product: two branches of a hyperbola, and no draw can pass from one to the other."""
    product = from_response(lambda x, p: p["a"] * p["b"] * x, {"a": 1.0, "b": 1.0})
    free = {name: Free(bounds=(-10.0, 10.0)) for name in "ab"}
    problem = Problem(product, Experiment("e", X, {"y": 6 * X}), free=free, noise={"y": Normal(0.1)})
    posterior = sample(problem, chains=4, draws=100, warmup=300, key=KEY)
    signs = np.sign(np.asarray(posterior.draws)[..., 0])
    assert (signs == signs[:, :1]).all()
    assert "whether chains pass between the modes is not known" in posterior.warnings[0]
