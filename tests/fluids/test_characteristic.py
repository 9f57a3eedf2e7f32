"""Gas by characteristic variables: waves of the equations, order in two dimensions, rings, units, devices."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import ArgumentError
from simkit.fluids import CompressibleFlow, FreeSlip, Grid, Open, Periodic
from simkit.fluids.volumes._characteristic import Waves
from simkit.fluids.volumes._gas import to_primitive

from .exact import gas_tube

GAMMA = 1.4


def flux(conserved):
    density, across, *others, pressure = to_primitive(list(conserved), jnp.float64(GAMMA))
    mass = density * across
    return jnp.stack([mass, mass * across + pressure, *(mass * u for u in others), across * (conserved[-1] + pressure)])


@pytest.mark.parametrize("others", [(), (0.4,), (0.4, -1.2)])
def test_waves_are_eigenvectors_of_the_fluxs_jacobian(others):
    rows = [jnp.float64(x) for x in (1.3, 0.7, *others, 2.1)]
    waves = Waves.between(rows, rows, jnp.float64(GAMMA))
    kinetic = 0.5 * sum(u * u for u in rows[1:-1])
    state = jnp.stack([rows[0], *(rows[0] * u for u in rows[1:-1]), rows[-1] / (GAMMA - 1) + rows[0] * kinetic])
    jacobian = jax.jacfwd(flux)(state)
    size = len(rows)
    right = np.stack([waves.conserved(list(jnp.eye(size)[k])) for k in range(size)], axis=1)
    left = np.stack([waves.strengths(list(jnp.eye(size)[k])) for k in range(size)], axis=1)
    speeds = np.full(size, 0.7)
    speeds[0], speeds[-1] = 0.7 - float(waves.sound), 0.7 + float(waves.sound)
    np.testing.assert_allclose(left @ right, np.eye(size), atol=1e-13)
    np.testing.assert_allclose(jacobian @ right, right * speeds, atol=1e-13)


def vortex(n, time=0.0, side=14.0, points=5):
    """Means over cells of Shu's isentropic vortex (1998), conserved quantities, by Gauss's quadrature."""
    h = side / n
    nodes, weights = np.polynomial.legendre.leggauss(points)
    centre, total = (np.arange(n) + 0.5) * h - side / 2, 0.0
    for a, v in zip(nodes * h / 2, weights / 2, strict=True):
        for b, w in zip(nodes * h / 2, weights / 2, strict=True):
            x, y = np.meshgrid(centre + a - time, centre + b - time, indexing="ij")
            square = x * x + y * y
            swirl = 5 / (2 * np.pi) * np.exp(0.5 * (1 - square))
            density = (1 - (GAMMA - 1) / (2 * GAMMA) * swirl**2) ** (1 / (GAMMA - 1))
            u, v_, pressure = 1 - swirl * y, 1 + swirl * x, density**GAMMA
            energy = pressure / (GAMMA - 1) + 0.5 * density * (u * u + v_ * v_)
            total = total + v * w * np.stack([density, density * u, density * v_, energy])
    return total


def gas(conserved, dtype=float):
    density, *momentum, energy = conserved
    velocity = np.stack(momentum) / density
    pressure = (GAMMA - 1) * (energy - 0.5 * density * (velocity**2).sum(0))
    return CompressibleFlow.State(*(jnp.asarray(x, dtype) for x in (density, velocity, pressure)))


def residual(n, variables):
    """The mean error of the rate of change of the density of the moving vortex."""
    system = CompressibleFlow(Grid((n, n), 14.0), variables=variables)
    found = jax.jit(lambda y: system.vector_field(0.0, y, None))(system.encode(gas(vortex(n)))).density
    near, far = ((vortex(n, e)[0] - vortex(n, -e)[0]) / (2 * e) for e in (1e-3, 2e-3))
    return np.abs(np.asarray(found) - (4 * near - far) / 3).mean()


@pytest.mark.slow
@pytest.mark.parametrize(("variables", "least", "most"), [("characteristic", 4.0, 5.5), ("primitive", 1.7, 2.3)])
def test_the_order_in_two_dimensions(variables, least, most):
    errors = [residual(n, variables) for n in (80, 160)]
    assert least < np.log2(errors[0] / errors[1]) < most


@pytest.mark.slow
def test_rings_behind_a_slow_shock_are_smaller_than_without_waves():
    """Toro's fifth tube: a contact nearly at rest behind a shock."""
    left, right, grid = (1.0, -19.59745, 1000.0), (1.0, -19.59745, 0.01), Grid(200, 1.0)
    x = np.asarray(grid.centres(0))
    pick = lambda i: jnp.where(x < 0.8, left[i], right[i])
    excess = {}
    for variables in ("primitive", "characteristic"):
        system = CompressibleFlow(grid, boundaries=Open(), variables=variables)
        start = CompressibleFlow.State(pick(0), pick(1)[None], pick(2))
        found = np.asarray(simkit.simulate(system, start, [0.0, 0.012], step=simkit.Courant(0.4)).final().density)
        (exact, *_), _ = gas_tube(left, right, GAMMA, (x - 0.8) / 0.012)
        excess[variables] = np.abs(np.diff(found)).sum() / np.abs(np.diff(exact)).sum() - 1
        assert np.abs(found - exact).mean() < 0.04
    assert excess["characteristic"] < 0.04 < excess["primitive"]


def blown(n, scale=1.0, dtype=np.float64, **options):
    """A blast in a box with walls, in units `scale` times as long."""
    grid = Grid((n, n), scale, **options)
    x, y = grid.mesh()
    inside = (x / scale - 0.4) ** 2 + (y / scale - 0.5) ** 2 < 0.04
    start = CompressibleFlow.State(
        jnp.ones((n, n), dtype) / dtype(scale) ** 3,
        jnp.zeros((2, n, n), dtype),
        jnp.asarray(np.where(inside, 10.0, 0.1) / scale, dtype),
    )
    system = simkit.cast(CompressibleFlow(grid, boundaries=FreeSlip(), variables="characteristic"), dtype)
    return system, start


@pytest.fixture(scope="module")
def blast():
    system, start = blown(24)
    return simkit.simulate(system, start, [0.0, 0.1], step=simkit.Courant(0.3))


def test_a_blast_keeps_its_mass_and_its_symmetry(blast):
    density = np.asarray(blast.final().density)
    assert density.min() > 0
    assert density.max() > 1.5
    np.testing.assert_allclose(density.mean(), 1.0, rtol=1e-13)
    np.testing.assert_allclose(density, density[:, ::-1], rtol=1e-9)


@pytest.mark.slow
def test_a_blast_in_other_units_and_in_single_precision(blast):
    system, start = blown(24, 1e-12)
    small = simkit.simulate(system, start, [0.0, 0.1], step=simkit.Courant(0.3)).final()
    np.testing.assert_allclose(np.asarray(small.density) * 1e-36, blast.final().density, rtol=1e-7)
    system, start = blown(24, dtype=np.float32)
    single = simkit.simulate(system, start, [0.0, 0.1], step=simkit.Courant(0.3)).final()
    assert single.density.dtype == np.float32
    np.testing.assert_allclose(single.density, blast.final().density, rtol=0.01)


@pytest.mark.slow
def test_a_blast_over_two_devices_is_that_on_one(blast):
    system, start = blown(24, devices=jax.devices()[:2])
    found = simkit.simulate(system, start, [0.0, 0.1], step=simkit.Courant(0.3)).final()
    np.testing.assert_allclose(np.asarray(found.density), blast.final().density, rtol=1e-9)


@pytest.mark.slow
def test_a_gradient_through_a_blast():
    system, start = blown(16)

    def edge(gamma):
        here = eqx.tree_at(lambda s: s.gamma, system, gamma)
        return simkit.simulate(here, start, [0.0, 0.03], step=0.003).final().density[8, 12]

    slope, h = jax.grad(edge)(jnp.float64(GAMMA)), 1e-5
    np.testing.assert_allclose(
        slope, (edge(jnp.float64(GAMMA + h)) - edge(jnp.float64(GAMMA - h))) / (2 * h), rtol=1e-5
    )


def test_walls_and_open_ends_leave_a_uniform_gas_alone():
    grid = Grid((8, 6, 5), (2.0, 1.0, 3.0))
    system = CompressibleFlow(grid, boundaries=[Open(), FreeSlip(), Periodic()], variables="characteristic")
    ones = jnp.ones(grid.shape)
    wind = jnp.stack([3 * ones, 0 * ones, -2 * ones])
    slope = system.vector_field(0.0, system.encode(CompressibleFlow.State(ones, wind, 0.7 * ones)), None)
    assert max(float(jnp.abs(x).max()) for x in jax.tree.leaves(slope)) < 1e-12


def test_bad_input():
    with pytest.raises(ArgumentError, match='must be "primitive" with gravity'):
        CompressibleFlow(Grid(16, 1.0), gravity=-1.0, variables="characteristic")
    with pytest.raises(ArgumentError, match="4 cells or more along each axis"):
        CompressibleFlow(Grid((16, 3), 1.0), variables="characteristic")
    with pytest.raises(ArgumentError, match="`variables` must be one of primitive, characteristic"):
        CompressibleFlow(Grid(16, 1.0), variables="conserved")
