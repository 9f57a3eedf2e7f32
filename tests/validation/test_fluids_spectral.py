"""Spectral systems against solutions on paper and against other programs."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fluids.exact import two_solitons

import simkit
from simkit import fluids
from simkit.fluids import Burgers, Grid, SpectralFlow2D, SpectralFlow3D

DATA = Path(__file__).parents[2] / "data" / "fluids"
ROUNDING = 1e-12  # some hundred steps of numbers of size one


def run(system, y0, times, **options):
    return simkit.simulate(system, y0, np.asarray(times, float), **options)


def green(grid, viscosity, t, mean=(0.0, 0.0)):
    """The vorticity of Taylor and Green's vortices, carried by a mean flow."""
    x, y = (np.asarray(c) - u * t for c, u in zip(grid.mesh(), mean, strict=True))
    kx, ky = (2 * np.pi / length for length in grid.lengths)
    size = -(kx**2 + ky**2) / ky
    return size * np.exp(-viscosity * (kx**2 + ky**2) * t) * np.cos(kx * x) * np.cos(ky * y)


@pytest.mark.parametrize(
    ("mean", "shape", "lengths"),
    [(None, (16, 16), 2 * np.pi), ((0.3, -0.7), (15, 22), (1.0, 2.0))],
    ids=["still", "carried"],
)
def test_taylor_green(mean, shape, lengths):
    grid = Grid(shape, lengths)
    viscosity = 0.05 if lengths == 2 * np.pi else 0.002
    start = SpectralFlow2D.State(fluids.vorticity(grid, fluids.taylor_green(grid)))
    np.testing.assert_allclose(start.vorticity, green(grid, viscosity, 0.0), atol=ROUNDING)
    system = fluids.SpectralFlow2D(grid, viscosity=viscosity, mean_flow=mean)
    found = run(system, start, [0.0, 0.5, 2.0], step=0.01)
    for t, values in zip([0.5, 2.0], found.ys.vorticity[1:], strict=True):
        np.testing.assert_allclose(values, green(grid, viscosity, t, mean or (0.0, 0.0)), atol=ROUNDING)


@pytest.mark.parametrize("mean", [None, (0.3, -0.7)])
def test_a_rossby_wave_is_exact_whatever_the_step(mean):
    """Waves on a turning plane move west at beta / k^2 (Rossby 1939); one alone has no transport by itself."""
    grid = Grid((16, 20), (2.0, 3.0))
    x, y = grid.mesh()
    kx, ky = 2 * np.pi * 2 / 2.0, -2 * np.pi / 3.0
    beta, viscosity, square = 7.0, 0.01, kx**2 + ky**2
    along = 0.0 if mean is None else kx * mean[0] + ky * mean[1]
    exact = lambda t: np.exp(-viscosity * square * t) * np.cos(kx * x + ky * y + (beta * kx / square - along) * t)
    system = fluids.SpectralFlow2D(grid, viscosity=viscosity, beta=beta, mean_flow=mean)
    times = np.array([0.0, 0.5, 2.0])
    found = run(system, SpectralFlow2D.State(exact(0.0)), times, step=0.25)
    for t, values in zip(times, found.ys.vorticity, strict=True):
        np.testing.assert_allclose(values, exact(t), atol=10 * ROUNDING)

    def end(beta):
        system = fluids.SpectralFlow2D(grid, viscosity=viscosity, beta=beta, mean_flow=mean)
        return (
            run(system, SpectralFlow2D.State(exact(0.0)), times, step=0.25, on_failure="mark").final().vorticity[3, 4]
        )

    phase = kx * x[3, 4] + ky * y[3, 4] + (beta * kx / square - along) * 2.0
    slope = -np.exp(-viscosity * square * 2.0) * np.sin(phase) * kx / square * 2.0
    np.testing.assert_allclose(jax.grad(end)(jnp.asarray(beta)), slope, atol=1e-11)


def test_a_scalar_in_a_rossby_wave_keeps_its_mean():
    grid = Grid((16, 16))
    flow = fluids.SpectralFlow2D(grid, viscosity=0.1, beta=2.0)
    system = fluids.PassiveScalar(flow=flow, diffusivity=0.1)
    wave = SpectralFlow2D.State(jnp.asarray(np.cos(grid.mesh()[0])))
    scalar = jnp.asarray(1 + np.sin(grid.mesh()[1]))
    end = run(system, system.State(wave, scalar), [0.0, 1.0], step=0.1).final()
    turned = np.exp(-0.1) * np.cos(grid.mesh()[0] + 2.0)
    np.testing.assert_allclose(end.flow.vorticity, turned, atol=1e-12)
    np.testing.assert_allclose(end.scalar.mean(), 1.0, rtol=1e-13)


def test_the_derivative_of_taylor_greens_energy_by_viscosity():
    grid = Grid((16, 16))
    start = SpectralFlow2D.State(fluids.vorticity(grid, fluids.taylor_green(grid)))

    def energy(viscosity):
        system = fluids.SpectralFlow2D(grid, viscosity=viscosity)
        return system.outputs(0.0, run(system, start, [0.0, 1.0], step=0.05, on_failure="mark").final(), None)["energy"]

    value, slope = jax.jit(jax.value_and_grad(energy))(0.1)
    np.testing.assert_allclose(value, 0.25 * np.exp(-0.4), rtol=1e-12)
    np.testing.assert_allclose(slope, -4 * value, rtol=1e-12)  # -4 t E


def test_a_beltrami_flow_in_space():
    """Arnold, Beltrami and Childress: the curl is the velocity, so that it only decays."""
    grid = Grid((12, 15, 12))
    x, y, z = grid.mesh()
    start = np.stack([np.sin(z) + 0.5 * np.cos(y), np.sin(x) + np.cos(z), 0.5 * np.sin(y) + np.cos(x)])
    found = run(fluids.SpectralFlow3D(grid, viscosity=0.1, drag=0.2), SpectralFlow3D.State(start), [0.0, 1.0], step=0.1)
    np.testing.assert_allclose(found.final().velocity, start * np.exp(-0.3), atol=ROUNDING)


@pytest.mark.parametrize("dimensions", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_kolmogorovs_parallel_flow_stands_still(dimensions):
    grid = Grid((8, 16, 9)[:dimensions], lengths=(2.0, 3.0, 1.0)[:dimensions], origin=(0.0, 0.7, 0.0)[:dimensions])
    k = 2 * np.pi * 3 / 3.0
    profile = fluids.kolmogorov_profile(grid, 2.0 / (0.1 * k**2 + 0.3), waves=3)
    force = fluids.KolmogorovForce(amplitude=2.0, waves=3)
    build = fluids.SpectralFlow2D if dimensions == 2 else fluids.SpectralFlow3D
    system = build(grid, viscosity=0.1, drag=0.3, force=force)
    y0 = SpectralFlow2D.State(fluids.vorticity(grid, profile)) if dimensions == 2 else SpectralFlow3D.State(profile)
    slope = jax.jit(lambda y: system.vector_field(jnp.asarray(0.0), system.encode(y), None))(y0)
    np.testing.assert_allclose(slope, 0, atol=ROUNDING)
    x, y = grid.mesh()[:2]
    steady = fluids.SteadyForce(np.stack([2.0 * np.sin(k * (y - 0.7))] + [0 * x] * (dimensions - 1)))
    fields = [jax.jit(lambda f=f: f.modes(0.0, system.waves, None, jnp.float64))() for f in (force, steady)]
    np.testing.assert_allclose(*fields, atol=ROUNDING)


@pytest.mark.slow
def test_inviscid_flow_keeps_energy_and_enstrophy():
    """Of the truncated series; what is lost is the error of time stepping, of order h**4."""
    grid = Grid((32, 24))
    start = SpectralFlow2D.State(fluids.vorticity(grid, fluids.random_velocity(grid, jax.random.key(3), peak=3.0)))
    system = fluids.SpectralFlow2D(grid, viscosity=0.0)
    measure = jax.jit(lambda y: system.outputs(0.0, y, None))
    before = measure(start)
    losses = []
    for step in (0.02, 0.01):
        after = measure(run(system, start, [0.0, 1.0], step=step).final())
        losses.append([abs(after[name] / before[name] - 1) for name in ("energy", "enstrophy")])
    assert np.max(losses[1]) < 1e-8
    assert np.min(np.array(losses[0]) / losses[1]) > 10  # RK4's invariants fall by 32 at least, or by rounding


@pytest.mark.slow
def test_inviscid_flow_in_space_keeps_its_energy():
    grid = Grid((16, 16, 16))
    start = SpectralFlow3D.State(fluids.random_velocity(grid, jax.random.key(3), peak=1.3))
    system = fluids.SpectralFlow3D(grid, viscosity=0.0)
    energy = lambda y: 0.5 * np.mean(np.sum(np.asarray(y.velocity) ** 2, axis=0))
    final = run(system, start, [0.0, 0.5], step=0.01).final()
    np.testing.assert_allclose(energy(final), energy(start), rtol=1e-9)  # h**5 a step


def test_burgers_by_cole_and_hopf():
    r"""$u = -2\nu \phi_x / \phi$ with $\phi$ a solution of the heat equation."""
    grid, viscosity = Grid(96), 0.1
    x = grid.mesh()[0]

    def exact(t):
        parts = [(1.0, 0, 0.0), (0.5, 1, 0.3), (0.2, 2, 1.1)]
        phi = sum(a * np.exp(-viscosity * k**2 * t) * np.cos(k * x + p) for a, k, p in parts)
        slope = sum(-a * k * np.exp(-viscosity * k**2 * t) * np.sin(k * x + p) for a, k, p in parts)
        return -2 * viscosity * slope / phi

    found = run(fluids.Burgers(grid, viscosity=viscosity), Burgers.State(exact(0.0)), [0.0, 1.0], step=0.01)
    np.testing.assert_allclose(found.final().u, exact(1.0), atol=1e-10)


def test_a_soliton_of_korteweg_and_de_vries():
    """Its shape, and mass, momentum and energy to 1e-10."""
    grid, speed = Grid(192, lengths=48.0), 1.0
    x = grid.mesh()[0]
    exact = lambda t: 0.5 * speed / np.cosh(0.5 * np.sqrt(speed) * ((x - speed * t) % 48.0 - 24.0)) ** 2
    system = fluids.KortewegDeVries(grid)
    found = run(system, Burgers.State(exact(0.0)), [0.0, 2.0], step=1e-3)
    np.testing.assert_allclose(found.final().u, exact(2.0), atol=1e-9)  # its tail at the edge of the box
    kept = jax.jit(jax.vmap(lambda y: system.invariants(0.0, y)))(found.ys)
    for values in kept.values():
        np.testing.assert_allclose(values[-1], values[0], rtol=1e-10)


@pytest.mark.slow
def test_two_solitons_pass_each_other():
    """To what their tails leave at the edges of the box, exp(-0.7 * 25)."""
    grid = Grid(384, lengths=60.0)
    exact = lambda t: two_solitons(grid.mesh()[0] - 30.0, t - 8.0)
    found = run(fluids.KortewegDeVries(grid), Burgers.State(exact(0.0)), [0.0, 8.0, 16.0], step=1e-3)
    for t, row in zip([8.0, 16.0], found.ys.u[1:], strict=True):
        np.testing.assert_allclose(row, exact(t), atol=1e-7)


@pytest.mark.slow
def test_a_front_of_fisher():
    """Of speed 5/sqrt(6) (Ablowitz and Zeppetella), and its mirror image."""
    grid = Grid(384, lengths=160.0)
    distance = np.abs(grid.mesh()[0] - 80.0)
    exact = lambda t: (1 + np.exp((distance - 35.0 - 5 * t / np.sqrt(6)) / np.sqrt(6))) ** -2
    found = run(fluids.FisherKPP(grid), Burgers.State(exact(0.0)), [0.0, 3.0], step=0.02)
    np.testing.assert_allclose(found.final().u, exact(3.0), atol=1e-5)  # the tails of both fronts meet in the middle


@pytest.mark.slow
def test_a_wall_of_allen_and_cahn_stands_still():
    grid = Grid(256)
    x = grid.mesh()[0]
    wall = np.tanh((np.abs(x - np.pi) - np.pi / 2) / (np.sqrt(2) * 0.12))
    found = run(fluids.AllenCahn(grid, width=0.12), Burgers.State(wall), [0.0, 1.0], step=0.05)
    np.testing.assert_allclose(found.final().u, wall, atol=1e-5)  # walls attract by exp(-distance / width)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("build", "rate"),
    [
        (lambda g: fluids.CahnHilliard(g, mobility=0.5, width=0.3), lambda k: 0.5 * (k**2 - 0.09 * k**4)),
        (lambda g: fluids.SwiftHohenberg(g, forcing=0.2), lambda k: 0.2 - (1 - k**2) ** 2),
        (lambda g: fluids.KuramotoSivashinsky(g, viscosity=0.7), lambda k: k**2 - 0.7 * k**4),
    ],
)
def test_small_waves_grow_at_their_rates(build, rate):
    grid = Grid((12, 16), lengths=(2 * np.pi, 4 * np.pi))
    x, y = grid.mesh()
    wave = 1e-7 * np.cos(x + 0.5 * y)
    found = run(build(grid), Burgers.State(wave), [0.0, 1.0], step=0.25)
    np.testing.assert_allclose(
        found.final().u, wave * np.exp(rate(np.sqrt(1.25))), atol=1e-12
    )  # the square of the wave


@pytest.mark.slow
def test_gray_and_scott_without_space_is_a_reaction():
    grid = Grid(8)
    system = fluids.GrayScott(grid)
    start = fluids.GrayScott.State(0.6 * np.ones(8), 0.3 * np.ones(8))
    found = run(system, start, [0.0, 20.0], step=0.2).final()
    well = simkit.from_function(
        lambda t, y, p: {
            "a": -y["a"] * y["b"] ** 2 + 0.035 * (1 - y["a"]),
            "b": y["a"] * y["b"] ** 2 - 0.1 * y["b"],
        },
        {},
    )
    exact = run(well, {"a": 0.6, "b": 0.3}, [0.0, 20.0], step=simkit.Adaptive(1e-10, 1e-12)).final()
    np.testing.assert_allclose(found.food, exact["a"], atol=1e-8)
    np.testing.assert_allclose(found.eater, exact["b"], atol=1e-8)


@pytest.mark.slow
def test_a_plane_wave_of_ginzburg_and_landau():
    grid, b, c, k = Grid((16, 8), lengths=(10.0, 7.0)), 0.5, -0.3, 2 * np.pi / 10
    size, omega = np.sqrt(1 - k**2), 0.5 * k**2 - 0.3 * (1 - k**2)
    exact = lambda t: size * np.exp(1j * (k * grid.mesh()[0] - omega * t))
    start = fluids.GinzburgLandau.State(exact(0).real, exact(0).imag)
    found = run(fluids.GinzburgLandau(grid, dispersion=b, rotation=c), start, [0.0, 2.0], step=0.02).final()
    np.testing.assert_allclose(np.asarray(found.real) + 1j * np.asarray(found.imaginary), exact(2.0), atol=1e-9)


@pytest.mark.slow
def test_a_soliton_of_schrodinger():
    grid, a, v, g = Grid(480, lengths=40.0), 1.2, 2 * np.pi * 3 / 40, 0.8
    x = grid.mesh()[0]
    place = lambda t: (x - v * t) % 40.0 - 20.0
    exact = lambda t: a / np.sqrt(g) / np.cosh(a * place(t)) * np.exp(1j * (v * (x - 20.0) + 0.5 * (a**2 - v**2) * t))
    start = fluids.GinzburgLandau.State(exact(0).real, exact(0).imag)
    system = fluids.NonlinearSchrodinger(grid, attraction=g)
    found = run(system, start, [0.0, 1.0], step=2e-3)
    values = np.asarray(found.ys.real) + 1j * np.asarray(found.ys.imaginary)
    np.testing.assert_allclose(values[-1], exact(1.0), atol=1e-8)
    for kept in jax.jit(jax.vmap(lambda y: system.invariants(0.0, y)))(found.ys).values():
        np.testing.assert_allclose(kept[-1], kept[0], rtol=1e-10)


@pytest.mark.slow
def test_advection_and_diffusion_in_one_step():
    grid = Grid((8, 9), lengths=(2.0, 3.0))
    x, y = grid.mesh()
    system = fluids.AdvectionDiffusion(grid, velocity=[0.4, -0.3], diffusivity=0.02)
    wave = lambda t: np.cos(np.pi * (x - 0.4 * t) + 4 * np.pi / 3 * (y + 0.3 * t))
    found = run(system, Burgers.State(wave(0.0)), [0.0, 5.0], step=5.0)
    damping = np.exp(-0.02 * 5.0 * (np.pi**2 + (4 * np.pi / 3) ** 2))
    np.testing.assert_allclose(found.final().u, damping * wave(5.0), atol=ROUNDING)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(16, 12), (8, 6, 12)])
def test_an_internal_wave(shape):
    """A plane wave of any height solves the equations of Boussinesq; its frequency is N k_x / |k|."""
    grid = Grid(shape)
    mesh = grid.mesh()
    x, z, d = mesh[0], mesh[-1], len(shape)
    frequency = np.sqrt(2.0) / np.sqrt(2)  # of k = (1, 1) with N**2 = 2
    phase = lambda t: x + z - frequency * t
    w, zero = (lambda t: 0.3 * np.cos(phase(t))), np.zeros(shape)
    velocity = lambda t: np.stack([-w(t), *[zero] * (d - 2), w(t)])
    buoyancy = lambda t: -0.3 * 2.0 / frequency * -np.sin(phase(t))  # b_t = -N**2 w
    flow = (fluids.SpectralFlow2D if d == 2 else fluids.SpectralFlow3D)(grid, viscosity=0.0)
    y0 = SpectralFlow2D.State(fluids.vorticity(grid, velocity(0.0))) if d == 2 else SpectralFlow3D.State(velocity(0.0))
    system = fluids.Boussinesq(flow, diffusivity=0.0, stratification=2.0)
    found = run(system, fluids.Boussinesq.State(y0, buoyancy(0.0)), [0.0, 1.0], step=0.02).final()
    np.testing.assert_allclose(found.buoyancy, buoyancy(1.0), atol=1e-8)
    exact = fluids.vorticity(grid, velocity(1.0)) if d == 2 else velocity(1.0)
    np.testing.assert_allclose(found.flow.vorticity if d == 2 else found.flow.velocity, exact, atol=1e-8)


def test_a_scalar_in_kolmogorovs_flow():
    """Across a mean gradient along the flow it settles where diffusion balances stirring; a mean flow carries it."""
    grid = Grid((8, 16))
    y = grid.mesh()[1]
    force = fluids.KolmogorovForce(amplitude=0.4, waves=2)
    flow = fluids.SpectralFlow2D(grid, viscosity=0.1, force=force)
    system = fluids.PassiveScalar(flow, diffusivity=0.2, gradient=[1.5, 0.0])
    carried = fluids.PassiveScalar.State(SpectralFlow2D.State(-2 * np.cos(2 * y)), -1.5 * np.sin(2 * y) / (0.2 * 4))
    slope = jax.jit(lambda y: system.vector_field(jnp.asarray(0.0), system.encode(y), None))(carried)
    np.testing.assert_allclose(slope, 0, atol=ROUNDING)


# exponax steps as we do; jax-cfd is of second order in the linear part, and its filter is not symmetric at the shortest waves.
@pytest.mark.parametrize(("program", "agreement"), [("exponax", 1e-8), ("jax_cfd", 1e-6)])
def test_other_programs_find_the_same_field(program, agreement):
    """A decaying flow from a start that they and we share; how they were run stands in the files."""
    about = json.loads((DATA / f"{program}.json").read_text())
    with np.load(DATA / f"{program}.npz") as stored:
        start, end = stored["start"], stored["end"]
    system = fluids.SpectralFlow2D(Grid(start.shape), viscosity=about["viscosity"], drag=about["drag"])
    found = run(system, SpectralFlow2D.State(start), [0.0, about["time"]], step=0.01).final().vorticity
    assert np.abs(end - start).max() > 1
    np.testing.assert_allclose(found, end, atol=agreement)
