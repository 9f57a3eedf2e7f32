"""Arrays as one unknown: blocks, their names, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import simkit
from simkit import Experiment, Free, Problem
from simkit.noise import Normal

SIZE = 150


class Decays(simkit.PlainSystem):
    """Independent decays, dy/dt = -rates y + source."""

    rates: simkit.Vector = simkit.quantity((1.0,) * SIZE, support=simkit.POSITIVE)
    source: simkit.Scalar = simkit.quantity(0.0)

    def vector_field(self, t, y, inputs):
        return -self.rates * y + self.source

    @classmethod
    def example(cls):
        return simkit.Example(cls(), jnp.ones(SIZE), jnp.linspace(0.0, 1.0, 3))


def decays(free, size=SIZE, **options):
    times = np.array([0.5, 1.0])
    data = Experiment("one", times, {"y": np.exp(-2 * times)[:, None] * np.ones(size)}, start=0.0)
    system = Decays(rates=jnp.ones(size))
    options = {"noise": {"y": Normal(0.1)}, "y0": jnp.ones(size), "step": simkit.Fixed(8), "set": {}} | options
    return Problem(system, options.pop("experiments", data), free=free, **options)


def test_an_array_is_one_block_with_the_density_of_its_numbers():
    """One row of the table, one prior and one line for the array; values as those of NumPy and of SciPy's closed form."""
    problem = decays({"source": Free(dist.Normal(0.0, 1.0)), "rates": Free(dist.LogNormal(0.0, 0.5), start=2.0)})
    assert (problem.size, len(problem.names), list(problem.table)) == (SIZE + 1, SIZE + 1, ["rates", "source"])
    assert problem.names[:3] == ("source", "rates.0", "rates.1")
    assert problem.unit("rates.7") == problem.units[8] == "1"
    assert problem.target("rates.7") == "rates"
    assert problem.log == (False,) + (True,) * SIZE
    assert len(repr(problem).splitlines()) <= 10
    assert f"{SIZE} numbers, prior LogNormal" in repr(problem)
    rates = np.linspace(0.5, 2.0, SIZE)
    theta = jnp.asarray(np.concatenate([[0.0], rates]))
    log = np.log(rates)
    expected = -0.5 * np.log(2 * np.pi) * (SIZE + 1) - np.sum(0.5 * (log / 0.5) ** 2 + np.log(0.5) + log)
    assert float(problem.log_prior(theta)) == pytest.approx(expected, rel=1e-12)
    # Eight steps of a fifth-order method a half unit: 1e-7 of exp(-rate t).
    np.testing.assert_allclose(problem.predict(theta)["y"][0, 1], np.exp(-rates), rtol=1e-6)
    z = problem.coordinates(theta)
    np.testing.assert_allclose(problem.natural(z), theta, rtol=1e-14)
    found = simkit.prior_draws(problem, jax.random.key(0), 40)
    assert found.shape == (40, SIZE + 1)
    # 6000 draws: the mean of the logarithm within five standard errors.
    assert abs(float(np.log(found[:, 1:]).mean())) < 5 * 0.5 / np.sqrt(40 * SIZE)


def test_sets_may_name_elements_of_an_array():
    times = np.array([1.0])
    data = {"y": np.ones((1, SIZE))}
    held = Experiment("held", times, data, start=0.0, set={"rates.3": 5.0})
    other = Experiment("other", times, data, start=0.0, set={"source": "rates.4"})
    rates = np.linspace(0.5, 2.0, SIZE)
    problem = decays({"rates": Free(dist.LogNormal(0.0, 0.5))}, experiments=[held, other])
    values = problem.model.values(jnp.asarray(rates))
    setups = [problem.setup(jnp.asarray(rates), name) for name in ("held", "other")]
    assert [setup.system.rates[3] for setup in setups] == [5.0, rates[3]]
    np.testing.assert_array_equal(np.delete(setups[0].system.rates, 3), np.delete(rates, 3))
    assert setups[1].system.source == rates[4]
    assert values["source"][0] == 0.0


def test_small_arrays_stay_numbers_with_names_of_their_own():
    free = {"rates": Free(dist.LogNormal(0.0, 0.5), start=np.array([1.0, 2.0, 3.0]))}
    problem = decays(free, 3)
    assert problem.names == ("rates.0", "rates.1", "rates.2") == tuple(problem.table)
    np.testing.assert_array_equal(problem.starts, [1.0, 2.0, 3.0])


def test_matrices_that_do_not_fit_are_refused_before_they_are_made(monkeypatch):
    problem = decays({"rates": Free(dist.LogNormal(0.0, 0.5))})
    theta = jnp.ones(SIZE)
    assert problem.information(theta).shape == (SIZE, SIZE)
    monkeypatch.setattr("simkit.problem._dense.MANY", 10)
    monkeypatch.setattr("simkit.problem._dense._memory", lambda: 1e5)
    with pytest.raises(simkit.ArgumentError, match="matrices over 150 unknowns"):
        problem.information(theta)
    with pytest.raises(simkit.ArgumentError, match=r"150 unknowns.*GaussNewtonCG"):
        simkit.fit(problem)


def test_starts_of_an_array_are_checked():
    with pytest.raises(simkit.ArgumentError, match="start of `rates` must be a number or an array of the shape"):
        decays({"rates": Free(dist.LogNormal(0.0, 0.5), start=np.ones(3))})
    with pytest.raises(simkit.ArgumentError, match="start of `rates` must lie inside its bounds"):
        decays({"rates": Free(start=np.linspace(-1.0, 1.0, SIZE))})
