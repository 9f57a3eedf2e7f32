"""Viscosity, heat and sources of a gas by characteristic variables: order, shocks, walls, steps, devices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import ArgumentError
from simkit.fluids import CompressibleFlow, FreeSlip, Grid, NoSlip, Open, Periodic

GAMMA, VISCOSITY, PRANDTL = 1.4, 0.05, 0.72


def fields(z):
    """Density, velocity and pressure of smooth periodic waves."""
    x, y = 2 * jnp.pi * z
    velocity = jnp.stack([0.3 * jnp.cos(x + y), 0.4 * jnp.sin(x) * jnp.sin(y + 1)])
    return 1 + 0.2 * jnp.sin(x + 0.3) * jnp.cos(y), velocity, 1 + 0.1 * jnp.cos(x - y + 0.5)


def conserved(z):
    density, velocity, pressure = fields(z)
    energy = pressure / (GAMMA - 1) + 0.5 * density * velocity @ velocity
    return jnp.concatenate([density[None], density * velocity, energy[None]])


def push(x, density, pressure):
    return density * pressure * jnp.sin(4 * jnp.pi * x[0]) * jnp.cos(2 * jnp.pi * x[1])


def source(t, x, gas):
    force = push(x, gas.density, gas.pressure)
    return CompressibleFlow.Conserved(0 * force, jnp.stack([force, 0 * force]), force * gas.velocity[0])


def rate(z):
    """Navier and Stokes' equations with the source, by automatic differentiation of the waves."""

    def flux(z):
        density, velocity, pressure = fields(z)
        slopes = jax.jacfwd(lambda z: fields(z)[1])(z)
        stress = VISCOSITY * (slopes + slopes.T - 2 / 3 * jnp.trace(slopes) * jnp.eye(2))
        warmth = jax.jacfwd(lambda z: fields(z)[2] / fields(z)[0])(z)
        heat = -GAMMA / (GAMMA - 1) * VISCOSITY / PRANDTL * warmth
        momentum = density * jnp.outer(velocity, velocity) + pressure * jnp.eye(2) - stress
        energy = (conserved(z)[-1] + pressure) * velocity - stress @ velocity + heat
        return jnp.concatenate([(density * velocity)[None], momentum, energy[None]])

    density, velocity, pressure = fields(z)
    force = push(z, density, pressure)
    return jnp.stack([0 * force, force, 0 * force, force * velocity[0]]) - jnp.trace(
        jax.jacfwd(flux)(z), axis1=1, axis2=2
    )


def means(function, n):
    """Means over cells by Gauss's quadrature."""
    nodes, weights = np.polynomial.legendre.leggauss(5)
    centre, total, each = (np.arange(n) + 0.5) / n, 0.0, jax.jit(jax.vmap(function))
    for a, v in zip(nodes / (2 * n), weights / 2, strict=True):
        for b, w in zip(nodes / (2 * n), weights / 2, strict=True):
            x, y = np.meshgrid(centre + a, centre + b, indexing="ij")
            total = total + v * w * np.asarray(each(jnp.stack([x.ravel(), y.ravel()], 1))).T
    return np.reshape(total, (-1, n, n))


def gas_of_means(found):
    density, *momentum, energy = found
    velocity = np.stack(momentum) / density
    pressure = (GAMMA - 1) * (energy - 0.5 * density * (velocity**2).sum(0))
    return CompressibleFlow.State(*(jnp.asarray(x) for x in (density, velocity, pressure)))


@pytest.mark.slow
@pytest.mark.parametrize(("variables", "least", "most"), [("characteristic", 5.2, 6.2), ("primitive", 1.8, 2.2)])
def test_the_order_with_viscosity_heat_and_a_source(variables, least, most):
    errors = []
    for n in (16, 32):
        options = {"viscosity": VISCOSITY, "prandtl": PRANDTL, "source": source, "variables": variables}
        system = CompressibleFlow(Grid((n, n), 1.0), **options)
        y = system.encode(gas_of_means(means(conserved, n)))
        found = jax.jit(lambda y, system=system: system.vector_field(0.0, y, None))(y)
        rows = np.concatenate([found.density[None], found.momentum, found.energy[None]])
        errors.append(np.abs(rows - means(rate, n)).mean((1, 2)))
    order = np.log2(errors[0] / errors[1])
    assert (order > least).all(), order
    assert (order < most).all(), order


def test_stress_and_heat_vanish_in_a_plane_shear_that_a_wall_makes():
    """Couette's flow between plates at rest and moving, mirrored at both: heat alone changes the gas."""
    grid = Grid((8, 8), 1.0)
    plates = (NoSlip(), NoSlip(jnp.array([1.0, 0.0])))
    flow = CompressibleFlow(grid, viscosity=0.1, boundaries=[Periodic(), plates], variables="characteristic")
    y = jnp.asarray(grid.mesh()[1])
    ones = jnp.ones(grid.shape)
    pressure = ones - 0.4 * 0.5 / (
        12 * 64
    )  # means of the energy of a line: its square has a mean above that of the middle
    slope = flow.vector_field(0.0, flow.encode(flow.State(ones, jnp.stack([y, 0 * y]), pressure)), None)
    assert float(jnp.abs(slope.momentum).max()) < 2e-2  # the energy of the mirrored line bends at the plates
    inside = slope.energy[:, 3:5]
    np.testing.assert_allclose(inside, 0.1, rtol=0.2)  # work of the stress, mu (du/dy)^2


@pytest.mark.parametrize("shape", [40, (40, 7)])
def test_a_viscous_shock_has_no_rings_and_keeps_its_mass(shape):
    grid = Grid(shape, 1.0)
    x = jnp.asarray(grid.mesh()[0])
    left = x < 0.5
    start = CompressibleFlow.State(
        jnp.where(left, 1.0, 0.125), jnp.zeros((grid.dimensions, *grid.shape)), jnp.where(left, 1.0, 0.1)
    )
    tube = CompressibleFlow(grid, viscosity=2e-3, boundaries=FreeSlip(), variables="characteristic")
    end = simkit.simulate(tube, start, [0.0, 0.1], step=simkit.Courant(0.4)).final()
    np.testing.assert_allclose(end.density.mean(), start.density.mean(), rtol=1e-13)
    line = np.asarray(end.density).reshape(40, -1)
    assert np.diff(line, axis=0).max() < 5e-3  # density falls from left to right
    np.testing.assert_allclose(line, line[:, :1] * np.ones_like(line), rtol=1e-9)


def test_steps_by_viscosity_alone_are_stable():
    """A gas in which viscosity decides the step, with the shortest wave of the grid: it dies away."""
    grid = Grid(16, 1.0)
    flow = CompressibleFlow(grid, viscosity=30.0, variables="characteristic")
    shortest = jnp.asarray(1e-3 * (-1.0) ** np.arange(16))[None]
    start = flow.State(jnp.ones(16), shortest, jnp.ones(16))
    limit = float(flow.longest_step(0.0, flow.encode(start), None))
    run = simkit.simulate(flow, start, [0.0, 40 * limit], step=simkit.Courant(0.9))
    assert float(jnp.abs(run.final().velocity).max()) < 1e-6


@pytest.mark.slow
def test_viscosity_and_sources_over_two_devices_and_in_single_precision():
    grid = lambda **options: Grid((16, 14), 1.0, **options)
    gas = gas_of_means(means(conserved, 16)[:, :, 1:-1])  # not periodic along y: the source and the flow end at walls
    options = {
        "viscosity": 0.01,
        "source": source,
        "variables": "characteristic",
        "boundaries": [Periodic(), FreeSlip()],
    }

    def rates(system, gas):
        return jax.jit(lambda y: system.vector_field(0.0, y, None))(system.encode(gas))

    one = rates(CompressibleFlow(grid(), **options), gas)
    two = rates(CompressibleFlow(grid(devices=jax.devices()[:2]), **options), gas)
    system, gas = simkit.cast((CompressibleFlow(grid(), **options), gas), jnp.dtype("float32"))
    single = rates(system, gas)
    for a, b, c in zip(*map(jax.tree.leaves, (one, two, single)), strict=True):
        np.testing.assert_allclose(b, a, atol=1e-10)
        assert c.dtype == np.float32
        np.testing.assert_allclose(c, a, atol=2e-2)  # rates of up to 20, where rounded weights of smoothness count


@pytest.mark.slow
def test_a_gradient_by_viscosity():
    grid = Grid(16, 1.0)
    wave = jnp.asarray(0.1 * np.sin(2 * np.pi * grid.mesh()[0]))[None]
    gas = CompressibleFlow.State(jnp.ones(16), wave, jnp.ones(16))

    def energy(viscosity):
        system = CompressibleFlow(grid, viscosity=viscosity, variables="characteristic")
        end = simkit.simulate(system, gas, np.array([0.0, 0.05]), step=simkit.Fixed(10)).final()
        return jnp.sum(end.density * jnp.sum(end.velocity**2, axis=0))

    value, h = jnp.asarray(0.02), 1e-5
    difference = (energy(value + h) - energy(value - h)) / (2 * h)
    np.testing.assert_allclose(jax.grad(energy)(value), difference, rtol=1e-6)


def test_grids_that_are_too_small_are_refused():
    with pytest.raises(ArgumentError, match=r"7 cells or more along each axis .*viscosity"):
        CompressibleFlow(Grid((16, 5), 1.0), viscosity=0.1, variables="characteristic")
    with pytest.raises(ArgumentError, match=r"5 cells or more along each axis .*a source"):
        CompressibleFlow(Grid(4, 1.0), source=source, boundaries=Open(), variables="characteristic")
