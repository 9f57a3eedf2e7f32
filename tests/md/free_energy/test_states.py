"""States of other parameters: springs, and an atom that appears among atoms of an ideal gas, whose free energy is an integral."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import chi2

import simkit
from simkit import md

TIMES = np.arange(221) * 0.5


def springs(k):
    return md.Particles(md.HarmonicTrap(k, jnp.zeros(2)), md.OpenSpace(2), dynamics=md.Langevin(1.0, 3.0))


def test_springs_by_mbar_and_by_integration():
    """f = ln(k) for each atom in two dimensions; four standard errors. The spline through 1 / k errs by less than a hundredth."""
    atoms = md.Atoms(jax.random.normal(jax.random.key(0), (6, 2)), jnp.zeros((6, 2)))
    k = jnp.geomspace(1.0, 3.0, 5)
    found = md.sample_states(springs, k, atoms, TIMES, step=0.05, key=jax.random.key(1), discard=20)
    free, integral = found.free_energies(), found.integral()
    exact = 6 * np.log(3.0)
    assert abs(float(free.values[-1]) - exact) < 4 * float(free.errors[-1])
    assert abs(float(integral.value) - exact) < 4 * float(integral.error)
    assert float(free.errors[-1]) < 0.3
    assert float(integral.error) < 0.4
    np.testing.assert_allclose(found.slopes[0] * k[0], found.reduced_energies[0, :201], rtol=1e-12)


COUNT, LENGTH, CUTOFF, T = 20, 5.2, 2.5, 1.5
COUPLINGS = jnp.array([0.0, 0.05, 0.15, 0.3, 0.5, 0.75, 1.0])
LATTICE = np.stack(np.meshgrid(*[np.arange(3.0)] * 3), -1).reshape(-1, 3)[: COUNT + 1] * LENGTH / 3


def solution(coupling, epsilon=1.0):
    """One atom among others that see nothing but it."""
    potential = md.SoftCoreLennardJones(
        1.0,
        epsilon * jnp.array([[0.0, 1.0], [1.0, 0.0]]),
        jnp.stack([jnp.ones_like(coupling), coupling]),
        cutoff=CUTOFF,
    )
    space, species = md.Orthorhombic(jnp.full(3, LENGTH)), jnp.array([1] + [0] * COUNT)
    return md.Particles(potential, space, dynamics=md.Langevin(T, 2.0), species=species)


def solvation(epsilon):
    """Each of the others has an integral of its own over the cell: f = -N ln(1 - 2 B / V)."""
    u = lambda r: 4 * epsilon * (r**-12 - r**-6)
    inner = 0.2  # within it the Boltzmann factor is 0
    integral = quad(lambda r: (np.exp(-u(r) / T) - 1) * r**2, inner, CUTOFF)[0] - inner**3 / 3
    return -COUNT * np.log(1 + 4 * np.pi * integral / LENGTH**3)


def test_solvation_in_an_ideal_gas():
    """Free energies of four independent runs: their squared distances in standard errors are a chi-square number, and the
    derivative by the depth of the well is that of the exact solution within four standard errors of a mean over frames."""
    start = md.Atoms(jnp.asarray(LATTICE), jnp.zeros((COUNT + 1, 3)))
    plan = solution(COUPLINGS[0]).prepared(start).plan

    def run(key):
        planned = lambda depth: lambda c: dataclasses.replace(solution(c, depth), plan=plan)
        sampled = lambda depth: md.sample_states(
            planned(depth), COUPLINGS, start, np.arange(260) * 0.5, step=0.015, key=key, discard=10
        )
        free = lambda depth: sampled(depth).free_energies().values[-1]
        found = sampled(1.0)
        energies = found.free_energies()
        integral = found.integral()
        return energies.values[-1], energies.errors[-1], integral.value, integral.error, jax.grad(free)(1.0)

    found = jax.jit(lambda keys: jax.lax.map(run, keys))(jax.random.split(jax.random.key(2), 4))
    mbar, mbar_error, integral, integral_error, slope = map(np.asarray, found)
    exact = solvation(1.0)
    least, most = chi2.ppf([1e-4, 1 - 1e-4], 4)
    assert least < np.sum(((mbar - exact) / mbar_error) ** 2) < most
    assert least < np.sum(((integral - exact) / integral_error) ** 2) < most
    assert mbar_error.max() < 0.1
    expected = (solvation(1.001) - solvation(0.999)) / 0.002
    assert abs(slope.mean() - expected) < 4 * slope.std(ddof=1) / 2 + 0.01
    assert slope.std(ddof=1) < 0.3 * abs(expected)


def test_the_soft_core():
    """Lennard-Jones at full coupling, nothing without, finite at no distance; slopes as of differences."""
    pairs = lambda potential, r: potential.pair(r**2, potential.coefficients())
    r = jnp.linspace(0.8, 2.4, 9)
    full = pairs(md.SoftCoreLennardJones(1.1, 0.7), r)
    for a, b in zip(full, pairs(md.LennardJones(1.1, 0.7), r), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    for power in (1, 2):
        half = md.SoftCoreLennardJones(1.1, 0.7, 0.5, 0.4, power=power)
        np.testing.assert_allclose(
            pairs(half, r)[1], jax.vmap(jax.grad(lambda s, half=half: pairs(half, jnp.sqrt(s))[0]))(r**2), rtol=1e-10
        )
        core = 0.4 * 0.5**power
        assert float(pairs(half, jnp.zeros(()))[0]) == pytest.approx(4 * 0.7 * 0.5 * (core**-2 - 1 / core))
    assert not np.any(pairs(md.SoftCoreLennardJones(1.1, 0.7, 0.0), r)[0])
    with pytest.raises(simkit.ArgumentError, match="`power` must be 1 or 2"):
        md.SoftCoreLennardJones(power=3)


def test_what_integration_refuses():
    slopes = jnp.zeros((3, 16))
    for grid, message in (([0.0, 1.0], "at least two states"), ([0.0, 1.0, 0.5], "increase or decrease")):
        with pytest.raises(simkit.ArgumentError, match=message):
            md.thermodynamic_integration(grid, slopes)
    down = md.thermodynamic_integration([1.0, 0.5, 0.0], slopes + jnp.array([[1.0], [0.25], [0.0]]))
    assert float(down.value) == pytest.approx(-1 / 3)  # of x^2, by a parabola
    gauss = md.thermodynamic_integration([0.2, 0.5, 0.8], slopes + 1.0, weights=[0.3, 0.4, 0.3])
    assert float(gauss.value) == pytest.approx(1.0)
