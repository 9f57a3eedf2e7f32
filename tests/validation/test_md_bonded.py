"""Bonded potentials, exclusions and Ewald sums against LAMMPS and against Madelung's constant."""

import functools
import json
import math
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from simkit import md

LAMMPS = json.loads((Path(__file__).parents[2] / "data" / "md" / "lammps_bonded.json").read_text())
BONDS, ANGLES, DIHEDRALS = (np.asarray(LAMMPS[name]) for name in ("bonds", "angles", "dihedrals"))
CHAINS = md.excluded_pairs(BONDS, apart=3)
ENDS = DIHEDRALS[:, [0, 3]]
# LAMMPS takes erfc from a polynomial with an error of 1.5e-7, of the sum of all pairs' energies here.
TOLERANCE = {"ewald": 3e-6}


def kinds(rows):
    return np.arange(len(rows)) % 2


def dihedral(kind, *args, **options):
    return kind(DIHEDRALS, *args, kind=kinds(DIHEDRALS), **options)


@functools.cache
def potentials():
    # LAMMPS prints half of a harmonic constant, and powers of the cosine from 0 to 4, of an angle that is 0 in cis.
    multi = np.array([[1.3, -0.2, 0.3, 0.1, 0.4, 0.0], [0.5, 0.6, -0.7, 0.8, -0.3, 0.0]]) * [1, -1, 1, -1, 1, -1]
    lj, coulomb = md.LennardJones(1.05, 0.8, cutoff=3.0), md.CoulombCut(cutoff=3.0)
    return {
        "bond harmonic": md.HarmonicBond(BONDS, [600.0, 500.0], [1.0, 0.95], kinds(BONDS)),
        "bond morse": md.MorseBond(BONDS, [40.0, 50.0], [3.0, 2.5], [1.0, 0.95], kinds(BONDS)),
        "bond fene": md.FENEBond(BONDS, [30.0, 25.0], [1.5, 1.6], [1.0, 1.1], [1.0, 0.98], kinds(BONDS)),
        "angle harmonic": md.HarmonicAngle(ANGLES, [80.0, 60.0], np.radians([109.5, 120.0]), kinds(ANGLES)),
        "dihedral opls": dihedral(md.OPLSDihedral, [[1.3, -0.2, 0.3, 0.1], [0.5, 0.6, -0.7, 0.8]]),
        "dihedral harmonic": dihedral(md.PeriodicDihedral, [1.5, 0.7], (3, 2), [0.0, math.pi]),
        "dihedral charmm": dihedral(md.PeriodicDihedral, [1.5, 0.7], (3, 2), np.radians([40.0, 180.0])),
        "dihedral multi/harmonic": dihedral(md.RyckaertBellemans, multi),
        "improper harmonic": dihedral(md.HarmonicImproper, [4.0, 6.0]),
        "lj excluded": lj + md.ListedPairs(lj, ENDS, 0.5),
        "coul excluded": coulomb + md.ListedPairs(coulomb, ENDS, 0.5),
        # What is left of pairs that are excluded by half are those at half their strength.
        "ewald": md.CoulombScreened(damping=1.2, cutoff=3.9)
        + md.Ewald(1.0, 1.2, (16, 16, 16), excluded=CHAINS)
        + md.ListedPairs(md.CoulombCut(cutoff=100.0), ENDS, 0.5),
    }


def found_for(potential, method="automatic"):
    space, x = md.Triclinic(LAMMPS["cell"]), jnp.asarray(LAMMPS["position"])
    charge = jnp.asarray(LAMMPS["charge"])
    plan = md.plan_neighbours(potential, space, x, exclusions=CHAINS, method=method)
    return jax.jit(lambda x: md.gradients(potential, space, x, plan.build(space, x), plan, charge=charge))(x), space


@pytest.mark.parametrize("style", LAMMPS["styles"])
def test_lammps(style):
    (found, space), expected = found_for(potentials()[style]), LAMMPS["styles"][style]
    tolerance = TOLERANCE.get(style, 1e-10)
    np.testing.assert_allclose(found.energy, expected["energy"], rtol=tolerance)
    scale = np.sqrt(np.mean(np.square(expected["forces"])))
    np.testing.assert_allclose(found.forces[::9], expected["forces"], rtol=tolerance, atol=tolerance * scale)
    np.testing.assert_allclose(jnp.linalg.norm(found.forces), expected["force_norm"], rtol=tolerance)
    pressure = -np.asarray(found.virial) / float(space.volume())
    six = [pressure[0, 0], pressure[1, 1], pressure[2, 2], pressure[0, 1], pressure[0, 2], pressure[1, 2]]
    largest = np.abs(expected["pressure"]).max()
    np.testing.assert_allclose(six, expected["pressure"], rtol=tolerance, atol=tolerance * largest)


@pytest.mark.slow
def test_exclusions_in_lists_of_clusters():
    """The same as with all pairs."""
    potential = potentials()["lj excluded"]
    (dense, _), (clusters, _) = found_for(potential, "dense"), found_for(potential, "clusters")
    for a, b in zip(dense, clusters, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11 * np.abs(a).max())


def rock_salt(cells):
    corner = np.stack(np.meshgrid(*[np.arange(2 * cells)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    return corner.astype(float), np.where(corner.sum(1) % 2 == 0, 1.0, -1.0)


# Crandall & Buhler, Elementary function expansions for Madelung constants, J. Phys. A 20:5497 (1987); OEIS A085469.
MADELUNG = 1.7475645946331822


@pytest.mark.parametrize(("kind", "tolerance"), [("ewald", 1e-12), ("mesh", 5e-5)])
def test_madelung_constant_of_rock_salt(kind, tolerance):
    x, charge = rock_salt(2)
    space = md.Orthorhombic([4.0, 4.0, 4.0])
    make = functools.partial(md.ewald_sum, tolerance=1e-15) if kind == "ewald" else md.particle_mesh_ewald
    potential = make(space, 1.95)
    plan = md.plan_neighbours(potential, space, jnp.asarray(x))
    energy = jax.jit(lambda x: md.energy(potential, space, x, plan.build(space, x), plan, charge=jnp.asarray(charge)))(
        jnp.asarray(x)
    )
    np.testing.assert_allclose(energy / (len(x) / 2), -MADELUNG, rtol=tolerance)


@pytest.mark.parametrize(("order", "error"), [(4, 4e-3), (5, 4e-4), (7, 2e-5)])
def test_meshes_agree_with_all_waves(order, error):
    """In a skewed cell, forces and virial too. Errors fall at least as the mesh to the power of the order less one."""
    space, x = md.Triclinic(LAMMPS["cell"]), jnp.asarray(LAMMPS["position"])
    charge = jnp.asarray(LAMMPS["charge"])
    view = lambda x, strain: md.AtomView(space.scaled(strain), x @ (jnp.eye(3) + strain).T, None, charge)

    def all_of(part):
        return jax.jit(jax.value_and_grad(lambda x, strain: part.energy(view(x, strain)), (0, 1)))(x, jnp.zeros((3, 3)))

    expected = all_of(md.Ewald(1.0, 1.0, (16, 16, 16)))
    errors = []
    for mesh in (16, 32):
        found = all_of(md.ParticleMeshEwald(1.0, 1.0, (mesh,) * 3, order))
        pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
        errors.append([float(jnp.linalg.norm(a - b) / jnp.linalg.norm(b)) for a, b in pairs])
    coarse, fine = np.array(errors)
    assert fine.max() < error
    assert (coarse > 2.0 ** (order - 1) * fine).all()
