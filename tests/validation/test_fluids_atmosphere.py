"""An atmosphere against the tests of dynamical cores of Jablonowski and Williamson (2006) and of Held and Suarez (1994)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import fluids

DAY = 86400.0


def departure(truncation, layers, days, step):
    """The root mean square by which the zonal wind of the steady state has changed, over its layers."""
    sphere = fluids.Sphere(truncation)
    start, bed = fluids.jablonowski_williamson(sphere, layers, perturbation=0.0)
    air = fluids.PrimitiveEquationsSphere(sphere, levels=layers, bed=bed)
    run = simkit.simulate(air, start, [0.0, days * DAY], step=step)
    change = np.asarray(run.final().velocity[0] - air.decode(air.encode(start)).velocity[0])
    return float(np.sqrt(np.asarray(sphere.mean(change**2)) @ air.levels.thickness()))


@pytest.mark.slow
def test_the_steady_state_stays_but_for_errors_of_the_layers():
    """A day. Slopes of second order in the layers, less at the top; 20 layers change a jet of 35 m/s by 0.05 m/s."""
    errors = [departure(21, layers, 1, 3600.0) for layers in (10, 20, 40)]
    assert errors[1] < 0.06
    assert errors[0] / errors[1] > 2
    assert errors[1] / errors[2] > 2


@pytest.mark.slow
def test_a_baroclinic_wave():
    """Nine days at T42 in float32. The paper shows the low of day 9 in a figure alone; dinosaur 1.5.1 has 943.28 hPa.

    T85 has 942.41 hPa; mass, energy and angular momentum stay but for rounding and what the truncation loses.
    """
    sphere = fluids.Sphere(42)
    start, bed = fluids.jablonowski_williamson(sphere, 20, gas_constant=1004 * 2 / 7, rotation=7.292e-5)
    air = fluids.PrimitiveEquationsSphere(sphere, levels=20, bed=bed, gas_constant=1004 * 2 / 7, rotation=7.292e-5)
    air, start = simkit.cast((air, start), jnp.dtype("float32"))
    run = simkit.simulate(air, start, np.array([0.0, 4.0, 9.0], np.float32) * DAY, step=simkit.Fixed(216))
    low = np.asarray(run.ys.surface_pressure).min((1, 2)) / 100
    assert abs(low[1] - 998.3) < 0.2
    assert abs(low[2] - 943.28) < 1.0  # as far as steps of 30 min of one and of 15 min of the other are apart
    first, last = (air.outputs(0.0, jax.tree.map(lambda x, i=i: x[i], run.ys), None) for i in (0, -1))
    for name, within in (("mass", 1e-5), ("energy", 1e-5), ("angular_momentum", 2e-5)):
        assert abs(last[name] / first[name] - 1) < within


@pytest.mark.long
@pytest.mark.slow
def test_the_climate_of_held_and_suarez():
    """Days 100 to 200 at T21, less than the 1000 days of the test: a jet in each hemisphere, winds at the ground, a tropopause."""
    sphere = fluids.Sphere(21)
    air = fluids.PrimitiveEquationsSphere(sphere, levels=20, source=fluids.HeldSuarez(sphere, 20), damping=10 / DAY)
    start = fluids.resting_atmosphere(sphere, 20)
    noise = 0.1 * jax.random.normal(jax.random.key(0), start.temperature.shape)
    start = air.State(start.temperature + noise, start.velocity, start.surface_pressure)
    air, start = simkit.cast((air, start), jnp.dtype("float32"))
    run = simkit.simulate(air, start, np.arange(0, 201, 2, dtype=np.float32) * DAY, step=simkit.Fixed(48))
    east = np.asarray(run.ys.velocity[50:, 0]).mean((0, -1))
    sine, sigma = sphere.sines(), air.levels.sigma()
    for side in (sine > 0, sine < 0):
        k, j = np.unravel_index(np.argmax(np.where(side, east, -np.inf)), east.shape)
        assert 25 < east[k, j] < 38  # 1,000 days at T21 have 33 and 33.5
        assert 35 < np.degrees(np.arcsin(abs(sine[j]))) < 50
        assert 0.1 < sigma[k] < 0.35
    assert east[-1, np.abs(sine) < 0.3].mean() < -1  # trade winds
    assert east[-1, (np.abs(sine) > 0.6) & (np.abs(sine) < 0.8)].mean() > 2  # westerlies
    temperature = np.asarray(run.ys.temperature[50:]).mean((0, -1))
    assert 190 < temperature.min() < 205
    assert 295 < temperature.max() < 315


def loss_of(truncation, days, step):
    """The mean square of the pressure after some days, by the strength of the perturbation and three numbers of the system."""
    sphere = fluids.Sphere(truncation)
    balanced, bed = fluids.jablonowski_williamson(sphere, 8, perturbation=0.0)
    local = fluids.jablonowski_williamson(sphere, 8, perturbation=1.0)[0].velocity - balanced.velocity

    def loss(x):
        air = fluids.PrimitiveEquationsSphere(
            sphere, levels=8, bed=bed * x[1], gas_constant=287.0 * x[2], kappa=2 / 7 * x[3], damping=1e-5
        )
        start = air.State(balanced.temperature, balanced.velocity + 5 * x[0] * local, balanced.surface_pressure)
        run = simkit.simulate(air, start, np.array([0.0, days * DAY]), step=step, on_failure="mark")
        return jnp.mean((run.final().surface_pressure / 1e5 - 1) ** 2) * 1e4

    return loss


@pytest.mark.slow
def test_a_gradient_through_five_days():
    """Reverse against forward mode, and both against differences of order 4."""
    loss, point = loss_of(15, 5, 3600.0), jnp.ones(4)
    value, gradient = jax.jit(jax.value_and_grad(loss))(point)
    assert np.isfinite(value)
    way = jnp.asarray([1.0, 0.3, -0.2, 0.5])
    forward = jax.jit(lambda x: jax.jvp(loss, (x,), (way,))[1])(point)
    np.testing.assert_allclose(forward, gradient @ way, rtol=1e-9)  # 480 evaluations, in other orders
    compiled, h = jax.jit(loss), 1e-4
    around = [float(compiled(point + k * h * way)) for k in (-2, -1, 1, 2)]
    difference = (around[0] - 8 * around[1] + 8 * around[2] - around[3]) / (12 * h)
    np.testing.assert_allclose(difference, forward, rtol=1e-7)  # rounding of 1e-13 / h, and h^4
