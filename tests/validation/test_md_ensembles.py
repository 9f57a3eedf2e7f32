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
