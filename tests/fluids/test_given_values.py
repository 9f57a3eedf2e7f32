"""What ends of axes give by place and time, and ends in pieces: exact flows of a gas, of water and of a scalar."""

import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit.fluids import (
    CompressibleFlow,
    Dirichlet,
    FixedPressure,
    FreeSlip,
    Grid,
    IncompressibleFlow,
    Inflow,
    InputValue,
    Level,
    Neumann,
    NoSlip,
    Open,
    Outflow,
    Periodic,
    Piecewise,
    ShallowWater,
    Stream,
)


def swung(y, t):
    """Diffusion, 0.1, from a wall that swings as sin(2 pi t) to one at rest."""
    k = np.sqrt(2j * np.pi / 0.1)
    return np.imag(np.exp(2j * np.pi * t) * np.sinh(k * (1 - y)) / np.sinh(k))


def test_a_wall_swings_and_warms():
    """Stokes' second problem between plates, for velocity and scalar: order 2."""
    errors = []
    swing = lambda t, x: jnp.sin(2 * jnp.pi * t) * jnp.ones_like(x[0])
    for n in (8, 16):
        system = IncompressibleFlow(
            Grid((4, n), 1.0),
            viscosity=0.1,
            diffusivity=0.1,
            boundaries=[Periodic(), (NoSlip(lambda t, x: (swing(t, x), 0.0)), NoSlip())],
            scalar_boundaries=[Periodic(), (Dirichlet(swing), Dirichlet())],
        )
        end = simkit.simulate(system, system.start(), [0.0, 5.2], step=simkit.Courant(0.8)).final()
        exact = swung(system.grid.centres(1), 5.2)
        errors.append([np.abs(np.asarray(f[0]) - exact).max() for f in (end.velocity[0], end.scalar)])
    assert np.allclose(*np.transpose(errors))
    assert 3.5 < errors[0][0] / errors[1][0] < 5.0


def test_a_sound_wave_comes_in():
    """A faint wave that a stream sends into a gas at rest travels as it was sent, at the speed of sound."""
    grid, size = Grid(100, 1.0), 1e-4
    sent = lambda t: jnp.where((t > 0) & (t < 0.3), jnp.sin(jnp.pi * t / 0.3) ** 2, 0.0)
    wave = Stream(
        density=lambda t, x: 1.4 * (1 + size * sent(t)),
        velocity=lambda t, x: size * sent(t),
        pressure=lambda t, x: 1 + 1.4 * size * sent(t),
    )
    system = CompressibleFlow(grid, boundaries=[(wave, Open())])
    still = system.State(jnp.full(100, 1.4), jnp.zeros((1, 100)), jnp.ones(100))
    end = simkit.simulate(system, still, [0.0, 0.6], step=simkit.Courant(0.5)).final()
    np.testing.assert_allclose((end.pressure - 1) / (1.4 * size), sent(0.6 - grid.centres(0)), atol=0.01)
    later = Stream(1.4, 0.0, InputValue("outside"))
    fed = CompressibleFlow(grid, boundaries=[(later, Open())])
    assert list(fed.reads()) == ["outside"]
    pushed = simkit.simulate(fed, still, [0.0, 0.1], step=simkit.Courant(0.5), inputs={"outside": 1.2}).final()
    assert float(pushed.pressure[0]) > 1.05


def test_a_tide_fills_a_basin():
    """A slow tide raises a basin that is small against its waves: the surface follows it."""
    system = ShallowWater(Grid(20, 1.0), boundaries=[(Level(lambda t, x: 1 + 0.1 * t), FreeSlip())])
    still = system.State(jnp.ones(20), jnp.zeros((1, 20)))
    end = simkit.simulate(system, still, [0.0, 2.0], step=simkit.Courant(0.25)).final()
    np.testing.assert_allclose(end.height, 1.2, atol=0.1 / np.sqrt(9.81))  # what rises while a wave crosses


def test_a_jet_comes_through_part_of_a_wall():
    """All that the open half of an end lets in leaves, and the closed half lets nothing through."""
    low = np.arange(8) < 4
    jet = Piecewise(low, Inflow(jnp.array([1.0, 0.0])), NoSlip())
    for out in (FixedPressure(), Outflow()):
        system = IncompressibleFlow(Grid((8, 8), 1.0), viscosity=0.1, boundaries=[(jet, out), FreeSlip()])
        u = np.asarray(simkit.simulate(system, system.start(), [0.0, 0.1], step=simkit.Fixed(20)).final().velocity[0])
        np.testing.assert_allclose(u[0], low.astype(float), atol=1e-14)
        np.testing.assert_allclose(u.sum(1), 4.0, rtol=1e-12)


def test_a_patch_is_warm():
    """A scalar at rest between a warm half of a wall and an isolated one: mirrored in the patch, it is the same mirrored."""
    ends = []
    for warm in (lambda t, x: x[0] < 0.5, np.arange(8) >= 4):
        floor = Piecewise(warm, Dirichlet(1.0), Neumann(0.0))
        system = IncompressibleFlow(
            Grid((8, 6), 1.0),
            viscosity=0.1,
            boundaries=NoSlip(),
            diffusivity=0.1,
            scalar_boundaries=[Neumann(), (floor, Dirichlet(0.0))],
        )
        ends.append(
            np.asarray(simkit.simulate(system, system.start(), [0.0, 0.5], step=simkit.Fixed(40)).final().scalar)
        )
    np.testing.assert_allclose(ends[0], ends[1][::-1], atol=1e-14)
    assert ends[0][0, 0] > 0.7 > 0.1 > ends[0][-1, 0]


def double_mach(n):
    """A shock of Mach 10 that runs up a wedge of 30 degrees: Woodward and Colella (1984), J. Comput. Phys. 54:115."""
    grid = Grid((4 * n, n), (4.0, 1.0))
    c, s = np.cos(np.pi / 6), np.sin(np.pi / 6)
    behind = Stream(8.0, jnp.array([8.25 * c, -8.25 * s]), 116.5)
    ahead = Stream(1.4, 0.0, 1.0)
    passed = lambda t, x: x[0] < 1 / 6 + (x[1] + 20 * t) / np.sqrt(3)
    floor = Piecewise(lambda t, x: x[0] < 1 / 6, behind, FreeSlip())
    flow = CompressibleFlow(grid, boundaries=[(behind, Open()), (floor, Piecewise(passed, behind, ahead))])
    x = tuple(map(jnp.asarray, grid.mesh()))
    pick = lambda a, b: jnp.where(passed(0.0, x), a, b)
    velocity = jnp.stack([pick(u, 0.0) for u in behind.velocity])
    return flow, flow.State(pick(8.0, 1.4), velocity, pick(116.5, 1.0))


@pytest.mark.parametrize("n", [20, 60])
def test_double_mach_reflection(n):
    """The shock above stays where theory has it, the flow is self-similar, and its foot has the pressure of its speed."""
    flow, start = double_mach(n)
    run = simkit.simulate(flow, start, jnp.array([0.0, 0.1, 0.2]), step=simkit.Courant(0.4))
    x, y = flow.grid.centres(0), flow.grid.centres(1)
    density = np.asarray(run.ys.density)
    front = lambda k: np.array([x[np.flatnonzero(density[k, :, j] > 2.5)[-1]] for j in range(n)])
    high = y > 0.7
    np.testing.assert_allclose(front(2)[high], (1 / 6 + (y + 4) / np.sqrt(3))[high], atol=1.5 / n)
    half, whole = (front(k)[0] - 1 / 6 for k in (1, 2))
    assert abs(whole - 2 * half) < 3 / n  # it grows with time alone
    if n > 20:
        speed = whole / 0.2  # into a gas at rest whose sound has the speed 1
        foot = np.asarray(run.ys.pressure)[2, :, 0]
        k = int(np.flatnonzero(density[2, :, 0] > 2.5)[-1])
        assert abs(foot[k - 3] / (1 + 2.8 / 2.4 * (speed**2 - 1)) - 1) < 0.05
    assert np.asarray(run.ys.pressure).min() > 0.99
    assert density[2].max() > (17 if n == 20 else 21.5)


def test_what_does_not_fit_is_refused():
    grid = Grid((8, 8), 1.0)
    gas = lambda end: CompressibleFlow(grid, boundaries=[(end, Open()), Periodic()])
    with pytest.raises(simkit.ArgumentError, match="truth values"):
        gas(Piecewise(np.arange(8), Open(), FreeSlip()))
    with pytest.raises(simkit.ArgumentError, match="a gas at axis 0"):
        gas(Piecewise(np.arange(8) < 4, Open(), Dirichlet(1.0)))
    with pytest.raises(simkit.ArgumentError, match="shape"):
        gas(Stream(jnp.ones(7), 0.0, 1.0))
    flow = lambda end, **options: IncompressibleFlow(
        grid, viscosity=0.1, boundaries=[(end, Outflow()), NoSlip()], **options
    )
    with pytest.raises(simkit.ArgumentError, match="must be an array"):
        flow(Piecewise(lambda t, x: x[1] < 0.5, Inflow(1.0), NoSlip()))
    with pytest.raises(simkit.ArgumentError, match="explicit"):
        flow(Piecewise(np.arange(8) < 4, Inflow(1.0), NoSlip()), diffusion="implicit")
    with pytest.raises(simkit.ArgumentError, match="a velocity at axis 0"):
        flow(Piecewise(np.arange(8) < 4, FixedPressure(), NoSlip()))
    with pytest.raises(simkit.ArgumentError, match="name of letters"):
        InputValue("a pressure")
