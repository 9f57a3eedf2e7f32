"""Second virial coefficients against the series of Lennard-Jones, quadrature, and the argon of handbooks."""

import math
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.integrate

import simkit
from simkit import md

ARGON = pathlib.Path(__file__).parents[2] / "examples" / "data" / "argon_second_virial.csv"
VOLUME = 0.60221408  # from cubic angstroms an atom to cm3/mol


def series(t):
    """B2 over 2 pi sigma^3 / 3 of Lennard-Jones without a cutoff, exact (Hirschfelder, Curtiss and Bird 1954, equation 3.6-2)."""
    terms = (
        2 ** (j + 0.5) / (4 * math.factorial(j)) * math.gamma((2 * j - 1) / 4) * t ** (-(2 * j + 1) / 4)
        for j in range(80)
    )
    return -sum(terms)


def test_lennard_jones_is_its_series():
    """What is neglected is the second order beyond the cutoff, 10 diameters: 2 (2 / T)^2 / 3 * 10^-9 in these units."""
    argon = lambda sigma: md.LennardJones(sigma, cutoff=10.0, truncation=md.Truncated(tail=True))
    t = jnp.array([0.7, 1.0, 2.0, 3.417928, 5.0, 20.0])
    unit = 2 * np.pi / 3
    exact = np.array([series(x) for x in np.asarray(t)])
    np.testing.assert_allclose(md.second_virial(argon(1.0), t) / unit, exact, atol=1e-8)
    assert abs(exact[3]) < 1e-6  # the Boyle temperature, as tables have it
    slope = jax.jacfwd(lambda s: md.second_virial(argon(s), t[0]))(jnp.asarray(1.0))  # B2 goes as the cube of sigma
    np.testing.assert_allclose(slope, 3 * unit * exact[0], rtol=1e-7)
    by_t = jax.grad(lambda t: md.second_virial(argon(1.0), t))(t[1]) / unit
    np.testing.assert_allclose(by_t, (series(1 + 1e-5) - series(1 - 1e-5)) / 2e-5, rtol=1e-7)


@pytest.mark.parametrize("dimensions", [2, 3])
def test_sums_and_planes_against_quadrature(dimensions):
    potential = md.LennardJones(cutoff=2.5, truncation=md.Shifted()) + md.GaussianCore(2.0, 1.5, cutoff=3.0)
    lennard_jones = lambda r: 4 * (r**-12 - r**-6 - 2.5**-12 + 2.5**-6) if r < 2.5 else 0.0
    u = lambda r: lennard_jones(r) + 2.0 * math.exp(-((r / 1.5) ** 2))
    measure = (lambda r: np.pi * r) if dimensions == 2 else (lambda r: 2 * np.pi * r * r)
    exact = scipy.integrate.quad(
        lambda r: -measure(r) * math.expm1(-min(u(r), 700.0) / 1.2), 1e-3, 3.0, points=[1.0, 2.5]
    )[0]
    found = md.second_virial(potential, 1.2, dimensions=dimensions)
    np.testing.assert_allclose(found, exact, rtol=1e-5)  # one panel holds the step in the slope at 2.5


def test_single_precision_and_what_is_refused():
    slope = jax.grad(lambda t: md.second_virial(simkit.core.cast(md.LennardJones(cutoff=5.0), jnp.float32), t))
    found = slope(jnp.float32(1.0))
    assert found.dtype == jnp.float32
    assert np.isfinite(found)
    with pytest.raises(simkit.ArgumentError, match="one a species"):
        md.second_virial(md.LennardJones(jnp.array([1.0, 1.1])), 1.0)
    with pytest.raises(simkit.ArgumentError, match="without charges"):
        md.second_virial(md.CoulombCut(cutoff=2.0), 1.0)
    with pytest.raises(simkit.ArgumentError, match="`dimensions` must be"):
        md.second_virial(md.LennardJones(), 1.0, dimensions=1)


@pytest.mark.long
def test_argon_by_nuts_and_by_quadrature():
    """The posterior of diameter and depth from the table of a handbook, beside its integral over a grid by the exact series."""
    t, b = np.loadtxt(ARGON, delimiter=",", skiprows=1).T
    gas = md.SecondVirial(md.LennardJones(3.4, 120.0, cutoff=34.0, truncation=md.Truncated(tail=True)), scale=VOLUME)
    problem = simkit.Problem(
        gas,
        simkit.Experiment("argon", t, {"second_virial": b}),
        free={
            "potential.sigma": simkit.Free(dist.Normal(3.4, 0.5)),
            "potential.epsilon": simkit.Free(dist.Normal(120.0, 30.0)),
        },
        noise={"second_virial": simkit.noise.Normal(2.0)},
    )
    posterior = simkit.sample(problem, key=jax.random.key(0))
    sigma, epsilon = np.meshgrid(np.linspace(3.2, 3.8, 301), np.linspace(105.0, 130.0, 301), indexing="ij")
    curves = np.vectorize(series)
    reduced = np.linspace(0.7, 10.0, 2000)
    table = np.interp(t[:, None, None] / epsilon, reduced, curves(reduced))
    away = (2 * np.pi / 3 * VOLUME * sigma**3 * table - b[:, None, None]) / 2.0
    log = -0.5 * (away**2).sum(0) - 0.5 * ((sigma - 3.4) / 0.5) ** 2 - 0.5 * ((epsilon - 120.0) / 30.0) ** 2
    weight = np.exp(log - log.max())
    for row, grid in zip(posterior.table(), (sigma, epsilon), strict=True):
        mean = (weight * grid).sum() / weight.sum()
        sd = np.sqrt((weight * (grid - mean) ** 2).sum() / weight.sum())
        assert abs(row["mean"] - mean) < 5 * sd / np.sqrt(row["ess"])
        assert abs(row["sd"] / sd - 1) < 5 / np.sqrt(2 * row["ess"])
    # Michels' values of 1949, from coefficients of 273 to 423 K, are 3.405 and 119.8; colder data pull them a little away.
    found = [row["mean"] for row in posterior.table()]
    np.testing.assert_allclose(found, [3.405, 119.8], rtol=0.03)
