"""Assimilation on a sphere: great circles, and linear waves against Kalman's filter."""

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special

import simkit
from simkit import assimilation, fluids

SPHERE = fluids.Sphere(5, radius=1.0)
TURN = 2.0
"""Rotation of the sphere, so that waves of degree 3 turn by a third of their order in a unit of time."""
DEGREE = 3
TIMES = np.array([0.5, 1.0, 1.5])
EAST, NORTH = np.array([0.3, 2.1, 4.0, 5.5]), np.array([0.5, -0.4, 1.2, -1.0])


def waves(longitude, latitude):
    """Cosine and sine of each order of one degree, by SciPy, in columns."""
    rows = []
    for order in range(DEGREE + 1):
        wave = scipy.special.sph_harm_y(DEGREE, order, np.pi / 2 - latitude, longitude)
        rows += [wave.real, wave.imag] if order else [wave.real]
    return np.stack(rows, axis=-1)


def turned(time):
    """The matrix by which coefficients of one degree change: each wave goes west by 2 Omega / l (l + 1) a unit of time."""
    found = np.eye(2 * DEGREE + 1)
    for order in range(1, DEGREE + 1):
        angle = 2 * TURN * order / (DEGREE * (DEGREE + 1)) * time
        rows = slice(2 * order - 1, 2 * order + 1)
        found[rows, rows] = [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
    return found


def kalman(mean, covariance, values, error):
    """Means and covariances of coefficients after each update."""
    observe, step = waves(EAST, NORTH), turned(0.5)
    means, spreads = [], []
    for value in values:
        mean, covariance = step @ mean, step @ covariance @ step.T
        gain = covariance @ observe.T @ np.linalg.inv(observe @ covariance @ observe.T + error**2 * np.eye(4))
        mean, covariance = mean + gain @ (value - observe @ mean), covariance - gain @ observe @ covariance
        means.append(mean)
        spreads.append(covariance)
    return np.array(means), np.array(spreads)


def twin():
    system = fluids.BarotropicSphere(SPHERE, rotation=TURN)
    stations = fluids.Stations(SPHERE, EAST, NORTH)
    random = np.random.default_rng(0)
    truth = random.normal(size=2 * DEGREE + 1)
    values = np.array([waves(EAST, NORTH) @ turned(t) @ truth for t in TIMES]) + 0.1 * random.normal(size=(3, 4))
    seen = assimilation.Observations(
        TIMES, values, operator=lambda y: stations.field(y.vorticity), errors=0.1, start=0.0
    )
    return system, seen, values, random


def test_etkf_of_rossby_haurwitz_waves_is_kalmans_filter():
    system, seen, values, random = twin()
    start = random.normal(size=(12, 2 * DEGREE + 1))
    grid = waves(*SPHERE.mesh())
    members = system.State(jnp.asarray(np.einsum("ijk,nk->nij", grid, start)))
    found = simkit.assimilate(system, members, seen, method=assimilation.ETKF(), step=0.5, keep_members=True)
    means, spreads = kalman(start.mean(axis=0), np.cov(start.T), values, 0.1)
    exact = np.einsum("ijk,tk->tij", grid, means)
    width = np.sqrt(np.einsum("ijk,tkl,ijl->tij", grid, spreads, grid))
    # Waves of one degree obey a linear equation that ETDRK4 steps exactly: what is left is rounding.
    assert np.abs(np.asarray(found.mean.vorticity) - exact).max() < 1e-11
    assert np.abs(np.asarray(found.deviation.vorticity) - width).max() < 1e-11


def test_4dvar_of_a_covariance_by_degree_ends_as_kalmans_filter():
    system, seen, values, _ = twin()
    variances = np.zeros(6)
    variances[DEGREE] = 0.7
    root = fluids.IsotropicCovariance(SPHERE, variances).root()
    assert root.shape[1] == 2 * DEGREE + 1
    method = assimilation.FourDVar(root=root, window=3, iterations=1)
    background = system.State(jnp.zeros(SPHERE.shape))
    found = simkit.assimilate(system, background, seen, method=method, step=0.5)
    # SciPy's harmonics have the mean square 1 / 4 pi, of which the real and imaginary parts of an order have a half each.
    prior = np.diag([1.0, *[2.0] * (2 * DEGREE)]) * 4 * np.pi * 0.7 / (2 * DEGREE + 1)
    means, spreads = kalman(np.zeros(2 * DEGREE + 1), prior, values, 0.1)
    grid = waves(*SPHERE.mesh())
    assert np.abs(np.asarray(found.mean.vorticity)[-1] - grid @ means[-1]).max() < 1e-10
    width = np.sqrt(np.einsum("ijk,kl,ijl->ij", grid, spreads[-1], grid))
    assert np.abs(np.asarray(found.deviation.vorticity)[-1] - width).max() < 1e-10


def test_weights_by_great_circles_are_those_of_a_direct_computation():
    sphere, radius = fluids.Sphere(4, radius=3.0), 0.8
    stations = fluids.Stations(sphere, EAST, NORTH)
    local = assimilation.Localisation(radius, places=sphere.places(3), observed=stations.places(), sphere=3.0)
    longitude, latitude = (x.ravel()[:, None] for x in sphere.mesh())
    # Haversines of the distances, and Gaspari and Cohn's (4.10) by powers, with the length c of half its support.
    half = np.sin((latitude - NORTH) / 2) ** 2
    half = half + np.cos(latitude) * np.cos(NORTH) * np.sin((longitude - EAST) / 2) ** 2
    z = 2 * 3.0 * np.arcsin(np.sqrt(half)) / (radius * np.sqrt(10 / 3))
    inner = -(z**5) / 4 + z**4 / 2 + 5 * z**3 / 8 - 5 * z**2 / 3 + 1
    outer = z**5 / 12 - z**4 / 2 + 5 * z**3 / 8 + 5 * z**2 / 3 - 5 * z + 4 - 2 / (3 * np.maximum(z, 1e-3))
    exact = np.where(z <= 1, inner, np.where(z < 2, outer, 0.0))
    exact = np.where(exact > 1e-3, exact, 0.0)
    found = np.zeros((3 * exact.shape[0], 4))
    index, weight = np.asarray(local.index), np.asarray(local.weight)
    for column in range(index.shape[1]):
        found[np.arange(len(found)), index[:, column]] += weight[:, column]
    assert np.abs(found - np.tile(exact, (3, 1))).max() < 1e-9


def test_letkf_follows_shallow_water():
    """Heights at stations bring the whole state nearer to the truth, the wind included, which is not observed."""
    sphere = fluids.Sphere(5)
    water = fluids.ShallowWaterSphere(sphere, depth=8000.0)
    errors = fluids.IsotropicCovariance.of_length(sphere, deviation=1e-5, length=3e6)
    start = fluids.rossby_haurwitz(sphere, wave=3, height=7000.0)[1]
    around = assimilation.members_around(start, 13, key=jax.random.key(0), root=errors.balanced_root())
    truth0, members = jax.tree.map(lambda x: x[0], around), jax.tree.map(lambda x: x[1:], around)
    times = 21600.0 * np.arange(1, 5)
    truth = jax.tree.map(lambda x: x[1:], simkit.simulate(water, truth0, np.r_[0.0, times], step=3600.0).ys)
    angle = np.arange(24) * 2.4  # spread by the golden angle
    stations = fluids.Stations(sphere, angle % (2 * np.pi), np.arcsin((np.arange(24) + 0.5) / 12 - 1))
    values = jax.vmap(stations.field)(truth.height) + 10.0 * jax.random.normal(jax.random.key(1), (4, 24))
    seen = assimilation.Observations(times, values, operator=lambda y: stations.field(y.height), errors=10.0, start=0.0)
    local = assimilation.Localisation(2e6, places=sphere.places(3), observed=stations.places(), sphere=sphere.radius)
    method = assimilation.LETKF(local, 1.05)
    found = simkit.assimilate(water, members, seen, method=method, step=3600.0, truth=truth)
    wind = lambda y, k: float(jnp.sqrt(jnp.mean((y.velocity[k] - truth.velocity[k]) ** 2)))
    free = jax.tree.map(lambda x: jnp.mean(x, axis=0)[None], members)
    before = float(jnp.sqrt(jnp.mean((free.velocity[0] - truth0.velocity) ** 2)))
    assert wind(found.mean, -1) < 0.6 * before


def test_the_gradient_of_4dvars_cost_agrees_with_differences():
    sphere = fluids.Sphere(5)
    system = fluids.BarotropicSphere(sphere)
    stations = fluids.Stations(sphere, EAST, NORTH)
    root = fluids.IsotropicCovariance.of_length(sphere, deviation=2e-5, length=3e6).root()
    random = np.random.default_rng(4)
    background = fluids.rossby_haurwitz(sphere, wave=2)[0]
    values = jnp.asarray(5.0 * random.normal(size=(2, 4)))

    @jax.jit
    def cost(control):
        start = system.State(background + (root @ control).reshape(sphere.shape))
        run = simkit.simulate(system, start, [0.0, 21600.0], step=7200.0, on_failure="mark")
        wind = stations.velocity(system.velocity(run.final()))
        return 0.5 * jnp.sum(control**2) + 0.5 * jnp.sum((wind - values) ** 2)

    at = jnp.asarray(0.3 * random.normal(size=root.shape[1]))
    along = jnp.asarray(random.normal(size=root.shape[1]))
    step = 1e-5
    difference = (cost(at + step * along) - cost(at - step * along)) / (2 * step)
    assert abs(float(jnp.vdot(jax.grad(cost)(at), along) / difference) - 1) < 1e-7
