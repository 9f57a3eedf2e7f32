"""Shallow water: dams, lakes at rest with shores, basins that run dry, rotation, friction, bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit.fluids import ConservedWater, FreeSlip, Grid, Level, Open, Periodic, ShallowWater, Water

from .exact import dam_break


def slope_of(system, water):
    return jax.jit(lambda s, y: s.vector_field(0.0, s.encode(y), None))(system, water)


def test_dam_break():
    """Stoker's dam break 1 / 0.1 with g = 9.81; the published state between the waves."""
    grid = Grid(200, 10.0, origin=-5.0)
    height = jnp.where(jnp.asarray(grid.centres(0)) < 0, 1.0, 0.1)
    system = ShallowWater(grid, boundaries=Open())
    run = simkit.simulate(system, Water(height, jnp.zeros((1, 200))), np.array([0.0, 1.0]), step=simkit.Courant(0.5))
    exact, middle = dam_break(1.0, 0.1, 9.81, grid.centres(0))
    np.testing.assert_allclose(middle, [0.396174816799, 2.321354995643], rtol=1e-11)
    assert np.abs(np.asarray(run.ys.height[-1]) - exact[0]).mean() < 4e-3
    assert np.abs(np.asarray(run.ys.velocity[-1, 0]) - exact[1]).mean() < 2.5e-2
    between = (grid.centres(0) > 0.7) & (grid.centres(0) < 2.5)
    np.testing.assert_allclose(np.asarray(run.ys.height[-1])[between], middle[0], rtol=8e-3)


@pytest.mark.parametrize("order", ["muscl", "first_order"])
def test_a_lake_at_rest_with_islands(order):
    """Over a rough bed, some of it above the surface, nothing moves."""
    grid = Grid((20, 24), (1.0, 1.2))
    bed = 0.6 * jax.random.uniform(jax.random.key(1), grid.shape) + 0.5 * jnp.asarray(np.sin(5 * grid.mesh()[0]))
    level = 0.55
    water = Water(jnp.maximum(level - bed, 0), jnp.zeros((2, *grid.shape)))
    assert 0 < int((water.height == 0).sum()) < grid.size
    slope = slope_of(ShallowWater(grid, bed=bed, boundaries=FreeSlip(), reconstruction=order), water)
    for leaf in jax.tree.leaves(slope):
        np.testing.assert_allclose(leaf, 0, atol=1e-13)


def parabolic(grid, t, depth=1.0, radius=4.0, swing=1.0, gravity=9.81):
    """Thacker's planar surface in a parabolic bowl, of one dimension: bed, height and velocity.

    Thacker (1981), J. Fluid Mech. 107:499; Sampson, Easton and Singh (2006), ANZIAM J. 47:C373, without friction.
    """
    x = grid.centres(0)
    bed = depth * (x**2 / radius**2)
    frequency = np.sqrt(2 * gravity * depth) / radius
    surface = depth + 2 * depth * swing / radius**2 * np.cos(frequency * t) * (x - swing / 2 * np.cos(frequency * t))
    height = np.maximum(surface - bed, 0)
    return bed, height, np.where(height > 0, -swing * frequency * np.sin(frequency * t), 0)


@pytest.fixture(scope="module")
def bowl():
    """Water that sloshes in a parabolic bowl for a period, its shores moving."""
    grid = Grid(100, 12.0, origin=-6.0)
    period = 2 * np.pi * 4 / np.sqrt(2 * 9.81)
    bed, height, velocity = parabolic(grid, 0.0)
    system = ShallowWater(grid, bed=jnp.asarray(bed), boundaries=FreeSlip())
    water = Water(jnp.asarray(height), jnp.asarray(velocity)[None])
    times = np.array([0.0, 0.25, 0.5, 1.0]) * period
    return grid, times, simkit.simulate(system, water, times, step=simkit.Courant(0.25))


@pytest.mark.slow
def test_a_bowl_with_shores_that_move(bowl):
    grid, times, run = bowl
    for k in (1, 2, 3):
        exact = parabolic(grid, times[k])[1]
        assert np.abs(np.asarray(run.ys.height[k]) - exact).mean() < 0.01 * exact.max()
    volume = np.asarray(run.ys.height).sum(axis=1)
    np.testing.assert_allclose(volume, volume[0], rtol=1e-12)
    assert float(run.ys.height.min()) >= -1e-15


def test_rotation_turns_a_current():
    """du/dt = f v, dv/dt = -f u, with f that grows with y."""
    grid = Grid((4, 8), (1.0, 2.0))
    one = jnp.ones(grid.shape)
    system = ShallowWater(grid, coriolis=0.5, beta=0.1)
    slope = slope_of(system, Water(2 * one, jnp.stack([3 * one, 0.0 * one])))
    f = 0.5 + 0.1 * (grid.mesh()[1] - 1.0)
    np.testing.assert_allclose(slope.discharge[1], -f * 6.0, rtol=1e-12)
    np.testing.assert_allclose(slope.discharge[0], 0.0, atol=1e-12)


def test_manning_friction():
    """g n^2 u^2 / h^(1/3), less what holds thin films."""
    grid = Grid(8, 80.0)
    system = ShallowWater(grid, roughness=0.03, boundaries=Periodic())
    slope = slope_of(system, Water(jnp.full(8, 2.0), jnp.full((1, 8), 1.5)))
    rate = 9.81 * 0.03**2 * 1.5 / 2.0 ** (4 / 3)
    held = rate / (1 + rate * 10 / (1.5 + np.sqrt(9.81 * 2.0)))
    np.testing.assert_allclose(slope.discharge[0], -held * 3.0, rtol=1e-12)


def test_a_tide_fills_a_basin():
    grid = Grid(32, 100.0)
    system = ShallowWater(grid, boundaries=[(Level(jnp.asarray(1.2)), FreeSlip())])
    water = Water(jnp.ones(32), jnp.zeros((1, 32)))
    slope = slope_of(system, water)
    assert float(slope.discharge[0, 0]) > 0
    assert system.invariants(0.0, water) == {}


def test_rain_fills_a_basin():
    rain = lambda t, x, water: ConservedWater(jnp.where(x[0] < 1.0, 0.5, 0.0), jnp.zeros_like(water.velocity))
    system = ShallowWater(Grid(8, 2.0), boundaries=FreeSlip(), source=rain)
    water = Water(jnp.ones(8), jnp.zeros((1, 8)))
    end = simkit.simulate(system, water, np.array([0.0, 1.0]), step=simkit.Courant(0.25)).final()
    np.testing.assert_allclose(end.height.mean(), 1.25, rtol=1e-12)
    assert system.invariants(0.0, water) == {}


@pytest.mark.slow
def test_gradients_by_the_bed():
    """Of a wave over a hump, by the whole bed and by gravity, along a random direction."""
    grid = Grid(24, 6.0)
    x = jnp.asarray(grid.centres(0))

    @jax.jit
    def final(bed, gravity):
        system = ShallowWater(grid, bed=bed, gravity=gravity, boundaries=FreeSlip())
        water = Water(1.0 + 0.3 * jnp.exp(-((x - 2) ** 2)) - bed, jnp.zeros((1, 24)))
        run = simkit.simulate(system, water, jnp.array([0.0, 0.5]), step=simkit.Fixed(25))
        return jnp.sum(run.ys.height[-1] * jnp.sin(x)) + jnp.sum(run.ys.velocity[-1] ** 2)

    bed = 0.05 * x + 0.1 * jnp.sin(2 * x)  # nowhere flat: there the higher side of a face changes
    gradient = jax.jit(jax.grad(final, argnums=(0, 1)))(bed, jnp.asarray(9.81))
    direction = jnp.cos(3 * x)
    h = 1e-6
    by_bed = (final(bed + h * direction, 9.81) - final(bed - h * direction, 9.81)) / (2 * h)
    by_gravity = (final(bed, 9.81 + h) - final(bed, 9.81 - h)) / (2 * h)
    np.testing.assert_allclose(gradient[0] @ direction, by_bed, rtol=1e-6)
    np.testing.assert_allclose(gradient[1], by_gravity, rtol=1e-6)


def test_bad_input():
    with pytest.raises(simkit.ArgumentError, match="1 or 2 dimensions"):
        ShallowWater(Grid((4, 4, 4)))
    with pytest.raises(simkit.ArgumentError, match="must be one of first_order, muscl"):
        ShallowWater(Grid(8), reconstruction="weno5z")
    with pytest.raises(simkit.ArgumentError, match="`bed` must have the shape"):
        ShallowWater(Grid(8), bed=jnp.zeros(9))
    with pytest.raises(simkit.ArgumentError, match="`gravity` of ShallowWater must not be negative, but it is -1"):
        ShallowWater(Grid(8), gravity=-1.0).review(Water(jnp.ones(8), jnp.zeros((1, 8))), None, None)
    with pytest.raises(simkit.ArgumentError, match="2 dimensions for a Coriolis"):
        ShallowWater(Grid(8), coriolis=1.0)
