"""Adaptive steps of stochastic systems, against closed forms of the path that they see."""

from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import simkit
from simkit import Adaptive, ArgumentError
from simkit.core import brownian_shape, brownian_tree
from simkit.odes import GeometricBrownianMotion, OrnsteinUhlenbeck, StochasticLotkaVolterra
from simkit.solvers import SRA1, EulerMaruyama

GROWTH, VOLATILITY = 0.5, 0.8
TIMES = np.linspace(0.0, 2.0, 5)
KEYS = jax.random.split(jax.random.key(0), 200)


def motion(dtype=float):
    cast = lambda x: jnp.asarray(x, dtype)
    return GeometricBrownianMotion(cast(GROWTH), cast(VOLATILITY)), {"x": cast(1.0)}


def path_of(system, y0, key, times=TIMES):
    """The Brownian path at the save times."""
    state = simkit.core.as_state(system, y0)
    tree = brownian_tree(brownian_shape(system, jnp.asarray(times[0]), state, None), key, jnp.asarray(times))
    return jax.vmap(tree.at)(jnp.asarray(times)).x


def test_the_tree_is_a_brownian_path():
    """Increments over halves of unequal length are independent normal numbers, whatever is asked for first."""
    system, y0 = motion()
    times = np.array([0.0, 0.3, 0.3001, 1.7, 2.0])
    paths = np.asarray(jax.vmap(lambda key: path_of(system, y0, key, times))(jax.random.split(jax.random.key(5), 2000)))
    increments = np.diff(paths, axis=1) / np.sqrt(np.diff(times))
    assert (paths[:, 0] == 0).all()
    for column in increments.T:
        assert scipy.stats.kstest(column, "norm").pvalue > 1e-4
    # Correlations of 2,000 draws have a standard error of 1 / sqrt(2000).
    assert np.abs(np.corrcoef(increments.T) - np.eye(4)).max() < 4.5 / np.sqrt(2000)


@pytest.fixture(scope="module")
def solved():
    """Mean numbers of steps and root mean square errors at the last time, by tolerance."""
    system, y0 = motion()
    ends = np.asarray(jax.vmap(lambda key: path_of(system, y0, key))(KEYS))[:, -1]
    exact = np.exp((GROWTH - VOLATILITY**2 / 2) * TIMES[-1] + VOLATILITY * ends)
    rows = {}
    for rtol in (1e-2, 1e-3, 1e-4):
        run = jax.jit(jax.vmap(lambda key, rtol=rtol: simkit.simulate(system, y0, TIMES, step=Adaptive(rtol), key=key)))
        found = run(KEYS)
        rows[rtol] = float(found.steps.mean()), float(np.sqrt(np.mean((found.ys.x[:, -1] / exact - 1) ** 2)))
    return rows


def test_paths_converge_with_strong_order_one(solved):
    steps, errors = np.array(list(solved.values())).T
    slope = np.polyfit(np.log(steps), np.log(errors), 1)[0]
    # Order 1, to what 200 paths and three tolerances tell.
    assert -1.3 < slope < -0.8, (slope, solved)
    assert errors[-1] < 5e-3


def test_one_path_whatever_the_save_times_and_the_batch():
    system, y0 = motion()
    many = np.linspace(0.0, 2.0, 17)
    run = lambda times, rtol=1e-4: simkit.simulate(system, y0, times, step=Adaptive(rtol), key=KEYS[0])
    few, more = run(TIMES), run(many)
    np.testing.assert_allclose(few.ys.x, more.ys.x[::4], rtol=5e-3)
    assert "HalfSteps" in few.solver
    keys = jax.random.split(jax.random.key(3), 4)
    members = simkit.ensemble(
        system, y0, TIMES, over={"growth": np.full(4, GROWTH)}, step=Adaptive(1e-3), key=jax.random.key(3)
    )
    alone = jax.vmap(lambda key: simkit.simulate(system, y0, TIMES, step=Adaptive(1e-3), key=key).ys.x)(keys)
    assert members.ys.x.shape == alone.shape
    assert len(np.unique(np.asarray(members.ys.x[:, -1]))) == 4


def test_derivatives_are_those_of_the_path():
    system, y0 = motion()

    def last(volatility):
        moved = GeometricBrownianMotion(jnp.asarray(GROWTH), volatility)
        return simkit.simulate(moved, y0, TIMES, step=Adaptive(1e-5), key=KEYS[1]).ys.x[-1]

    value, slope = jax.value_and_grad(last)(jnp.asarray(VOLATILITY))
    end = float(path_of(system, y0, KEYS[1])[-1])
    # dX/ds = X (W - s t); the error is that of paths at this tolerance.
    np.testing.assert_allclose(slope / value, end - VOLATILITY * TIMES[-1], atol=5e-3)
    tangent = jax.jvp(last, (jnp.asarray(VOLATILITY),), (jnp.asarray(1.0),))[1]
    np.testing.assert_allclose(tangent, slope, rtol=1e-10)


class Landau(simkit.StochasticSystem):
    """Ginzburg and Landau's equation, dx = (a x - x^3) dt + s x dW, whose drift grows faster than the state."""

    interpretation: ClassVar[Literal["ito", "stratonovich"]] = "ito"
    noise_kind: ClassVar[Literal["additive", "diagonal", "general"]] = "diagonal"
    rise: simkit.Scalar = simkit.quantity(1.0)
    spread: simkit.Scalar = simkit.quantity(0.7)

    def drift(self, t, y, inputs):
        return {"x": self.rise * y["x"] - y["x"] ** 3}

    def diffusion(self, t, y, inputs):
        return {"x": self.spread * y["x"]}

    @classmethod
    def example(cls):
        return simkit.Example(cls(), {"x": jnp.asarray(1.0)}, jnp.linspace(0.0, 1.0, 3))


def test_a_drift_that_makes_fixed_steps_explode():
    """From x = 30 Euler's steps of 0.01 leave the numbers: the drift moves them by -270 at once (Hutzenthaler et al. 2011)."""
    system, y0, times = Landau(), {"x": 30.0}, np.linspace(0.0, 1.0, 3)
    with pytest.raises(simkit.SimulationError):
        simkit.simulate(system, y0, times, solver="euler_maruyama", step=0.01, key=KEYS[0])
    found = simkit.simulate(system, y0, times, step=Adaptive(1e-4), key=KEYS[0])
    # x(t) = x0 e / sqrt(1 + 2 x0^2 int e^2 ds) with e = exp((a - s^2 / 2) t + s W); the integral by 20,000 trapezia.
    fine = np.linspace(0.0, 1.0, 20_001)
    tree = brownian_tree({"x": jax.ShapeDtypeStruct((), jnp.float64)}, KEYS[0], jnp.asarray(times))
    path = np.asarray(jax.vmap(tree.at)(jnp.asarray(fine))["x"])
    growth = np.exp((1 - 0.7**2 / 2) * fine + 0.7 * path)
    exact = 30 * growth[-1] / np.sqrt(1 + 2 * 30**2 * np.trapezoid(growth**2, fine))
    np.testing.assert_allclose(found.ys["x"][-1], exact, rtol=5e-3)
    # The first steps are short, the later ones long: a fixed step that is stable at the start takes thirty times as many.
    assert int(found.steps) < 2000


def test_single_precision():
    system, y0 = motion(jnp.float32)
    times = jnp.asarray(TIMES, jnp.float32)
    found = simkit.simulate(system, y0, times, step=Adaptive(1e-3), key=KEYS[0])
    tree = brownian_tree({"x": jax.ShapeDtypeStruct((), jnp.float32)}, KEYS[0], times)
    end = float(tree.at(times[-1])["x"])
    assert found.ys.x.dtype == jnp.float32
    np.testing.assert_allclose(found.ys.x[-1], np.exp((GROWTH - VOLATILITY**2 / 2) * 2 + VOLATILITY * end), rtol=2e-2)


def test_refused():
    system, y0, times, _ = OrnsteinUhlenbeck.example()
    key, step = jax.random.key(0), Adaptive(1e-3)
    assert simkit.simulate(system, y0, times, step=step, key=key).status == simkit.Status.OK
    with pytest.raises(ArgumentError, match="needs the Levy area"):
        simkit.simulate(system, y0, times, solver=SRA1(), step=step, key=key)
    with pytest.raises(ArgumentError, match="strong order 1/2"):
        simkit.simulate(*motion(), TIMES, solver=EulerMaruyama(), step=step, key=key)
    with pytest.raises(ArgumentError, match="additive or diagonal"):
        simkit.simulate(*StochasticLotkaVolterra.example()[:3], step=step, key=key)
    with pytest.raises(ArgumentError, match="take no reducers"):
        simkit.simulate(*motion(), TIMES, step=step, key=key, reduce={"mean": simkit.reducers.Mean()})
    with pytest.raises(ArgumentError, match="`key` must be a random key"):
        simkit.simulate(*motion(), TIMES, step=step)
