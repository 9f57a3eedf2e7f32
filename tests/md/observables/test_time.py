"""Correlations over time, transport and errors: beside sums written out and processes with known answers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit.md import (
    autocorrelation,
    block_average,
    diffusion_coefficient,
    electric_current,
    finite_size_diffusion,
    green_kubo_conductivity,
    green_kubo_viscosity,
    mean_squared_displacement,
    running_integral,
    velocity_autocorrelation,
)
from simkit.testing import check_gradients

WALK = jnp.cumsum(jax.random.normal(jax.random.key(0), (50, 4, 3)), axis=0)


def msd_by_sums(q):
    n = len(q)
    return np.array([np.mean(np.sum((q[m:] - q[: n - m]) ** 2, axis=-1)) for m in range(n)])


def autoregressive(phi, n, key=0):
    """x_k = phi x_{k-1} + noise, of variance 1: its correlation after m steps is phi^m."""
    noise = np.random.default_rng(key).normal(size=n) * np.sqrt(1 - phi**2)
    x = np.empty(n)
    x[0] = noise[0] / np.sqrt(1 - phi**2)
    for k in range(1, n):
        x[k] = phi * x[k - 1] + noise[k]
    return x


def test_mean_squared_displacement():
    found = mean_squared_displacement(WALK + 1000.0)
    np.testing.assert_allclose(found, msd_by_sums(np.asarray(WALK)), rtol=1e-10, atol=1e-10)
    assert found[0] == 0


def test_columns_in_portions(monkeypatch):
    whole = mean_squared_displacement(WALK)
    monkeypatch.setattr("simkit.md.observables._correlation.NUMBERS_AT_ONCE", 500)
    np.testing.assert_allclose(mean_squared_displacement(WALK), whole, rtol=1e-12)


def test_float32_keeps_five_digits():
    found = mean_squared_displacement(WALK.astype(jnp.float32))
    assert found.dtype == jnp.float32
    np.testing.assert_allclose(found[1:], msd_by_sums(np.asarray(WALK))[1:], rtol=1e-4)


def test_autocorrelation():
    x = np.asarray(WALK)
    expected = [np.mean(np.sum(x[m:] * x[: 50 - m], axis=(1, 2))) for m in range(50)]
    np.testing.assert_allclose(autocorrelation(WALK), expected, rtol=1e-10)
    np.testing.assert_allclose(velocity_autocorrelation(WALK), np.array(expected) / 4, rtol=1e-10)
    y = x - x.mean(axis=0)
    expected = [np.mean(np.sum(y[m:] * y[: 50 - m], axis=(1, 2))) for m in range(50)]
    np.testing.assert_allclose(autocorrelation(WALK, centred=True), expected, rtol=1e-9, atol=1e-9)
    check_gradients(lambda q: jnp.sum(mean_squared_displacement(q)[:20]) + velocity_autocorrelation(q)[3], (WALK,))


def test_diffusion_of_a_random_walk():
    """A walk with steps of variance 2 D dt in each direction; one lag is an exact mean of squares."""
    d, dt = 0.3, 0.01
    steps = np.sqrt(2 * d * dt) * jax.random.normal(jax.random.key(1), (2000, 200, 3))
    msd = mean_squared_displacement(jnp.cumsum(steps, axis=0))
    times = dt * jnp.arange(2000.0)
    found = diffusion_coefficient(times, msd, between=(0.01, 0.2))
    # 20 lags of 2000 steps of 200 atoms in 3 directions: 6e4 independent pieces, 0.6 % each standard error
    assert abs(found / d - 1) < 5 * np.sqrt(2 / (200 * 3 * 100))
    np.testing.assert_allclose(diffusion_coefficient(times, 6 * d * times + 4.0, between=(0.0, 20.0)), d, rtol=1e-12)
    np.testing.assert_allclose(
        diffusion_coefficient(times, 4 * d * times, between=(1.0, 2.0), dimensions=2), d, rtol=1e-12
    )
    with pytest.raises(simkit.ArgumentError, match="`between` must hold at least two"):
        diffusion_coefficient(times, msd, between=(0.001, 0.002))


def test_finite_size_correction():
    """Yeh and Hummer (2004): water of 256 molecules at 298 K, D 2.2e-9 to some 2.6e-9 m^2/s."""
    boltzmann = simkit.md.SI.boltzmann
    found = finite_size_diffusion(2.2e-9, 298.0, 0.9e-3, 1.97e-9, boltzmann=boltzmann)
    np.testing.assert_allclose(found - 2.2e-9, 2.837297 * boltzmann * 298 / (6 * np.pi * 0.9e-3 * 1.97e-9), rtol=1e-12)
    assert 3.4e-10 < found - 2.2e-9 < 3.6e-10


def test_green_kubo_of_a_known_correlation():
    """Stress and current that decay exponentially: the integral is variance times correlation time."""
    phi, n, step = 0.9, 20_000, 0.1
    tau = step * (0.5 + phi / (1 - phi))  # what the trapezoidal rule makes of phi^m
    off = [autoregressive(phi, n, key) for key in range(5)]
    stress = np.zeros((n, 3, 3))
    for (a, b), x in zip(((0, 1), (0, 2), (1, 2)), off, strict=False):
        stress[:, a, b] = stress[:, b, a] = x
    # diagonal differences with the variance that isotropy asks for, and a pressure that must not matter
    stress[:, 0, 0], stress[:, 1, 1] = off[3] - off[4] / np.sqrt(3), -off[3] - off[4] / np.sqrt(3)
    stress[:, 2, 2] = 2 * off[4] / np.sqrt(3)
    stress += 7.0 * np.eye(3)
    found = green_kubo_viscosity(jnp.asarray(stress), step, volume=4.0, temperature=2.0, boltzmann=0.5)
    # five series of 20000 / 19 independent numbers; cut at 10 correlation times: relative sqrt(4 * 10 / (5 * n / 19))
    np.testing.assert_allclose(found.integral[95] / (4.0 * tau), 1.0, atol=5 * np.sqrt(40 * 19 / (5 * n)))
    np.testing.assert_allclose(found.time[95], 9.5)
    np.testing.assert_allclose(found.integral, running_integral(found.correlation, step), rtol=1e-12)
    np.testing.assert_allclose(found.correlation[0], 4.0, rtol=0.05)
    current = jnp.asarray(np.stack(off[:3], axis=1))
    sigma = green_kubo_conductivity(current, step, volume=4.0, temperature=2.0, boltzmann=0.5)
    np.testing.assert_allclose(sigma.correlation, autocorrelation(current) / (3 * 4.0), rtol=1e-12)


def test_viscosity_does_not_turn():
    stress = jax.random.normal(jax.random.key(0), (30, 3, 3))
    turn, _ = jnp.linalg.qr(jax.random.normal(jax.random.key(1), (3, 3)))
    turned = jnp.einsum("ab,tbc,dc->tad", turn, stress, turn)
    a, b = (green_kubo_viscosity(x, 0.1, 1.0, 1.0).integral for x in (stress, turned))
    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    flat = green_kubo_viscosity(stress[:, :2, :2], 0.1, 1.0, 1.0)
    shear = (stress[:, 0, 1] + stress[:, 1, 0]) / 2
    differences = (stress[:, 0, 0] - stress[:, 1, 1]) / 2
    expected = (autocorrelation(shear) + autocorrelation(differences)) / 2
    np.testing.assert_allclose(flat.correlation, expected, rtol=1e-9)


def test_electric_current():
    p, mass, charge = WALK, jnp.array([1.0, 2.0, 3.0, 4.0]), jnp.array([1.0, -1.0, 2.0, -2.0])
    expected = np.sum(np.asarray(p) * (np.asarray(charge) / np.asarray(mass))[:, None], axis=1)
    np.testing.assert_allclose(electric_current(p, mass, charge), expected, rtol=1e-12)


@pytest.mark.parametrize("phi", [0.0, 0.9, 0.98])
def test_block_average(phi):
    """The error of the mean of n numbers is sqrt((1 + phi) / (1 - phi) / n)."""
    n = 2**15
    exact = np.sqrt((1 + phi) / (1 - phi) / n)
    block = jax.jit(block_average)
    found = [block(jnp.asarray(autoregressive(phi, n, key))) for key in range(20)]
    errors = np.array([f.error for f in found])
    assert all(f.converged for f in found)
    # The blocking method is low by what correlation is left, up to some 20 %, and scatters by a few.
    assert 0.75 < np.mean(errors) / exact < 1.15
    away = np.array([f.mean for f in found]) / exact
    assert abs(np.mean(away**2) - 1) < 5 * np.sqrt(2 / 20)
    np.testing.assert_allclose(found[0].inefficiency, (found[0].error / found[0].errors[0]) ** 2, rtol=1e-12)
    naive = np.asarray(autoregressive(phi, n, 0)).std() / np.sqrt(n - 1)
    np.testing.assert_allclose(found[0].errors[0], naive, rtol=1e-10)


def test_block_average_of_short_and_constant_series():
    drift = block_average(jnp.linspace(0.0, 1.0, 64))
    assert not drift.converged
    assert "too short" in repr(drift)
    constant = block_average(jnp.full(100, 3.0))
    assert constant.converged
    assert constant.error == 0
    assert constant.mean == 3
    assert np.isfinite(jax.grad(lambda x: block_average(x).mean)(jnp.full(100, 3.0))).all()
    odd = block_average(jnp.asarray(autoregressive(0.5, 1001)))
    np.testing.assert_allclose(odd.mean, autoregressive(0.5, 1001).mean(), rtol=1e-12)
    assert odd.sizes[:3] == (1, 2, 4)


def test_errors():
    for call, message in (
        (lambda: block_average(jnp.ones(7)), "`series` must be at least 8"),
        (lambda: green_kubo_viscosity(jnp.ones((5, 3, 2)), 0.1, 1.0, 1.0), "`stress` must have the shape"),
        (lambda: electric_current(jnp.ones((5, 3)), jnp.ones(5), jnp.ones(4)), "one entry for each atom"),
    ):
        with pytest.raises(simkit.ArgumentError, match=message):
            call()
