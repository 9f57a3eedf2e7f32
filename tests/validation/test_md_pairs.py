"""Pair potentials against NIST's reference configuration and against LAMMPS."""

import functools
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from simkit import md

DATA = Path(__file__).parents[2] / "data" / "md"
LAMMPS = json.loads((DATA / "lammps_pairs.json").read_text())

# NIST prints all digits of the first two energies and five of the others; the virials as W = -sum r u'(r).
NIST = {
    "cutoff 3": (md.Truncated(), 3.0, -16.790321304625863, 1e-14, -46.249),
    "cutoff 3 with tail": (md.Truncated(tail=True), 3.0, -16.790321304625863 - 0.5451660014945713, 1e-14, None),
    "cutoff 4": (md.Truncated(), 4.0, -17.060, 4e-5, -47.869),
    "cutoff 4 with tail": (md.Truncated(tail=True), 4.0, -17.060 - 0.23008, 4e-5, None),
    "force-shifted": (md.ForceShifted(), 3.0, -15.001, 4e-5, -43.096),
}


@pytest.mark.parametrize("method", ["dense", "clusters"])
@pytest.mark.parametrize("case", NIST)
def test_nist_configuration_4(case, method):
    truncation, cutoff, expected, tolerance, virial = NIST[case]
    x = jnp.asarray(np.loadtxt(DATA / "lj_sample_config_periodic4.xyz", skiprows=2, usecols=(1, 2, 3)))
    space, potential = md.Orthorhombic([8.0, 8.0, 8.0]), md.LennardJones(cutoff=cutoff, truncation=truncation)
    plan = md.plan_neighbours(potential, space, x, method=method)
    found = jax.jit(lambda x: md.gradients(potential, space, x, plan.build(space, x), plan))(x)
    np.testing.assert_allclose(found.energy, expected, rtol=tolerance)
    if virial is not None:
        np.testing.assert_allclose(-jnp.trace(found.virial), virial, atol=6e-4)  # half of the last printed digit


def mixture(**options):
    return md.LennardJones([1.0, 1.08], [1.0, 0.7], **{"cutoff": 2.5, **options})


POTENTIALS = {
    "lj/cut": mixture(),
    "lj/cut geometric": mixture(mixing="geometric"),
    "lj/cut sixthpower": mixture(mixing="sixth-power"),
    "lj/cut shift": mixture(truncation=md.Shifted()),
    "lj/cut tail": mixture(truncation=md.Truncated(tail=True)),
    "lj/cut beyond half the box": mixture(cutoff=5.2),
    "lj/smooth/linear": md.LennardJones(cutoff=2.5, truncation=md.ForceShifted()),
    "wca": md.WeeksChandlerAndersen(),
    "morse": md.Morse([[0.3, 0.5], [0.5, 0.2]], [[5.0, 4.5], [4.5, 4.0]], [[1.0, 1.1], [1.1, 1.2]]),
    "buck": md.Buckingham([[1000.0, 800.0], [800.0, 900.0]], [[0.15, 0.16], [0.16, 0.17]], [[1.0, 1.5], [1.5, 0.0]]),
    "yukawa": md.Yukawa([[1.0, -0.5], [-0.5, 2.0]], 1.3, cutoff=2.5),
    "gauss": md.GaussianCore([[1.0, 0.5], [0.5, 0.3]], 1.0, cutoff=2.5),
    "coul/cut": md.CoulombCut(cutoff=3.0),
    "coul/dsf": md.CoulombDSF(damping=0.4, cutoff=3.0),
}
# LAMMPS takes erfc from a polynomial with an error of 1.5e-7 in coul/dsf.
TOLERANCE = {"coul/dsf": 2e-6}


@functools.cache
def neighbours_of(cutoff):
    """Plans depend on potentials by their cutoffs alone."""
    space, x = md.Triclinic(LAMMPS["cell"]), jnp.asarray(LAMMPS["position"])
    plan = md.plan_neighbours(md.LennardJones(cutoff=cutoff), space, x)
    return plan, jax.jit(plan.build)(space, x)


@pytest.mark.parametrize("style", LAMMPS["styles"])
def test_lammps(style):
    """Energy, forces and all six pressures, in a skewed cell, with species, mixing and charges."""
    space, x = md.Triclinic(LAMMPS["cell"]), jnp.asarray(LAMMPS["position"])
    species, charge = jnp.asarray(LAMMPS["species"], jnp.int32), jnp.asarray(LAMMPS["charge"])
    potential, expected = POTENTIALS[style], LAMMPS["styles"][style]
    plan, neighbours = neighbours_of(potential.cutoff)
    found = jax.jit(lambda x: md.gradients(potential, space, x, neighbours, plan, species=species, charge=charge))(x)
    tolerance = TOLERANCE.get(style, 1e-10)
    np.testing.assert_allclose(found.energy, expected["energy"], rtol=tolerance)
    scale = np.sqrt(np.mean(np.square(expected["forces"])))
    np.testing.assert_allclose(found.forces[::27], expected["forces"], rtol=tolerance, atol=tolerance * scale)
    np.testing.assert_allclose(jnp.linalg.norm(found.forces), expected["force_norm"], rtol=tolerance)
    pressure = -np.asarray(found.virial) / float(space.volume())
    six = [pressure[0, 0], pressure[1, 1], pressure[2, 2], pressure[0, 1], pressure[0, 2], pressure[1, 2]]
    largest = np.abs(expected["pressure"]).max()
    np.testing.assert_allclose(six, expected["pressure"], rtol=tolerance, atol=tolerance * largest)
