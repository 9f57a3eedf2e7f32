"""Incompressible flow between walls against a published table, an exact start-up, a critical number, and conservation in time."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.interpolate import CubicSpline
from validation.cavity_table import GHIA_U, GHIA_V, GHIA_X, GHIA_Y

import simkit
from simkit import fluids
from simkit.fluids import Dirichlet, Grid, IncompressibleFlow, NoSlip, Periodic


@pytest.mark.slow
def test_lid_driven_cavity():
    """Within 1 % of the lid's speed: the table's own error and that of 64 cells are some tenths of it."""
    n = 64
    system = IncompressibleFlow(
        Grid((n, n), 1.0), viscosity=0.01, boundaries=[NoSlip(), (NoSlip(), NoSlip(jnp.array([1.0, 0.0])))]
    )
    run = simkit.simulate(system, system.start(), np.array([0.0, 20.0]), step=simkit.Courant(0.9))
    u, v = (np.asarray(x[-1]) for x in run.ys.velocity)
    places = np.concatenate([[0.0], (np.arange(n) + 0.5) / n, [1.0]])
    along = CubicSpline(places, [0.0, *u[n // 2], 1.0])(GHIA_Y)
    across = CubicSpline(places, [0.0, *v[:, n // 2], 0.0])(GHIA_X)
    np.testing.assert_allclose(along, GHIA_U, atol=0.01)
    np.testing.assert_allclose(across, GHIA_V, atol=0.01)


@pytest.mark.slow
def test_start_of_poiseuille_flow():
    """From rest between plates at y = +-1: the parabola less a series of decaying cosines (Batchelor 1967, section 4.3)."""
    n, viscosity, push = 64, 0.5, 1.0
    grid = Grid((4, n), (0.25, 2.0), origin=(0.0, -1.0))
    system = IncompressibleFlow(
        grid, viscosity=viscosity, boundaries=[Periodic(), NoSlip()], force=jnp.array([push, 0.0])
    )
    times = np.array([0.0, 0.1, 0.4, 1.0])
    run = simkit.simulate(system, system.start(), times, step=simkit.Courant(0.9))
    y, k = grid.centres(1), (np.arange(200) + 0.5)[:, None] * np.pi
    sign = np.where(np.arange(200) % 2 == 0, 1, -1)[:, None]
    for row, t in enumerate(times[1:], start=1):
        series = np.sum(2 * sign / k**3 * np.cos(k * y) * np.exp(-viscosity * k**2 * t), axis=0)
        exact = push / viscosity * ((1 - y**2) / 2 - series)
        np.testing.assert_allclose(run.ys.velocity[0][row, 0], exact, atol=5e-4)


@pytest.mark.slow
def test_onset_of_convection():
    """Between plates that conduct, at the critical wavelength 2.016: Ra = 1707.762 (Chandrasekhar 1961, chapter II, table III).

    The rate of growth of a weak roll changes its sign there; 24 cells over the height leave an error of order dz^2, some 1 %.
    """
    height, wave = 24, 2 * np.pi / 3.117
    grid = Grid((32, height), (wave, 1.0))
    times = np.array([0.0, 30.0, 60.0])

    @eqx.filter_jit
    def rate(rayleigh):
        system = IncompressibleFlow(
            grid,
            viscosity=1 / jnp.sqrt(rayleigh),
            boundaries=[Periodic(), NoSlip()],
            diffusivity=1 / jnp.sqrt(rayleigh),
            scalar_boundaries=[Periodic(), (Dirichlet(1.0), Dirichlet(0.0))],
            buoyancy=jnp.array([0.0, 1.0]),
        )
        roll = lambda x: 1 - x[1] + 1e-4 * jnp.cos(2 * jnp.pi * x[0] / wave) * jnp.sin(jnp.pi * x[1])
        run = simkit.simulate(system, system.start(scalar=roll), times, step=simkit.Courant(0.9))
        energy = jax.vmap(system.energy)(run.ys)
        return jnp.log(energy[2] / energy[1]) / 60

    below, above = float(rate(jnp.asarray(1600.0))), float(rate(jnp.asarray(1800.0)))
    assert below < 0 < above
    critical = 1600 + 200 * below / (below - above)
    assert abs(critical / 1707.762 - 1) < 0.01


@pytest.mark.slow
def test_energy_over_a_thousand_steps():
    """Without viscosity, at steps so short that the method's own damping, (w h)^6 / 144 a step, is 1e-15 for the fastest wave."""
    system = IncompressibleFlow(Grid((16, 16), 1.0))
    with pytest.warns(UserWarning, match="divergence"):
        y = system.start(0.3 * jax.random.normal(jax.random.key(0), (2, 16, 16)))
    solver = simkit.solvers.RK4()
    run = simkit.simulate(system, y, np.linspace(0.0, 0.1, 3), step=simkit.Fixed(500), solver=solver)
    energy = jax.jit(jax.vmap(system.energy))(run.ys)
    np.testing.assert_allclose(energy, energy[0], rtol=1e-12)
    assert float(jnp.abs(run.ys.velocity[0][-1] - run.ys.velocity[0][0]).max()) > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("flux", ["central", "central4"])
def test_kovasznay_behind_a_grid(flux):
    """Kovasznay (1948), Proc. Camb. Phil. Soc. 44:58, Reynolds number 40: exact, with all terms at work."""
    reynolds = 40.0
    rate = reynolds / 2 - np.sqrt(reynolds**2 / 4 + 4 * np.pi**2)

    def exact(x, y):
        wave = np.exp(rate * x)
        return 1 - wave * np.cos(2 * np.pi * y), rate / (2 * np.pi) * wave * np.sin(2 * np.pi * y)

    def error(cells):
        # The outflow is none of Kovasznay's, so that it is put far behind what is compared.
        grid = fluids.Grid((3 * cells, cells), (3.0, 1.0), (-0.5, -0.5))
        y = grid.centres(1)
        inflow = fluids.Inflow(jnp.asarray(np.stack(exact(-0.5 * np.ones(cells), y))))
        system = fluids.IncompressibleFlow(
            grid, viscosity=1 / reynolds, boundaries=[(inflow, fluids.Outflow()), fluids.FreeSlip()], flux=flux
        )
        y0 = system.start(np.stack(exact(*grid.mesh())))
        run = simkit.simulate(system, y0, [0.0, 8.0], step=simkit.Courant(0.9))
        found = system.at.centred(run.final().velocity)
        away = np.abs(np.asarray(found) - np.stack(exact(*grid.mesh())))
        return away[:, : 3 * cells // 2].max()

    coarse, fine = error(12), error(24)
    assert fine < 1e-2
    assert coarse / fine > 3.2  # order 2 but for what the outflow sends back


@pytest.mark.slow
def test_womersley_between_plates():
    """A pressure that swings (Womersley 1955, J. Physiol. 127:553, between plates): a period at a Womersley number of 4."""
    half, viscosity, omega = 1.0, 1 / 16, 1.0
    k = np.sqrt(1j * omega / viscosity)

    def exact(t, y):
        profile = 1 - np.cosh(k * y) / np.cosh(k * half)
        return np.real(profile * np.exp(1j * omega * t) / (1j * omega))

    def error(cells):
        grid = fluids.Grid((2, cells), (1.0, 2.0), (0.0, -1.0))
        push = lambda t, x: (jnp.cos(omega * t) * jnp.ones_like(x[0]), jnp.zeros_like(x[1]))
        system = fluids.IncompressibleFlow(
            grid, viscosity=viscosity, force=push, boundaries=[fluids.Periodic(), fluids.NoSlip()]
        )
        y0 = system.start(np.stack([exact(0.0, grid.mesh()[1]), 0 * grid.mesh()[1]]))
        run = simkit.simulate(system, y0, np.linspace(0.0, 2 * np.pi, 9), step=simkit.Courant(0.9))
        u = np.asarray(run.ys.velocity[0])[:, 0]
        times = np.asarray(run.times)
        return max(np.abs(u[i] - exact(t, grid.centres(1))).max() for i, t in enumerate(times))

    coarse, fine = error(32), error(64)
    assert fine < 2e-3, (coarse, fine)
    assert abs(np.log2(coarse / fine) - 2) < 0.1, (coarse, fine)


@pytest.mark.slow
@pytest.mark.parametrize(("diffusion", "step"), [("explicit", simkit.Courant(0.9)), ("implicit", simkit.Fixed(5))])
def test_start_of_couette_flow(diffusion, step):
    """A plate that starts to move (Schlichting and Gersten, Boundary-Layer Theory, 5.3): the exact series."""
    viscosity = 0.1
    grid = fluids.Grid((2, 48), (1.0, 1.0))
    plate = fluids.NoSlip(jnp.array([1.0, 0.0]))
    system = fluids.IncompressibleFlow(
        grid, viscosity=viscosity, boundaries=[fluids.Periodic(), (fluids.NoSlip(), plate)], diffusion=diffusion
    )
    times = np.array([0.0, 0.2, 0.5, 1.0, 3.0])
    if diffusion == "implicit":  # steps of 0.04 to 0.2, where explicit ones are at most 0.0022
        times = np.concatenate([times[:4], np.linspace(1.0, 3.0, 5)[1:]])
    run = simkit.simulate(system, system.start(), times, step=step)
    y, n = grid.centres(1), np.arange(1, 200)[:, None]
    for i, t in enumerate(times[1:], 1):
        series = 2 / (np.pi * n) * (-1.0) ** n * np.exp(-viscosity * (n * np.pi) ** 2 * t) * np.sin(n * np.pi * y)
        exact = y + series.sum(axis=0)
        # Order 2 in the width of a cell, 1/48, where the layer is some 7 cells thick at first.
        assert np.abs(np.asarray(run.ys.velocity[0])[i, 0] - exact).max() < 2e-3
