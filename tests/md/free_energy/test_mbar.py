"""Free energies of harmonic states against pymbar, exact ones, and the scatter of many repetitions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

import simkit
from simkit import md

K = np.array([1.0, 2.0, 4.0, 8.0])
C = np.array([0.0, 0.5, 1.0, 1.5])
EXACT = 0.5 * np.log(K / K[0])


def harmonic(x):
    return jnp.asarray(0.5 * K[:, None] * (x[None] - C[:, None]) ** 2)


def quantiles(counts):
    """Samples without chance: quantiles of the normal distributions of the states."""
    parts = [C[i] + norm.ppf((np.arange(n) + 0.5) / n) / np.sqrt(K[i]) for i, n in enumerate(counts)]
    return np.concatenate(parts)


COUNTS = [40, 30, 0, 50]
X = quantiles(COUNTS)
OTHER = 1.5 * (X - 0.75) ** 2
FOUND = md.mbar(harmonic(X), COUNTS, inefficiency=1.0)


def test_as_pymbar_does():
    """Numbers of pymbar 4.0.3 for the same samples, state 2 without any; to the digits that it prints."""
    np.testing.assert_allclose(FOUND.values, [0.0, 0.33916854, 0.67864396, 1.01594036], atol=1e-8)
    np.testing.assert_allclose(FOUND.errors, [0.0, 0.08116484, 0.15098135, 0.23072018], atol=1e-8)
    assert float(FOUND.difference(1, 3).error) == pytest.approx(0.1991626274774971, rel=1e-9)
    overlap = [
        [0.5482784, 0.30676041, 0.0, 0.14496119],
        [0.40901388, 0.36381559, 0.0, 0.22717053],
        [0.25429747, 0.30212895, 0.0, 0.44357358],
        [0.11596895, 0.13630232, 0.0, 0.74772873],
    ]
    np.testing.assert_allclose(FOUND.overlap, overlap, atol=1e-8)
    there = FOUND.average(X**2, OTHER)
    assert float(there.value) == pytest.approx(0.8989719387117383, rel=1e-9)
    assert float(there.error) == pytest.approx(0.11064825681224552, rel=1e-9)
    free = FOUND.free_energy(OTHER)
    assert float(free.value) == pytest.approx(0.538686816256563, rel=1e-9)
    assert float(free.error) == pytest.approx(0.11686137570467278, rel=1e-9)


def test_one_precision_and_another_origin():
    """Energies that all grow by the same, sample by sample, and states that are shifted, by up to 1000 k_B T."""
    shift = jnp.asarray([0.0, 300.0, -500.0, 1000.0])
    far = md.mbar(harmonic(X) + shift[:, None] + 100.0 * jnp.asarray(X)[None], COUNTS, inefficiency=1.0)
    np.testing.assert_allclose(far.values, FOUND.values + shift, rtol=1e-11)
    single = md.mbar(harmonic(X).astype(jnp.float32), COUNTS, inefficiency=1.0)
    assert single.values.dtype == jnp.float32
    np.testing.assert_allclose(single.values, FOUND.values, atol=3e-6)  # some ten roundings of numbers up to 10


def test_derivatives_are_averages():
    """Of f = ln(k) / 2 by k: 1 / 2k and -1 / 2k^2, from exact quantiles but for the error of a finite number of them."""
    x = quantiles([4000, 0, 0, 4000])

    def difference(k):
        energies = harmonic(x).at[3].set(0.5 * k * (x - C[3]) ** 2)
        return md.mbar(energies, [4000, 0, 0, 4000], inefficiency=1.0).values[3]

    slope, curvature = jax.jit(lambda k: (jax.grad(difference)(k), jax.grad(jax.grad(difference))(k)))(8.0)
    found = md.mbar(harmonic(x), [4000, 0, 0, 4000], inefficiency=1.0)
    square = found.average((x - C[3]) ** 2, harmonic(x)[3]).value
    assert float(slope) == pytest.approx(0.5 * float(square), rel=1e-9)
    assert float(slope) == pytest.approx(1 / 16, rel=2e-3)
    assert float(curvature) == pytest.approx(-1 / 128, rel=2e-2)
    assert float(jax.vmap(difference)(jnp.array([8.0, 9.0]))[1]) == pytest.approx(float(difference(9.0)), rel=1e-9)


COUNT = 512


def repeated(persistence, key):
    """Chains in three of the states with this correlation from one sample to the next."""

    def chain(state, key):
        noise = jax.random.normal(key, (COUNT,)) * jnp.sqrt(1 - persistence**2)
        first = jax.random.normal(jax.random.fold_in(key, 1))
        onward = lambda x, e: (persistence * x + e, persistence * x + e)
        return C[state] + jax.lax.scan(onward, first, noise)[1] / np.sqrt(K[state])

    x = jnp.concatenate([chain(k, key) for k, key in zip((0, 1, 3), jax.random.split(key, 3), strict=True)])
    found = md.mbar(harmonic(x), [COUNT, COUNT, 0, COUNT])
    away = (found.values - EXACT)[1:] / found.errors[1:]
    square = found.average(x**2, 1.5 * (x - 0.75) ** 2)
    return jnp.append(away, (square.value - (1 / 3 + 0.75**2)) / square.error)


@pytest.mark.parametrize("persistence", [0.0, 0.6])
def test_errors_are_those_of_repetitions(persistence):
    """Mean squares of 100 deviations over predicted errors are a hundredth of a chi-square number of 100 degrees: between 0.59 and
    1.53 in all but 2 of 10,000 cases. Blocks of correlated numbers are found too short by one doubling at times, which
    makes an error up to 10 % too small."""
    keys = jax.random.split(jax.random.key(1), 100)
    squares = np.mean(
        np.asarray(jax.jit(lambda keys: jax.lax.map(lambda k: repeated(persistence, k), keys))(keys)) ** 2, 0
    )
    assert (squares > 0.59).all()
    assert (squares < 1.53 * (1.1**2 if persistence else 1)).all()


@pytest.mark.parametrize(
    ("energies", "counts", "message"),
    [
        (harmonic(X).at[1, 7].set(jnp.inf), COUNTS, r"sample 7 in state 1 \(from 0\) is inf"),
        (harmonic(X), [40, 30, 50], r"each of the 4 states.*\[40, 30, 50\]"),
        (harmonic(X), [40, 30, 1, 50], "add up to the 120 samples.*the sum is 121"),
        (harmonic(X), np.array([40.5, 29.5, 0, 50]), "one whole number"),
        (harmonic(X)[0], [120], "shape .states, samples."),
    ],
)
def test_what_is_wrong_is_named(energies, counts, message):
    with pytest.raises(simkit.ArgumentError, match=message):
        md.mbar(energies, counts)


def test_windows_that_do_not_overlap_are_named():
    """Two pairs of windows twenty standard deviations apart."""
    centres = np.array([0.0, 20.0, 0.5, 20.5])
    x = np.concatenate([c + norm.ppf((np.arange(50) + 0.5) / 50) for c in centres])
    energies = jnp.asarray(0.5 * (x - centres[:, None]) ** 2)
    with pytest.raises(
        simkit.ArgumentError, match=r"states (0, 2|1, 3) share .* with the states (0, 2|1, 3) \(from 0\)"
    ):
        md.mbar(energies, [50] * 4, inefficiency=1.0)
    assert bool(jnp.isnan(jax.jit(lambda u: md.mbar(u, [50] * 4, inefficiency=1.0).values)(energies)).all())


def test_a_row_of_many_windows_that_overlap_a_little():
    """Thirty windows three standard deviations apart, started from zero: free energies of shifted wells are all equal. A
    difference over the row has an error that adds up along it; five of them are allowed."""
    centres = 3.0 * np.arange(30.0)
    x = np.asarray(centres[:, None] + jax.random.normal(jax.random.key(0), (30, 300))).ravel()
    found = md.mbar(jnp.asarray(0.5 * (x - centres[:, None]) ** 2), [300] * 30, inefficiency=1.0)
    assert 0.05 < float(found.errors[-1]) < 1.5
    assert abs(float(found.values[-1])) < 5 * float(found.errors[-1])


def test_it_prints_itself():
    assert "3  1.01594 +- 0.23  50 samples" in repr(FOUND)
    assert repr(FOUND.average(X)) == repr(FOUND.average(X, 0.0))


def test_bar_is_that_of_pymbar():
    """Numbers of pymbar 4.0.3; its error is by another formula, which at the solution differs from MBAR's by the scatter of the
    shares, a few 1e-5 here."""
    u = harmonic(X)
    found = md.bar((u[1] - u[0])[:40], (u[0] - u[1])[40:70])
    assert float(found.value) == pytest.approx(0.34175768452233424, rel=1e-6)
    assert float(found.error) == pytest.approx(0.081878173313838, rel=1e-4)
