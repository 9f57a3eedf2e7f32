"""A gas under its own weight: columns at rest, waves in an isothermal atmosphere, a bubble, derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import fluids
from simkit.fluids import CompressibleFlow, FreeSlip, Grid, Open

GAMMA, TEMPERATURE, LENGTH = 1.4, 0.5, 2.0  # scale height 0.5: the pressure falls by a factor of 50


def column(cells, ends, **options):
    return CompressibleFlow(Grid(cells, LENGTH), gravity=-1.0, boundaries=[ends], **options)


@pytest.mark.parametrize(
    ("reconstruction", "ends"),
    [
        ("muscl", (FreeSlip(), Open())),
        pytest.param("weno5z", FreeSlip(), marks=pytest.mark.slow),
        pytest.param("first_order", Open(), marks=pytest.mark.slow),
    ],
)
def test_a_column_at_rest_stays(reconstruction, ends):
    """Some 300 steps: to rounding, which without the balance would be 1e-2 with these cells."""
    system = column(20, ends, reconstruction=reconstruction)
    gas = system.at_rest(TEMPERATURE)
    run = simkit.simulate(system, gas, np.array([0.0, 5.0]), step=simkit.Courant(0.5))
    assert float(jnp.abs(run.final().velocity).max()) < 1e-13
    np.testing.assert_allclose(run.final().pressure, gas.pressure, rtol=1e-12)


def test_at_rest():
    """Isothermal pressures fall exponentially, to the order of the cells; of other temperatures the balance is exact."""
    errors = []
    for n in (20, 40):
        system = column(n, FreeSlip())
        exact = np.exp(-(system.grid.centres(0) - system.grid.centres(0)[0]) / TEMPERATURE)
        errors.append(np.abs(system.at_rest(TEMPERATURE).pressure / exact - 1).max())
    assert errors[0] < 0.02
    assert 3.8 < errors[0] / errors[1] < 4.2
    grid = Grid((3, 8), (1.0, 1.0))
    system = CompressibleFlow(grid, gravity=jnp.array([0.0, -2.0]))
    gas = system.at_rest(np.linspace(1.0, 2.0, 8)[None], 3.0)
    rises = 0.5 * (gas.density[:, 1:] + gas.density[:, :-1]) * (-2.0 / 8)
    np.testing.assert_allclose(np.diff(gas.pressure), rises, rtol=1e-12)
    np.testing.assert_allclose(gas.pressure[:, 0], 3.0, rtol=1e-14)
    with pytest.raises(simkit.ArgumentError, match="take more cells"):
        column(4, FreeSlip()).at_rest(0.2)


@pytest.mark.slow
def test_a_wave_in_an_isothermal_atmosphere():
    """Between two walls u = exp(z / 2H) sin(k z) cos(w t) with w^2 = c^2 (k^2 + 1 / 4H^2), to first order in its size (Lamb)."""
    k, height = np.pi / LENGTH, TEMPERATURE
    frequency = np.sqrt(GAMMA * TEMPERATURE * (k**2 + 1 / (4 * height**2)))
    until, size, errors = 0.8 * 2 * np.pi / frequency, 1e-5, []
    for n in (20, 40):
        system = column(n, FreeSlip())
        z = system.grid.centres(0)
        shape = np.exp(z / (2 * height)) * np.sin(k * z)
        gas = system.at_rest(TEMPERATURE)
        gas = CompressibleFlow.State(gas.density, jnp.asarray(size * shape)[None], gas.pressure)
        run = simkit.simulate(system, gas, np.array([0.0, until]), step=simkit.Courant(0.5))
        errors.append(np.abs(np.asarray(run.final().velocity[0]) / size - shape * np.cos(frequency * until)).max())
    assert errors[1] < 0.012  # of 3.3
    assert abs(np.log2(errors[0] / errors[1]) - 2) < 0.3


@pytest.mark.slow
def test_a_warm_bubble_rises():
    """It conserves mass, stays symmetric, and a bubble a hundred times as faint rises in proportion: nothing else moves."""
    grid = Grid((16, 24), (1.0, 1.5))
    system = CompressibleFlow(grid, gravity=jnp.array([0.0, -1.0]), boundaries=FreeSlip(), reconstruction="muscl")
    rest, (x, z) = system.at_rest(1.0), grid.mesh()
    warm = np.exp(-((x - 0.5) ** 2 + (z - 0.4) ** 2) / 0.15**2)
    speeds = []
    for size in (0.2, 1e-4, 1e-6):
        gas = CompressibleFlow.State(rest.density / (1 + size * warm), rest.velocity, rest.pressure)
        run = simkit.simulate(system, gas, np.array([0.0, 0.6]), step=simkit.Courant(0.5))
        density = np.asarray(run.ys.density)
        np.testing.assert_allclose(density[1].sum(), density[0].sum(), rtol=1e-13)
        np.testing.assert_allclose(density[1], density[1][::-1], rtol=1e-10)
        rise = np.asarray(run.final().velocity[1])
        middle = rise[7:9, 5:8].mean()
        assert middle > 0.1 * size
        speeds.append(rise / size)
    np.testing.assert_allclose(speeds[1], speeds[2], atol=1e-3 * np.abs(speeds[2]).max())


@pytest.mark.slow
def test_gradients_by_gravity():
    """Reverse mode against central differences, of a gas that moves: at rest a Riemann problem has a kink."""
    grid = Grid(12, 1.0)
    z = grid.centres(0)
    gas = CompressibleFlow.State(jnp.exp(-z), jnp.asarray(0.3 + 0.1 * np.cos(3 * z))[None], jnp.exp(-z))

    @jax.jit
    def final(gravity):
        system = CompressibleFlow(grid, gravity=gravity, boundaries=Open(), reconstruction="muscl")
        run = simkit.simulate(system, gas, jnp.array([0.0, 0.1]), step=simkit.Fixed(6), on_failure="mark")
        return jnp.sum(run.final().velocity[0] * jnp.arange(12.0))

    h = 1e-5
    differences = (final(-1.0 + h) - final(-1.0 - h)) / (2 * h)
    np.testing.assert_allclose(jax.grad(final)(jnp.asarray(-1.0)), differences, rtol=1e-6)
    assert fluids.CompressibleFlow(grid).heavy is False
