"""Filters against joint Gaussians by NumPy and SciPy: linear systems, whose data are normal all together."""

from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
import scipy.stats

import simkit
from simkit import ArgumentError, Experiment, Free, Problem, SimulationError, UnknownNameError
from simkit._types import Scalar
from simkit.filters import KalmanFilter, ParticleFilter, spread, states
from simkit.noise import Normal, Poisson
from simkit.odes import LogisticGrowth, OrnsteinUhlenbeck
from simkit.solvers import EulerMaruyama

TIMES = np.concatenate([np.arange(6) * 0.4, [2.0, 4.5]])  # two at one time, one at the start
THETA = np.array([0.8, 1.5, 0.6, 0.2])
NAMES = ("reversion", "mean", "volatility", "noise.x.scale")
VALUES = np.array([4.1, 3.2, np.nan, 2.1, 2.3, 1.2, 1.9, 1.7])
WIDTH = 0.3  # of the start


def joint(theta, times):
    """Mean and covariance of an Ornstein-Uhlenbeck process at some times."""
    k, mean, volatility, _ = theta
    apart, both = np.abs(times[:, None] - times), times[:, None] + times
    noise = volatility**2 / (2 * k) * (np.exp(-k * apart) - np.exp(-k * both))
    return mean + (4.0 - mean) * np.exp(-k * times), noise + WIDTH**2 * np.exp(-k * both)


def exact(theta):
    seen = np.isfinite(VALUES)
    mean, covariance = joint(theta, TIMES)
    covariance = covariance + theta[3] ** 2 * np.eye(len(TIMES))
    return scipy.stats.multivariate_normal.logpdf(VALUES[seen], mean[seen], covariance[np.ix_(seen, seen)])


def made(likelihood, *, names=NAMES, unit=1.0, dtype=float, **given):
    values = {"reversion": 0.8, "mean": 1.5 * unit, "volatility": 0.6 * unit}
    bounds = {"reversion": (0.05, 10.0)} | {
        name: (-9 * unit, 9 * unit) if name == "mean" else (0.01 * unit, 9 * unit) for name in NAMES[1:]
    }
    cast = lambda x: jnp.asarray(x, dtype)
    return Problem(
        OrnsteinUhlenbeck(**{name: cast(value) for name, value in values.items()}),
        Experiment("a", cast(TIMES), {"x": VALUES * unit}, start=0.0, y0={"x": cast(4.0 * unit)}, replicates=True),
        free={name: Free(bounds=bounds[name]) for name in names},
        noise={"x": Normal(scale=cast(0.2 * unit))},
        likelihood=likelihood,
        **given,
    )


@pytest.mark.parametrize("unit", [1.0, 1e-12])
def test_log_likelihood_and_gradient_of_a_linear_system(unit):
    problem = made(KalmanFilter({"x": WIDTH * unit}), unit=unit)
    scale = np.array([1, unit, unit, unit])
    log_likelihood = lambda theta: problem.log_likelihood(theta)[0]
    theta = jnp.asarray(THETA * scale)
    value, gradient = jax.jit(jax.value_and_grad(log_likelihood))(theta)
    seen = np.isfinite(VALUES).sum()
    np.testing.assert_allclose(value, exact(THETA) - seen * np.log(unit), atol=1e-10 * (1 + abs(seen * np.log(unit))))
    # Differences of order four with steps of 1e-3 of a function that has some 15 digits.
    slopes = []
    for one in np.eye(4) * 1e-3:
        each = [exact(THETA + k * one) for k in (-2, -1, 1, 2)]
        slopes.append(np.dot([1, -8, 8, -1], each) / (12 * 1e-3))
    np.testing.assert_allclose(gradient * scale, slopes, rtol=1e-8, atol=1e-9)
    if unit == 1:
        np.testing.assert_allclose(jax.jacfwd(log_likelihood)(theta), gradient, rtol=1e-12)
        curvature = jax.hessian(log_likelihood)(theta)
        np.testing.assert_allclose(curvature, curvature.T, rtol=1e-9, atol=1e-9)
        step = 1e-4 * jnp.eye(4)[2]
        change = (jax.grad(log_likelihood)(theta + step) - jax.grad(log_likelihood)(theta - step)) / 2e-4
        np.testing.assert_allclose(curvature[2], change, rtol=1e-5)


def test_smoothed_and_filtered_states_of_a_linear_system():
    problem = made(KalmanFilter({"x": WIDTH}))
    seen = np.isfinite(VALUES)
    every = np.concatenate([[0.0], TIMES])
    mean, covariance = joint(THETA, every)
    for given in ("all", "past"):
        found = states(problem, THETA, given=given)
        for row in range(len(every)):
            known = seen & ((TIMES >= 0) if given == "all" else (np.arange(len(TIMES)) < row))
            cross = covariance[row, 1:][known]
            inner = covariance[1:, 1:][np.ix_(known, known)] + THETA[3] ** 2 * np.eye(known.sum())
            gain = np.linalg.solve(inner, cross) if known.any() else np.zeros(0)
            np.testing.assert_allclose(found.mean.x[0, row], mean[row] + gain @ (VALUES - mean[1:])[known], rtol=1e-10)
            np.testing.assert_allclose(found.covariance[0, row, 0, 0], covariance[row, row] - gain @ cross, rtol=1e-9)
    with pytest.raises(ArgumentError, match='must be "all" or "past"'):
        states(problem, THETA, given="future")


class Chain(simkit.StochasticSystem):
    """Three linear states, driven by two processes that are shared; of the last one alone nothing is noisy."""

    class State(eqx.Module):
        x: Scalar
        y: Scalar
        z: Scalar

    interpretation: ClassVar[Literal["ito", "stratonovich"]] = "ito"
    noise_kind: ClassVar[Literal["additive", "diagonal", "general"]] = "additive"
    rates: jax.Array = simkit.quantity()

    def drift(self, t, y, inputs):
        flat = self.rates @ jnp.stack([y.x, y.y, y.z])
        return self.State(flat[0], flat[1], flat[2])

    def diffusion(self, t, y, inputs):
        return self.State(jnp.array([0.5, 0.1]), jnp.array([0.0, 0.4]), jnp.zeros(2))

    def outputs(self, t, y, inputs):
        return {"sum": y.x + y.z, "pair": jnp.stack([y.y, y.z])}

    @classmethod
    def example(cls):
        return simkit.Example(cls(RATES), cls.State(1.0, -1.0, 0.5), np.linspace(0, 1, 3))


RATES = np.array([[-0.5, 1.0, 0.2], [-1.0, -0.3, 0.0], [0.3, 0.1, -0.7]])


def chained(times, dense):
    """Means and the joint covariance of all states at some times, by exponentials of matrices (Van Loan 1978)."""
    factors = np.array([[0.5, 0.1], [0.0, 0.4], [0.0, 0.0]])
    mean, covariance, means, blocks = np.array([1.0, -1.0, 0.5]), np.zeros((3, 3)), [], []
    block = np.zeros((6, 6))
    block[:3, :3], block[:3, 3:], block[3:, 3:] = RATES, factors @ factors.T, -RATES.T
    for gap in np.diff(np.concatenate([[0.0], times])):
        grown = scipy.linalg.expm(block * gap)
        move = grown[:3, :3]
        mean, covariance = move @ mean, move @ covariance @ move.T + grown[:3, 3:] @ move.T
        blocks = [[old @ move.T for old in row] for row in blocks]
        for k, row in enumerate(blocks):
            dense[3 * k : 3 * k + 3, 3 * len(blocks) : 3 * len(blocks) + 3] = row[-1]
        blocks = [[row[-1]] for row in blocks] + [[covariance]]
        k = len(blocks) - 1
        dense[3 * k : 3 * k + 3, 3 * k : 3 * k + 3] = covariance
        means.append(mean)
    upper = np.triu(dense)
    return np.array(means), upper + upper.T - np.diag(np.diag(dense))


def test_shared_noise_and_several_outputs_with_errors():
    times = np.array([0.3, 0.5, 1.5])
    means, covariance = chained(times, np.zeros((9, 9)))
    seeing = np.kron(np.eye(3), np.array([[1.0, 0, 1], [0, 1, 0], [0, 0, 1]]))
    errors = np.array([[1.0, 1, 1], [2.0, 1, 1], [0.5, 1, 1]]).ravel()
    variance = (np.tile([0.1, 0.2, 0.2], 3) * errors) ** 2
    values = np.random.default_rng(0).normal(size=9)
    seen = np.arange(9) != 4
    inner = seeing @ covariance @ seeing.T + np.diag(variance)
    expected = scipy.stats.multivariate_normal.logpdf(
        values[seen], (seeing @ means.ravel())[seen], inner[np.ix_(seen, seen)]
    )
    data = np.where(seen, values, np.nan).reshape(3, 3)
    # A second experiment, shorter, is filled up.
    first = Experiment("a", times, {"sum": data[:, 0], "pair": data[:, 1:]}, start=0.0, errors={"sum": [1.0, 2.0, 0.5]})
    second = Experiment("b", [0.3], {"sum": [values[0]]}, start=0.0)
    problem = Problem(
        Chain(RATES),
        [first, second],
        y0=Chain.State(1.0, -1.0, 0.5),
        free={"noise.sum.scale": Free(bounds=(0.01, 1.0))},
        noise={"sum": Normal(scale=0.1), "pair": Normal(scale=0.2)},
        likelihood=KalmanFilter(),
    )
    alone = scipy.stats.norm.logpdf(values[0], (seeing @ means.ravel())[0], np.sqrt(inner[0, 0]))
    value, status = problem.log_likelihood(jnp.array([0.1]))
    np.testing.assert_allclose(value, expected + alone, rtol=1e-9)
    assert status.tolist() == [0, 0]
    drawn = jax.vmap(lambda key: problem.simulate_data(jnp.array([0.1]), key))(
        jax.random.split(jax.random.key(0), 4000)
    )
    flat = np.concatenate([np.asarray(drawn["sum"])[:, 0, :, None], np.asarray(drawn["pair"])[:, 0]], axis=-1).reshape(
        4000, 9
    )
    full = seeing @ covariance @ seeing.T + np.diag(np.tile([0.1, 0.2, 0.2], 3) ** 2)
    z = (flat.mean(axis=0) - seeing @ means.ravel()) / np.sqrt(np.diag(full) / 4000)
    assert np.abs(z).max() < 4  # of nine normal numbers, by chance once in 1,800
    np.testing.assert_allclose(np.cov(flat.T), full, atol=4 * full.max() * np.sqrt(2 / 4000))


class Wandering(simkit.StochasticSystem):
    """Growth with noise in proportion, in either sense."""

    growth: Scalar = simkit.quantity(0.3)
    interpretation: ClassVar[Literal["ito", "stratonovich"]] = "stratonovich"
    noise_kind: ClassVar[Literal["additive", "diagonal", "general"]] = "diagonal"

    def drift(self, t, y, inputs):
        return {"x": self.growth * y["x"]}

    def diffusion(self, t, y, inputs):
        return {"x": 0.2 * y["x"]}

    @classmethod
    def example(cls):
        return simkit.Example(cls(), {"x": 1.0}, np.linspace(0, 1, 3))


class Converted(simkit.StochasticSystem):
    """The same, its drift in the sense of Ito."""

    growth: Scalar = simkit.quantity(0.3)
    interpretation: ClassVar[Literal["ito", "stratonovich"]] = "ito"
    noise_kind: ClassVar[Literal["additive", "diagonal", "general"]] = "diagonal"

    def drift(self, t, y, inputs):
        return {"x": (self.growth + 0.02) * y["x"]}

    def diffusion(self, t, y, inputs):
        return {"x": 0.2 * y["x"]}

    @classmethod
    def example(cls):
        return simkit.Example(cls(), {"x": 1.0}, np.linspace(0, 1, 3))


def test_a_stratonovich_equation_has_the_drift_of_its_ito_form():
    found = []
    for system in (Wandering(), Converted()):
        problem = Problem(
            system,
            Experiment("a", [0.5, 1.0, 2.0], {"x": [1.3, 1.2, 2.0]}, start=0.0),
            y0={"x": 1.0},
            free={"growth": Free(bounds=(0.0, 1.0))},
            noise={"x": Normal(scale=0.1)},
            likelihood=KalmanFilter(),
        )
        found.append(problem.log_likelihood(jnp.array([0.3]))[0])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)


def test_the_particle_filter_is_unbiased_and_so_is_its_derivative():
    problem = made(ParticleFilter(64, key=jax.random.key(0)), solver=EulerMaruyama(), step=2.5 / 5)
    # The last interval, of 2.5, has five steps, and so has each of the others: the exact chain of that method.
    gaps = np.diff(np.concatenate([[0.0], TIMES]))

    def chain(theta):
        k, mean, volatility, noise = theta
        total, m, p = 0.0, 4.0, 0.0
        for gap, value in zip(gaps, VALUES, strict=True):
            for _ in range(5):
                h = gap / 5
                m, p = m + k * (mean - m) * h, (1 - k * h) ** 2 * p + volatility**2 * h
            if np.isfinite(value):
                s = p + noise**2
                total += scipy.stats.norm.logpdf(value, m, np.sqrt(s))
                m, p = m + p / s * (value - m), p * noise**2 / s
        return total

    expected = chain(THETA)
    with_key = lambda key: eqx.tree_at(lambda p: p.likelihood, problem, problem.likelihood.with_key(key))
    one = lambda key: jax.value_and_grad(lambda theta: with_key(key).log_likelihood(theta)[0])(jnp.asarray(THETA))
    value, gradient = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(1), 400))
    ratio = np.exp(np.asarray(value) - expected)
    assert abs(ratio.mean() - 1) < 4 * ratio.std() / 20, (ratio.mean(), ratio.std() / 20)
    # Of the likelihood itself the derivative is unbiased, not of its logarithm.
    slopes = np.array([(chain(THETA + d) - chain(THETA - d)) / 2e-5 for d in 1e-5 * np.eye(4)])
    weighted = ratio[:, None] * np.asarray(gradient)
    z = (weighted.mean(axis=0) - slopes) / (weighted.std(axis=0) / 20)
    assert np.abs(z).max() < 4, z
    mean, deviation = spread(problem, THETA, key=jax.random.key(2), repeats=40)
    np.testing.assert_allclose(deviation, np.asarray(value).std(), rtol=4 / np.sqrt(2 * 39))
    np.testing.assert_allclose(mean, np.asarray(value).mean(), atol=4 * float(deviation) / np.sqrt(40))


def test_particle_metropolis_draws_from_the_posterior():
    problem = made(ParticleFilter(40, key=jax.random.key(0)), names=("mean",), step=0.5)
    posterior = simkit.sample(problem, key=jax.random.key(0), draws=2000, warmup=500, chains=4)
    assert posterior.method == "particle Metropolis"
    # With all else known the data are normal, linear in the mean: so is its posterior, up to the bounds.
    kalman = made(KalmanFilter(), names=("mean",))
    grid = jnp.linspace(-3.0, 5.0, 161)
    density = np.asarray(jax.jit(jax.vmap(lambda m: kalman.log_likelihood(m[None])[0]))(grid))
    weight = np.exp(density - density.max())
    weight /= weight.sum()
    mean = weight @ np.asarray(grid)
    width = np.sqrt(weight @ (np.asarray(grid) - mean) ** 2)
    row = posterior.table()[0]
    # Steps of 0.1 to 0.5 shift the mean by a tenth of its width.
    assert abs(row["mean"] - mean) < 4 * width / np.sqrt(row["ess"]) + 0.1 * width
    np.testing.assert_allclose(row["sd"], width, rtol=0.25)
    with pytest.raises(ArgumentError, match="`NUTS` needs a log density that is one function"):
        simkit.sample(problem, method=simkit.NUTS(), key=jax.random.key(0))
    with pytest.raises(ArgumentError, match="draws none: take `NUTS"):
        simkit.sample(kalman, method=simkit.ParticleMetropolis(), key=jax.random.key(0))


def test_float32():
    problem = made(KalmanFilter({"x": WIDTH}), dtype=jnp.float32)
    value, _ = problem.log_likelihood(jnp.asarray(THETA, jnp.float32))
    assert value.dtype == jnp.float32
    np.testing.assert_allclose(value, exact(THETA), rtol=1e-4)


def test_what_filters_refuse():
    with pytest.raises(ArgumentError, match="must be finite and not negative"):
        KalmanFilter({"x": -1.0})
    with pytest.raises(UnknownNameError, match="y"):
        made(KalmanFilter({"y": 1.0}))
    with pytest.raises(ArgumentError, match="solves for moments, not for paths"):
        made(KalmanFilter(), step=0.1)
    with pytest.raises(ArgumentError, match="argument `step` must be given"):
        made(ParticleFilter(key=jax.random.key(0)))
    with pytest.raises(ArgumentError, match="integer of at least 2"):
        ParticleFilter(1, key=jax.random.key(0))
    with pytest.raises(ArgumentError, match="has no noise of its own"):
        Problem(
            LogisticGrowth(),
            Experiment("a", [1.0], {"size": [1.0]}),
            y0={"size": 1.0},
            free={"growth": Free(bounds=(0.1, 1.0))},
            noise={"size": Normal()},
            likelihood=KalmanFilter(),
        )
    experiment = Experiment("a", [1.0, 2.0], {"x": [1.0, 2.0]}, start=0.0, y0={"x": 1.0})
    given = {"free": {"mean": Free(bounds=(0.0, 5.0))}, "noise": {"x": Poisson()}}
    with pytest.raises(ArgumentError, match="needs `Normal` for every output, but `x` has Poisson"):
        Problem(OrnsteinUhlenbeck(), experiment, likelihood=KalmanFilter(), **given)
    with pytest.raises(ArgumentError, match=r"KalmanFilter\(\)`, where states are nearly normal"):
        Problem(OrnsteinUhlenbeck(), experiment, **given)
    with pytest.raises(ArgumentError, match="the observable `last` is a function of a whole trajectory"):
        Problem(
            OrnsteinUhlenbeck(),
            experiment,
            likelihood=KalmanFilter(),
            observables={"last": lambda system, trajectory: trajectory.ys.x},
            free=given["free"],
            noise={"x": Normal()},
        )


def test_particles_that_all_die_are_named():
    """Data 1e5 standard deviations away have a density of 0 in double precision."""
    experiment = Experiment("far", [1.0, 2.0], {"x": [1.0, 1e200]}, start=0.0, y0={"x": 1.0})
    problem = Problem(
        OrnsteinUhlenbeck(),
        experiment,
        free={"mean": Free(bounds=(0.0, 5.0))},
        noise={"x": Normal(scale=0.1)},
        likelihood=ParticleFilter(16, key=jax.random.key(0)),
        step=0.5,
    )
    value, status = problem.log_likelihood(jnp.array([1.0]))
    assert value == -jnp.inf
    assert status[0] == simkit.Status.NON_FINITE
    with pytest.raises(SimulationError, match="experiment `far` are not known from t = 2 on: no particle"):
        states(problem, [1.0], given="past")
    with pytest.raises(SimulationError, match="experiment `far` are not known from t = 2 on: no particle"):
        states(problem, [1.0])


class Waved(simkit.StochasticSystem):
    """Two integrators behind noise that begins at zero: x'' = w, dw = strength sin(t) dW."""

    class State(eqx.Module):
        x: Scalar
        v: Scalar
        w: Scalar

    interpretation: ClassVar[Literal["ito", "stratonovich"]] = "ito"
    noise_kind: ClassVar[Literal["additive", "diagonal", "general"]] = "additive"
    strength: Scalar = simkit.quantity(1.0)

    def drift(self, t, y, inputs):
        return self.State(y.v, y.w, 0 * y.w)

    def diffusion(self, t, y, inputs):
        zero = jnp.zeros(1)
        return self.State(zero, zero, self.strength * jnp.sin(t)[None])

    @classmethod
    def example(cls):
        return simkit.Example(cls(), cls.State(0.0, 0.0, 0.0), np.linspace(0, 1, 3))


def test_states_and_noise_that_begin_at_zero():
    """x at 2 is the integral of (2 - s)^2 / 2 strength sin(s) dW(s)."""
    problem = Problem(
        Waved(),
        Experiment("a", [2.0], {"x": [0.3]}, start=0.0, y0=Waved.State(0.0, 0.0, 0.0)),
        free={"strength": Free(bounds=(0.1, 9.0))},
        noise={"x": Normal(scale=0.1)},
        likelihood=KalmanFilter(),
    )
    s = np.linspace(0.0, 2.0, 4001)
    variance = scipy.integrate.simpson(((2 - s) ** 2 / 2 * np.sin(s)) ** 2, x=s)
    expected = scipy.stats.norm.logpdf(0.3, 0.0, np.sqrt(variance + 0.01))
    np.testing.assert_allclose(problem.log_likelihood(jnp.array([1.0]))[0], expected, rtol=1e-9)


def test_a_wide_start_that_decays_leaves_its_digits():
    for start, width, end in ((0.0, 1e6, 30.0), (1e12, 0.0, 60.0)):
        problem = Problem(
            OrnsteinUhlenbeck(),
            Experiment("a", [end, end + 1], {"x": [0.3, 0.1]}, start=0.0, y0={"x": start}),
            free={"volatility": Free(bounds=(0.05, 5.0))},
            noise={"x": Normal(scale=0.1)},
            likelihood=KalmanFilter({"x": width}),
        )
        inner = 0.125 * np.array([[1, np.exp(-1)], [np.exp(-1), 1]]) + 0.01 * np.eye(2)
        expected = scipy.stats.multivariate_normal.logpdf([0.3, 0.1], cov=inner)
        np.testing.assert_allclose(problem.log_likelihood(jnp.array([0.5]))[0], expected, rtol=1e-8)


def test_single_precision_in_large_units():
    unit = 1e12
    problem = made(KalmanFilter({"x": WIDTH * unit}), unit=unit, dtype=jnp.float32)
    value, _ = problem.log_likelihood(jnp.asarray(THETA * np.array([1, unit, unit, unit]), jnp.float32))
    np.testing.assert_allclose(value, exact(THETA) - 7 * np.log(unit), rtol=1e-5)


def test_errors_of_data_are_drawn_too():
    errors = np.where(np.arange(8) < 4, 1.0, 50.0)
    for likelihood, given in ((KalmanFilter(), {}), (ParticleFilter(8, key=jax.random.key(0)), {"step": 0.5})):
        problem = Problem(
            OrnsteinUhlenbeck(),
            Experiment("a", np.arange(1.0, 9.0), {"x": np.zeros(8)}, start=0.0, y0={"x": 1.0}, errors={"x": errors}),
            free={"volatility": Free(bounds=(0.05, 5.0))},
            noise={"x": Normal(0.1)},
            likelihood=likelihood,
            **given,
        )
        draw = lambda key, problem=problem: problem.simulate_data(jnp.array([0.5]), key)["x"][0]
        spread = jax.vmap(draw)(jax.random.split(jax.random.key(1), 400)).std(axis=0)
        assert 0.3 < spread[0] < 0.42
        assert 4.3 < spread[-1] < 5.7  # 5.01, with a relative error of 1 / sqrt(800)


def test_doors_of_filters():
    key = jax.random.key(0)
    for call, text in (
        (lambda: KalmanFilter({"x": "a"}), "must be finite and not negative"),
        (lambda: made(KalmanFilter({"x": [1.0, 2.0]})), "must be one number or have the shape"),
        (lambda: KalmanFilter(rtol=-1.0), "`rtol` must be a number from"),
        (lambda: KalmanFilter(solver="euler_maruyama"), "with an error estimate"),
        (lambda: ParticleFilter(100, key=key, threshold=2.0), "`threshold` must lie between"),
        (lambda: spread(made(ParticleFilter(8, key=key), step=0.5), THETA, key=key, repeats=1), "`repeats` must be"),
        (lambda: states(made(KalmanFilter()), {"mean": 1.0}), "must hold the 4 free parameters"),
    ):
        with pytest.raises(ArgumentError, match=text):
            call()
    assert ParticleFilter(np.int64(8), key=key).particles == 8
