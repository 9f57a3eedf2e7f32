"""Layers of shallow water: rest over a bed, one layer, waves, instability, conservation, gradients, bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit.fluids import FreeSlip, Grid, Level, MultilayerShallowWater, Open, Periodic, ShallowWater

Layers = MultilayerShallowWater.State


def slope_of(system, water):
    return jax.jit(lambda s, y: s.vector_field(0.0, s.encode(y), None))(system, water)


@pytest.mark.parametrize("order", ["muscl", "first_order"])
def test_layers_at_rest_with_islands(order):
    """Over a rough bed that comes through all three layers in places nothing moves."""
    grid = Grid((20, 24), (1.0, 1.2))
    bed = 0.6 * jax.random.uniform(jax.random.key(1), grid.shape) + 0.5 * jnp.asarray(np.sin(5 * grid.mesh()[0]))
    tops = [*(jnp.maximum(level, bed) for level in (0.75, 0.55, 0.2)), bed]
    height = jnp.stack([tops[k] - tops[k + 1] for k in range(3)])
    assert all(0 < int((layer == 0).sum()) < grid.size for layer in height)
    system = MultilayerShallowWater(
        grid, [1.0, 1.1, 1.3], bed=bed, boundaries=[FreeSlip(), (FreeSlip(), Open())], reconstruction=order
    )
    for leaf in jax.tree.leaves(slope_of(system, Layers(height, jnp.zeros((2, 3, *grid.shape))))):
        np.testing.assert_allclose(leaf, 0, atol=1e-13)


def test_one_layer_is_shallow_water():
    grid = Grid((20, 24), (1.0, 1.2))
    keys = jax.random.split(jax.random.key(0), 3)
    bed = 1.2 * jax.random.uniform(keys[2], grid.shape)
    height = jnp.maximum(1 - bed + 0.1 * jax.random.normal(keys[0], grid.shape), 0)
    velocity = jax.random.normal(keys[1], (2, *grid.shape))
    kwargs = {"bed": bed, "boundaries": [FreeSlip(), Periodic()], "coriolis": 0.3, "beta": 0.1}
    one = slope_of(ShallowWater(grid, **kwargs), ShallowWater.State(height, velocity))
    many = slope_of(MultilayerShallowWater(grid, [3.0], **kwargs), Layers(height[None], velocity[:, None]))
    for a, b in ((one.height, many.height[0]), (one.discharge, many.discharge[:, 0])):
        np.testing.assert_allclose(b, a, atol=1e-13 * float(jnp.abs(a).max()))


def normal_modes(depth, density, gravity=9.81):
    """Speeds and heights of the long waves on layers at rest, the fastest first (Vallis 2017, section 3.4, for two layers)."""
    n = len(depth)
    weight = np.array([[1.0 if j >= k else density[j] / density[k] for j in range(n)] for k in range(n)])
    square, shape = np.linalg.eig(gravity * np.diag(depth) @ weight)
    order = np.argsort(-square)
    return np.sqrt(square[order]), shape[:, order]


@pytest.mark.parametrize(
    ("depth", "density"), [([20.0, 30.0], [1000.0, 1025.0]), ([10.0, 15.0, 25.0], [1000.0, 1010.0, 1030.0])]
)
def test_normal_modes(depth, density):
    """Standing waves of all modes come back after their period, slow ones no more damped than the fast one."""
    n, length = 64, 1000.0
    grid = Grid(n, length)
    system, k = MultilayerShallowWater(grid, density), 2 * np.pi / length
    speeds, shapes = normal_modes(depth, density)
    if len(depth) == 2:  # the reduced gravity's speed, to the order of the contrast
        reduced = 9.81 * (1 - density[0] / density[1])
        np.testing.assert_allclose(speeds[1], np.sqrt(reduced * depth[0] * depth[1] / sum(depth)), rtol=0.01)
    wave = np.sinc(1 / n) * np.cos(k * grid.centres(0))
    for speed, shape in zip(speeds, shapes.T, strict=True):
        size = 1e-3 * shape / np.abs(shape).max()
        start = Layers(jnp.asarray(np.array(depth)[:, None] + size[:, None] * wave), jnp.zeros((1, len(depth), n)))
        period = 2 * np.pi / (speed * k)
        end = simkit.simulate(system, start, [0.0, period], step=simkit.Courant(0.5)).final()
        error = np.asarray(end.height - start.height)
        # Of order 2: 2 % with 32 cells, 0.5 % with 64; a steep third mode has 0.6 %.
        assert np.abs(error).max() < 7e-3 * 1e-3


def phillips(shear, scale, ratio, wave):
    """Growth rate, structure and thickness per pressure of Phillips' two equal layers of depth 1 with f = 1.

    Quasi-geostrophic, with a free surface: Vallis (2017), section 9.6; `scale` is f^2 / (g' H), `ratio` that of the densities.
    """
    gravity = 1 / scale / (1 - ratio)
    interface = np.array([-ratio, 1.0]) / (gravity * (1 - ratio))
    thickness = np.stack([np.array([1 / gravity, 0.0]) - interface, interface])
    flow = 0.5 * shear * np.array([1.0, -1.0])
    vorticity = -(wave**2) * np.eye(2) - thickness
    speeds, shapes = np.linalg.eig(np.linalg.solve(vorticity, np.diag(flow) @ vorticity + np.diag(thickness @ flow)))
    worst = np.argmax(speeds.imag)
    return wave * speeds[worst].imag, shapes[:, worst], thickness, flow, gravity


@pytest.mark.slow
def test_baroclinic_instability():
    """The fastest wave of Phillips' problem grows as quasi-geostrophic theory says, for a Rossby number of 0.05.

    The slope of the layers across the stream, which is not periodic, stands in `source`: its geostrophic force, and what the
    stream across brings.
    """
    shear, scale, ratio = 0.01, 20.0, 0.9
    wave = 0.64 * np.sqrt(2 * scale)
    rate, shape, thickness, flow, gravity = phillips(shear, scale, ratio, wave)
    # Of one density, below a lid: k U / 2 ((2 F - k^2) / (2 F + k^2))^(1/2).
    np.testing.assert_allclose(
        rate, wave * shear / 2 * np.sqrt((2 * scale - wave**2) / (2 * scale + wave**2)), rtol=0.08
    )
    grid = Grid((32, 4), (2 * np.pi / wave, 2 * np.pi / wave))
    phase = np.exp(1j * wave * grid.mesh()[0])
    pressure = 1e-3 * shear / wave * np.real(shape[:, None, None] * phase)
    across = 1e-3 * shear * np.real(1j * shape[:, None, None] * phase)
    tilt, push = -(thickness @ flow)[:, None, None], flow[:, None, None]

    def source(t, x, water):
        mass = -water.velocity[1] * tilt
        along = water.velocity * mass[None]
        return MultilayerShallowWater.Conserved(mass, along.at[1].add(water.height * push))

    system = MultilayerShallowWater(
        grid, [ratio, 1.0], gravity=gravity, coriolis=1.0, source=source, reconstruction="weno5z"
    )
    height = 1 + np.einsum("ij,jxy->ixy", thickness, pressure)
    start = Layers(jnp.asarray(height), jnp.asarray(np.stack([np.broadcast_to(push, across.shape), across])))
    times = np.linspace(0.0, 3 / rate, 13)
    run = simkit.simulate(system, start, times, step=simkit.Courant(0.8))
    size = np.abs(np.einsum("tlxy,xy->tl", np.asarray(run.ys.velocity)[:, 1], np.conj(phase)))
    found = np.polyfit(times[4:], np.log(size[4:]), 1)[0]
    np.testing.assert_allclose(found / rate, 1, atol=5e-3)  # 1.0017 and 1.0013


def test_volume_is_kept_and_energy_falls():
    grid = Grid((24, 20), (1.2, 1.0))
    x, y = map(jnp.asarray, grid.mesh())
    wave = 0.2 * jnp.cos(2 * jnp.pi * x / 1.2) * jnp.cos(jnp.pi * y)
    start = Layers(jnp.stack([0.5 - wave, 0.4 + wave, 0.3 + 0.5 * wave]), jnp.zeros((2, 3, *grid.shape)))
    system = MultilayerShallowWater(grid, [1.0, 1.2, 1.5], boundaries=[Periodic(), FreeSlip()])
    run = simkit.simulate(system, start, np.linspace(0.0, 1.0, 9), step=simkit.Courant(0.5))
    found = jax.vmap(lambda y: system.outputs(0.0, y, None))(run.ys)
    np.testing.assert_allclose(found["volume"], np.broadcast_to(found["volume"][0], (9, 3)), rtol=1e-13)
    energy = np.asarray(found["energy"])
    assert np.all(np.diff(energy) < 0)
    assert (energy[0] - energy[-1]) / energy[0] < 0.02


def test_gradients():
    """By densities, bed and start, through layers that run dry."""
    grid = Grid(24, 1.0)
    x = jnp.asarray(grid.centres(0))

    def loss(numbers):
        density, bump, top = numbers
        bed = bump * jnp.exp(-(((x - 0.5) / 0.2) ** 2))
        lower = jnp.maximum(0.4 + 0.1 * jnp.cos(2 * jnp.pi * x) - bed, 0)
        system = MultilayerShallowWater(grid, density, bed=bed, boundaries=FreeSlip())
        height = jnp.stack([top - jnp.maximum(bed, 0.4 + 0.1 * jnp.cos(2 * jnp.pi * x)), lower])
        start = Layers(height, jnp.zeros((1, 2, 24)))
        end = simkit.simulate(system, start, [0.0, 0.3], step=5e-3).final()
        return jnp.sum(end.height[1] ** 2 * (1 + x)) + jnp.sum(end.velocity[0, 0] ** 2)

    numbers = jnp.array([1.0, 1.1]), jnp.array(0.6), jnp.array(1.0)
    found = jax.jit(jax.grad(loss))(numbers)
    value = jax.jit(loss)
    flat, back = jax.flatten_util.ravel_pytree(numbers)
    for i, g in enumerate(jax.flatten_util.ravel_pytree(found)[0]):
        at = lambda h, i=i: value(back(flat.at[i].add(h)))
        estimate = (8 * (at(1e-5) - at(-1e-5)) - (at(2e-5) - at(-2e-5))) / 12e-5
        np.testing.assert_allclose(g, estimate, rtol=1e-5)


def test_the_example_and_many_at_once():
    """An internal wave under a still surface; an ensemble is a loop."""
    example = MultilayerShallowWater.example()
    run = lambda size: simkit.simulate(
        example.system, Layers(example.y0.height + size, example.y0.velocity), [0.0, 20.0], step=simkit.Fixed(40)
    ).final()
    both = jax.vmap(run)(jnp.array([0.0, 0.5]))
    np.testing.assert_allclose(both.height[1], run(jnp.array(0.5)).height, rtol=1e-13)
    surface = np.asarray(both.height[0].sum(axis=0))
    assert np.ptp(surface) < 0.15 < 3.0 < np.ptp(np.asarray(both.height[0, 0]))


def test_layers_that_shear_too_fast():
    """Two layers bear a difference of speeds of about (g' (h_1 + h_2))^(1/2) (Long 1956); above it says so."""
    grid = Grid(16, 10.0)
    system = MultilayerShallowWater(grid, [0.98, 1.0])
    bound = np.sqrt(9.81 * 0.02 * 2.0)
    state = lambda slip: Layers(jnp.ones((2, 16)), jnp.stack([jnp.full(16, slip), jnp.zeros(16)])[None])
    assert system.note(0.0, state(0.95 * bound)) == ""
    assert "shear instability" in system.note(0.0, state(1.1 * bound))
    with pytest.warns(UserWarning, match=r"16 places, most at \(0.3125\) by 0.68"):
        simkit.simulate(system, state(1.1 * bound), [0.0, 0.01], step=simkit.Courant(0.5))


def test_bad_input():
    grid = Grid(16, 10.0)
    with pytest.raises(simkit.ArgumentError, match="grow from each layer to the one below"):
        MultilayerShallowWater(grid, [1.1, 1.0])
    with pytest.raises(simkit.ArgumentError, match=r"shape \(layers,\)"):
        MultilayerShallowWater(grid, 1.0)
    with pytest.raises(simkit.ArgumentError, match="one is Level"):
        MultilayerShallowWater(grid, [1.0, 1.1], boundaries=Level(1.0))
    system = MultilayerShallowWater(grid, [1.0, 1.1])
    with pytest.raises(simkit.ArgumentError, match="must not be negative in every cell"):
        simkit.simulate(system, Layers(-jnp.ones((2, 16)), jnp.zeros((1, 2, 16))), [0.0, 1.0])
    with pytest.raises(simkit.ArgumentError, match=r"y0\.height"):
        simkit.simulate(system, Layers(jnp.ones((3, 16)), jnp.zeros((1, 3, 16))), [0.0, 1.0])
