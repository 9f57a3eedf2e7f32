"""Ensembles of runs: kinetic energies and volumes against their distributions, and a density against published Monte Carlo.

The checks are those of physical_validation (Merz and Shirts, doi:10.1371/journal.pone.0202764): mean and width of the kinetic
energy, and the ratio of the distributions of the volume at two pressures.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from md_runs import KEY, fluid

import simkit
from simkit import md

pytestmark = pytest.mark.long
H = 0.004


def inefficiency(x):
    """How many rows make one independent number, by the sum of the autocorrelation up to where it is lost in noise."""
    d = np.asarray(x) - np.mean(x)
    found = np.correlate(d, d, "full")[d.size - 1 :] / (d @ d)
    end = int(np.argmax(found < 0.05))
    return 1 + 2 * found[1:end].sum()


def kinetic_energies(dynamics):
    system, y0 = fluid(dynamics=dynamics)
    times = np.arange(0.0, 140.0, 0.2)
    ys = simkit.simulate(system, y0, times, step=H, key=KEY).ys
    return 0.5 * (np.asarray(ys.momentum) ** 2).sum((1, 2))[100:]


def deviations(kinetic, freedom, temperature=1.0):
    """Mean and width of kinetic energies, in standard deviations from those of the canonical ensemble."""
    mean, width = 0.5 * freedom * temperature, np.sqrt(0.5 * freedom) * temperature
    n = kinetic.size / inefficiency(kinetic)
    n_width = kinetic.size / inefficiency((kinetic - kinetic.mean()) ** 2)
    # A step of 0.004 makes the kinetic energy wrong by some (h omega)^2 / 12 = 0.1 %: a sixth of a standard deviation here.
    return (kinetic.mean() - mean) / (width / np.sqrt(n)), (kinetic.std() - width) / (width / np.sqrt(2 * n_width))


@pytest.mark.parametrize(
    ("dynamics", "freedom"),
    [
        (md.Langevin(1.0, 2.0), 324),
        (md.Andersen(1.0, 5.0), 324),
        (md.NoseHoover(1.0, 0.5), 321),
        (md.StochasticRescaling(1.0, 0.2), 321),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_kinetic_energies_are_canonical(dynamics, freedom):
    mean, width = deviations(kinetic_energies(dynamics), freedom)
    assert abs(mean) < 3
    assert abs(width) < 3


def test_weak_coupling_is_found_out():
    """The check can fail: the width is that of a stiffer spring, many standard deviations too small."""
    _, width = deviations(kinetic_energies(md.Berendsen(1.0, 0.2)), 321)
    assert width < -5


def volumes(make, pressure):
    system, y0 = fluid(dynamics=make(pressure))
    ys = simkit.simulate(system, y0, np.arange(0.0, 140.0, 0.2), step=H, key=KEY).ys
    return np.linalg.det(np.asarray(ys.cell))[100:]


@pytest.mark.parametrize(
    "make",
    [lambda p: md.MTK(1.0, p, 0.5, 1.5), lambda p: md.StochasticCellRescaling(1.0, p, 0.2, 0.3, 0.1)],
    ids=["MTK", "StochasticCellRescaling"],
)
def test_volumes_at_two_pressures_differ_as_they_must(make):
    r"""$\ln p_2(V) / p_1(V) = -(P_2 - P_1) V / k_B T + c$, whatever the fluid: the slope by maximum likelihood, and its error."""
    pressures = 3.0, 3.8
    rows = [volumes(make, p) for p in pressures]
    rows = [v[:: max(1, int(np.ceil(inefficiency(v))))] for v in rows]
    v, second = np.concatenate(rows), np.concatenate([np.zeros(rows[0].size), np.ones(rows[1].size)])
    scaled = np.stack([np.ones_like(v), v - v.mean()], axis=1)
    found = np.zeros(2)
    for _ in range(50):
        p = 1 / (1 + np.exp(-scaled @ found))
        information = scaled.T @ (scaled * (p * (1 - p))[:, None])
        found = found + np.linalg.solve(information, scaled.T @ (second - p))
    error = np.sqrt(np.linalg.inv(information)[1, 1])
    assert error < 0.15 * (pressures[1] - pressures[0])
    assert abs(found[1] + (pressures[1] - pressures[0])) < 3 * error


def test_the_density_of_the_published_liquid():
    """NIST's Monte Carlo of the truncated fluid with tail corrections: pressure 6.7714e-3 at density 0.776, temperature 0.85."""
    start = md.crystal("fcc", (4 / 0.776) ** (1 / 3), (4, 4, 4))
    potential = md.LennardJones(cutoff=3.0, truncation=md.Truncated(tail=True))
    dynamics = md.StochasticCellRescaling(0.85, 6.7714e-3, 0.2, 0.5, 0.2)
    system = md.Particles(potential, start.space, dynamics=dynamics)
    momentum = md.maxwell_boltzmann(KEY, jnp.ones(256), 1.7)  # half of it melts the crystal
    y0 = md.Atoms(start.position, momentum)
    ys = simkit.simulate(system, y0, np.arange(0.0, 150.0, 0.25), step=H, key=jax.random.key(2)).ys
    density = 256 / np.linalg.det(np.asarray(ys.cell))[120:]
    error = density.std() / np.sqrt(density.size / inefficiency(density))
    assert error < 0.004
    assert abs(density.mean() - 0.776) < 3 * error


def mean_and_error(rows):
    rows = np.asarray(rows)
    return rows.mean(), rows.std() / np.sqrt(rows.size / inefficiency(rows))


def published_fluid(density, counts, dynamics, times, first):
    """NIST's fluid, truncated at 3 with tail corrections, at temperature 0.85: the run, without the rows before `first`."""
    start = md.crystal("fcc", (4 / density) ** (1 / 3), counts)
    potential = md.LennardJones(cutoff=3.0, truncation=md.Truncated(tail=True))
    system = md.Particles(potential, start.space, dynamics=dynamics)
    y0 = md.Atoms(start.position, md.maxwell_boltzmann(KEY, jnp.ones(len(start.position)), 1.7))
    run = simkit.simulate(system, y0, times, step=0.005, key=jax.random.key(3))
    system = system.prepared(y0)
    rows = jax.tree.map(lambda x: x[first:], run.ys)
    return jax.jit(lambda rows: jax.lax.map(lambda y: system.outputs(0.0, y, None), rows))(rows)


def test_the_energy_of_the_published_liquid():
    """NIST's Monte Carlo at density 0.776: -5.5121(4) an atom, 500 atoms as there."""
    dynamics = md.Langevin(0.85, 1.0)  # whose positions are right to the fourth order of the step
    out = published_fluid(0.776, (5, 5, 5), dynamics, np.arange(0.0, 400.0, 0.25), 200)
    energy, error = mean_and_error(out["potential_energy"] / 500)
    print(f"energy an atom {energy:.5f} +- {error:.5f}")
    assert error < 0.002
    assert abs(energy + 5.5121) < 3 * np.hypot(error, 4e-4)


def test_the_vapour_in_equilibrium_with_the_liquid():
    """NIST's coexistence at temperature 0.85: the vapour of density 0.0096404 has the pressure 0.0076357."""
    out = published_fluid(0.0096404, (4, 4, 4), md.Langevin(0.85, 0.2), np.arange(0.0, 1500.0, 2.0), 100)
    pressure, error = mean_and_error(out["pressure"])
    print(f"pressure {pressure:.6f} +- {error:.6f}")
    assert error < 6e-5  # without interactions it would be 0.0081943
    assert abs(pressure - 0.0076357) < 3 * error


def test_the_liquid_in_equilibrium_with_the_vapour():
    """At that pressure and temperature the liquid has the density 0.77681."""
    dynamics = md.StochasticCellRescaling(0.85, 0.0076357, 0.2, 0.5, 0.2)
    out = published_fluid(0.77681, (5, 5, 5), dynamics, np.arange(0.0, 250.0, 0.25), 200)
    density, error = mean_and_error(out["density"])
    print(f"density {density:.5f} +- {error:.5f}")
    assert error < 0.003
    assert abs(density - 0.77681) < 3 * error
