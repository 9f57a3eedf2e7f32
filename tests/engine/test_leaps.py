"""Leaps of jump processes against recursions and sums over states: means, variances, the choice of the leap."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
import scipy.stats
from engine.jump_cases import Divided, Herd
from helpers import mean_within

import simkit
from simkit import ArgumentError, SimulationError, Status
from simkit.engine.jumps._poisson import poisson
from simkit.solvers import TauLeaping

RUNS = 1000


class Pairs(simkit.JumpSystem):
    """Things that meet in pairs and part again: case 003 of the stochastic test suite of SBML (DSMTS)."""

    bind: simkit.Scalar = simkit.quantity(0.001, unit="1/s")
    leave: simkit.Scalar = simkit.quantity(0.01, unit="1/s")

    def propensities(self, t, y, inputs):
        return {"bind": self.bind * y["single"] * (y["single"] - 1) / 2, "leave": self.leave * y["pair"]}

    def jumps(self):
        return {"bind": {"single": -2, "pair": 1}, "leave": {"single": 2, "pair": -1}}

    @classmethod
    def example(cls):
        return simkit.Example(cls(), {"pair": 0.0, "single": 100.0}, jnp.linspace(0.0, 50.0, 3))


def runs_of(system, y0, times, solver, runs=RUNS, seed=0):
    name = next(iter(vars(system)))
    over = {name: jnp.full(runs, getattr(system, name))}
    found = simkit.ensemble(system, y0, times, over=over, solver=solver, key=jax.random.key(seed))
    assert not found.failures()
    return found


def test_without_readers_a_leap_is_exact_and_ends_at_the_next_save_time():
    found = runs_of(Herd(arrival=50.0, death=0.0), {"animals": 0.0}, np.array([0.0, 1.0, 4.0]), TauLeaping())
    counts = np.asarray(found.ys["animals"])
    # Deaths, whose rate is 0, read the animals: the mean 50 t of arrivals may change them by 1, so that jumps are exact at first,
    # and later leaps go 0.03 of the animals far. All that counts here are the Poisson moments.
    for row, mean in ((1, 50.0), (2, 200.0)):
        assert mean_within(counts[:, row], mean)
        assert mean_within((counts[:, row] - mean) ** 2, mean)


def test_a_death_process_follows_the_recursion_of_its_leaps():
    """Each leap takes the part epsilon of a mean that decays: mean m' = (1 - e) m, variance V' = (1 - e)^2 V + e m."""
    start, epsilon, time = 20_000.0, 0.05, 0.99
    found = runs_of(Herd(arrival=0.0, death=1.0), {"animals": start}, np.array([0.0, time]), TauLeaping(epsilon), 2000)
    mean, variance, left = start, 0.0, time
    while left > 0:
        part = min(epsilon, left)
        variance = (1 - part) ** 2 * variance + part * mean
        mean, left = (1 - part) * mean, left - part
        left = 0.0 if left < 1e-9 else left
    counts = np.asarray(found.ys["animals"][:, -1])
    assert (np.asarray(found.steps) == np.ceil(time / epsilon)).all()
    assert mean_within(counts, mean)
    assert mean_within((counts - mean) ** 2, variance)
    # The bias is seen: exact paths have another mean, by e / 2 of it.
    assert not mean_within(counts, start * np.exp(-time))
    assert abs(mean / (start * np.exp(-time)) - 1) < epsilon / 2 * time * 1.1


@pytest.mark.parametrize("epsilon", [0.03, 0.1])
def test_pairs(epsilon):
    """Means and variances of 1000 things that pair, which are sums over the 501 states, within 5 standard errors and a bias."""
    system, times, bind, leave = Pairs(bind=1e-4), np.array([0.0, 25.0, 50.0]), 1e-4, 0.01
    y0 = {"pair": 0.0, "single": 1000.0}
    found = runs_of(system, y0, times, TauLeaping(epsilon, fewest=2), seed=1)
    pairs = np.arange(501.0)
    up, down = bind * (1000 - 2 * pairs) * (999 - 2 * pairs) / 2, leave * pairs
    generator = np.diag(up[:-1], 1) + np.diag(down[1:], -1)
    generator -= np.diag(generator.sum(axis=1))
    counts = np.asarray(found.ys["pair"])
    assert (np.asarray(found.ys["single"]) + 2 * counts == 1000).all()
    direct = simkit.simulate(system, y0, times, key=jax.random.key(0)).steps
    assert np.asarray(found.steps).mean() < 0.6 * int(direct)
    chance, step = np.eye(501)[0], scipy.linalg.expm(25.0 * generator)
    for row in (1, 2):
        chance = chance @ step
        mean = float(chance @ pairs)
        variance = float(chance @ (pairs - mean) ** 2)
        # No propensity changes by more than the part epsilon in a leap, so that none errs by more.
        error = counts[:, row].std() / np.sqrt(len(counts))
        assert abs(counts[:, row].mean() - mean) < 5 * error + epsilon * mean
        # What relaxes at a rate k in leaps h has its variance times 1 / (1 - k h / 2); h is at most what the variance allows.
        single = 1000 - 2 * mean
        rate, scatter = 2 * bind * single + leave, 4 * (bind * single**2 / 2 + leave * mean)
        leap = rate * (epsilon * single / 2) ** 2 / scatter
        squares = (counts[:, row] - counts[:, row].mean()) ** 2
        allowed = (1 / (1 - leap / 2) - 1 + epsilon) * variance
        assert leap < 1
        assert abs(squares.mean() - variance) < 5 * squares.std() / np.sqrt(len(counts)) + allowed


@pytest.mark.parametrize("mean", [0.3, 3.0, 9.99, 10.0, 47.0, 2e3, 1e6])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_poisson_numbers(mean, kind):
    """Shares of classes against the distribution function: chi-squared with 39 degrees of freedom at most, below 1e-6."""
    size = 20_000
    found = np.asarray(poisson(jax.random.key(5), jnp.full(size, mean, kind)))
    assert found.dtype == kind
    edges = np.unique(scipy.stats.poisson.ppf(np.linspace(0, 1, 41)[1:-1], mean))
    expected = np.diff(scipy.stats.poisson.cdf(np.array([-1, *edges, np.inf]), mean)) * size
    seen = np.bincount(np.searchsorted(edges, found, side="left"), minlength=len(expected))
    kept = expected > 5
    statistic = ((seen - expected)[kept] ** 2 / expected[kept]).sum()
    assert scipy.stats.chi2.sf(statistic, kept.sum() - 1) > 1e-6


class Orders(simkit.JumpSystem):
    """Reactions of one, two and three reactants, and one that nothing reads the product of."""

    rate: simkit.Scalar = simkit.quantity(1.0)

    def propensities(self, t, y, inputs):
        a, b, c = y["a"], y["b"], y["c"]
        return {
            "one": 2.0 * a,
            "two": 0.01 * a * b,
            "pair": 0.003 * c * (c - 1) / 2,
            "triple": 1e-5 * self.rate * b * (b - 1) * (b - 2) / 6,
        }

    def jumps(self):
        return {"one": {"a": -1, "d": 5}, "two": {"b": -1}, "pair": {"c": -2, "d": 1}, "triple": {"b": 1}}

    @classmethod
    def example(cls):
        return simkit.Example(cls(), {"a": 300.0, "b": 400.0, "c": 500.0, "d": 0.0}, jnp.linspace(0.0, 1.0, 2))


def test_the_leap_is_that_of_the_paper():
    """The formulas of Cao, Gillespie and Petzold (2006), equations 27 and 33, by hand: `steps` counts leaps of this length."""
    system, y0, _, _ = Orders.example()
    a, b, c, e = 300.0, 400.0, 500.0, 0.03
    one, two, pair, triple = 2 * a, 0.01 * a * b, 0.003 * c * (c - 1) / 2, 1e-5 * b * (b - 1) * (b - 2) / 6
    g = {"a": 2.0, "b": 3 + 1 / (b - 1) + 2 / (b - 2), "c": 2 + 1 / (c - 1)}
    mean = {"a": one, "b": abs(triple - two), "c": 2 * pair}
    square = {"a": one, "b": two + triple, "c": 4 * pair}
    y = {"a": a, "b": b, "c": c}
    bounds = {x: max(e * y[x] / g[x], 1.0) for x in y}
    longest = min(min(bounds[x] / mean[x], bounds[x] ** 2 / square[x]) for x in y)
    steps = lambda end: int(
        simkit.simulate(system, y0, jnp.array([0.0, end]), solver=TauLeaping(e, fewest=1), key=jax.random.key(3)).steps
    )
    assert steps(longest * 0.999) == 1
    assert steps(longest * 1.001) == 2


def test_what_runs_out_does_not_fall_below_nothing():
    times = np.linspace(0.0, 12.0, 7)
    found = runs_of(Herd(arrival=0.0, death=1.0), {"animals": 300.0}, times, TauLeaping(0.5, critical=1, fewest=1))
    counts = np.asarray(found.ys["animals"])
    assert (counts >= 0).all()
    assert (counts % 1 == 0).all()
    assert (np.diff(counts, axis=1) <= 0).all()
    system, y0 = Pairs(bind=1.0, leave=0.0), {"pair": 0.0, "single": 101.0}
    found = runs_of(system, y0, np.array([0.0, 1e4]), TauLeaping(0.5, critical=2, fewest=1))
    assert (np.asarray(found.ys["single"][:, -1]) == 1).all()


def test_a_member_has_the_same_leaps_in_any_batch():
    keys = jax.random.split(jax.random.key(1), 5)
    system, y0, times, _ = Pairs.example()
    found = simkit.ensemble(system, y0, times, over={"bind": [0.001] * 5}, key=keys, solver=TauLeaping(fewest=1))
    alone = simkit.simulate(system, y0, times, key=keys[3], solver="tau_leaping")
    alone = simkit.simulate(system, y0, times, key=keys[3], solver=TauLeaping(fewest=1))
    assert np.array_equal(alone.ys["pair"], found.ys["pair"][3])
    assert alone.steps == found.steps[3]


def test_statuses_and_single_precision():
    key, y0, times = jax.random.key(0), {"animals": 0.0}, np.array([0.0, 20.0])
    with pytest.raises(SimulationError, match="`max_steps` or `epsilon`"):
        simkit.simulate(Herd(), y0, times, key=key, solver=TauLeaping(max_steps=20))
    with pytest.raises(SimulationError, match=r"reaction `death` is -.* at time 0, where the state is animals 3"):
        simkit.simulate(Herd(death=-1.0), {"animals": 3.0}, times, key=key, solver=TauLeaping())
    single = simkit.cast(Herd(arrival=1e3), jnp.float32)
    found = simkit.simulate(
        single, {"animals": jnp.float32(2000)}, np.array([0, 1], np.float32), key=key, solver=TauLeaping()
    )
    assert found.ys["animals"].dtype == jnp.float32
    # A Poisson number of mean 2000, once in a million beyond 5 deviations.
    assert abs(float(found.ys["animals"][-1]) - 2000) < 5 * np.sqrt(2 * 2000)
    absorbed = simkit.simulate(Herd(arrival=0.0), {"animals": 2.0}, [0.0, 100.0], key=key, solver=TauLeaping())
    assert absorbed.status == Status.OK
    assert absorbed.steps == 3


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"epsilon": 0.0}, "`epsilon` must be a number between 0 and 1"),
        ({"critical": 0}, "`critical` must be an integer"),
        ({"fewest": 2**31}, "`fewest` must be an integer"),
        ({"max_steps": True}, "`max_steps` must be an integer"),
    ],
)
def test_wrong_arguments(given, words):
    with pytest.raises(ArgumentError, match=words):
        TauLeaping(**given)


def test_what_leaps_do_not_take():
    with pytest.raises(ArgumentError, match="must not go with `adjusted`"):
        simkit.simulate(Divided(), {"animals": 0.0}, [0.0, 1.0], key=jax.random.key(0), solver=TauLeaping())
    with pytest.raises(ArgumentError, match="no derivative"):
        jax.grad(
            lambda rate: simkit.simulate(
                Herd(death=rate), {"animals": 9.0}, [0.0, 1.0], key=jax.random.key(0), solver=TauLeaping()
            ).ys["animals"][-1]
        )(0.5)
