"""Discrete systems: maps with steps of their own, at times that are any whole numbers of steps apart."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit


class Ricker(simkit.DiscreteSystem):
    """Ricker's stock and recruitment: n exp(r (1 - n / K)), less a catch."""

    growth: simkit.Scalar = simkit.quantity(1.5, support=simkit.POSITIVE)
    capacity: simkit.Scalar = simkit.quantity(100.0, support=simkit.POSITIVE)
    step: float = eqx.field(static=True, default=1.0)

    def reads(self):
        return {"catch": simkit.Input("1/yr", default=0.0)}

    def advance(self, t, y, inputs):
        n = y["fish"]
        return {"fish": n * jnp.exp(self.growth * (1 - n / self.capacity)) - inputs["catch"]}

    @classmethod
    def example(cls):
        return simkit.Example(cls(), {"fish": 10.0}, jnp.arange(21.0))


def by_hand(years, growth=1.5, catch=lambda t: 0.0, start=0.0):
    n, found = 10.0, [10.0]
    for k in range(years):
        n = n * np.exp(growth * (1 - n / 100)) - catch(start + k)
        found.append(n)
    return np.array(found)


SYSTEM, Y0, TIMES, _ = Ricker.example()


def test_the_map():
    found = simkit.simulate(SYSTEM, Y0, TIMES)
    np.testing.assert_allclose(found.ys["fish"], by_hand(20), rtol=1e-12)
    assert int(found.steps) == 20


@pytest.mark.parametrize("times", [[0, 3, 4, 9], [5, 6, 8, 20], [0.0, 7.0]], ids=str)
def test_save_times_any_whole_numbers_of_steps_apart(times):
    times = np.asarray(times, float)
    places = (times - times[0]).astype(int)
    np.testing.assert_allclose(simkit.simulate(SYSTEM, Y0, times).ys["fish"], by_hand(20)[places], rtol=1e-12)
    run = jax.jit(lambda growth: simkit.simulate(Ricker(growth), Y0, times).ys["fish"])
    np.testing.assert_allclose(run(1.5), by_hand(20)[places], rtol=1e-12)
    many = jax.vmap(run)(jnp.array([0.7, 1.9]))
    np.testing.assert_allclose(many, [by_hand(20, g)[places] for g in (0.7, 1.9)], rtol=1e-9)
    last = lambda growth: run(growth)[-1]
    np.testing.assert_allclose(jax.grad(last)(0.7), (last(0.7 + 1e-5) - last(0.7 - 1e-5)) / 2e-5, rtol=1e-5)


def test_another_length_of_step():
    """Months as twelfths: a step that no float holds, far from zero."""
    system = Ricker(step=1 / 12)
    times = 1990 + np.array([0, 5, 17, 240]) / 12
    np.testing.assert_allclose(simkit.simulate(system, Y0, times).ys["fish"], by_hand(240)[[0, 5, 17, 240]], rtol=1e-9)


def test_inputs_that_jump_do_not_add_steps():
    catch = simkit.PiecewiseConstant(times=[0.0, 3.5, 7.0], values=[0.0, 5.0, 2.0])
    hand = by_hand(12, catch=lambda t: 0.0 if t < 3.5 else 5.0 if t < 7 else 2.0)
    found = simkit.simulate(SYSTEM, Y0, np.arange(0.0, 13.0, 2.0), inputs={"catch": catch})
    np.testing.assert_allclose(found.ys["fish"], hand[::2], rtol=1e-12)
    mean = simkit.simulate(
        SYSTEM, Y0, np.arange(13.0), inputs={"catch": catch}, reduce={"mean": simkit.reducers.Mean()}
    )
    np.testing.assert_allclose(mean.reduced["mean"]["fish"], hand.mean(), rtol=1e-12)


def test_ensembles_and_fits():
    members = simkit.ensemble(SYSTEM, Y0, TIMES, over={"growth": np.linspace(0.5, 1.9, 5)})
    np.testing.assert_allclose(members.ys["fish"], [by_hand(20, g) for g in np.linspace(0.5, 1.9, 5)], rtol=1e-9)
    places = np.array([0, 2, 3, 7, 15])
    data = simkit.Experiment("catches", places.astype(float), {"fish": by_hand(20, 1.3)[places]}, y0=Y0)
    free = {"growth": simkit.Free(bounds=(0.5, 1.8))}
    problem = simkit.Problem(SYSTEM, data, free=free, noise={"fish": simkit.noise.Normal(1.0)})
    fit = simkit.fit(problem, starts=4, key=jax.random.key(0))
    np.testing.assert_allclose(fit.estimate, [1.3], rtol=1e-6)


def test_refused():
    with pytest.raises(simkit.ArgumentError, match=r"entry 1 to the next it is 1\.5 steps"):
        simkit.simulate(SYSTEM, Y0, [0.0, 1.0, 2.5])
    with pytest.raises(simkit.ArgumentError, match="own step is 1"):
        simkit.simulate(SYSTEM, Y0, TIMES, step=0.5)
    with pytest.raises(simkit.ArgumentError, match="`events` must be left out"):
        simkit.simulate(SYSTEM, Y0, TIMES, events=simkit.Event(lambda t, y, *_: y["fish"] - 50.0, ends=True))
    with pytest.raises(simkit.ArgumentError, match="`times` is traced"):
        jax.jit(lambda times: simkit.simulate(SYSTEM, Y0, times).ys)(TIMES)
