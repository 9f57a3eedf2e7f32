"""Runs over four devices, in two directions and in one, against those on one device; differences go to a file of JSON.

A process of its own, since the number of devices is set before JAX starts. `test_pencils.py` runs it and judges.
"""

import json
import pathlib
import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np

import simkit
from simkit import fluids
from simkit.fluids import Grid, Periodic
from simkit.fluids.spectral._waves import Waves
from simkit.fluids.staggered._pressure import FastPoisson

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")
warnings.filterwarnings("ignore", message=".*is taken out")

FOUR = np.array(jax.devices())
SQUARE = FOUR.reshape(2, 2)
DRAW = np.random.default_rng(0)


def apart(*trees):
    """The largest difference between the leaves of two trees."""
    pairs = zip(*map(jax.tree.leaves, trees), strict=True)
    return max(float(np.abs(np.asarray(a) - np.asarray(b)).max()) for a, b in pairs)


def spread(tree):
    """Whether each device holds a quarter of every array."""
    return all(
        len({shard.device for shard in x.addressable_shards}) == 4 and 4 * x.addressable_shards[0].data.size == x.size
        for x in jax.tree.leaves(tree)
    )


def slopes(build, state, shape, lengths=1.0, **options):
    """The difference of slopes and of a gradient by the state, over 2 x 2 devices and on one."""
    found = []
    for devices in (None, SQUARE):
        system = build(Grid(shape, lengths, devices=devices, **options))
        y = state(system)
        draw = np.random.default_rng(1)
        weights = [draw.normal(size=x.shape) for x in jax.tree.leaves(y)]

        def total(y, system=system, weights=weights):
            slope = system.vector_field(0.0, system.encode(y), None)
            slope = system.decode(slope) if isinstance(slope, jax.Array) else slope  # of modes
            return sum(jnp.sum(a * w) for a, w in zip(jax.tree.leaves(slope), weights, strict=True)), slope

        (_, slope), gradient = jax.jit(jax.value_and_grad(total, has_aux=True))(y)
        found.append((slope, gradient))
    assert spread(found[1][0])
    scale = max(1.0, *(float(np.abs(np.asarray(x)).max()) for x in jax.tree.leaves(found[0])))
    return apart(*found) / scale


def waves():
    """Fields of odd sizes, real and complex, there and back."""
    worst = 0.0
    for shape in ((12, 10), (8, 6, 7)):
        for real in (True, False):
            one, four = (Waves(Grid(shape, devices=d), real=real) for d in (None, SQUARE))
            field = DRAW.normal(size=(2, *shape)) + (0 if real else 1j * DRAW.normal(size=(2, *shape)))
            there, back = (jax.jit(lambda x, w=w: w.field(w.modes(x))) for w in (one, four))
            worst = max(worst, apart(there(field), back(field)))
            energy = lambda w, x: w.inner(w.modes(x), w.laplacian(w.modes(x)))
            worst = max(worst, apart(energy(one, field), energy(four, field)) / float(abs(energy(one, field)).max()))
    return worst


def pressure():
    worst = 0.0
    cases = [((8, 6), (False,) * 2, None), ((8, 6, 5), (False,) * 3, None), ((4, 6, 5), (False, False, True), None)]
    cases.append(((4, 6, 5), (False, False, True), [None, None, fluids.stretched_faces(5)]))
    for shape, walls, faces in cases:
        one, four = (FastPoisson(Grid(shape, 1.0, faces=faces, devices=d), walls) for d in (None, SQUARE))
        right = DRAW.normal(size=shape)
        worst = max(worst, apart(one(right), four(right)))
    return worst


def plane_flow():
    build = lambda grid: fluids.SpectralFlow2D(grid, viscosity=0.05, force=fluids.KolmogorovForce(waves=2))
    plain = Grid((24, 20))
    start = fluids.vorticity(plain, fluids.random_velocity(plain, jax.random.key(0), peak=2.0))
    return slopes(build, lambda system: system.State(start), (24, 20), 2 * np.pi)


def flow_in_space():
    build = lambda grid: fluids.SpectralFlow3D(grid, viscosity=0.02)
    start = fluids.taylor_green(Grid((12, 10, 7)))
    return slopes(build, lambda system: system.State(start), (12, 10, 7), 2 * np.pi)


def wave(shape, phase=0.0):
    """A smooth field without symmetries, of order 1: where differences are equal, limiters have kinks."""
    x, y = (2 * np.pi * c for c in Grid(shape, 1.0).mesh()[:2])
    return np.sin(x + 0.3 + phase) * np.cos(y + 0.7) + 0.5 * np.cos(x + y + 1.1 - phase)


def shallow_water():
    shape = (16, 12)
    bed = 0.1 * np.cos(6 * Grid(shape, 1.0).mesh()[1])
    build = lambda grid: fluids.ShallowWater(
        grid, bed=bed, boundaries=[fluids.Open(), fluids.FreeSlip()], coriolis=1.0, beta=2.0, roughness=0.02
    )
    wind = 0.1 * DRAW.normal(size=(2, *shape))
    return slopes(build, lambda system: system.State(1 + 0.1 * wave(shape), wind), shape)


def gas(variables, shape, boundaries, **options):
    build = lambda grid: fluids.CompressibleFlow(
        grid, viscosity=0.01, variables=variables, boundaries=boundaries, **options
    )
    wind = np.stack([0.1 * wave(shape, 2.0 + i) for i in range(len(shape))])
    return slopes(build, lambda system: system.State(1 + 0.1 * wave(shape), wind, 1 + 0.1 * wave(shape, 1.0)), shape)


def incompressible(shape, boundaries, **options):
    build = lambda grid: fluids.IncompressibleFlow(grid, viscosity=0.01, boundaries=boundaries, **options)
    plain = build(Grid(shape, 1.0))
    scalar = wave(shape) if "diffusivity" in options else None
    state = jax.device_get(plain.start(DRAW.normal(size=(len(shape), *shape)), scalar))
    return slopes(build, lambda system: state, shape)


def run():
    """A run with a body and a scalar, closure and buoyancy, and its gradient by the radius."""
    found = []
    for devices in (None, SQUARE):

        def end(radius, devices=devices):
            system = fluids.IncompressibleFlow(
                Grid((16, 16), 1.0, devices=devices),
                viscosity=0.01,
                obstacle=fluids.Obstacle(fluids.Disk(jnp.array([0.5, 0.45]), radius)),
                flux="upwind",
                smagorinsky=0.1,
                diffusivity=0.01,
                buoyancy=jnp.array([0.0, 1.0]),
                tolerance=1e-13,
            )
            start = system.start(lambda x: (jnp.ones_like(x[0]), jnp.zeros_like(x[0])), lambda x: jnp.sin(6 * x[1]))
            final = simkit.simulate(system, start, [0.0, 0.02], step=simkit.Fixed(2)).final()
            return jnp.sum(final.scalar**2) + jnp.sum(final.velocity[0] ** 2), final

        (_, final), slope = jax.jit(jax.value_and_grad(end, has_aux=True))(jnp.asarray(0.2))
        found.append((final, slope / 100))  # of order 100
    assert spread(found[1][0])
    return apart(*found)


def ensemble():
    """Members side by side, over 2 x 2 devices and on one."""
    found = []
    for devices in (None, SQUARE):
        system = fluids.ShallowWater(Grid((8, 8), 1.0, devices=devices))
        start = system.State(1 + 0.1 * wave((8, 8)), np.zeros((2, 8, 8)))
        over = {"gravity": np.array([5.0, 10.0])}
        found.append(simkit.ensemble(system, start, [0.0, 0.02], over=over, step=0.01).ys)
    assert len(found[1].height.sharding.device_set) == 4
    return apart(*found)


def varied_steps():
    """Steps by a Courant number and by an error estimate, of which no device gathers a state."""
    worst = 0.0
    for step in (simkit.Courant(0.4), simkit.Adaptive(1e-4)):
        found = []
        for devices in (None, SQUARE):
            system = fluids.ShallowWater(Grid((8, 12), 1.0, devices=devices), reconstruction="first_order")
            start = system.State(jnp.asarray(1 + 0.1 * wave((8, 12))), jnp.zeros((2, 8, 12)))
            run = jax.jit(
                lambda y, system=system, step=step: simkit.simulate(system, y, [0.0, 0.02, 0.05], step=step).ys
            )
            program = run.lower(start).compile()
            found.append(program(start))
        assert "all-gather" not in program.as_text()
        assert spread(found[1])
        worst = max(worst, apart(*found))
    return worst


CASES = {
    "waves": waves,
    "pressure": pressure,
    "plane flow": plane_flow,
    "flow in space": flow_in_space,
    "shallow water": shallow_water,
    "gas, corners": lambda: gas("characteristic", (16, 16), [fluids.Open(), Periodic()]),
    "gas in space": lambda: gas(
        "primitive", (8, 8, 4), [Periodic(), fluids.Open(), fluids.NoSlip()], reconstruction="muscl"
    ),
    "incompressible": lambda: incompressible((8, 12), None, flux="upwind", diffusivity=0.01),
    "incompressible in space": lambda: incompressible(
        (8, 6, 5), [Periodic(), Periodic(), fluids.NoSlip()], smagorinsky=0.1
    ),
    "run": run,
    "ensemble": ensemble,
    "varied steps": varied_steps,
}

if __name__ == "__main__":
    out, *names = sys.argv[1:]
    pathlib.Path(out).write_text(json.dumps({name: CASES[name]() for name in names}))
