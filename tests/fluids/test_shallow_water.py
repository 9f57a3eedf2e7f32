"""Shallow water: dams, lakes at rest with shores, basins that run dry, rotation, friction, bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit.fluids import FreeSlip, Grid, Level, Open, Periodic, ShallowWater

from .exact import dam_break


def slope_of(system, water):
    return jax.jit(lambda s, y: s.vector_field(0.0, s.encode(y), None))(system, water)


def test_dam_break():
    """Stoker's dam break 1 / 0.1 with g = 9.81; the published state between the waves."""
    grid = Grid(200, 10.0, origin=-5.0)
    height = jnp.where(jnp.asarray(grid.centres(0)) < 0, 1.0, 0.1)
    system = ShallowWater(grid, boundaries=Open())
    run = simkit.simulate(
        system, ShallowWater.State(height, jnp.zeros((1, 200))), np.array([0.0, 1.0]), step=simkit.Courant(0.5)
    )
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
    water = ShallowWater.State(jnp.maximum(level - bed, 0), jnp.zeros((2, *grid.shape)))
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
    water = ShallowWater.State(jnp.asarray(height), jnp.asarray(velocity)[None])
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
    slope = slope_of(system, ShallowWater.State(2 * one, jnp.stack([3 * one, 0.0 * one])))
    f = 0.5 + 0.1 * (grid.mesh()[1] - 1.0)
    np.testing.assert_allclose(slope.discharge[1], -f * 6.0, rtol=1e-12)
    np.testing.assert_allclose(slope.discharge[0], 0.0, atol=1e-12)


def test_manning_friction():
    """g n^2 u^2 / h^(1/3)."""
    grid = Grid(8, 80.0)
    system = ShallowWater(grid, roughness=0.03, boundaries=Periodic())
    slope = slope_of(system, ShallowWater.State(jnp.full(8, 2.0), jnp.full((1, 8), 1.5)))
    rate = 9.81 * 0.03**2 * 1.5 / 2.0 ** (4 / 3)
    np.testing.assert_allclose(slope.discharge[0], -rate * 3.0, rtol=1e-12)


def test_a_tide_fills_a_basin():
    grid = Grid(32, 100.0)
    system = ShallowWater(grid, boundaries=[(Level(jnp.asarray(1.2)), FreeSlip())])
    water = ShallowWater.State(jnp.ones(32), jnp.zeros((1, 32)))
    slope = slope_of(system, water)
    assert float(slope.discharge[0, 0]) > 0
    assert system.invariants(0.0, water) == {}


def test_rain_fills_a_basin():
    rain = lambda t, x, water: ShallowWater.Conserved(jnp.where(x[0] < 1.0, 0.5, 0.0), jnp.zeros_like(water.velocity))
    system = ShallowWater(Grid(8, 2.0), boundaries=FreeSlip(), source=rain)
    water = ShallowWater.State(jnp.ones(8), jnp.zeros((1, 8)))
    end = simkit.simulate(system, water, np.array([0.0, 1.0]), step=simkit.Courant(0.25)).final()
    np.testing.assert_allclose(end.height.mean(), 1.25, rtol=1e-12)
    assert system.invariants(0.0, water) == {}


def down(slope, cells=20, spacing=1.0, roughness=0.03):
    """Rough water on a slope without ends."""
    grid = Grid(cells, cells * spacing)
    return ShallowWater(grid, bed=jnp.asarray(-slope * grid.centres(0)), roughness=roughness, boundaries=Open())


def test_manning_holds_in_thin_water():
    """Uniform flow down a slope of 1 % keeps u = h^(2/3) sqrt(S) / n, and water at rest reaches it, a film of a millimetre too.

    In the middle, that is: after 12 s nothing has come there from the ends at 60 m.
    """
    system = down(0.01, 120)

    @jax.jit
    def run(height, start):
        manning = height ** (2 / 3) * 0.1 / 0.03
        water = ShallowWater.State(jnp.full(120, height), jnp.full((1, 120), start * manning))
        found = simkit.simulate(system, water, jnp.array([0.0, 12.0]), step=simkit.Courant(0.25))
        return found.final().velocity[0, 60] / manning, found.final().height.min(), found.status

    for height, approached in ((0.2, None), (0.05, 0.9), (0.01, 0.999), (0.001, 0.98)):
        ratio, lowest, status = run(height, 1.0)
        assert status == 0
        assert lowest > 0
        np.testing.assert_allclose(ratio, 1, rtol=1e-6)
        if approached is not None:  # deeper water takes longer; a film takes six steps, that are long
            assert approached < run(height, 0.0)[0] < 1.02


@pytest.mark.parametrize("slope", [0.01, 0.3])
def test_a_film_stays_positive_at_open_ends(slope):
    """A tenth of a millimetre that runs off a slope, faster than its waves on the steep one."""
    system, water = down(slope), ShallowWater.State(jnp.full(20, 1e-4), jnp.zeros((1, 20)))
    run = simkit.simulate(system, water, np.linspace(0.0, 300.0, 4), step=simkit.Courant(0.25))
    assert float(run.ys.height.min()) > 0


def test_a_flood_on_a_dry_rough_valley_keeps_its_water():
    """A front reaches cells that are dry when the step begins: friction there must not turn the flow around (depths of -124 m)."""
    grid = Grid((48, 12), (4000.0, 1000.0))
    x, y = (np.asarray(c) for c in np.meshgrid(grid.centres(0), grid.centres(1), indexing="ij"))
    random = np.random.default_rng(3)
    bed = 30 * (1 - x / 4000) + 45 * ((y - 500 - 150 * np.sin(2 * np.pi * x / 2200)) / 500) ** 2
    for _ in range(25):
        kx, ky = random.normal(0, 2 * np.pi / 600, 2)
        bed = bed + 0.5 * np.cos(kx * x + ky * y + random.uniform(0, 2 * np.pi))
    system = ShallowWater(grid, bed=bed, roughness=0.045, boundaries=((FreeSlip(), Open()), FreeSlip()), dry=1e-3)
    depth = jnp.asarray(np.where(x < 900, np.maximum(44 - bed, 0), 0))
    water = ShallowWater.State(depth, jnp.zeros((2, 48, 12)))
    run = simkit.simulate(system, water, [0.0, 60.0, 90.0], step=simkit.Courant(0.25))
    volume = np.asarray(run.ys.height).sum(axis=(1, 2))
    np.testing.assert_allclose(
        volume, volume[0], rtol=1e-9
    )  # it has not reached the open end; what is dried counts as round-off
    assert float(run.ys.height.min()) >= -1e-3  # `dry`
    assert float(jnp.abs(run.ys.velocity).max()) < 2 * np.sqrt(9.81 * 44)  # the front of a dam that breaks


@pytest.mark.slow
def test_friction_is_of_order_two_in_time():
    """A wave over rough ground against very short steps: twice as many steps, a quarter of the error."""
    grid = Grid(24, 6.0)
    system = ShallowWater(grid, roughness=0.1, boundaries=FreeSlip(), reconstruction="first_order")
    water = ShallowWater.State(0.3 + 0.1 * jnp.asarray(np.cos(np.pi * grid.centres(0) / 6)), jnp.full((1, 24), 0.2))
    end = lambda steps: simkit.simulate(system, water, [0.0, 1.0], step=simkit.Fixed(steps)).final().velocity
    exact = end(1024)
    errors = [float(jnp.abs(end(steps) - exact).max()) for steps in (32, 64)]
    assert abs(np.log2(errors[0] / errors[1]) - 2) < 0.3, errors


@pytest.mark.slow
def test_gradients_by_the_bed():
    """Of a wave over a hump, by the whole bed and by gravity, along a random direction."""
    grid = Grid(24, 6.0)
    x = jnp.asarray(grid.centres(0))

    @jax.jit
    def final(bed, gravity):
        system = ShallowWater(grid, bed=bed, gravity=gravity, boundaries=FreeSlip())
        water = ShallowWater.State(1.0 + 0.3 * jnp.exp(-((x - 2) ** 2)) - bed, jnp.zeros((1, 24)))
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
        ShallowWater(Grid(8), gravity=-1.0).review(ShallowWater.State(jnp.ones(8), jnp.zeros((1, 8))), None, None)
    with pytest.raises(simkit.ArgumentError, match="2 dimensions for a Coriolis"):
        ShallowWater(Grid(8), coriolis=1.0)
    below = ShallowWater.State(jnp.ones(8).at[3].set(-0.1), jnp.zeros((1, 8)))
    with pytest.raises(
        simkit.ArgumentError, match=r"`y0.height` of ShallowWater must not be negative .* -0.1 in cell \(3\)"
    ):
        ShallowWater(Grid(8)).review(below, None, None)
    rough = ShallowWater(Grid(8), roughness=0.03)
    with pytest.raises(simkit.ArgumentError, match=r"`SSPRK3` is explicit .* friction.* `WRK3` fits"):
        simkit.simulate(
            rough, ShallowWater.State(jnp.ones(8), jnp.zeros((1, 8))), [0.0, 1.0], solver=simkit.solvers.SSPRK3()
        )
