"""Propensities that change with time, by thinning, against Poisson distributions with integrated rates."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.stats

import simkit
from simkit import ArgumentError, SimulationError

LEVEL, SWING, TURN, DEATH = 6.0, 5.0, 3.0, 0.7
TIMES = np.array([0.0, 0.5, 1.7, 4.0])
MEMBERS = 4000


class Seasons(simkit.JumpSystem):
    """Arrivals at a rate that swings, deaths one by one: counts are Poisson where none was there at the start."""

    level: simkit.Scalar = simkit.quantity(LEVEL)
    swing: simkit.Scalar = simkit.quantity(SWING)
    least: simkit.Scalar = simkit.quantity(1.0)

    def propensities(self, t, y, inputs):
        return {"arrival": self.level + self.swing * jnp.sin(TURN * t), "death": DEATH * y["animals"]}

    def jumps(self):
        return {"arrival": {"animals": 1}, "death": {"animals": -1}}

    def bound(self, t, until, y, inputs):
        return self.least * (self.level + jnp.abs(self.swing) + DEATH * y["animals"])

    @classmethod
    def example(cls):
        return simkit.Example(cls(), {"animals": 0.0}, jnp.asarray(TIMES))


def mean_at(t):
    return scipy.integrate.quad(lambda s: (LEVEL + SWING * np.sin(TURN * s)) * np.exp(-DEATH * (t - s)), 0, t)[0]


def test_counts_with_a_rate_that_swings_are_poisson():
    over = {"level": np.full(MEMBERS, LEVEL)}
    found = simkit.ensemble(Seasons(), {"animals": 0.0}, TIMES, over=over, key=jax.random.key(0))
    counts = np.asarray(found.ys["animals"])
    for column, t in zip(counts.T[1:], TIMES[1:], strict=True):
        mean = mean_at(t)
        assert abs(column.mean() - mean) < 4 * np.sqrt(mean / MEMBERS)
        # The variance of a sample variance of Poisson numbers is (2 m^2 + m) / n.
        assert abs(column.var(ddof=1) - mean) < 4 * np.sqrt((2 * mean**2 + mean) / MEMBERS)
    # All counts that are expected at least five times, and the rest together.
    mean = mean_at(TIMES[-1])
    chance = scipy.stats.poisson.pmf(np.arange(60), mean)
    usual = chance * MEMBERS >= 5
    seen = np.bincount(counts[:, -1].astype(int), minlength=60)[:60]
    told = np.append(chance[usual], 1 - chance[usual].sum()) * MEMBERS
    assert scipy.stats.chisquare(np.append(seen[usual], MEMBERS - seen[usual].sum()), told).pvalue > 1e-4
    # Candidates are counted, at the rate of the bound: 11 arrivals and the deaths a unit of time.
    candidates = 4 * (LEVEL + SWING) + DEATH * scipy.integrate.quad(mean_at, 0, 4)[0]
    assert abs(float(found.steps.mean()) / candidates - 1) < 0.05


def test_one_path_whatever_the_batch():
    keys = jax.random.split(jax.random.key(3), 3)
    run = lambda key: simkit.simulate(Seasons(), {"animals": 0.0}, TIMES, key=key).ys["animals"]
    together = jax.vmap(run)(keys)
    np.testing.assert_array_equal(together[2], run(keys[2]))


class Fed(Seasons):
    """Arrivals by an input of any form."""

    def propensities(self, t, y, inputs):
        return {"arrival": inputs["rate"], "death": DEATH * y["animals"]}

    def bound(self, t, until, y, inputs):
        return 11.0 + DEATH * y["animals"]


def test_a_rate_by_an_input_that_is_interpolated():
    grid = np.linspace(0.0, 4.0, 200)
    inputs = {"rate": simkit.Interpolated(grid, LEVEL + SWING * np.sin(TURN * grid))}
    over = {"level": np.full(MEMBERS, LEVEL)}
    found = simkit.ensemble(Fed(), {"animals": 0.0}, TIMES, over=over, key=jax.random.key(1), inputs=inputs)
    last, mean = np.asarray(found.ys["animals"])[:, -1], mean_at(4.0)
    # Straight lines between 200 points miss the sine by 4e-4 of its height.
    assert abs(last.mean() - mean) < 4 * np.sqrt(mean / MEMBERS) + 1e-3 * mean


class Unbounded(Seasons):
    def propensities(self, t, y, inputs):
        return {"arrival": self.level - 20 * t, "death": DEATH * y["animals"]}


def test_what_goes_wrong_is_told():
    run = lambda system, **given: simkit.simulate(system, {"animals": 0.0}, TIMES, key=jax.random.key(0), **given)
    with pytest.raises(SimulationError, match="larger than `bound`"):
        run(Seasons(least=jnp.asarray(0.3)))
    with pytest.raises(SimulationError, match="propensity of the reaction `arrival` is -"):
        run(Unbounded())
    with pytest.raises(ArgumentError, match="stay what they are in a leap"):
        run(Seasons(), solver=simkit.solvers.TauLeaping())


def test_particles_fit_a_rate_that_swings():
    """The likelihood of exact counts of arrivals alone is that of a Poisson number."""

    class Arrivals(Seasons):
        def propensities(self, t, y, inputs):
            return {"arrival": self.level + self.swing * jnp.sin(TURN * t)}

        def jumps(self):
            return {"arrival": {"animals": 1}}

        def bound(self, t, until, y, inputs):
            return self.level + jnp.abs(self.swing)

    problem = simkit.Problem(
        Arrivals(),
        simkit.Experiment("a", [0.8], {"animals": np.array([8.0])}, start=0.0, y0={"animals": 0.0}),
        free={"level": simkit.Free(bounds=(1.0, 30.0))},
        noise={"animals": simkit.noise.Normal(0.05)},
        likelihood=simkit.filters.ParticleFilter(4000, key=jax.random.key(0)),
    )
    mean = LEVEL * 0.8 + SWING * (1 - np.cos(TURN * 0.8)) / TURN
    told = scipy.stats.poisson.logpmf(8, mean) + scipy.stats.norm.logpdf(0, 0, 0.05)
    share = scipy.stats.poisson.pmf(8, mean)
    found = float(problem.log_likelihood(jnp.array([LEVEL]))[0])
    assert abs(found - told) < 4 * np.sqrt((1 - share) / share / 4000)
