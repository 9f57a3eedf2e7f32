"""Spherical harmonics and systems on a sphere."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

import simkit
from simkit import fluids, solvers
from simkit.fluids.sphere._harmonics import Harmonics, tables
from simkit.fluids.sphere._splitting import growth
from simkit.testing import check_system


def random_modes(harmonics, seed, count=1):
    """Modes of real fields without a mean."""
    rng = np.random.default_rng(seed)
    shape = (*harmonics.shape[:2], count, harmonics.shape[3])
    found = rng.normal(size=shape) + 1j * rng.normal(size=shape)
    found = np.where(harmonics.orders() == 0, found.real, found)
    return jnp.asarray(np.where(harmonics.degrees() > 0, found, 0))


@pytest.mark.parametrize("truncation", [1, 10, 42])
def test_modes_are_those_of_scipy(truncation):
    sphere = fluids.Sphere(truncation, radius=2.0)
    harmonics, found = Harmonics(sphere), tables(sphere)
    longitude, latitude = sphere.mesh()
    for degree in {0, 1, truncation // 2, truncation}:
        for order in {0, degree // 2, degree}:
            wave = scipy.special.sph_harm_y(degree, order, np.pi / 2 - latitude, longitude)
            field = jnp.asarray(np.sqrt(4 * np.pi) * (-1) ** order * np.stack([wave.real, wave.imag]))
            modes = harmonics.modes(field)
            expected = np.zeros(modes.shape, complex)
            place = (
                int(np.flatnonzero(found.orders == order)[0]),
                (degree - order) % 2,
                slice(None),
                (degree - order) // 2,
            )
            expected[place] = [0.5, -0.5j] if order else [1, 0]
            np.testing.assert_allclose(modes, expected, atol=1e-12)
            np.testing.assert_allclose(harmonics.field(modes), field, atol=1e-12)


def test_there_and_back_and_the_mean_square():
    harmonics = Harmonics(fluids.Sphere(21, radius=3.0))
    vorticity, divergence = random_modes(harmonics, 0), random_modes(harmonics, 1)
    fields = harmonics.field(jnp.concatenate([vorticity, divergence], 2))
    np.testing.assert_allclose(harmonics.modes(fields)[:, :, :1], vorticity, atol=1e-12)
    np.testing.assert_allclose(harmonics.square(vorticity)[0], harmonics.sphere.mean(fields[0] ** 2), rtol=1e-12)
    velocity = harmonics.velocity(vorticity, divergence)
    found = harmonics.divergence_and_curl(velocity)
    np.testing.assert_allclose(found[0], divergence, atol=1e-12)
    np.testing.assert_allclose(found[1], vorticity, atol=1e-12)
    there_and_back = harmonics.laplacian(harmonics.inverse_laplacian(vorticity))
    np.testing.assert_allclose(there_and_back, vorticity, atol=1e-12)


def test_a_gradient_is_that_of_its_formula():
    sphere = fluids.Sphere(8, radius=2.0)
    harmonics, (x, y) = Harmonics(sphere), sphere.mesh()
    field = np.sin(y) * np.cos(y) ** 2 * np.cos(2 * x) + np.cos(y) * np.sin(x)
    east = -2 * np.sin(y) * np.cos(y) * np.sin(2 * x) + np.cos(x)
    north = (np.cos(y) ** 3 - 2 * np.sin(y) ** 2 * np.cos(y)) * np.cos(2 * x) - np.sin(y) * np.sin(x)
    found = harmonics.gradient(harmonics.modes(jnp.asarray(field)[None]))
    np.testing.assert_allclose(found, np.stack([east, north]) / 2.0, atol=1e-13)


def test_transforms_are_linear_maps_with_their_transposes_and_batches():
    harmonics = Harmonics(fluids.Sphere(7))
    fields = jnp.asarray(np.random.default_rng(0).normal(size=(3, 1, *harmonics.sphere.shape)))
    alone = jnp.stack([harmonics.modes(x) for x in fields])
    np.testing.assert_allclose(jax.vmap(harmonics.modes)(fields), alone, atol=1e-14)
    energy = lambda x: jnp.sum(harmonics.square(harmonics.modes(x)))
    weights = harmonics.sphere.weights()[:, None] / harmonics.sphere.longitudes
    smooth = harmonics.field(alone[0])
    # The mean square of a series has the weighted field as half of its gradient.
    np.testing.assert_allclose(jax.grad(energy)(smooth)[0], 2 * weights * np.asarray(smooth[0]), atol=1e-14)


def test_float32_keeps_its_type_and_six_digits():
    harmonics = Harmonics(fluids.Sphere(42))
    modes = random_modes(harmonics, 0)
    single = harmonics.modes(harmonics.field(modes.astype(jnp.complex64)))
    assert single.dtype == jnp.complex64
    np.testing.assert_allclose(single, modes, atol=2e-5)


def test_customary_grids_and_those_that_alias():
    for truncation, shape in {21: (32, 64), 31: (48, 96), 42: (64, 128), 63: (96, 192), 85: (128, 256)}.items():
        assert fluids.Sphere(truncation).shape == shape
    with pytest.raises(
        simkit.ArgumentError, match=r"`truncation` must be at most 31 on 96 longitudes and 48 latitudes, but is 42"
    ):
        fluids.Sphere(42, longitudes=96, latitudes=48)
    with pytest.raises(simkit.ArgumentError, match="must be even"):
        fluids.Sphere(5, longitudes=17, latitudes=8)
    with pytest.raises(simkit.ArgumentError, match="`radius` must be positive"):
        fluids.Sphere(5, radius=-1.0)


def test_bad_starts_and_steps_are_refused():
    sphere = fluids.Sphere(10)
    water, start = fluids.ShallowWaterSphere(sphere, depth=2500.0), fluids.zonal_flow(sphere)
    with pytest.raises(simkit.ArgumentError, match=r"`step` must be at most \S+ for `ETDRK4` to be stable"):
        simkit.simulate(water, start, [0.0, 86400.0], step=43200.0)
    low = fluids.ShallowWaterSphere.State(start.height - 2500.0, start.velocity)
    with pytest.raises(simkit.ArgumentError, match=r"`y0.height` .* must be positive everywhere.* at latitude"):
        simkit.simulate(water, low, [0.0, 3600.0], step=3600.0)
    turned = fluids.ShallowWaterSphere.State(start.height.T, start.velocity)
    with pytest.raises(simkit.ArgumentError, match="latitudes before longitudes"):
        simkit.simulate(water, turned, [0.0, 3600.0], step=3600.0)
    with pytest.raises(simkit.ArgumentError, match="`bed` must have the shape"):
        fluids.ShallowWaterSphere(sphere, depth=2500.0, bed=jnp.zeros((3, 3)))


@pytest.mark.parametrize(
    ("depth", "step"), [(6000.0, 7200.0), (3000.0, 3600.0), (20000.0, 7200.0), (1e7, 600.0), (1e7, 7200.0)]
)
def test_a_depth_with_which_gravity_waves_grow_is_refused(depth, step):
    """Runs of two to four days with these went wrong by 7 % to infinity."""
    sphere = fluids.Sphere(15)
    start = fluids.rossby_haurwitz(sphere)[1]
    water = fluids.ShallowWaterSphere(sphere, depth=depth)
    with pytest.raises(
        simkit.ArgumentError, match=r"`depth` .* mean height 9523.* Give `depth=9523`, or take a `step`"
    ):
        water.review(start, step, solvers.ETDRK4())


@pytest.mark.parametrize(("depth", "step"), [(9500.0, 7200.0), (8000.0, 7200.0), (6000.0, 3600.0), (20000.0, 3600.0)])
def test_a_depth_near_the_mean_height_is_taken(depth, step):
    sphere = fluids.Sphere(15)
    start = fluids.rossby_haurwitz(sphere)[1]
    fluids.ShallowWaterSphere(sphere, depth=depth).review(start, step, solvers.ETDRK4())


@pytest.mark.slow
@pytest.mark.parametrize("kind", [fluids.BarotropicSphere, fluids.ShallowWaterSphere, fluids.AdvectionSphere])
def test_conformance(kind):
    check_system(kind)


@pytest.mark.slow
def test_damping_and_a_source():
    """Each mode decays at its own rate, and a source is added to the slopes of the fields."""
    sphere = fluids.Sphere(6)
    harmonics = Harmonics(sphere)
    modes = 1e-12 * random_modes(harmonics, 3)  # so weak that it does not carry itself
    flow = fluids.BarotropicSphere(sphere, rotation=0.0, damping=1e-5, damping_order=2)
    start = flow.decode(modes)
    run = simkit.simulate(flow, start, [0.0, 86400.0], step=21600.0)
    rate = 1e-5 * (harmonics.eigenvalues() / 42) ** 2
    np.testing.assert_allclose(
        flow.encode(run.final()), np.asarray(modes) * np.exp(-rate * 86400.0), atol=1e-6 * np.abs(modes).max()
    )
    fed = eqx.tree_at(lambda s: s.source, flow, lambda t, y, inputs: y, is_leaf=lambda x: x is None)
    difference = fed.nonlinear(0.0, modes, None) - flow.nonlinear(0.0, modes, None)
    np.testing.assert_allclose(difference, modes, atol=1e-12 * np.abs(modes).max())


SPHERE = fluids.Sphere(5)


def water(**given):
    return fluids.ShallowWaterSphere(SPHERE, **({"depth": 9500.0} | given))


def simulated(system):
    vorticity, start = fluids.rossby_haurwitz(SPHERE, wave=2)
    start = start if isinstance(system, fluids.ShallowWaterSphere) else system.State(vorticity)
    return simkit.simulate(system, start, [0.0, 1800.0], step=1800.0)


def barotropic(**given):
    return fluids.BarotropicSphere(SPHERE, **given)


REFUSED = {
    "wind of another sphere": (
        lambda: fluids.AdvectionSphere(SPHERE, velocity=jnp.zeros((2, 3, 3))),
        "`velocity` must have the shape",
    ),
    "carried by a still wind": (
        lambda: fluids.AdvectionSphere(SPHERE, velocity=jnp.zeros((2, *SPHERE.shape)), diffusivity=np.inf),
        "`diffusivity` must be finite",
    ),
    "wave too short": (lambda: fluids.rossby_haurwitz(SPHERE, wave=5), "`wave` must be at most 4 .* truncation 5"),
    "no wave": (lambda: fluids.rossby_haurwitz(SPHERE, wave=0), "`wave` must be a whole number of at least 1"),
    "speed not finite": (lambda: fluids.zonal_flow(SPHERE, speed=np.nan), "`speed` must be finite"),
    "start without gravity": (lambda: fluids.zonal_flow(SPHERE, gravity=0.0), "`gravity` must be positive"),
    "depth 0": (lambda: water(depth=0.0), "`depth` must be positive"),
    "depth below 0": (lambda: water(depth=-1.0), "`depth` must be positive"),
    "depth of cells": (lambda: water(depth=jnp.ones(3)), r"`depth` must be one number, but has the shape \(3,\)"),
    "gravity 0": (lambda: water(gravity=0.0), "`gravity` must be positive"),
    "tilt not finite": (lambda: water(tilt=np.nan), "`tilt` must be finite"),
    "order below 0": (lambda: water(damping_order=-1), "`damping_order` must be a whole number of at least 0"),
    "drag of cells": (lambda: barotropic(drag=jnp.ones(3)), r"`drag` must be one number, but has the shape \(3,\)"),
    "source a number": (lambda: water(source=3.0), r"`source` must be a function of \(t, y, inputs\)"),
    "source of t": (lambda: barotropic(source=lambda t: t), r"`source` must be a function of \(t, y, inputs\)"),
    "source of an array": (
        lambda: simulated(water(source=lambda t, y, inputs: y.height)),
        "`source` of ShallowWaterSphere must return a `Water`",
    ),
    "source of another shape": (
        lambda: simulated(barotropic(source=lambda t, y, inputs: type(y)(jnp.zeros((3, 3))))),
        "`source.vorticity` must have the shape",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name):
    call, text = REFUSED[name]
    with pytest.raises(simkit.ArgumentError, match=text):
        call()


@pytest.mark.parametrize(("phase", "share"), [(2.5, 0.59), (4.2, 0.59), (3.0, -0.3), (0.5, 2.0)])
def test_growth_of_a_gravity_wave_by_the_formulas_of_cox_and_matthews(phase, share):
    """The step of ETDRK4 and of ETDRK2 as a matrix of two rows, with phi functions in closed form."""
    z = np.array([-1j * phase, 1j * phase])
    rest = 0.5j * phase * share * np.array([[-1, -1], [1, 1]])
    whole, half = np.diag(np.exp(z)), np.diag(np.exp(z / 2))
    first = (np.exp(z) - 1) / z
    second = (first - 1) / z
    third = (second - 0.5) / z
    to_half = np.diag((np.exp(z / 2) - 1) / z)
    a = half + to_half @ rest
    b = half + to_half @ rest @ a
    c = half @ a + to_half @ (2 * rest @ b - rest)
    weights = [np.diag(w) for w in (first - 3 * second + 4 * third, 2 * (second - 2 * third), 4 * third - second)]
    fourth = whole + weights[0] @ rest + weights[1] @ rest @ (a + b) + weights[2] @ rest @ c
    begun = whole + np.diag(first) @ rest
    two = begun + np.diag(second) @ rest @ (begun - np.eye(2))
    for name, matrix in (("ETDRK4", fourth), ("ETDRK2", two)):
        found = growth(np.array([1j * phase]), share, name)
        np.testing.assert_allclose(found, np.abs(np.linalg.eigvals(matrix)).max(), rtol=1e-12)
