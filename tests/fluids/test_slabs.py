"""One simulation over two devices is the simulation on one, to rounding."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import ArgumentError, fluids
from simkit.fluids import FreeSlip, Grid, NoSlip, Open, Periodic
from simkit.fluids.staggered._pressure import FastPoisson

# Sums in another order: some ten roundings of numbers of order 1.
ROUNDING = 1e-13


def apart(build, start, times, step, shape, lengths=1.0, **options):
    """The largest difference of a run over two devices from that on one, which is checked to be spread."""
    found = []
    for devices in (None, jax.devices()[:2]):
        system = build(Grid(shape, lengths, devices=devices, **options))
        run = simkit.simulate(system, start(system), times, step=step)
        found.append(jax.tree.leaves(run.ys))
    assert all(len(x.sharding.device_set) == 2 and not x.sharding.is_fully_replicated for x in found[1])
    return max(np.abs(np.asarray(a) - np.asarray(b)).max() for a, b in zip(*found, strict=True))


def vortices(system):
    grid = Grid(system.grid.shape, system.grid.lengths)
    return fluids.SpectralFlow2D.State(
        fluids.vorticity(grid, fluids.random_velocity(grid, jax.random.key(0), peak=2.0))
    )


def blob(grid):
    x, y = grid.mesh()
    return np.exp(-20 * ((x - 0.4) ** 2 + (y - 0.5) ** 2))


def test_a_plane_flow():
    # 20 cells keep 7 columns, which two devices cannot share evenly: one is filled up.
    build = lambda grid: fluids.SpectralFlow2D(
        grid, viscosity=0.05, force=fluids.KolmogorovForce(amplitude=0.5, waves=2)
    )
    assert apart(build, vortices, [0.0, 0.1], 0.05, (24, 20), 2 * np.pi) < ROUNDING


@pytest.mark.slow
def test_gradients():
    def energy(viscosity, devices):
        system = fluids.SpectralFlow2D(Grid((24, 20), devices=devices), viscosity=viscosity)
        run = simkit.simulate(system, vortices(system), np.array([0.0, 0.1]), step=0.05)
        return system.outputs(0.1, run.final(), None)["energy"]

    slope = [float(jax.jit(jax.grad(lambda nu, d=devices: energy(nu, d)))(0.05)) for devices in (None, jax.devices())]
    assert abs(slope[1] / slope[0] - 1) < ROUNDING


@pytest.mark.slow
def test_a_flow_in_space():
    build = lambda grid: fluids.SpectralFlow3D(grid, viscosity=0.02)
    start = lambda system: fluids.SpectralFlow3D.State(fluids.taylor_green(Grid(system.grid.shape)))
    assert apart(build, start, [0.0, 0.1], 0.05, (12, 10, 14), 2 * np.pi) < ROUNDING


def test_only_columns_and_neighbours_travel():
    """What a step sends is one transposition a transform; nothing is gathered."""
    grid = Grid((24, 20), devices=jax.devices()[:2])
    system = fluids.SpectralFlow2D(grid, viscosity=0.05)
    state = system.encode(vortices(system))
    text = jax.jit(lambda y: system.vector_field(0.0, y, None)).lower(state).compile().as_text()
    assert "all-to-all" in text
    assert "all-gather" not in text


@pytest.mark.parametrize(
    "boundaries", [Open(), pytest.param([Periodic(), FreeSlip()], marks=pytest.mark.slow)], ids=["open", "periodic"]
)
def test_shallow_water(boundaries):
    def build(grid):
        bed = 0.1 * np.cos(6 * Grid((16, 12), 1.0).mesh()[0])
        return fluids.ShallowWater(grid, bed=bed, boundaries=boundaries, coriolis=1.0, roughness=0.02)

    start = lambda system: fluids.ShallowWater.State(1 + 0.1 * blob(system.grid), np.zeros((2, 16, 12)))
    assert apart(build, start, [0.0, 0.05], simkit.Fixed(6), (16, 12)) < ROUNDING


@pytest.mark.slow
@pytest.mark.parametrize("boundaries", [None, [NoSlip(), Open()]], ids=["periodic", "ends"])
def test_gas(boundaries):
    options = {"viscosity": 0.01, "gravity": np.array([-0.3, 0.2]), "reconstruction": "muscl"}
    build = lambda grid: fluids.CompressibleFlow(grid, boundaries=boundaries, **options)
    start = lambda system: fluids.CompressibleFlow.State(
        1 + blob(system.grid), np.zeros((2, 16, 12)), 1 + 2 * blob(system.grid)
    )
    assert apart(build, start, [0.0, 0.05], simkit.Courant(0.4), (16, 12)) < ROUNDING


@pytest.mark.parametrize("walls", [(0, 0), (0, 1), (0, 0, 0), (0, 1, 0), (0, 0, 1), (0, 1, 1)])
@pytest.mark.parametrize("stretched", [False, True])
def test_pressure(walls, stretched):
    shape, walls = (8, 9, 6)[: len(walls)], tuple(map(bool, walls))
    if stretched and not walls[1]:
        pytest.skip("Stretched axes end at walls.")
    faces = [fluids.stretched_faces(n) if stretched and i == 1 else None for i, n in enumerate(shape)]
    right = jnp.asarray(np.random.default_rng(0).normal(size=shape))
    one, two = (FastPoisson(Grid(shape, 1.0, faces=faces, devices=d), walls) for d in (None, jax.devices()[:2]))
    assert np.abs(np.asarray(two(right)) - np.asarray(one(right))).max() < ROUNDING


WALLED = [
    pytest.param((16, 12), [Periodic(), NoSlip()], {}, id="channel"),
    pytest.param((8, 6, 7), [Periodic(), NoSlip(), FreeSlip()], {}, id="duct", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("shape", "boundaries", "options"), WALLED)
@pytest.mark.filterwarnings("ignore:.*is taken out")
def test_incompressible_flow(shape, boundaries, options):
    build = lambda grid: fluids.IncompressibleFlow(grid, viscosity=0.01, boundaries=boundaries)

    def start(system):
        return system.start(lambda x: tuple(jnp.cos(2 * np.pi * x[0] + i) * jnp.sin(3 * x[1]) for i in range(len(x))))

    assert apart(build, start, [0.0, 0.05], simkit.Fixed(3), shape, **options) < ROUNDING


@pytest.mark.long
def test_a_body_and_a_scalar():
    def build(grid):
        return fluids.IncompressibleFlow(
            grid,
            viscosity=0.01,
            boundaries=[Periodic(), NoSlip()],
            obstacle=fluids.Obstacle(fluids.Disk(jnp.array([0.5, 0.5]), 0.2)),
            flux="upwind",
            smagorinsky=0.1,
            diffusivity=0.01,
            scalar_boundaries=[Periodic(), fluids.Dirichlet(1.0)],
            buoyancy=jnp.array([0.0, 1.0]),
        )

    start = lambda system: system.start(lambda x: (jnp.ones_like(x[0]), jnp.zeros_like(x[0])), lambda x: x[1])
    assert apart(build, start, [0.0, 0.05], simkit.Fixed(5), (16, 12)) < ROUNDING


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda two: Grid((15, 8), devices=two), "as many on each device"),
        (lambda two: Grid((16, 8), devices=[two[0], two[0]]), "different devices"),
        (lambda two: fluids.Burgers(Grid(16, devices=two)).waves, "two or three dimensions"),
        (lambda two: fluids.IncompressibleFlow(Grid((16, 8), devices=two), boundaries=NoSlip()), "must be periodic"),
    ],
)
def test_what_does_not_fit_is_named(build, message):
    with pytest.raises(ArgumentError, match=message):
        build(jax.devices()[:2])
