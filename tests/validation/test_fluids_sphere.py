"""Flows on a sphere against test cases of Williamson et al. (1992) and exact waves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import fluids
from simkit.fluids.sphere._harmonics import Harmonics, tables

DAY = 86400.0


@pytest.mark.parametrize("truncation", [42, pytest.param(85, marks=pytest.mark.slow)])
@pytest.mark.parametrize("angle", [0.0, 0.05, np.pi / 2 - 0.05, np.pi / 2])
@pytest.mark.slow
def test_a_steady_zonal_flow_stays(truncation, angle):
    """Case 2, over 5 days, through and around the poles."""
    sphere = fluids.Sphere(truncation)
    water = fluids.ShallowWaterSphere(sphere, depth=2400.0, tilt=angle)
    start = fluids.zonal_flow(sphere, angle=angle)
    # With steps of 40 minutes at T85 rounding errors grow (2e-5 after 5 days): gravity waves of the uneven depth are explicit.
    run = simkit.simulate(water, start, [0.0, 2.5 * DAY, 5 * DAY], step=2400.0 if truncation == 42 else 1200.0)
    size = np.sqrt(sphere.mean(start.height**2))
    errors = np.sqrt(sphere.mean(jnp.asarray((np.asarray(run.ys.height) - np.asarray(start.height)) ** 2))) / size
    assert errors.max() < 1e-12  # some 5000 roundings for 720 evaluations
    within = 1e-11 * (truncation / 42) ** 2  # a wind is a slope of modes, which magnifies their roundings
    assert np.abs(run.final().velocity - start.velocity).max() < within * 38.6


def wave(sphere, time, wave=4, turning=7.848e-6, rotation=7.292e-5):
    """The vorticity of a Rossby-Haurwitz wave without divergence at a time (Haurwitz 1940)."""
    r = wave
    speed = (r * (3 + r) * turning - 2 * rotation) / ((1 + r) * (2 + r))
    longitude, latitude = sphere.mesh()
    s, c = np.sin(latitude), np.cos(latitude)
    moved = np.cos(r * (longitude - speed * time))
    return 2 * turning * s - turning * s * c**r * (r * r + 3 * r + 2) * moved


@pytest.mark.slow
def test_a_rossby_haurwitz_wave_turns_as_it_should():
    """After five days, with the order of the method."""
    sphere, errors = fluids.Sphere(15), []
    start = fluids.BarotropicSphere.State(fluids.rossby_haurwitz(sphere)[0])
    np.testing.assert_allclose(start.vorticity, wave(sphere, 0.0), atol=1e-18)
    for step in (7200.0, 3600.0):
        run = simkit.simulate(fluids.BarotropicSphere(sphere), start, [0.0, 5 * DAY], step=step)
        exact = wave(sphere, 5 * DAY)
        errors.append(np.abs(run.final().vorticity - exact).max() / np.abs(exact).max())
    assert errors[1] < 1e-5
    assert errors[0] / errors[1] > 14  # order 4 would be 16


@pytest.mark.slow
def test_a_rossby_haurwitz_wave_of_shallow_water():
    """Case 6, over seven days: volume to rounding, energy and enstrophy but for errors of steps, and the balance of the start."""
    sphere = fluids.Sphere(31)
    vorticity, start = fluids.rossby_haurwitz(sphere)
    water = fluids.ShallowWaterSphere(sphere, depth=9500.0)
    outputs = water.outputs(0.0, start, None)
    np.testing.assert_allclose(outputs["vorticity"], vorticity, atol=1e-12 * np.abs(vorticity).max())
    state = water.encode(start)
    slope = np.abs(water._apart(water.vector_field(0.0, state, None))[1]).max()
    terms = 9.8 * np.abs(water.harmonics.laplacian(water._apart(state)[2])).max()
    assert slope < 1e-11 * terms  # the published surface makes the divergence stay zero at first
    run = simkit.simulate(water, start, [0.0, 7 * DAY], step=1800.0)
    after = water.outputs(0.0, run.final(), None)
    assert abs(after["volume"] / outputs["volume"] - 1) < 1e-13
    assert abs(after["energy"] / outputs["energy"] - 1) < 1e-6
    assert abs(after["enstrophy"] / outputs["enstrophy"] - 1) < 1e-4


def mountain(truncation, **options):
    """Case 5: a zonal flow and a conical mountain."""
    sphere = fluids.Sphere(truncation)
    longitude, latitude = sphere.mesh()
    flow = fluids.zonal_flow(sphere, speed=20.0, height=5960.0)
    away = np.sqrt((longitude - 1.5 * np.pi) ** 2 + (latitude - np.pi / 6) ** 2)
    bed = 2000.0 * (1 - np.minimum(away, np.pi / 9) / (np.pi / 9))
    system = fluids.ShallowWaterSphere(sphere, depth=5960.0, bed=jnp.asarray(bed), **options)
    return system, fluids.ShallowWaterSphere.State(flow.height - bed, flow.velocity)


def surface(truncation, days, step):
    """The surface of case 5 after some days, as modes."""
    system, start = mountain(truncation)
    run = simkit.simulate(system, start, [0.0, days * DAY], step=step)
    return system.harmonics.modes((run.final().height + system.bed)[None])


def restricted(modes, high, low):
    """Modes of a higher truncation at the places of a lower one."""
    fine, coarse = tables(high), tables(low)
    place = {int(m): i for i, m in enumerate(fine.orders)}
    found = np.asarray(modes)[[place[int(m)] for m in coarse.orders]][..., : coarse.degrees.shape[2]]
    return jnp.where(coarse.there[:, :, None], found, 0)


def mountain_error(truncation, step, days, reference, sphere):
    low = Harmonics(fluids.Sphere(truncation))
    exact = restricted(reference, sphere, low.sphere)
    return float(jnp.sqrt(low.square(surface(truncation, days, step) - exact) / low.square(exact))[0])


@pytest.mark.slow
def test_flow_over_a_mountain():
    """Case 5 after 15 days, against a finer truncation; Jakob-Chien, Hack and Williamson (1995) report errors of 1e-4 to 1e-3."""
    fine = fluids.Sphere(85)
    reference = surface(85, 15, 1200.0)
    errors = [mountain_error(t, step, 15, reference, fine) for t, step in ((31, 3600.0), (42, 2400.0))]
    assert errors[1] < 1e-3
    assert errors[1] < 0.75 * errors[0]


@pytest.mark.slow
def test_a_gradient_through_ten_days():
    """Of a height far from the mountain by the gravity, the depth of the mountain and the start, against differences."""
    system, start = mountain(15)

    def value(scale, factor, extra):
        changed = fluids.ShallowWaterSphere(
            system.sphere, depth=5960.0, gravity=factor * system.gravity, bed=scale * system.bed
        )
        y0 = fluids.ShallowWaterSphere.State(start.height + extra * system.bed, start.velocity)
        run = simkit.simulate(changed, y0, np.array([0.0, 10 * DAY]), step=7200.0, on_failure="mark")
        return run.final().height[12, 40] / 1000

    point = (jnp.array(1.0), jnp.array(1.0), jnp.array(0.0))
    found = jax.jit(jax.grad(value, argnums=(0, 1, 2)))(*point)
    compiled = jax.jit(value)
    for i in range(3):
        moved = [compiled(*(x + s * 1e-5 * (k == i) for k, x in enumerate(point))) for s in (1, -1)]
        np.testing.assert_allclose(found[i], (moved[0] - moved[1]) / 2e-5, rtol=1e-5)


def bell(sphere, angle):
    """Case 1: a cosine bell on the equator at 270 degrees, which a wind around an axis tilted by the angle carries around."""
    longitude, latitude = sphere.mesh()
    away = np.arccos(np.clip(np.cos(latitude) * np.cos(longitude - 1.5 * np.pi), -1, 1))
    flow = fluids.zonal_flow(sphere, angle=angle, speed=2 * np.pi * sphere.radius / (12 * DAY))
    system = fluids.AdvectionSphere(sphere, velocity=flow.velocity)
    return system, system.State(jnp.asarray(np.where(away < 1 / 3, 500 * (1 + np.cos(3 * np.pi * away)), 0.0)))


@pytest.mark.slow
@pytest.mark.parametrize("angle", [0.0, np.pi / 2 - 0.05])
def test_a_bell_is_carried_once_around(angle):
    """Case 1 over 12 days, around the equator and beside the poles.

    Series are carried exactly, so that what is lost beside the truncation is by steps, of order 4; after the loop the bell's series
    comes back. The bell itself has a jump of curvature at its edge, which T42 misses by 0.0061.
    """
    sphere = fluids.Sphere(42)
    system, start = bell(sphere, angle)
    first = system.decode(system.encode(start)).scalar
    size = np.sqrt(sphere.mean(start.scalar**2))
    runs = [simkit.simulate(system, start, [0.0, 12 * DAY], step=step).final().scalar for step in (3600.0, 1800.0)]
    by_steps = [float(np.sqrt(sphere.mean((x - first) ** 2)) / size) for x in runs]
    assert by_steps[0] < 6e-3
    assert by_steps[0] / by_steps[1] > 12  # order 4 would be 16
    error = float(np.sqrt(sphere.mean((runs[1] - start.scalar) ** 2)) / size)
    missed = float(np.sqrt(sphere.mean((first - start.scalar) ** 2)) / size)
    assert abs(error / missed - 1) < 0.05
    for x in runs:
        assert abs(sphere.mean(x) / sphere.mean(start.scalar) - 1) < 1e-13
