"""Learned densities in result files: the same draws and densities, and what is refused."""

import dataclasses

import h5py
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import simkit
from simkit import ArgumentError, Free, NeuralLikelihood, NeuralPosterior, ResultFileError, SplineFlow
from simkit.infer import SeriesSummary
from simkit.problem import from_simulator
from simkit.stores import seal

SMALL = SplineFlow(layers=2, width=8, bins=4, members=2, steps=100, batch=32)


def series(count=12, fails=False):
    def simulate(p, key):
        drawn = p["level"] + p["scale"] * jax.random.normal(key, (count,))
        return jnp.where(fails & (p["level"] < -1.5), jnp.nan, drawn)

    free = {"level": Free(dist.Normal(0.0, 1.0)), "scale": Free(bounds=(0.1, 1.0))}
    return from_simulator(
        simulate, {"level": np.zeros(1), "scale": np.ones(1)}, np.linspace(-1.0, 1.0, count), free=free
    )


@pytest.mark.parametrize("summary", [None, SeriesSummary(channels=4, outputs=3)])
def test_a_learned_posterior_comes_back(tmp_path, summary):
    problem, key = series(), jax.random.key(0)
    learned = simkit.learn_posterior(problem, method=NeuralPosterior(300, network=SMALL, summary=summary), key=key)
    again = simkit.load(simkit.save(tmp_path / "learned.h5", learned)).learned_posterior
    assert repr(again) == repr(learned)
    theta = jnp.array([0.2, 0.5], problem.bounds.dtype)
    assert again.log_prob(theta, problem.data) == learned.log_prob(theta, problem.data)
    one, two = (simkit.sample(problem, method=method, key=key, draws=50, chains=1) for method in (learned, again))
    np.testing.assert_array_equal(one.draws, two.draws)
    coded = dataclasses.replace(learned, features=dataclasses.replace(learned.features, summary=len))
    with pytest.raises(ArgumentError, match="is code"):
        simkit.save(tmp_path / "coded.h5", coded)
    with pytest.raises(ArgumentError, match="other"):
        simkit.sample(series(13), method=again, key=key, draws=50, chains=1)


def test_a_learned_likelihood_comes_back(tmp_path):
    problem, key = series(4, fails=True), jax.random.key(1)
    made = simkit.learn_likelihood(problem, method=NeuralLikelihood(400, rounds=1, network=SMALL), key=key)
    assert made.likelihood.failed > 0
    path = simkit.save(tmp_path / "learned.h5", made.likelihood)
    read = simkit.load(path)
    assert "learned_likelihood" in repr(read)
    again = simkit.learn_likelihood(problem, method=read.learned_likelihood)
    theta = jnp.array([0.2, 0.5], problem.bounds.dtype)
    assert again.log_likelihood(theta)[0] == made.log_likelihood(theta)[0]
    drawn = [one.simulate_data(theta, key) for one in (made, again)]
    jax.tree.map(np.testing.assert_array_equal, *drawn)
    with pytest.raises(ArgumentError, match="of another problem"):
        simkit.learn_likelihood(series(5), method=read.learned_likelihood)
    with h5py.File(path, "r+") as file:
        del file["learned_likelihood/networks.0"]
    seal(path)
    with pytest.raises(ResultFileError):
        simkit.load(path)
