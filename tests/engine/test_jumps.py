"""Jump processes against closed forms: Poisson and binomial counts, known moments, exact likelihoods."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
import scipy.stats
from engine.jump_cases import TIMES, Divided, Herd
from helpers import mean_within

import simkit
from simkit import ArgumentError, Constant, Interpolated, PiecewiseConstant, SimulationError, Status
from simkit.noise import Normal

RUNS = 1000


class Timed(Herd):
    timed: ClassVar[bool] = True


class Ring(simkit.JumpSystem):
    """Walkers on a ring of 20 places, 40 reactions in one array: more than are written out one by one."""

    rate: simkit.Scalar = simkit.quantity(1.0, unit="1/s")

    def propensities(self, t, y, inputs):
        return {"hop": self.rate * jnp.concatenate([y, y])}

    def jumps(self):
        stay = np.eye(20)
        return {"hop": np.concatenate([np.roll(stay, 1, axis=1) - stay, np.roll(stay, -1, axis=1) - stay])}

    @classmethod
    def example(cls):
        return simkit.Example(cls(), jnp.zeros(20).at[3].set(50.0), jnp.linspace(0.0, 2.0, 3))


@pytest.fixture(scope="module")
def herd():
    keys = jax.random.split(jax.random.key(1), RUNS)
    return keys, simkit.ensemble(
        Herd(), {"animals": 0.0}, TIMES, over={"arrival": jnp.linspace(4.0, 4.0, RUNS)}, key=keys
    )


def test_counts_of_an_immigration_are_poisson(herd):
    _, found = herd
    assert not found.failures()
    assert (found.ys["animals"][:, 0] == 0).all()
    for row, t in enumerate(TIMES[1:], start=1):
        counts, mean = np.asarray(found.ys["animals"][:, row]), 8 * (1 - np.exp(-0.5 * t))
        assert mean_within(counts, mean)
        assert mean_within((counts - mean) ** 2, mean)
        # Kolmogorov's distance of 1000 draws exceeds 0.062 once in a thousand; of discrete ones more seldom.
        steps = np.arange(30)
        empirical = (counts[:, None] <= steps).mean(axis=0)
        assert np.abs(empirical - scipy.stats.poisson.cdf(steps, mean)).max() < 0.062


def test_a_member_has_the_same_path_in_any_batch(herd):
    keys, found = herd
    few = simkit.ensemble(Herd(), {"animals": 0.0}, TIMES, over={"arrival": [4.0] * 3}, key=keys[5:8])
    alone = simkit.simulate(Herd(), {"animals": 0.0}, TIMES, key=keys[6])
    assert np.array_equal(few.ys["animals"], found.ys["animals"][5:8])
    assert np.array_equal(alone.ys["animals"], found.ys["animals"][6])
    assert alone.steps == found.steps[6]
    twice = jax.vmap(jax.vmap(lambda key: simkit.simulate(Herd(), {"animals": 0.0}, TIMES, key=key).ys["animals"]))(
        keys[:6].reshape(2, 3)
    )
    assert np.array_equal(twice.reshape(6, -1), found.ys["animals"][:6])


def test_single_precision_and_reducers():
    single = simkit.cast(Herd(), jnp.float32)
    y0, times = {"animals": jnp.float32(0)}, TIMES.astype(np.float32)
    found = simkit.simulate(single, y0, times, key=jax.random.key(0), reduce={"mean": simkit.reducers.Mean()})
    whole = simkit.simulate(single, y0, times, key=jax.random.key(0))
    assert whole.ys["animals"].dtype == jnp.float32
    assert (whole.ys["animals"] % 1 == 0).all()
    mean = simkit.simulate(single, y0, times, key=jax.random.key(0), reduce={"mean": simkit.reducers.Mean()}).reduced
    assert jax.tree.structure(mean) == jax.tree.structure(found.reduced)
    assert found.ys["animals"].shape == (2,)
    assert float(jnp.ravel(found.reduced["mean"]["animals"])[0]) == pytest.approx(
        float(whole.ys["animals"].mean()), rel=1e-5
    )


def test_walkers_of_an_array_of_reactions():
    system, y0, times, _ = Ring.example()
    found = simkit.ensemble(system, y0, times, over={"rate": jnp.ones(300)}, key=jax.random.key(2))
    assert (found.ys.sum(axis=-1) == 50).all()
    assert (found.ys >= 0).all()
    # One walker's probabilities: the exponential of the ring's matrix.
    ring = np.roll(np.eye(20), 1, axis=1) + np.roll(np.eye(20), -1, axis=1) - 2 * np.eye(20)
    chance = scipy.linalg.expm(2.0 * ring)[3]
    for place in (3, 4, 5):
        assert mean_within(found.ys[:, -1, place], 50 * chance[place])


def test_inputs_that_jump_and_adjusted_states():
    quiet = PiecewiseConstant(times=jnp.array([0.0, 3.0]), values=jnp.array([5.0, 0.0]))
    run = lambda key: simkit.simulate(
        Herd(death=0.0), {"animals": 0.0}, jnp.array([0.0, 3.0, 9.0]), inputs={"arrival": quiet}, key=key
    )
    found = jax.vmap(run)(jax.random.split(jax.random.key(3), 400)).ys["animals"]
    assert mean_within(found[:, 1], 15.0)
    assert np.array_equal(found[:, 1], found[:, 2])
    times = jnp.linspace(0.0, 8.0, 81)
    ran = simkit.simulate(Divided(death=0.0), {"animals": 0.0}, times, key=jax.random.key(0)).ys["animals"]
    assert ran.max() == 9
    assert ran[40] == 0
    assert ran[39] > 0


def test_diffusion_approximation():
    langevin = simkit.ChemicalLangevin(Herd())
    y = {"animals": jnp.asarray(9.0)}
    assert float(langevin.drift(0.0, y, None)["animals"]) == pytest.approx(4 - 0.5 * 9)
    np.testing.assert_allclose(langevin.diffusion(0.0, y, None)["animals"], [2.0, -np.sqrt(4.5)])
    path = simkit.simulate(langevin, y, [0.0, 1.0], step=0.1, key=jax.random.key(0))
    assert path.status == 0


@pytest.mark.slow
def test_likelihood_of_a_death_process():
    """Survivors are binomial, so that the likelihood is a sum over all counts."""
    data, rate, start = np.array([12.4, 7.7, 4.2, 2.5]), 0.5, 20
    times = np.arange(5.0)
    likelihood = simkit.filters.ParticleFilter(500, key=jax.random.key(0))
    problem = simkit.Problem(
        Herd(arrival=0.0),
        simkit.Experiment("a", times[1:], {"animals": data}, start=0.0, y0={"animals": float(start)}),
        free={"death": simkit.Free(bounds=(0.01, 5.0))},
        noise={"animals": Normal(scale=1.0)},
        likelihood=likelihood,
    )
    counts = np.arange(start + 1)
    step = scipy.stats.binom.pmf(counts[None], counts[:, None], np.exp(-rate))
    chance, exact = np.eye(start + 1)[start], 0.0
    for value in data:
        chance = chance @ step * scipy.stats.norm.pdf(value, counts, 1.0)
        exact += np.log(chance.sum())
        chance /= chance.sum()
    mean, deviation = simkit.filters.spread(problem, [rate], key=jax.random.key(1), repeats=16)
    # The logarithm of an unbiased estimate is too low by half its variance.
    assert abs(mean + deviation**2 / 2 - exact) < 5 * deviation / 4
    assert deviation < 0.3
    with pytest.raises(ArgumentError, match="no derivative"):
        jax.grad(lambda theta: problem.log_likelihood(theta)[0])(jnp.array([rate]))
    with pytest.raises(ArgumentError, match="ChemicalLangevin"):
        simkit.Problem(
            Herd(),
            simkit.Experiment("a", times[1:], {"animals": data}, start=0.0, y0={"animals": 20.0}),
            free={"death": simkit.Free(bounds=(0.01, 5.0))},
            noise={"animals": Normal(scale=1.0)},
            likelihood=simkit.filters.KalmanFilter(),
        )


def test_statuses():
    key, y0 = jax.random.key(0), {"animals": 0.0}
    short = simkit.solvers.DirectMethod(max_jumps=20)
    with pytest.raises(SimulationError, match="max_jumps"):
        simkit.simulate(Herd(), y0, TIMES, key=key, solver=short)
    with pytest.raises(SimulationError, match=r"reaction `death` is -.* at time 0, where the state is animals 3"):
        simkit.simulate(Herd(death=-1.0), {"animals": 3.0}, TIMES, key=key)
    marked = simkit.simulate(Herd(death=-1.0), {"animals": 3.0}, TIMES, key=key, on_failure="mark")
    assert marked.status == Status.NEGATIVE_PROPENSITY
    assert np.isnan(marked.ys["animals"][1:]).all()
    large = simkit.simulate(Herd(), {"animals": 2.0**60}, [0.0, 1e-3], key=key, on_failure="mark")
    assert large.status == Status.TOO_MANY
    absorbed = simkit.simulate(Herd(arrival=0.0), {"animals": 2.0}, [0.0, 100.0, 200.0], key=key)
    assert absorbed.status == 0
    assert absorbed.ys["animals"][-1] == 0
    assert absorbed.steps == 2


class Nothing(Herd):
    def jumps(self):
        return {}


class Halves(Herd):
    def jumps(self):
        return {"arrival": {"animals": 0.5}, "death": {"animals": -1}}


class Astray(Herd):
    def jumps(self):
        return {"arrival": {"animal": 1}, "death": {"animals": -1}}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"key": None}, "must be a random key"),
        ({"step": 0.1}, "`step` must be left out"),
        ({"times": [3.0, 0.0]}, "run forwards only"),
        ({"y0": {"animals": 1.5}}, "must be a whole number, but it is 1.5"),
        ({"system": Timed()}, "read the time itself"),
        ({"inputs": {"arrival": Interpolated([0.0, 1.0], [0.0, 1.0])}}, "constant piece by piece"),
        ({"events": simkit.Event(at=[1.0])}, "`adjusted` and `stops`"),
        ({"solver": "tsit5"}, "is a JumpSystem. `DirectMethod` fits"),
        ({"system": Nothing()}, "at least one reaction"),
        ({"system": Halves()}, "whole numbers, but those of the reaction `arrival`"),
        ({"system": Astray()}, "animal"),
    ],
)
def test_what_is_refused(change, words):
    given = {"system": Herd(), "y0": {"animals": 0.0}, "times": TIMES, "key": jax.random.key(0)} | change
    with pytest.raises(simkit.SimkitError, match=words):
        simkit.simulate(given.pop("system"), given.pop("y0"), given.pop("times"), **given)


def test_bounds_of_jumps_are_checked():
    with pytest.raises(ArgumentError, match="max_jumps"):
        simkit.solvers.DirectMethod(max_jumps=0)
    assert (
        simkit.ensemble(
            Herd(),
            {"animals": 0.0},
            TIMES,
            over={"inputs.arrival.value": [0.0, 0.0]},
            inputs={"arrival": Constant(1.0)},
            key=jax.random.key(0),
        ).steps.sum()
        == 0
    )
