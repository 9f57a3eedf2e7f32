"""Stations and isotropic covariances on a sphere."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

import simkit
from simkit import assimilation, fluids

SPHERE = fluids.Sphere(7, radius=2.0)
EAST, NORTH = np.array([0.3, -2.0, 5.9, 0.0, 1.0]), np.array([0.2, -1.1, 1.4, np.pi / 2, -np.pi / 2])


def real_waves(degrees, longitude, latitude):
    """The harmonics of mean square 1 by SciPy, a row for each: cosine and sine of each order."""
    rows = []
    for degree in degrees:
        for order in range(degree + 1):
            wave = scipy.special.sph_harm_y(degree, order, np.pi / 2 - latitude, longitude) * (-1) ** order
            wave = wave * np.sqrt(4 * np.pi) * (2**0.5 if order else 1.0)
            rows += [wave.real, wave.imag] if order else [wave.real]
    return np.stack(rows)


def test_a_field_at_stations_is_the_sum_of_scipys_harmonics():
    random = np.random.default_rng(0).normal(size=64)
    field = np.tensordot(random, real_waves(range(8), *SPHERE.mesh()), 1)
    stations = fluids.Stations(SPHERE, EAST, NORTH)
    exact = random @ real_waves(range(8), EAST, NORTH)
    assert np.abs(np.asarray(stations.field(jnp.asarray(field))) - exact).max() < 1e-12 * np.abs(exact).max()


def test_fields_and_winds_at_points_of_the_grid_are_those_of_the_grid():
    longitude, latitude = SPHERE.mesh()
    picked = (slice(None, None, 3), slice(None, None, 5))
    stations = fluids.Stations(SPHERE, longitude[picked].ravel(), latitude[picked].ravel())
    random = np.random.default_rng(1).normal(size=(2, 64))
    waves = real_waves(range(8), longitude, latitude)
    # The gradient of one field and the turned gradient of another: the wind of a divergence and a vorticity.
    fields = jnp.asarray(np.tensordot(random, waves, 1))
    harmonics = fluids.BarotropicSphere(SPHERE).harmonics
    modes = jnp.where(harmonics.degrees() > 0, harmonics.modes(fields), 0)
    velocity = harmonics.velocity(modes[:, :, :1], modes[:, :, 1:])
    found = stations.velocity(velocity)
    exact = np.asarray(velocity)[(slice(None), *picked)].reshape(2, -1)
    assert np.abs(np.asarray(found) - exact).max() < 1e-12 * np.abs(exact).max()
    assert stations.field(fields).shape == (2, exact.shape[1])


def test_the_wind_over_a_pole_is_regular():
    """Flow straight over the poles: east and north at the pole follow from the longitude that is named there."""
    over = fluids.zonal_flow(SPHERE, speed=3.0, angle=np.pi / 2).velocity
    angle = np.array([0.0, 0.5, np.pi / 2])
    stations = fluids.Stations(SPHERE, angle, np.full(3, np.pi / 2))
    exact = 3.0 * np.stack([np.cos(angle), -np.sin(angle)])  # the formula of `zonal_flow` at latitude 90 degrees
    assert np.abs(np.asarray(stations.velocity(over)) - exact).max() < 1e-12


def test_gradients_pass_through_stations():
    stations = fluids.Stations(SPHERE, EAST, NORTH)
    longitude, latitude = SPHERE.mesh()
    field = jnp.asarray(np.sin(latitude) * np.cos(longitude) * np.cos(latitude))
    slope = jax.jit(jax.grad(lambda f: stations.field(f)[1]))(field)
    # The sum is linear: the derivative by the field along itself is the value.
    assert abs(float(jnp.sum(slope * field)) - np.sin(-1.1) * np.cos(-2.0) * np.cos(-1.1)) < 1e-12


def test_the_root_of_a_covariance_is_legendres_sum():
    variances = np.r_[0.0, np.random.default_rng(2).uniform(0.1, 1.0, 7)]
    known = fluids.IsotropicCovariance(SPHERE, variances)
    root = np.asarray(known.root())
    assert root.shape == (SPHERE.latitudes * SPHERE.longitudes, 63)
    longitude, latitude = (x.ravel() for x in SPHERE.mesh())
    up = np.stack([np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude), np.sin(latitude)])
    mu = up.T @ up
    exact = sum(v * scipy.special.eval_legendre(degree, mu) for degree, v in enumerate(variances))
    assert np.abs(root @ root.T - exact).max() < 1e-12
    assert np.abs(np.asarray(known.between(np.arccos(np.clip(mu, -1, 1)))) - exact).max() < 1e-6
    again = fluids.IsotropicCovariance.of_fields(SPHERE, jnp.asarray(root.T.reshape(63, *SPHERE.shape)) * 63**0.5)
    np.testing.assert_allclose(again.variances, variances, atol=1e-12)


def test_a_correlation_length_is_that_of_a_gaussian():
    sphere = fluids.Sphere(42)
    known = fluids.IsotropicCovariance.of_length(sphere, deviation=3.0, length=5e5)
    apart = np.array([0.0, 2e5, 5e5, 1e6])
    # Curvature changes the correlation by the order of the square of the length over the radius, 0.6 %.
    np.testing.assert_allclose(known.between(apart / sphere.radius) / 9.0, np.exp(-0.5 * (apart / 5e5) ** 2), atol=6e-3)


def test_balanced_errors_are_nearly_steady():
    """A balanced wind of small amplitude on a sphere that turns fast makes no gravity waves: its divergence stays small."""
    sphere = fluids.Sphere(7)
    water = fluids.ShallowWaterSphere(sphere, depth=8000.0)
    known = fluids.IsotropicCovariance.of_length(sphere, deviation=1e-7, length=2e6)
    root = np.asarray(known.balanced_root())
    drawn = (root @ np.random.default_rng(3).normal(size=root.shape[1])).reshape(3, *sphere.shape)
    change = {}
    for name, height in (("balanced", drawn[0]), ("wind alone", 0 * drawn[0])):
        y0 = water.State(jnp.asarray(8000.0 + height), jnp.asarray(drawn[1:]))
        run = simkit.simulate(water, y0, [0.0, 3600.0], step=1800.0)
        divergence = water.harmonics.divergence_and_curl(run.final().velocity)[0]
        change[name] = float(jnp.sqrt(water.harmonics.square(divergence)[0]))
    assert change["balanced"] < 0.1 * change["wind alone"]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: fluids.Stations(SPHERE, [8.5], [47.4]), "np.deg2rad"),
        (lambda: fluids.Stations(SPHERE, [180.0], [0.4]), "longitude of the stations must lie from -pi to 2 pi"),
        (lambda: fluids.Stations(SPHERE, [0.1, 0.2], [0.4]), "have 2 and 1"),
        (lambda: fluids.Stations(SPHERE, [np.nan], [0.4]), "not all are finite"),
        (lambda: fluids.Stations(SPHERE, [0.1], [0.4]).field(jnp.zeros((3, 4))), "latitudes before longitudes"),
        (lambda: fluids.IsotropicCovariance(SPHERE, np.ones(3)), "a number for each degree from 0 to 7"),
        (lambda: fluids.IsotropicCovariance(SPHERE, -np.ones(8)), "not negative"),
        (lambda: fluids.IsotropicCovariance.of_length(SPHERE, deviation=1.0, length=60.0), "radius of the sphere"),
        (lambda: fluids.IsotropicCovariance(SPHERE, np.ones(8)).balanced_root(), "0 at degree 0"),
        (
            lambda: assimilation.Localisation(0.5, places=np.rad2deg(SPHERE.places()), sphere=2.0),
            "Degrees become radians",
        ),
        (lambda: assimilation.Localisation(1.9, places=SPHERE.places(), sphere=2.0), "half a great circle"),
        (lambda: assimilation.Localisation(0.5, places=np.arange(4), sphere=2.0), "longitude and latitude"),
        (lambda: assimilation.Localisation(0.5, places=SPHERE.places(), sphere=-1.0), "sphere=sphere.radius"),
        (lambda: assimilation.Localisation(0.5, places=SPHERE.places(), sphere=2.0, period=1.0), "left out"),
        (lambda: assimilation.FourDVar(), "either `covariance`"),
        (lambda: assimilation.FourDVar(root=np.ones(3)), "a matrix"),
    ],
)
def test_mistakes_are_refused_with_a_remedy(call, said):
    with pytest.raises(simkit.ArgumentError, match=said):
        call()
