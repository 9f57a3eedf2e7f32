"""One simulation over devices in two directions is the simulation on one, to rounding."""

import json
import os
import pathlib
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from simkit import ArgumentError, fluids
from simkit.fluids import Grid, NoSlip, Periodic

# Sums in another order: some ten roundings of numbers of order 1.
ROUNDING = 1e-13

# Differences of squares of small differences, by which WENO weighs its stencils, amplify them.
WEIGHED = 1e-12

SLOW = ["waves", "pressure", "plane flow", "flow in space", "shallow water", "incompressible"]
LONG = ["gas, corners", "gas in space", "incompressible in space", "run", "ensemble", "varied steps"]


def on_four_devices(names, folder):
    """The differences that a process with four devices finds in some of its cases."""
    out = folder / "found.json"
    script = pathlib.Path(__file__).with_name("on_four_devices.py")
    done = subprocess.run(
        [sys.executable, script, out, *names],
        env={**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=4"},
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(out.read_text())


@pytest.mark.slow
def test_slopes_and_gradients_on_four_devices(tmp_path):
    found = on_four_devices(SLOW, tmp_path)
    assert len(found) == len(SLOW)
    assert max(found.values()) < ROUNDING, found


@pytest.mark.long
def test_gas_bodies_and_members_on_four_devices(tmp_path):
    found = on_four_devices(LONG, tmp_path)
    assert len(found) == len(LONG)
    assert found.pop("gas, corners") < WEIGHED
    assert max(found.values()) < ROUNDING, found


def test_water_divided_along_the_second_axis():
    """Beta plane and seams across the second axis alone, which two devices can show."""
    shape, two = (6, 8), np.array(jax.devices()[:2]).reshape(1, 2)
    x, y = (2 * np.pi * c for c in Grid(shape, 1.0).mesh())
    height, wind = 1 + 0.1 * np.sin(x + 0.3) * np.cos(y + 0.7), 0.1 * np.stack([np.cos(y + 0.2), np.sin(x + y)])
    found = []
    for devices in (None, two):
        system = fluids.ShallowWater(
            Grid(shape, 1.0, devices=devices), coriolis=1.0, beta=2.0, reconstruction="first_order"
        )
        state = system.encode(system.State(jnp.asarray(height), jnp.asarray(wind)))
        found.append(jax.jit(lambda y, system=system: system.vector_field(0.0, y, None))(state))
    for one, parted in zip(*map(jax.tree.leaves, found), strict=True):
        np.testing.assert_allclose(parted, one, rtol=0, atol=ROUNDING)
        assert parted.addressable_shards[0].data.shape[-2:] == (6, 4)


def test_a_grid_tells_how_it_is_divided():
    devices = np.array(jax.devices()[:2])
    assert Grid((8, 6), devices=devices).parts == (2,)
    pencils = Grid((8, 6), devices=devices.reshape(1, 2))
    assert pencils.parts == (1, 2)
    assert pencils.devices == tuple(devices)
    assert "over 1 x 2 devices" in repr(pencils)
    assert hash(pencils) != hash(Grid((8, 6), devices=devices))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda two: Grid((8, 15), devices=two[None]), "second axis.*has 15 cells. Take 16 cells"),
        (lambda two: Grid(16, devices=two[None]), "one or two axes of the grid"),
        (lambda two: Grid((8, 8, 8), devices=two.reshape(1, 1, 2)), "one or two axes of the grid"),
        (lambda two: Grid((8, 8), devices=[[two[0], two[1]], [two[0]]]), "different devices"),
        (lambda two: Grid((8, 8), devices=[["cpu", "gpu"]]), "different devices"),
        (
            lambda two: Grid((8, 8), faces=[None, fluids.stretched_faces(8)], devices=two[None]),
            "second axis.*equal cells",
        ),
        (
            lambda two: fluids.SpectralFlow2D(Grid((15, 8), devices=two[None])).waves,
            "multiple of 2 cells for Fourier series, but it has 15. Take 16 cells",
        ),
        (
            lambda two: fluids.IncompressibleFlow(Grid((8, 8), devices=two[None]), boundaries=[Periodic(), NoSlip()]),
            "second axis of incompressible flow .* must be periodic",
        ),
        (
            lambda two: fluids.IncompressibleFlow(Grid((15, 8), devices=two[None])),
            "multiple of 2 cells for the pressure",
        ),
    ],
)
def test_what_does_not_fit_is_named(build, message):
    with pytest.raises(ArgumentError, match=message):
        build(np.array(jax.devices()[:2]))


def test_profiles_along_a_divided_axis_are_refused():
    """With many ghost cells a profile of the whole axis could have passed for one of a part."""
    grid = Grid((8, 4), devices=jax.devices()[:2])
    stream = fluids.Stream(density=jnp.linspace(1.0, 2.0, 8), velocity=jnp.zeros(2), pressure=1.0)
    system = fluids.CompressibleFlow(grid, boundaries=[Periodic(), stream], reconstruction="first_order")
    state = system.encode(system.State(jnp.ones((8, 4)), jnp.zeros((2, 8, 4)), jnp.ones((8, 4))))
    with pytest.raises(ArgumentError, match="the same along axis 0"):
        system.vector_field(0.0, state, None)
