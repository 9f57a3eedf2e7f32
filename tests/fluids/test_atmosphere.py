"""The primitive equations on a sphere: levels, waves, balances, forcing."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import fluids, solvers
from simkit.fluids.sphere._levels import KAPPA, vertical_modes
from simkit.fluids.sphere._splitting import amplification, layer_waves
from simkit.testing import check_system

GAS = 287.0
SPHERE = fluids.Sphere(5)
slopes_of = eqx.filter_jit(lambda system, state: system.vector_field(0.0, state, None))
encoded = eqx.filter_jit(lambda system, y: system.encode(y))


def test_levels_are_hydrostatic_and_lose_no_energy():
    levels = fluids.SigmaLevels([0.0, 0.05, 0.2, 0.5, 0.8, 1.0])
    thickness = levels.thickness()[:, None]
    np.testing.assert_allclose(thickness * levels.descent(), (thickness * levels.hydrostatic()).T, atol=1e-15)
    # The height of a layer of an isothermal atmosphere is that of its pressure.
    np.testing.assert_allclose(levels.hydrostatic().sum(1), -np.log(levels.sigma()), rtol=1e-14)
    # Under a uniform divergence air sinks through no boundary: each sigma has its share.
    np.testing.assert_allclose(levels.fluxes() @ np.ones(5), 0, atol=1e-15)
    assert fluids.SigmaLevels(4) == fluids.SigmaLevels([0.0, 0.25, 0.5, 0.75, 1.0])


def test_the_fastest_mode_is_the_lamb_wave():
    """An isothermal atmosphere has a wave of the speed of sound along the ground, sqrt(R T / (1 - kappa)).

    Its wind grows upward as sigma^-kappa, so that its energy above a top boundary sigma_1 is in the part sigma_1^(1 - 2 kappa).
    """
    exact = 1 / np.sqrt(1 - KAPPA)
    for power, order in ((1, 1 - 2 * KAPPA), (3, 3 * (1 - 2 * KAPPA))):
        layers = (20, 40, 80, 160)
        errors = [
            abs(vertical_modes(fluids.SigmaLevels(np.linspace(0, 1, n + 1) ** power)).speeds[0] - exact) for n in layers
        ]
        np.testing.assert_allclose(np.log2(errors[-2] / errors[-1]), order, atol=0.05)
    assert errors[-1] < 1e-3 * exact


def by_loops(levels, profile, square, kappa):
    """The linear waves of an atmosphere at rest, written level by level: rows of divergences, temperatures, pressure."""
    n, edge = levels.count, np.asarray(levels.boundaries)
    size = np.diff(edge)
    log = [0.0] + [np.log(edge[k + 1] / edge[k]) for k in range(1, n)]
    alpha = [1.0] + [1 - edge[k] / size[k] * log[k] for k in range(1, n)]
    matrix = np.zeros((2 * n + 1, 2 * n + 1))
    for k in range(n):
        matrix[k, n + k] = square * GAS * alpha[k]
        for j in range(k + 1, n):
            matrix[k, n + j] = square * GAS * log[j]
        matrix[k, 2 * n] = square * GAS * profile[k]
        matrix[2 * n, k] = -size[k]
        for j in range(n):
            if j < k:
                matrix[n + k, j] -= kappa * profile[k] * log[k] * size[j] / size[k]
            if j == k:
                matrix[n + k, j] -= kappa * profile[k] * alpha[k]
            for boundary, other in ((k, k - 1), (k + 1, k + 1)):
                if 0 < boundary < n:
                    through = edge[boundary] * size[j] - (size[j] if j < boundary else 0)
                    step = profile[other] - profile[k] if other > k else profile[k] - profile[other]
                    matrix[n + k, j] -= through * step / (2 * size[k])
    return matrix


def test_waves_of_a_stratified_atmosphere_have_the_frequencies_of_its_matrix():
    """The splitting as the step's review has it, and the slopes of the system itself, against a matrix written by loops."""
    levels, sphere = fluids.SigmaLevels([0.0, 0.2, 0.5, 0.8, 1.0]), fluids.Sphere(3)
    profile = np.array([210.0, 240.0, 270.0, 290.0])
    air = fluids.PrimitiveEquationsSphere(sphere, levels=levels, rotation=0.0, kappa=0.3)
    square = 6.0 / sphere.radius**2
    exact = np.linalg.eigvals(by_loops(levels, profile, square, 0.3))
    linear, rest = layer_waves(air, profile, np.array([square]))
    ordered = lambda x: np.sort(np.asarray(x).imag)
    size = np.abs(exact).max()
    np.testing.assert_allclose(
        ordered(np.linalg.eigvals(np.diag(linear[0]) + rest[0])), ordered(exact), atol=1e-9 * size
    )

    state = fluids.resting_atmosphere(sphere, levels)
    heated = jnp.asarray(np.broadcast_to(profile[:, None, None], state.temperature.shape))
    rested = encoded(air, air.State(heated, state.velocity, state.surface_pressure))
    change = jax.jit(lambda way: jax.jvp(lambda x: air.vector_field(0.0, x, None), (rested,), (way,))[1])
    degrees, orders = air.harmonics.degrees()[:, :, 0], air.harmonics.orders()[:, :, 0]
    place = np.argwhere((degrees == 2) & (orders > 0))[0]  # the modes of order 0 are real fields
    columns = []
    for k in range(levels.count, 3 * levels.count + 1):
        way = jnp.zeros_like(rested).at[place[0], place[1], k, place[2]].set(1.0)
        columns.append(np.asarray(change(way))[place[0], place[1], levels.count :, place[2]])
    np.testing.assert_allclose(ordered(np.linalg.eigvals(np.array(columns).T)), ordered(exact), atol=1e-9 * size)


def test_a_step_is_refused_as_its_growth_says():
    """One wave by the formula of two rows, and the same by the general one."""
    sphere = fluids.Sphere(21)
    start, bed = fluids.jablonowski_williamson(sphere, 10)
    cold = fluids.PrimitiveEquationsSphere(sphere, levels=10, bed=bed, reference_temperature=100.0)
    with pytest.raises(simkit.ArgumentError, match=r"`step` must be at most some .* reference of 100, but is 3600"):
        cold.review(start, 3600.0, solvers.ETDRK4())
    fluids.PrimitiveEquationsSphere(sphere, levels=10, bed=bed).review(start, 3600.0, solvers.ETDRK4())
    linear, rest = layer_waves(cold, np.full(10, 100.0), np.array([1e-13]))
    np.testing.assert_allclose(rest, 0, atol=1e-18)
    np.testing.assert_allclose(amplification(linear * 60.0, rest * 60.0, "ETDRK4"), 1, rtol=1e-13)


def superrotation(sphere, levels, speed=30.0, temperature=290.0):
    """A flow as of a solid body, isothermal, with the pressure that balances it: steady for any layers."""
    latitude = sphere.mesh()[1]
    bulge = (sphere.radius * 7.29212e-5 * speed + 0.5 * speed**2) / (GAS * temperature)
    east = np.broadcast_to(speed * np.cos(latitude), (levels, *sphere.shape))
    pressure = 1e5 * np.exp(-bulge * np.sin(latitude) ** 2)
    still = np.stack([east, np.zeros_like(east)])
    return fluids.PrimitiveEquationsSphere.State(
        jnp.full(east.shape, temperature), jnp.asarray(still), jnp.asarray(pressure)
    )


def test_a_rotation_of_the_whole_atmosphere_is_steady():
    sphere = fluids.Sphere(10)
    start = superrotation(sphere, 4)
    air = fluids.PrimitiveEquationsSphere(sphere, levels=4)
    run = simkit.simulate(air, start, [0.0, 86400.0], step=3600.0)
    # 100 evaluations of terms that cancel, each rounded to 1e-16.
    np.testing.assert_allclose(run.final().velocity, start.velocity, atol=1e-11 * 30)
    np.testing.assert_allclose(run.final().temperature, start.temperature, rtol=1e-12)
    np.testing.assert_allclose(run.final().surface_pressure, start.surface_pressure, rtol=1e-12)


def test_air_at_rest_over_a_mountain_stays():
    longitude, latitude = SPHERE.mesh()
    bed = jnp.asarray(2000.0 * np.cos(latitude) ** 2 * (1 + np.cos(longitude)))
    start = fluids.resting_atmosphere(SPHERE, 3, temperature=270.0, bed=bed)
    air = fluids.PrimitiveEquationsSphere(SPHERE, levels=3, bed=bed)
    slope = slopes_of(air, encoded(air, start))
    terms = 9.8 * jnp.abs(air.harmonics.laplacian(air.harmonics.modes(bed[None]))).max()
    assert jnp.abs(slope).max() < 1e-12 * terms


def test_one_layer_without_heating_is_shallow_water():
    """A weak wave of one isothermal layer is that of water with g H = R T; products of waves are 1e-6 of it."""
    sphere = fluids.Sphere(10)
    longitude, latitude = sphere.mesh()
    bump = 1e-6 * np.cos(latitude) ** 3 * np.sin(3 * longitude) * np.sin(latitude)
    # kappa is that of the reference, but with the temperature of a layer that is mixed over it no heat is needed.
    air = fluids.PrimitiveEquationsSphere(sphere, levels=1, kappa=1e-12, rotation=7.292e-5)
    start = air.State(
        jnp.full((1, *sphere.shape), 300.0), jnp.zeros((2, 1, *sphere.shape)), jnp.asarray(1e5 * np.exp(bump))
    )
    water = fluids.ShallowWaterSphere(sphere, depth=300.0 * GAS / 9.80616)
    wet = water.State(water.depth * (1 + jnp.asarray(bump)), jnp.zeros((2, *sphere.shape)))
    slopes = [slopes_of(system, encoded(system, y)) for system, y in ((air, start), (water, wet))]
    _, divergence, heat = air._apart(slopes[0])
    expected = water._apart(slopes[1])
    np.testing.assert_allclose(divergence, expected[1], atol=2e-6 * np.abs(expected[1]).max())
    np.testing.assert_allclose(
        heat[:, :, 1:] * 8780.0, np.asarray(expected[2]) * (8780.0 / float(water.depth)), atol=1e-16
    )
    run = simkit.simulate(air, start, [0.0, 43200.0], step=600.0).final()
    wave = simkit.simulate(water, wet, [0.0, 43200.0], step=600.0).final()
    found, exact = np.log(run.surface_pressure / 1e5), wave.height / water.depth - 1
    np.testing.assert_allclose(found, exact, atol=1e-5 * np.abs(exact).max())
    np.testing.assert_allclose(run.velocity[:, 0], wave.velocity, atol=1e-5 * np.abs(wave.velocity).max())


@eqx.filter_jit
def rates(system, y):
    """Mass, energy, angular momentum and the mean square of the wind of a state, and their time derivatives."""

    def totals(state):
        y = system.decode(state)
        found = system.outputs(0.0, y, None)
        wind = system.sphere.mean(jnp.sum(y.velocity**2, axis=(0, 1)))
        return jnp.stack([found["mass"], found["energy"], found["angular_momentum"], wind])

    state = system.encode(y)
    return jax.jvp(totals, (state,), (system.vector_field(0.0, state, None),))


@pytest.mark.slow
def test_mass_energy_and_angular_momentum_do_not_change():
    """Their derivatives along the slopes of a smooth flow."""
    sphere = fluids.Sphere(21)
    start, _ = fluids.jablonowski_williamson(sphere, 5, perturbation=20.0)
    longitude, latitude = sphere.mesh()
    pressure = start.surface_pressure * (1 + 0.02 * np.cos(latitude) ** 2 * np.cos(2 * longitude))
    value, change = rates(fluids.PrimitiveEquationsSphere(sphere, levels=5), air_of(start, pressure))
    # A day of the rate; what is left is the aliased part of products of three fields and of exp(ln p) at T21.
    assert np.all(np.abs(86400.0 * change[:3]) < 1e-7 * np.abs(value[:3]))
    assert abs(86400.0 * change[3]) > 1e-3 * value[3]  # energy does move from one kind to another


def air_of(start, pressure):
    return fluids.PrimitiveEquationsSphere.State(start.temperature, start.velocity, jnp.asarray(pressure))


@pytest.mark.slow
def test_damping_keeps_mass():
    start, _ = fluids.jablonowski_williamson(SPHERE, 3)
    longitude, latitude = SPHERE.mesh()
    pressure = start.surface_pressure * (1 + 0.1 * np.cos(latitude) ** 3 * np.cos(3 * longitude))
    air = [fluids.PrimitiveEquationsSphere(SPHERE, levels=3, damping=damping) for damping in (0.0, 1e-4)]
    (value, free), (_, damped) = (rates(system, air_of(start, pressure)) for system in air)
    # Without the correction some 2e-3 of the mass, half of the variance of ln p, would be lost with the rate 1e-4 1/s or slower.
    assert abs(damped[0] - free[0]) < 1e-14 * value[0]


def test_held_and_suarez_forcing():
    sphere = fluids.Sphere(10)
    forcing = fluids.HeldSuarez(sphere, 10)
    still = fluids.resting_atmosphere(sphere, 10, temperature=250.0)
    wind = jnp.ones_like(still.velocity)
    found = forcing(0.0, fluids.PrimitiveEquationsSphere.State(still.temperature, wind, still.surface_pressure), None)
    sigma, sine = forcing.levels.sigma(), sphere.sines()
    k, j = 9, 3
    warm = (315 - 60 * sine[j] ** 2 - 10 * np.log(sigma[k]) * (1 - sine[j] ** 2)) * sigma[k] ** (2 / 7)
    near = (sigma[k] - 0.7) / 0.3
    rate = (1 / 40 + (1 / 4 - 1 / 40) * near * (1 - sine[j] ** 2) ** 2) / 86400
    np.testing.assert_allclose(found.temperature[k, j], rate * (warm - 250.0), rtol=1e-12)
    np.testing.assert_allclose(found.velocity[0, k, j], -near / 86400, rtol=1e-12)
    assert np.all(found.velocity[:, sigma < 0.7] == 0)
    assert forcing.equilibrium(still.surface_pressure).min() == 200.0
    # In the system it is added to the slopes of the fields.
    air = fluids.PrimitiveEquationsSphere(sphere, levels=10, source=forcing)
    slope = slopes_of(air, encoded(air, still))
    heat = air._apart(slope)[2][:, :, :-1]
    np.testing.assert_allclose(heat, air.harmonics.modes(found.temperature / 300.0), atol=1e-17)


def test_float32_and_members():
    start, bed = fluids.jablonowski_williamson(SPHERE, 3)
    air = fluids.PrimitiveEquationsSphere(SPHERE, levels=3, bed=bed)
    exact = simkit.simulate(air, start, [0.0, 7200.0], step=3600.0).final()
    single, single_start = simkit.cast((air, start), jnp.dtype("float32"))
    run = simkit.simulate(single, single_start, np.array([0.0, 7200.0], np.float32), step=3600.0).final()
    assert run.temperature.dtype == jnp.float32
    np.testing.assert_allclose(run.temperature, exact.temperature, rtol=1e-5)
    np.testing.assert_allclose(run.velocity, exact.velocity, atol=1e-4 * 35)


@pytest.mark.slow
def test_conformance():
    check_system(fluids.PrimitiveEquationsSphere)


def air(**given):
    return fluids.PrimitiveEquationsSphere(SPHERE, **({"levels": 3} | given))


def started(**fields):
    start = fluids.resting_atmosphere(SPHERE, 3)
    given = {"temperature": start.temperature, "velocity": start.velocity, "surface_pressure": start.surface_pressure}
    return simkit.simulate(air(), fluids.PrimitiveEquationsSphere.State(**(given | fields)), [0.0, 600.0], step=600.0)


REFUSED = {
    "levels that fall": (
        lambda: fluids.SigmaLevels([0.0, 0.5, 0.4, 1.0]),
        "`layers` must be a number of layers, or boundaries",
    ),
    "levels not to the ground": (lambda: fluids.SigmaLevels([0.0, 0.5, 0.9]), "boundaries that grow from 0 to 1"),
    "no levels": (lambda: fluids.SigmaLevels(0), "`layers` must be at least 1"),
    "levels of nothing": (lambda: fluids.SigmaLevels([]), "`layers` must be a number of layers"),
    "no heat capacity": (lambda: air(kappa=0.0), "`kappa` must be positive"),
    "bed of cells": (lambda: air(bed=jnp.zeros((3, 3))), "`bed` must have the shape"),
    "source a number": (lambda: air(source=3.0), r"`source` must be a function of \(t, y, inputs\)"),
    "degrees Celsius": (
        lambda: started(temperature=jnp.full((3, *SPHERE.shape), -20.0)),
        "`y0.temperature` .* must be positive everywhere.* temperature -20 at .* kelvin",
    ),
    "logarithm of pressure": (
        lambda: started(surface_pressure=jnp.full(SPHERE.shape, -0.1)),
        "`y0.surface_pressure` .* must be positive everywhere",
    ),
    "one level too many": (
        lambda: started(temperature=jnp.full((4, *SPHERE.shape), 280.0)),
        "`y0.temperature` must have the shape",
    ),
    "start without temperature": (
        lambda: fluids.resting_atmosphere(SPHERE, 3, temperature=0.0),
        "`temperature` must be positive",
    ),
    "perturbation not finite": (
        lambda: fluids.jablonowski_williamson(SPHERE, 3, perturbation=np.nan),
        "`perturbation` must be finite",
    ),
    "friction not finite": (lambda: fluids.HeldSuarez(SPHERE, 3, friction=np.inf), "`friction` must be finite"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name):
    call, text = REFUSED[name]
    with pytest.raises(simkit.ArgumentError, match=text):
        call()
