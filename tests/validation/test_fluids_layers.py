"""Flows between plane walls against published onsets, growth rates and heat fluxes."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from validation.steady_rolls import nusselt

import simkit
from simkit import fluids

FIXED = (fluids.Dirichlet(jnp.asarray(1.0)), fluids.Dirichlet(jnp.asarray(0.0)))
FLUX = (fluids.Neumann(jnp.asarray(1.0)), fluids.Neumann(jnp.asarray(-1.0)))
RIGID, FREE = fluids.NoSlip(), fluids.FreeSlip()


def convection(rayleigh, wavenumber, *, walls=RIGID, ends=FIXED, prandtl=1.0, points=(4, 25), taylor=None):
    """A flow by the depth, the diffusion time and the difference of temperature between the walls."""
    layer = fluids.PlaneLayer(points, (2 * np.pi / wavenumber, *([1.0] * (len(points) - 1))))
    heat = fluids.LayerScalar(1.0, buoyancy=rayleigh * prandtl, walls=ends)
    turning = None if taylor is None else prandtl * np.sqrt(taylor)
    return fluids.PlaneLayerFlow(layer, viscosity=prandtl, walls=walls, scalars={"temperature": heat}, coriolis=turning)


@functools.partial(jax.jit, static_argnums=1)
def growth(rayleigh, case):
    """The growth rate of a small disturbance of the whole simulation, and its derivative by the Rayleigh number."""
    wavenumber, walls, ends, span, taylor = case
    points = (4, 25) if taylor is None else (4, 1, 33)

    def rate(rayleigh):
        system = convection(rayleigh, wavenumber, walls=WALLS[walls], ends=ENDS[ends], points=points, taylor=taylor)
        start = system.start(key=jax.random.key(1), noise=1e-9)
        run = simkit.simulate(system, start, [0.0, span, 2 * span], step=simkit.Fixed(400), on_failure="mark")
        size = jnp.sum(run.ys.velocity[1:, -1] ** 2, axis=tuple(range(1, len(points) + 1)))
        return 0.5 * jnp.log(size[1] / size[0]) / span

    return jax.value_and_grad(rate)(rayleigh)


WALLS = {"rigid": RIGID, "free": FREE, "mixed": (RIGID, FREE)}
ENDS = {"fixed": FIXED, "flux": FLUX}
ONSETS = {
    # Wavenumber, walls, condition of the temperature, time, Taylor number; critical Rayleigh number and relative tolerance.
    "free": ((np.pi / np.sqrt(2), "free", "fixed", 1.0, None), 27 * np.pi**4 / 4, 1e-6),
    "rigid": ((3.117, "rigid", "fixed", 1.0, None), 1707.762, 1e-6),  # Reid and Harris (1958)
    "mixed": ((2.682, "mixed", "fixed", 1.0, None), 1100.65, 1e-5),  # Chandrasekhar (1961), table I
    "flux": ((0.01, "rigid", "flux", 40.0, None), 720.0, 1e-5),  # Sparrow, Goldstein and Jonsson (1964)
    "rotating": (
        (5.698, "free", "fixed", 0.5, 1e4),
        ((5.698**2 + np.pi**2) ** 3 + np.pi**2 * 1e4) / 5.698**2,  # Chandrasekhar (1961), chapter III, equation 130
        1e-6,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ONSETS)
def test_onset_of_convection(name):
    """The root of the growth rate by Newton's method through the simulation, from 3 % above."""
    case, exact, tolerance = ONSETS[name]
    rayleigh = jnp.asarray(1.03 * exact, jnp.float64)
    for _ in range(3):
        value, slope = growth(rayleigh, case)
        rayleigh = rayleigh - value / slope
    np.testing.assert_allclose(rayleigh, exact, rtol=tolerance)


@pytest.mark.slow
def test_onset_of_salt_fingers():
    """Warm salty water above cold fresh water, free walls: salinity Rayleigh number / tau - Rayleigh number = 27 pi^4 / 4.

    Stern (1960), Tellus 12:172, and Turner (1973), Buoyancy Effects in Fluids, equation 8.1.12, tau being the ratio of
    diffusivities.
    """
    tau, stable, wavenumber = 0.1, 400.0, np.pi / np.sqrt(2)
    above = fluids.Dirichlet(jnp.asarray(0.0)), fluids.Dirichlet(jnp.asarray(1.0))
    layer = fluids.PlaneLayer((4, 17), (2 * np.pi / wavenumber, 1.0))

    @jax.jit
    @jax.value_and_grad
    def growth(saline):
        scalars = {
            "temperature": fluids.LayerScalar(1.0, buoyancy=stable, walls=above),
            "salinity": fluids.LayerScalar(tau, buoyancy=-saline, walls=above),
        }
        flow = fluids.PlaneLayerFlow(layer, viscosity=1.0, walls=FREE, scalars=scalars)
        start = flow.start(key=jax.random.key(1), noise=1e-9)
        run = simkit.simulate(flow, start, [0.0, 4.0, 6.0], step=simkit.Fixed(100), on_failure="mark")
        size = jnp.sum(run.ys.velocity[1:, -1] ** 2, axis=(1, 2))
        return 0.25 * jnp.log(size[1] / size[0])

    exact = tau * (stable + 27 * np.pi**4 / 4)
    saline = jnp.asarray(1.03 * exact, jnp.float64)
    for _ in range(3):
        value, slope = growth(saline)
        saline = saline - value / slope
    np.testing.assert_allclose(saline, exact, rtol=1e-5)


@pytest.mark.slow
def test_growth_of_a_wave_of_plane_poiseuille_flow():
    """Re = 10,000 and alpha = 1: the speed and the growth of Orszag (1971), J. Fluid Mech. 50:689."""
    layer = fluids.PlaneLayer((4, 97), (2 * np.pi, 2.0))
    system = fluids.PlaneLayerFlow(layer, viscosity=1e-4, force=2e-4)
    # Until the time 400 other waves have decayed by exp(-0.038 * 400).
    start = system.start(key=jax.random.key(1), noise=1e-9)
    np.testing.assert_allclose(start.velocity[0], 1 - (layer.mesh()[1] - 1) ** 2, atol=2e-8)
    run = simkit.simulate(system, start, [0.0, 400.0, 410.0], step=0.1)
    waves = np.fft.fft(np.asarray(run.ys.velocity[1:, 1]), axis=1)[:, 1]
    factor = np.sum(waves[1] * waves[0].conj()) / np.sum(np.abs(waves[0]) ** 2)
    speed = 1j * np.log(factor) / 10.0
    assert abs(speed - (0.23752649 + 0.00373967j)) < 1e-8


@pytest.mark.slow
def test_heat_flux_of_steady_rolls():
    """Prandtl number 0.71 and wavenumber 3.117: another method (`steady_rolls`); Clever and Busse (1974), J. Fluid Mech. 65:625,
    table 1; and budgets.

    They truncated where one more pair of modes changed the flux by less than 1 %, and are 0.22 and 0.27 % above both methods.
    """
    build = lambda rayleigh: convection(rayleigh, 3.117, prandtl=0.71, points=(32, 49))
    y = build(5000.0).start(key=jax.random.key(0), noise=0.3)
    for rayleigh, span, published in ((2500.0, 8.0, 1.475), (5000.0, 4.0, 2.116)):
        system = build(rayleigh)
        y = simkit.simulate(system, y, [0.0, span], step=0.005).final()
        found = system.outputs(0.0, y, None)
        at_walls = found["nusselt_temperature"]
        np.testing.assert_allclose(at_walls, published, rtol=3e-3)
        np.testing.assert_allclose(at_walls, nusselt(rayleigh, 0.71, 3.117), rtol=1e-6)
        np.testing.assert_allclose(at_walls[0], at_walls[1], rtol=1e-9)
        # In a steady state buoyancy works as fast as viscosity dissipates.
        np.testing.assert_allclose(1 + found["dissipation"] / (rayleigh * 0.71), at_walls[0], rtol=2e-6)
        lifted = system.layer.mean(y.velocity[1] * y.scalars["temperature"])
        np.testing.assert_allclose(1 + lifted, at_walls[0], rtol=2e-6)


@pytest.mark.slow
def test_order_of_convergence_in_time():
    """Rigid walls and modes that decay 1e4 times within a step: still the order of the method."""
    system = convection(1e5, 3.0, points=(16, 17))
    y = simkit.simulate(system, system.start(key=jax.random.key(0), noise=0.3), [0.0, 0.02], step=2e-4).final()
    end = lambda step: simkit.simulate(system, y, [0.0, 8e-3], step=step).final().velocity
    exact = end(5e-5)
    errors = [float(jnp.abs(end(step) - exact).max() / jnp.abs(exact).max()) for step in (1e-3, 5e-4)]
    assert errors[1] < 1e-5
    assert np.log2(errors[0] / errors[1]) > 3.7


@pytest.mark.slow
def test_gradients_against_differences():
    """Derivatives by the viscosity, the buoyancy, the values at the walls and the start, in three dimensions with rotation."""
    layer = fluids.PlaneLayer((8, 6, 11), (2.0, 1.5, 1.0))

    def loss(p):
        walls = (fluids.Dirichlet(p["hot"]), fluids.Neumann(p["slope"]))
        heat = fluids.LayerScalar(p["diffusivity"], buoyancy=p["buoyancy"], walls=walls)
        lid = fluids.NoSlip(jnp.stack([p["lid"], jnp.zeros(()), jnp.zeros(())]))
        system = fluids.PlaneLayerFlow(
            layer,
            viscosity=p["viscosity"],
            walls=(fluids.NoSlip(), lid),
            scalars={"heat": heat},
            coriolis=p["coriolis"],
            bulk_velocity=p["bulk"],
        )
        start = system.start(key=jax.random.key(0), noise=0.3)
        run = simkit.simulate(system, start, [0.0, 0.1], step=0.005, on_failure="mark")
        found = system.outputs(0.1, run.final(), None)
        return found["kinetic_energy"] + 100 * found["flux_heat"][0] + found["dissipation"]

    point = {"viscosity": 0.8, "diffusivity": 1.2, "buoyancy": 900.0, "hot": 1.0, "slope": -0.7}
    point |= {"lid": 0.6, "coriolis": 8.0, "bulk": 0.9}
    point = {name: jnp.asarray(value) for name, value in point.items()}
    value = jax.jit(loss)
    gradient = jax.jit(jax.grad(loss))(point)
    for name, x in point.items():
        h = 1e-3 * abs(x)
        at = lambda k, name=name, x=x, h=h: value({**point, name: x + k * h})
        slope = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * h)
        size = float(value(point) / jnp.abs(x))
        np.testing.assert_allclose(gradient[name], slope, rtol=1e-7, atol=1e-9 * size)
