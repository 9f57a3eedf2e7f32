"""Categories without an order: probabilities, closed forms, and the estimates of statsmodels.

Information, draws and residuals are tested beside those of grades (test_ordinal.py).
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import ArgumentError, Experiment, Free, Problem
from simkit.noise import Categorical
from simkit.study.language._parts import read_noise
from simkit.study.language._section import Section

PREY = Categorical(intercepts=[1.6, 4.2], slopes=[-0.1, -2.4])
KINDS = np.arange(3.0)
PLACES = np.array([-400.0, -1.0, 0.3, 2.0, 400.0])

# Drawn once from log odds 0.4 + 1.1 x and -0.3 - 0.8 x. The peer's numbers are those of MNLogit of statsmodels 0.15.0.
X = np.round(np.linspace(-2, 2, 60), 3)
SEEN = "222022022210022222220010011211100010101011111101111101111111"
LINE = simkit.odes.from_response(lambda x, p: p["size"] * x, {"size": 1.0})
WIDE = Free(bounds=(-20.0, 20.0), start=0.0)
PATHS = ("noise.y.intercepts.0", "noise.y.intercepts.1", "noise.y.slopes.0", "noise.y.slopes.1")


def chosen(x=X, data=np.array(tuple(map(float, SEEN)))):
    noise = {"y": Categorical([0.0, 0.0], [0.5, -0.5])}
    return Problem(LINE, Experiment("x", x, {"y": data}), free=dict.fromkeys(PATHS, WIDE), noise=noise)


def test_probabilities_are_a_softmax():
    logits = np.stack([0 * PLACES, 1.6 - 0.1 * PLACES, 4.2 - 2.4 * PLACES], axis=1)
    exact = logits - np.logaddexp.reduce(logits, axis=1)[:, None]
    for kind in range(3):
        found = PREY.log_prob(jnp.full(5, float(kind)), jnp.asarray(PLACES))
        np.testing.assert_allclose(found, exact[:, kind], rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(PREY.probabilities(jnp.asarray(PLACES)), np.exp(exact), rtol=1e-11)
    assert np.all(np.asarray(PREY.log_prob(jnp.array([-1.0, 3.0, 0.5]), jnp.zeros(3))) == -np.inf)
    single = jax.tree.map(lambda x: x.astype(jnp.float32), PREY)
    near = single.log_prob(jnp.asarray(KINDS, jnp.float32), jnp.float32(0.3))
    assert near.dtype == jnp.float32
    np.testing.assert_allclose(near, PREY.log_prob(jnp.asarray(KINDS), jnp.asarray(0.3)), rtol=1e-5)
    far = jax.grad(lambda f: PREY.log_prob(jnp.asarray(0.0), f))(400.0)
    assert np.isfinite(far)


def test_tails_for_quantile_residuals():
    value, location = (x.ravel() for x in np.meshgrid(KINDS, PLACES[1:4]))
    below, above = jax.tree.map(np.asarray, PREY).log_tails(value, location)
    mass = np.asarray(PREY.probabilities(jnp.asarray(PLACES[1:4])))
    np.testing.assert_allclose(np.exp(below), np.cumsum(mass, axis=1).ravel(), rtol=1e-12)
    np.testing.assert_allclose(np.exp(above), np.cumsum(mass[:, ::-1], axis=1)[:, ::-1].ravel(), rtol=1e-12)


def test_categories_are_fitted_as_statsmodels_fits_them():
    fit = simkit.fit(chosen(), starts=1)
    assert float(fit.log_likelihood) == pytest.approx(-41.336659877138885, abs=1e-7)
    estimate = [float(fit[path]) for path in PATHS]
    peer = [0.13369181834431232, -1.5054249591580753, 1.2828895424707232, -1.8667777111767936]
    np.testing.assert_allclose(estimate, peer, atol=1e-4)
    # In a logit the expected information is the observed one.
    errors = [0.37906838345716587, 0.7366572698352107, 0.42934053738507494, 0.6619432147542289]
    np.testing.assert_allclose(np.sqrt(np.diag(fit.covariance)), errors, rtol=1e-3)


def test_two_groups_have_the_logarithms_of_ratios_of_counts():
    """A saturated model: log odds are those of the counts, and variances sums of their reciprocals."""
    counts = np.array([[5.0, 20.0, 10.0], [12.0, 6.0, 9.0]])
    group = np.repeat([0.0, 1.0], counts.sum(axis=1).astype(int))
    data = np.concatenate([np.repeat(KINDS, row.astype(int)) for row in counts])
    fit = simkit.fit(chosen(group, data), starts=1)
    odds = np.log(counts[:, 1:] / counts[:, :1])
    np.testing.assert_allclose([float(fit[path]) for path in PATHS], [*odds[0], *(odds[1] - odds[0])], atol=1e-4)
    variance = (1 / counts[:, 1:] + 1 / counts[:, :1]).ravel()
    exact = [variance[0], variance[1], variance[0] + variance[2], variance[1] + variance[3]]
    np.testing.assert_allclose(np.diag(fit.covariance), exact, rtol=1e-3)


def test_study_files_know_it():
    given = {"model": "categorical", "intercepts": [1.6, 4.2], "slopes": [-0.1, -2.4]}
    found = read_noise(Section({"y": given}, "noise", "a.toml"))["y"]
    assert isinstance(found, Categorical)
    np.testing.assert_allclose(jax.tree.leaves(found), jax.tree.leaves(PREY))


def test_categories_have_no_percentiles_and_no_limits():
    problem = chosen()
    fit = simkit.fit(problem, starts=1)
    with pytest.raises(ArgumentError, match="must have data with an order"):
        simkit.visual_predictive_check(problem, fit, key=jax.random.key(0))
    with pytest.raises(ArgumentError, match="ensored"):
        chosen(data=simkit.Censored(np.array(tuple(map(float, SEEN))), below=1.0))


def test_wrong_numbers():
    for wrong in (["a"], [[0.0, 0.0]]):
        with pytest.raises(ArgumentError, match="`intercepts` must be an array of numbers"):
            Categorical(wrong, [1.0])
    assert PREY.probabilities(2.0).shape == (3,)
    with pytest.raises(ArgumentError, match="has 1 intercepts and 2 slopes"):
        Categorical([1.0], [1.0, 2.0])
    with pytest.raises(ArgumentError, match="has 0 intercepts and 0 slopes"):
        Categorical([], [])
