"""Bonded terms, exclusions, fields and Ewald sums: derivatives, edges, runs, bad input."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import md

RNG = np.random.default_rng(3)
# A butane-like chain in a small box, and its mirror image half a box away.
CHAIN = np.array([[1.0, 1.0, 1.0], [1.9, 1.4, 1.1], [2.6, 0.8, 1.5], [3.5, 1.3, 1.2]])
X = jnp.asarray(np.concatenate([CHAIN, 6.0 - CHAIN]))
CHARGE = jnp.array([0.4, -0.3, 0.2, -0.3, -0.2, 0.1, -0.3, 0.4])
SPACE = md.Triclinic([[6.0, 0.0, 0.0], [0.5, 6.0, 0.0], [0.3, -0.4, 6.2]])
BONDS = np.array([[a, a + 1] for start in (0, 4) for a in range(start, start + 3)])
ANGLES = np.array([[a, a + 1, a + 2] for start in (0, 4) for a in range(start, start + 2)])
DIHEDRALS = np.array([[0, 1, 2, 3], [4, 5, 6, 7]])
LJ = md.LennardJones(1.0, 0.3, cutoff=2.4, truncation=md.Switched(1.9))
POTENTIALS = {
    "bonds": md.HarmonicBond(BONDS, 80.0, jnp.linspace(0.9, 1.1, 6)) + md.MorseBond(BONDS, 3.0, 2.0, 1.0),
    "fene": md.FENEBond(BONDS),
    "angles": md.HarmonicAngle(ANGLES, [4.0, 5.0], [1.9, 2.1], [0, 1, 0, 1]),
    "dihedrals": md.PeriodicDihedral(DIHEDRALS, 0.7, 3, 0.2)
    + md.OPLSDihedral(DIHEDRALS, [0.5, 0.6, -0.7, 0.8])
    + md.RyckaertBellemans(DIHEDRALS, [0.1, 0.2, 0.3, -0.2, 0.4, 0.1])
    + md.HarmonicImproper(DIHEDRALS, 2.0, 3.0),
    "named pairs": md.ListedPairs(LJ, DIHEDRALS[:, [0, 3]], 0.5),
    "fields": md.HarmonicTrap(2.0, [3.0, 3.0, 3.0])
    + md.ElectricField([0.1, -0.2, 0.3])
    + md.Wall([0.0, 0.0, 0.0], [0.0, 0.0, 2.0], 0.7, 0.9),
    "ewald": md.CoulombScreened(damping=1.1, cutoff=2.9) + md.Ewald(1.0, 1.1, (6, 6, 6), [[0, 1], [1, 2]]),
    "mesh": md.ParticleMeshEwald(1.0, 1.1, (12, 12, 12), 5, [[0, 1], [1, 2]]),
}


SLOW = ("dihedrals", "ewald", "angles")


@pytest.mark.parametrize("name", [pytest.param(k, marks=pytest.mark.slow) if k in SLOW else k for k in POTENTIALS])
def test_derivatives(name):
    """By parameters, cell, positions and charges: reverse, forward and second order, against central differences."""
    potential = POTENTIALS[name]
    plan = md.plan_neighbours(potential, SPACE, X)
    floats, rest = eqx.partition(potential, eqx.is_inexact_array)
    point = floats, SPACE, X, CHARGE

    def energy(point):
        floats, space, x, charge = point
        potential = eqx.combine(floats, rest)
        return md.energy(potential, space, x, plan.build(space, x), plan, charge=charge)

    leaves, tree = jax.tree.flatten(point)
    direction = tree.unflatten([jnp.asarray(RNG.normal(size=x.shape)) for x in leaves])
    moved = lambda h: jax.tree.map(lambda x, d: x + h * d, point, direction)
    dot = lambda a, b: sum(jnp.vdot(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))
    slope = jax.jit(lambda h: dot(jax.grad(energy)(moved(h)), direction))
    value = jax.jit(lambda h: energy(moved(h)))
    h = 1e-3
    differences = lambda f: (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h)
    np.testing.assert_allclose(slope(0.0), differences(value), rtol=1e-6, atol=1e-6)  # of energies of some 10
    forward, second = jax.jit(
        lambda h: jax.jvp(lambda h: jax.jvp(lambda h: energy(moved(h)), (h,), (1.0,))[1], (h,), (1.0,))
    )(0.0)
    np.testing.assert_allclose(forward, slope(0.0), rtol=1e-10)
    np.testing.assert_allclose(second, differences(slope), rtol=1e-6, atol=1e-6)


def test_straight_angles_and_flat_dihedrals_have_forces():
    """Atoms in a line, at an angle of 180 degrees at rest: no force, and never NaN."""
    line = jnp.asarray([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [2.0, 0.0, 0.0], [3.0, 0.0, 0.0]])
    view = lambda x: md.AtomView(md.OpenSpace(), x, None, None)
    for part in (md.HarmonicAngle([[0, 1, 2]], 3.0, np.pi), md.OPLSDihedral([[0, 1, 2, 3]], jnp.ones(4))):
        force = jax.grad(lambda x, part=part: part.energy(view(x)))(line)
        np.testing.assert_array_equal(force, jnp.zeros((4, 3)))


def test_excluded_pairs():
    found = md.excluded_pairs([[0, 1], [1, 2], [2, 3], [3, 4]], apart=2)
    assert found.tolist() == [[0, 1], [0, 2], [1, 2], [1, 3], [2, 3], [2, 4], [3, 4]]
    assert md.excluded_pairs([[0, 1], [1, 2], [2, 0]], apart=3).tolist() == [[0, 1], [0, 2], [1, 2]]


def system(**options):
    bonded = POTENTIALS["bonds"] + POTENTIALS["angles"] + POTENTIALS["dihedrals"]
    exclusions = md.excluded_pairs(BONDS, apart=3)
    return md.Particles(LJ + bonded + POTENTIALS["named pairs"], SPACE, exclusions=exclusions, **options)


@pytest.mark.slow
def test_a_run_of_molecules_keeps_its_energy():
    momentum = jnp.asarray(0.3 * RNG.normal(size=X.shape))
    molecules = system().prepared(md.Atoms(X, momentum))
    run = simkit.simulate(molecules, md.Atoms(X, momentum), jnp.linspace(0.0, 2.0, 5), step=0.002)
    energy = jax.jit(jax.vmap(lambda y: molecules.invariants(0.0, y)["energy"]))(run.ys)
    # Velocity Verlet errs by (h w)^2 / 24 of the energy of a bond, whose frequency w is some 14.
    np.testing.assert_allclose(energy, energy[0], atol=2e-3)
    assert np.ptp(np.asarray(energy)) > 0


def test_no_exclusions_means_other_energies():
    atoms = md.Atoms(X, jnp.zeros_like(X))
    free = eqx.tree_at(lambda s: s.exclusions, system(), None).prepared(atoms)
    close = float(free.energy(atoms) - system().prepared(atoms).energy(atoms))
    r = np.array([np.linalg.norm(X[a] - X[b]) for a, b in md.excluded_pairs(BONDS, apart=3).tolist()])
    u, _ = LJ.truncation.apply(jnp.asarray(r**2), *LJ.pair(jnp.asarray(r**2), LJ.coefficients()), None, LJ.cutoff)
    np.testing.assert_allclose(close, np.where(r < LJ.cutoff, u, 0).sum(), rtol=1e-12)


def test_fields_leave_all_degrees_of_freedom():
    trapped = md.Particles(LJ + POTENTIALS["fields"], md.OpenSpace(), charge=CHARGE)
    atoms = md.Atoms(X, jnp.ones_like(X))
    trapped = trapped.prepared(atoms)
    found = jax.jit(lambda y: (trapped.outputs(0.0, y, None), trapped.invariants(0.0, y)))(atoms)
    np.testing.assert_allclose(found[0]["temperature"], 1.0, rtol=1e-14)  # m v^2 of every freedom
    assert list(found[1]) == ["energy"]


def test_bad_input():
    bad = [
        (lambda: md.HarmonicBond([[0, 1, 2]], 1.0, 1.0), r"`atoms` must have shape \(terms, 2\)"),
        (lambda: md.HarmonicBond([[0, 1], [2, 2]], 1.0, 1.0), r"term 1 is \[2, 2\]"),
        (lambda: md.HarmonicBond([[0.0, 1.0]], 1.0, 1.0), "whole numbers"),
        (lambda: md.ewald_sum(md.OpenSpace(), 2.0), "periodic cell"),
        (lambda: md.ewald_sum(SPACE, 2.0, tolerance=2.0), "between 0 and 0.1"),
        (lambda: md.ParticleMeshEwald(mesh=(4, 8, 8), order=5), "at most the points of the mesh"),
        (lambda: md.plan_neighbours(LJ, SPACE, X, exclusions=[[0, 9]]), r"row 0 is \[0, 9\]"),
        (lambda: md.plan_neighbours(md.LennardJones(cutoff=3.5), SPACE, X, exclusions=BONDS), "wider than two cutoffs"),
        (
            lambda: md.Particles(POTENTIALS["ewald"], SPACE, charge=CHARGE + 0.1).prepared(md.Atoms(X, X)),
            "adds up to 0.8",
        ),
    ]
    for make, message in bad:
        with pytest.raises(simkit.ArgumentError, match=message):
            make()
    outside = md.HarmonicBond([[0, 12]], 1.0, 1.0)
    assert np.isnan(outside.energy(md.AtomView(SPACE, X, None, None)))


class Power(eqx.Module):
    """k r^2, of a number k."""

    k: jax.Array

    def __call__(self, r):
        return self.k * r**2


def test_a_function_of_pairs_may_hold_a_number():
    x = jnp.array([[0.0, 0.0, 0.0], [1.0, 2.0, 2.0]])
    space = md.OpenSpace()

    def energy(k):
        potential = md.PairFunction(Power(k), cutoff=5.0)
        return md.energy(potential, space, x, plan.build(space, x), plan)

    plan = md.plan_neighbours(md.PairFunction(Power(jnp.asarray(1.0)), cutoff=5.0), space, x)
    value, slope = jax.jit(jax.value_and_grad(energy))(jnp.asarray(3.0))
    np.testing.assert_allclose((value, slope), (27.0, 9.0), rtol=1e-14)
