"""Iterated filtering against Kalman's filter, a sum over all states of a jump process, and a published table."""

from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.optimize
import scipy.special
import scipy.stats
from engine.jump_cases import Survivors

import simkit
from simkit import ArgumentError, Experiment, Free, IteratedFiltering, Problem, SimulationError
from simkit.filters import KalmanFilter, ParticleFilter
from simkit.noise import LogNormal, Normal
from simkit.odes import OrnsteinUhlenbeck
from simkit.solvers import EulerMaruyama

DATA = np.array([12.4, 7.7, 4.2, 2.5])


def herd(likelihood, data=DATA, **given):
    return Problem(
        Survivors(),
        Experiment("herd", np.arange(1.0, 5.0), {"n": data}, start=0.0, y0={"n": 20.0}),
        free={"death": Free(dist.LogNormal(-1.5, 0.3), start=1.5)},
        noise={"n": Normal(scale=1.0)},
        likelihood=likelihood,
        **given,
    )


def test_a_jump_process_with_a_prior(tmp_path):
    """Survivors are binomial, so that the likelihood is a sum over all counts; a start five standard errors away."""
    problem = herd(ParticleFilter(200, key=jax.random.key(0)))
    fit = simkit.fit(problem, starts=1, method=IteratedFiltering(40))
    counts = np.arange(21)

    def likelihood(rate):
        step = scipy.stats.binom.pmf(counts[None], counts[:, None], np.exp(-rate))
        chance, total = np.eye(21)[20], 0.0
        for value in DATA:
            chance = chance @ step * scipy.stats.norm.pdf(value, counts, 1.0)
            total += np.log(chance.sum())
            chance /= chance.sum()
        return total

    posterior = lambda u: likelihood(np.exp(u)) + scipy.stats.lognorm.logpdf(np.exp(u), 0.3, scale=np.exp(-1.5))
    best = scipy.optimize.minimize_scalar(lambda u: -posterior(u), bounds=(-3, 1), method="bounded").x
    bend = -(posterior(best + 0.05) - 2 * posterior(best) + posterior(best - 0.05)) / 0.05**2
    # Errors of a quadratic through 18 places a round with a noise of 0.1 are some hundredths of the width.
    assert abs(float(fit.z[0]) - best) < 0.25 / np.sqrt(bend)
    assert 0.7 < float(fit.covariance[0, 0]) * bend < 1.4
    error = float(fit.log_likelihood_error)
    assert 0 < error < 0.1
    assert abs(float(fit.log_likelihood) - likelihood(float(fit["death"]))) < 4 * error
    assert fit.status[0] == 0
    assert " +- " in repr(fit)
    simkit.save(tmp_path / "fit.h5", fit)
    assert simkit.load(tmp_path / "fit.h5").fit.log_likelihood_error == fit.log_likelihood_error


def test_two_experiments_of_a_linear_system_against_kalmans_filter():
    times = np.arange(1.0, 13.0)
    system = OrnsteinUhlenbeck(0.7, 0.0, 0.6)
    truth = simkit.simulate(system, {"x": 2.0}, np.append(0.0, times), step=0.05, key=jax.random.key(1)).ys.x[1:]
    value = np.asarray(truth) + 0.2 * np.random.default_rng(0).normal(size=12)
    experiments = [
        Experiment("a", times, {"x": value}, start=0.0),
        Experiment("b", times[:5], {"x": value[::2][:5]}, start=0.0),
    ]
    free = {
        "volatility": Free(bounds=(0.05, 5.0), start=1.0),
        "mean": Free(bounds=(-5.0, 5.0), start=1.0),
        "y0.x": Free(bounds=(-5.0, 5.0), start=0.0),
    }
    given = {"free": free, "noise": {"x": Normal(0.2)}, "y0": {"x": 2.0}}
    exact = simkit.fit(Problem(system, experiments, likelihood=KalmanFilter(), **given), starts=1)
    # One Euler step of a rate of 1 - exp(-0.7) is the exact step, but for the unit of the volatility.
    unit = np.sqrt((1 - np.exp(-2 * 0.7)) / (2 * 0.7))
    problem = Problem(
        OrnsteinUhlenbeck(1 - np.exp(-0.7), 0.0, 0.6),
        experiments,
        likelihood=ParticleFilter(200, key=jax.random.key(0)),
        solver=EulerMaruyama(),
        step=1.0,
        **given,
    )
    fit = simkit.fit(problem, starts=2, method=IteratedFiltering(60), key=jax.random.key(2))
    best = np.asarray(exact.z) + np.array([np.log(unit), 0, 0])
    apart = (np.asarray(fit.z) - best) / np.sqrt(np.diag(exact.covariance))
    # The noise of the maximum of a quadratic through 60 places a round is some tenth of a standard error.
    assert np.abs(apart).max() < 0.4, apart
    ratio = np.sqrt(np.diag(fit.covariance) / np.diag(exact.covariance))
    assert 0.6 < ratio.min() < ratio.max() < 1.6, ratio
    assert abs(float(fit.log_likelihood) - float(exact.log_likelihood)) < 0.1 + 4 * float(fit.log_likelihood_error)


def normal_numbers_of_r(seed):
    """Normal numbers as R draws them after `set.seed`: the Mersenne twister and inversion."""
    for _ in range(50):
        seed = (69069 * seed + 1) % 2**32
    words = []
    for _ in range(625):
        seed = (69069 * seed + 1) % 2**32
        words.append(seed)
    twister = np.random.MT19937()
    state = twister.state
    state["state"] = {"key": np.array(words[1:], np.uint32), "pos": 624}
    twister.state = state
    uniform = lambda: twister.random_raw() * 2.3283064365386963e-10
    while True:
        yield scipy.special.ndtri((int(134217728 * uniform()) + uniform()) / 134217728)


class Gompertz(simkit.StochasticSystem):
    """The logarithm of a population that returns to its capacity, in steps of 1."""

    class State(eqx.Module):
        x: simkit.Scalar

    interpretation: ClassVar[Literal["ito", "stratonovich"]] = "ito"
    noise_kind: ClassVar[Literal["additive", "diagonal", "general"]] = "additive"
    r: simkit.Scalar = simkit.quantity(0.1, support=simkit.POSITIVE)
    sigma: simkit.Scalar = simkit.quantity(0.1, support=simkit.POSITIVE)

    def drift(self, t, y, inputs):
        return self.State((jnp.exp(-self.r) - 1) * y.x)

    def diffusion(self, t, y, inputs):
        return self.State(self.sigma)

    def outputs(self, t, y, inputs):
        return {"y": jnp.exp(y.x)}

    @classmethod
    def example(cls):
        return simkit.Example(cls(), cls.State(0.0), np.linspace(0.0, 10.0, 11))


def test_the_published_table_of_the_gompertz_model():
    """King, Nguyen and Ionides (2016), J. Stat. Softw. 69(12), doi:10.18637/jss.v069.i12, table 3 of the vignette that pomp 6 has.

    The data are those of the text, drawn by R with the seed 340398091. The exact log likelihood, of 36.01 at the truth, has its
    maximum of 37.88 at r = 0.0322, sigma = 0.0694, tau = 0.1170; pomp's own iterated filtering ended at 37.84.
    """
    draws, x, states = normal_numbers_of_r(340398091), 0.0, []
    for _ in range(100):
        x = np.exp(-0.1) * x + 0.1 * next(draws)
        states.append(x)
    logs = np.array(states) + 0.1 * np.array([next(draws) for _ in states])

    def exact(r, sigma, tau):
        mean, variance, total = 0.0, 0.0, -logs.sum()
        for value in logs:
            mean, variance = np.exp(-r) * mean, np.exp(-2 * r) * variance + sigma**2
            total += scipy.stats.norm.logpdf(value, mean, np.sqrt(variance + tau**2))
            gain = variance / (variance + tau**2)
            mean, variance = mean + gain * (value - mean), (1 - gain) * variance
        return total

    assert round(exact(0.1, 0.1, 0.1), 2) == 36.01
    assert round(exact(0.0322, 0.0694, 0.1170), 2) == 37.88
    assert round(exact(0.0324, 0.0722, 0.1180), 2) == 37.84
    problem = Problem(
        Gompertz(),
        Experiment("g", np.arange(1.0, 101.0), {"y": np.exp(logs)}, start=0.0, y0=Gompertz.State(0.0)),
        free={name: Free(bounds=(1e-3, 10.0), start=0.1) for name in ("r", "sigma", "noise.y.scale")},
        noise={"y": LogNormal(0.1)},
        solver=EulerMaruyama(),
        step=1.0,
        likelihood=ParticleFilter(500, key=jax.random.key(0)),
    )
    fit = simkit.fit(problem, starts=1, key=jax.random.key(1))
    there = exact(*np.asarray(fit.estimate))
    # A tenth, as the source says of its own; a likelihood 0.12 below the maximum is half a standard error away.
    assert 37.88 - there < 0.12, there
    assert abs(float(fit.log_likelihood) - there) < 4 * float(fit.log_likelihood_error)
    np.testing.assert_allclose(fit["noise.y.scale"], 0.1170, atol=0.25 * float(fit.standard_error[2]))


def test_what_iterated_filtering_refuses():
    problem = herd(ParticleFilter(8, key=jax.random.key(0)))
    for call, text in (
        (lambda: IteratedFiltering(0), "`iterations` must be a whole number"),
        (lambda: IteratedFiltering(perturbation=0.0), "`perturbation` must lie above 0"),
        (lambda: IteratedFiltering(cooling=1.5), "`cooling` must lie above 0"),
        (lambda: IteratedFiltering(repeats=1), "`repeats` must be"),
        (lambda: simkit.fit(problem, method=IteratedFiltering(1), horizons=(0.5, 1.0)), "`horizons` does not go with"),
        (lambda: simkit.fit(problem, method=IteratedFiltering(1), starts=0), "`starts` must be at least 1"),
    ):
        with pytest.raises(ArgumentError, match=text):
            call()
    line = simkit.odes.from_response(lambda x, params: params["slope"] * x, {"slope": 1.0})
    data = Experiment("line", [1.0, 2.0], {"y": [2.1, 3.9]})
    plain = Problem(line, data, free={"slope": Free(bounds=(0.0, 10.0))}, noise={"y": Normal(0.1)})
    with pytest.raises(
        ArgumentError, match="likelihood that particles estimate, but this problem has `IndependentData`"
    ):
        simkit.fit(plain, method=IteratedFiltering())


def test_particles_that_all_die():
    problem = herd(ParticleFilter(8, key=jax.random.key(0)), data=np.array([1e200, 7.7, 4.2, 2.5]))
    with pytest.raises(SimulationError, match="could the model have made the data: no particle survived"):
        simkit.fit(problem, starts=1, method=IteratedFiltering(1, repeats=2))
