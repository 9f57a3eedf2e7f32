"""Shares of successes: densities, tails, information, and the beetles of Bliss."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as stats

import simkit
from simkit import ArgumentError, DataError, Experiment, Free, Problem, Successes
from simkit.fitting._residuals import quantile_residuals
from simkit.noise import BetaBinomial, Binomial, Normal
from simkit.problem._expected_information import information_of

N, P, C = 12, 0.3, 5.0
COUNTS = np.arange(N + 1)
SHARES, PLACES = jnp.asarray(COUNTS / N), jnp.full(N + 1, P)
PEERS = {
    "binomial": (Binomial(float(N)), stats.binom(N, P)),
    "beta_binomial": (BetaBinomial(float(N), C), stats.betabinom(N, P * C, (1 - P) * C)),
}

# Bliss (1935), Annals of Applied Biology 22:134: beetles after five hours of carbon disulphide, by log10 of the dose.
DOSES = np.array([1.6907, 1.7242, 1.7552, 1.7842, 1.8113, 1.8369, 1.8610, 1.8839])
BEETLES, KILLED = [59, 60, 62, 56, 63, 59, 62, 60], [6, 13, 18, 28, 52, 53, 61, 60]
LOGIT = simkit.odes.from_response(lambda x, p: jax.nn.sigmoid(p["a"] + p["b"] * (x - 1.8)), {"a": 0.0, "b": 1.0})
FREE = {"a": Free(bounds=(-20.0, 20.0)), "b": Free(bounds=(-200.0, 200.0))}


def beetles(noise=Binomial(), data=Successes(KILLED, BEETLES), **more):
    return Problem(LOGIT, Experiment("beetles", DOSES, {"y": data}), free=FREE | more, noise={"y": noise})


@pytest.mark.parametrize("name", list(PEERS))
def test_density_and_tails_equal_scipy(name):
    noise, peer = PEERS[name]
    np.testing.assert_allclose(noise.log_prob(SHARES, PLACES), peer.logpmf(COUNTS), rtol=1e-10)
    below, above = noise.log_tails(np.asarray(SHARES), np.asarray(PLACES))
    np.testing.assert_allclose(below, peer.logcdf(COUNTS), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(above, np.log(peer.sf(COUNTS - 1)), rtol=1e-9, atol=1e-12)
    single = jax.tree.map(lambda x: x.astype(jnp.float32), noise)
    found = single.log_prob(SHARES.astype(jnp.float32), PLACES.astype(jnp.float32))
    np.testing.assert_allclose(found, peer.logpmf(COUNTS), rtol=2e-5)


def test_distribution_function_and_its_slope():
    noise, peer = PEERS["binomial"]
    below, above = noise.log_cumulative(SHARES, PLACES)
    np.testing.assert_allclose(below, peer.logcdf(COUNTS), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(above[:-1], peer.logsf(COUNTS)[:-1], rtol=1e-9)
    assert above[-1] == -np.inf
    # d P(Y <= k) / dp = -n b(k; n - 1, p)
    slope = jax.vmap(jax.grad(lambda p, y: jnp.exp(noise.log_cumulative(y, p)[0])))(PLACES, SHARES)
    np.testing.assert_allclose(slope, -N * stats.binom(N - 1, P).pmf(COUNTS), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", list(PEERS))
def test_information_is_the_sum_over_all_counts(name):
    noise, peer = PEERS[name]
    scores = jax.vmap(lambda y: jnp.stack(jax.tree.leaves(jax.grad(lambda p, n: n.log_prob(y, p), (0, 1))(P, noise))))
    each = np.asarray(scores(SHARES))
    exact = np.einsum("k,ki,kj->ij", peer.pmf(COUNTS), each, each)
    if name == "binomial":
        np.testing.assert_allclose(noise.information(jnp.asarray(P)).matrix(), exact, atol=1e-9)
    else:  # found from draws: 0.5 % of products of order 1
        found = np.asarray(information_of(noise, jnp.full(40, P)).matrix().mean(axis=0))
        size = np.sqrt(np.maximum(np.diag(exact), 1e-12))
        np.testing.assert_allclose(found / size / size[:, None], exact / size / size[:, None], atol=0.1)


@pytest.mark.parametrize("name", list(PEERS))
def test_draws_and_quantile_residuals(name):
    noise, peer = PEERS[name]
    draws = np.asarray(noise.sample(jax.random.key(0), jnp.full(40_000, P))) * N
    np.testing.assert_allclose(draws, np.round(draws), atol=1e-9)
    seen = np.bincount(np.round(draws).astype(int), minlength=N + 1)
    expected = 40_000 * peer.pmf(COUNTS)
    many = expected > 5
    assert stats.chisquare(seen[many], expected[many] * seen[many].sum() / expected[many].sum()).pvalue > 1e-4
    z = quantile_residuals(jax.tree.map(np.asarray, noise), draws / N, np.full(40_000, P))
    assert stats.kstest(z, "norm").pvalue > 1e-4


def test_the_beetles_of_bliss():
    """Dobson, An Introduction to Generalized Linear Models (2002), table 7.3: -60.717 (5.181), 34.270 (2.912), l = -18.715."""
    fit = simkit.fit(beetles(), starts=np.array([[0.5, 20.0]]))
    a, b = fit.estimate
    assert float(a - 1.8 * b) == pytest.approx(-60.717, abs=2e-3)
    assert float(b) == pytest.approx(34.270, abs=1e-3)
    slope = np.array([1.0, -1.8])
    errors = np.sqrt(slope @ fit.covariance @ slope), np.sqrt(fit.covariance[1, 1])
    np.testing.assert_allclose(errors, [5.181, 2.912], rtol=2e-3)
    assert float(fit.log_likelihood) == pytest.approx(-18.715, abs=1e-3)


def test_large_concentration_is_the_binomial():
    near, exact = beetles(BetaBinomial(1.0, 1e7)), beetles()
    theta = jnp.array([0.7, 30.0])
    assert float(near.log_likelihood(theta)[0]) == pytest.approx(float(exact.log_likelihood(theta)[0]), rel=1e-4)


def test_trials_of_one_number_and_missing_data():
    counts = [6, np.nan, 18, 28, 40, 40, 41, 41]
    by_datum = beetles(data=Successes(counts, 41))
    by_model = beetles(Binomial(41.0), np.asarray(counts) / 41)
    theta = jnp.array([0.7, 30.0])
    np.testing.assert_allclose(by_datum.log_likelihood(theta)[0], by_model.log_likelihood(theta)[0], rtol=1e-12)
    assert by_datum.data_count == 7
    again = by_datum.with_data(by_datum.simulate_data(theta, jax.random.key(0)))
    shares = np.asarray(again.data["y"])[0]
    np.testing.assert_allclose(shares * 41, np.round(shares * 41), atol=1e-9)
    assert np.isnan(shares[1])


@pytest.mark.slow
def test_intervals_hold_the_truth_as_often_as_they_say():
    """90 % intervals of 300 sets: a binomial error of 1.7 points, of which 3.5 are allowed."""
    problem, truth = beetles(), np.array([0.97, 34.3])
    held = []
    for i in range(300):
        own = problem.with_data(problem.simulate_data(jnp.asarray(truth), jax.random.key(i)))
        interval = np.asarray(simkit.fit(own, starts=truth[None]).interval(0.9))
        held.append((interval[:, 0] < truth) & (truth < interval[:, 1]))
    assert np.all(np.abs(np.mean(held, axis=0) - 0.9) < 0.06)


@pytest.mark.parametrize(
    ("counts", "trials", "words"),
    [
        ([3, 5], [2, 6], "3 of 2"),
        ([3.5], [5], "3.5"),
        ([-1], [5], "-1"),
        ([1], [0], "at least 1"),
        ([1, 2], [3, 4, 5], "successes and trials"),
        ([1], [3, 4], "shape"),
        (["one"], [3], "whole numbers"),
    ],
)
def test_wrong_counts_are_sentences(counts, trials, words):
    with pytest.raises(DataError) as caught:
        Successes(counts, trials)
    assert words.lower() in str(caught.value).lower()


def test_successes_and_noise_models_belong_together():
    with pytest.raises(ArgumentError, match=r"noise\.Binomial"):
        beetles(Normal(0.1))
    with pytest.raises(ArgumentError, match="shares between 0 and 1"):
        beetles(data=np.array(KILLED, float))
    with pytest.raises(DataError, match="errors"):
        Experiment("two", DOSES, {"y": Successes(KILLED, BEETLES)}, errors={"y": np.ones(8)})


def test_censored_shares_are_refused():
    """Their limits would be taken for those of a continuous number."""
    with pytest.raises(ArgumentError, match="shares of successes"):
        beetles(Binomial(60.0), simkit.Censored(np.array(KILLED) / 60, above=0.9))
