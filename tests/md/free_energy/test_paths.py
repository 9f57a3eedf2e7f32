"""Windows, exchange, metadynamics and pulling in a double well and in traps, against integrals over these."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads
from scipy.integrate import quad
from scipy.stats import chi2

import simkit
from simkit import md

EDGES = np.linspace(-1.4, 1.4, 9)
SPACE = md.OpenSpace(2)
START = md.Atoms(jnp.array([[1.0, 0.0]]), jnp.zeros((1, 2)))


def energy(x):
    """Two wells of different depth, with a barrier of five to six k_B T."""
    return 5.0 * (x**2 - 1.0) ** 2 + 0.5 * x


def place(atoms):
    return atoms.position[0, 0]


WELL = md.ExternalFunction(lambda position, species, charge: energy(position[:, 0]) + position[:, 1] ** 2)


def particle(temperature):
    return md.Particles(WELL, SPACE, dynamics=md.Langevin(temperature, 3.0))


READY = particle(1.0).prepared(START)


def exact(edges, temperature=1.0):
    """Minus the logarithm of the probability in each bin, but for a constant."""
    shares = [quad(lambda x: np.exp(-energy(x) / temperature), a, b)[0] for a, b in itertools.pairwise(edges)]
    return -np.log(np.array(shares))


def least_and_most(freedom, chance=1e-4):
    return chi2.ppf([chance, 1 - chance], freedom)


def test_a_profile_by_umbrellas():
    """The squared distance of a profile in units of its covariance is a chi-square number, and the sum over six independent runs is
    one of 42 degrees. Errors by blocks are found up to 15 % too small (see test_mbar), which is allowed for above."""
    times = np.arange(321) * 0.4

    def profile(key):
        windows = md.umbrella_sampling(
            READY,
            START,
            times,
            cv=place,
            centres=np.linspace(-1.5, 1.5, 8),
            stiffness=12.0,
            step=0.05,
            key=key,
            discard=20,
        )
        found = windows.profile(EDGES)
        return found.free_energy, found.covariance

    free, covariance = map(
        np.asarray, jax.jit(lambda keys: jax.lax.map(profile, keys))(jax.random.split(jax.random.key(0), 6))
    )
    total = 0.0
    for f, c in zip(free, covariance, strict=True):
        low = np.argmin(f)
        others = np.arange(len(f)) != low
        away = (f - (exact(EDGES) - exact(EDGES)[low]))[others]
        total += away @ np.linalg.solve(c[np.ix_(others, others)], away)
        assert np.sqrt(np.diagonal(c)).max() < 0.6  # so that it says something about a barrier of five
    least, most = least_and_most(6 * 7)
    assert least < total < most * 1.15**2


def test_a_spring_on_an_angle_and_what_is_refused():
    angle = lambda atoms: jnp.arctan2(atoms.position[0, 1], atoms.position[0, 0])
    spring = md.UmbrellaBias(angle, 3.0, 2.0, 2 * np.pi)
    assert float(spring.of_value(jnp.asarray(-3.0))) == pytest.approx((2 * np.pi - 6.0) ** 2)
    atoms = md.Atoms(jnp.array([[-1.0, 0.2]]), jnp.zeros((1, 2)))
    both = md.Particles(md.Bias(place, lambda x: 0.5 * x**2) + spring, SPACE).prepared(atoms)
    slope = both.gradients(atoms).forces
    by_hand = jax.grad(lambda x: -0.5 * x[0] ** 2 - spring.of_value(jnp.arctan2(x[1], x[0])))(jnp.array([-1.0, 0.2]))
    np.testing.assert_allclose(slope[0], by_hand, rtol=1e-12)
    with pytest.raises(simkit.ArgumentError, match="canonical"):
        md.umbrella_sampling(
            md.Particles(WELL, SPACE),
            START,
            [0.0, 1.0],
            cv=place,
            centres=[0.0],
            stiffness=1.0,
            step=0.1,
            key=jax.random.key(0),
        )
    found = md.mbar(jnp.zeros((1, 16)), [16], inefficiency=1.0)
    with pytest.raises(simkit.ArgumentError, match="one number for each of the 16 samples"):
        md.free_energy_profile(found, jnp.zeros(3), EDGES)
    with pytest.raises(simkit.ArgumentError, match="increasing"):
        md.free_energy_profile(found, jnp.zeros(16), EDGES[::-1])


def test_replicas_exchange_by_the_populations_of_their_temperatures():
    """Populations of the deeper well, four standard errors by blocks; the two states of a swap have independent noise."""
    temperatures = jnp.array([1.0, 1.8, 3.2])
    found = md.replica_exchange(
        particle,
        temperatures,
        START,
        rounds=3000,
        duration=0.4,
        step=0.05,
        key=jax.random.key(2),
        measure=lambda system, atoms: (place(atoms) < 0).astype(float),
        discard=50,
    )
    assert ((found.acceptance > 0.3) & (found.acceptance < 0.95)).all()
    assert len(np.unique(found.walkers[:, 0])) == 3
    for k, temperature in enumerate(np.asarray(temperatures)):
        left, right = (np.exp(-exact(np.array(ends), temperature)) for ends in ([-4.0, 0.0], [0.0, 4.0]))
        share = md.block_average(found.values[k])
        assert float(share.error) < 0.06
        assert abs(float(share.mean) - (left / (left + right))[0]) < 4 * float(share.error)
    free = found.free_energies()
    f = [exact(np.array([-4.0, 4.0]), t)[0] - 0.5 * np.log(np.pi * t) for t in np.asarray(temperatures)]
    assert (np.abs(np.asarray(free.values) - (f - f[0])) <= 4 * np.asarray(free.errors)).all()
    assert float(free.errors[-1]) < 0.1
    assert "were accepted" in repr(found)


def test_metadynamics_fills_the_wells():
    """The mean over eight runs is within four standard errors of the exact profile, in every bin up to six k_B T."""
    settings = {"lower": -1.9, "upper": 1.9, "points": 39, "width": 0.15, "height": 0.3, "bias_factor": 6.0}

    def run(key):
        found = md.metadynamics(READY, START, cv=place, deposits=3000, duration=0.4, step=0.05, key=key, **settings)
        return found.free_energy, found.earlier, found.heights

    free, earlier, heights = jax.jit(jax.vmap(run))(jax.random.split(jax.random.key(3), 8))
    x = np.linspace(-1.9, 1.9, 39)
    inside = energy(x) - energy(x).min() < 6.0
    free, true = np.asarray(free)[:, inside], energy(x)[inside]
    free = free - free.mean(1, keepdims=True)
    error = free.std(0, ddof=1) / np.sqrt(8)
    # Gaussians 0.15 wide round a minimum with curvature 40 by 40 * 0.15^2 / 2 at most before they are corrected by later ones.
    away = free.mean(0) - (true - true.mean())
    assert error.max() < 0.3
    assert (np.abs(away) < 4 * error + 0.15).all()
    assert float(heights[:, -1].mean()) < 0.2 * float(heights[:, 0].mean())
    assert np.abs(np.asarray(earlier) - np.asarray(earlier).min(1, keepdims=True)).max() > 0


def test_metadynamics_in_two_variables_and_what_is_refused():
    both = lambda atoms: atoms.position[0]
    settings = {"upper": [2.0, 1.5], "points": 31, "height": 0.3, "bias_factor": 4.0, "duration": 0.2, "step": 0.05}
    starts = md.Atoms(jnp.array([[[1.0, 0.0]], [[-1.0, 0.0]]]), jnp.zeros((2, 1, 2)))
    found = md.metadynamics(
        READY, starts, cv=both, lower=[-2.0, -1.5], width=[0.2, 0.15], deposits=30, key=jax.random.key(4), **settings
    )
    assert found.values.shape == (30, 2, 2)
    # The bias between grid points goes through its values there, and its slope is that of differences.
    bias, at = found.bias, jnp.array([bias_grid[7] for bias_grid in (found.bias.grid(0), found.bias.grid(1))])
    assert float(bias.value(at)) == pytest.approx(float(bias.values()[7, 7]), abs=1e-12)
    check_grads(lambda x: bias.value(jnp.asarray(x)), (jnp.array([0.83, 0.11]),), order=2, rtol=1e-4)
    more = md.metadynamics(
        READY, starts, cv=both, lower=0.0, width=0.2, deposits=2, key=jax.random.key(5), start=bias, **settings
    )
    assert float(more.bias.coefficients.sum()) > float(bias.coefficients.sum())
    with pytest.raises(simkit.ArgumentError, match="at least the distance of grid points"):
        md.metadynamics(READY, starts, cv=both, lower=-2.0, width=0.05, deposits=2, key=jax.random.key(5), **settings)


def trap(centre):
    along = jnp.stack([centre, jnp.zeros_like(centre)])
    return md.Particles(md.HarmonicTrap(4.0, along), SPACE, dynamics=md.Langevin(1.0, 1.0))


def test_work_of_pulling_a_trap():
    """A trap that moves has a difference of 0. Works are normal, so that their mean is half their variance; the mean and the
    variance of 2,000 works have standard errors s / sqrt(2000) and s^2 sqrt(2 / 2000)."""
    count = 2000
    noise = jax.random.normal(jax.random.key(5), (2, count, 1, 2))
    starts = md.Atoms(0.5 * noise[0], noise[1])
    path = jnp.linspace(0.0, 1.5, 7)
    there = md.switch(trap, path, starts, duration=0.3, step=0.05, key=jax.random.key(6))
    shifted = md.Atoms(starts.position + jnp.array([[[1.5, 0.0]]]), starts.momentum)
    back = md.switch(trap, path[::-1], shifted, duration=0.3, step=0.05, key=jax.random.key(7))
    work = np.asarray(there.work)
    mean, variance = work.mean(), work.var(ddof=1)
    assert variance > 1
    assert abs(mean - variance / 2) < 4 * np.sqrt(variance / count + variance**2 / (2 * count))
    once, both = md.jarzynski(there.work), md.bar(there.work, back.work)
    for found in (once, both):
        assert abs(float(found.value)) < 4 * float(found.error)
    assert float(both.error) < float(once.error) < 0.2
    with pytest.raises(simkit.ArgumentError, match="at least 2 switches"):
        md.jarzynski(jnp.ones(1))
