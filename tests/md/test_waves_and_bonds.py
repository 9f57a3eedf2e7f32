"""Dispersion after Ewald, slabs, charges on sites, and bond orders: closed forms, derivatives, single precision, refusals."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import md

SIDE = 7.0
CELL = md.Orthorhombic([SIDE, SIDE, SIDE])
SLAB = md.Orthorhombic([SIDE, SIDE, 3 * SIDE])
GRID = np.stack(np.meshgrid(*[np.arange(3)] * 3, indexing="ij"), -1).reshape(-1, 3)[:24]
PLACES = jnp.asarray(GRID * SIDE / 3 + 0.4 * np.random.default_rng(3).uniform(-1, 1, (24, 3)))
KINDS = jnp.asarray(np.arange(24) % 2, jnp.int32)
CHARGES = jnp.asarray(np.where(np.arange(24) % 3 == 0, -2.0, 1.0))
TABLE = [[4.0, 2.5], [2.5, 1.0]]
VASHISHTA = (23.7, 7.0, 1.2, -1.2, 5.0, 2.4, 3.0, 60.0, 5.0, 9.0, 1.0, 3.0, 5.0, -1 / 3)

CASES = {
    "dispersion": (CELL, lambda: md.dispersion_sum(CELL, 3.4, TABLE, tolerance=1e-8, excluded=[[0, 1]])),
    "modified tersoff": (CELL, lambda: md.ModifiedTersoff(c0=-0.02, shift=-0.01)),
    "zbl": (CELL, lambda: md.TersoffZBL(md.Tersoff(shift=0.01), 14.0, 14.0, 2.2, 8.0)),
    "vashishta": (CELL, lambda: md.Vashishta(*VASHISHTA)),
    "second moment": (CELL, lambda: md.SecondMoment(r0=[2.4, 2.5], inner=3.0, outer=3.6)),
    "slab": (SLAB, lambda: md.SlabCorrection(constant=1.3)),
    "sites": (CELL, lambda: md.ChargesOnSites(md.CoulombDSF(cutoff=3.2), [[0, 1, 2], [3, 4, 5]], 0.13, reach=0.5)),
}


def particles(name, precision=None):
    space, potential = CASES[name]
    excluded = jnp.asarray([[0, 1]], jnp.int32) if name == "dispersion" else None
    return md.Particles(
        potential(), space, species=KINDS, charge=CHARGES, exclusions=excluded, skin=0.1, precision=precision
    )


def at(system, position):
    return system.prepared(md.Atoms(PLACES, jnp.zeros_like(PLACES))).gradients(
        md.Atoms(position, jnp.zeros_like(position))
    )


@pytest.mark.parametrize("name", CASES)
def test_forces_are_differences_of_energies(name):
    """Central differences with a step of 1e-5 err by 1e-10 of the third derivative and of rounding; 1e-6 is asked for."""
    system = particles(name)
    way = jnp.asarray(np.random.default_rng(7).normal(size=PLACES.shape))
    found, step = at(system, PLACES), 1e-5
    ends = [float(at(system, PLACES + sign * step * way).energy) for sign in (1, -1)]
    slope = -float(jnp.vdot(found.forces, way))
    np.testing.assert_allclose((ends[0] - ends[1]) / (2 * step), slope, rtol=1e-6, atol=1e-8)
    assert float(jnp.abs(found.forces).max()) > 1e-3


@pytest.mark.parametrize("name", CASES)
def test_single_precision(name):
    """Sums of a few hundred terms in single precision are good to 1e-5 of the largest."""
    double, single = (particles(name, precision) for precision in ("float64", "float32"))
    a, b = at(double, PLACES), at(single, PLACES.astype(jnp.float32))
    assert b.forces.dtype == jnp.float32
    np.testing.assert_allclose(b.forces, a.forces, atol=1e-4 * float(jnp.abs(a.forces).max()))
    np.testing.assert_allclose(b.energy, a.energy, rtol=1e-4)


@pytest.mark.parametrize("name", ["dispersion", "modified tersoff", "second moment", "sites"])
def test_energies_by_parameters(name):
    system = particles(name)
    plan = system.prepared(md.Atoms(PLACES, jnp.zeros_like(PLACES)))
    floats, rest = eqx.partition(plan.potential, eqx.is_inexact_array)

    def energy(floats):
        whole = dataclasses.replace(plan, potential=eqx.combine(floats, rest))
        return whole.gradients(md.Atoms(PLACES, jnp.zeros_like(PLACES))).energy

    way = jax.tree.map(lambda x: 0.1 * x, floats)
    run = eqx.filter_jit(energy)
    moved = lambda h: jax.tree.map(lambda x, v: x + h * v, floats, way)
    slope = jax.jvp(run, (floats,), (way,))[1]
    np.testing.assert_allclose((run(moved(1e-5)) - run(moved(-1e-5))) / 2e-5, slope, rtol=1e-6)


def test_dispersion_of_a_simple_cubic_lattice():
    """The sum of r^-6 over a simple cubic lattice is 8.40192397 (Lennard-Jones and Ingham, 1925), half of which is an atom's."""
    space = md.Orthorhombic([3.0, 3.0, 3.0])
    places = jnp.asarray(np.stack(np.meshgrid(*[np.arange(3.0)] * 3, indexing="ij"), -1).reshape(-1, 3))
    system = md.Particles(md.dispersion_sum(space, 1.4, 2.0, tolerance=1e-10), space, skin=0.05)
    start = md.Atoms(places, jnp.zeros_like(places))
    found = system.prepared(start).gradients(start)
    np.testing.assert_allclose(found.energy / 27, -8.40192397, rtol=1e-8)
    # u ~ V^-2, so that the trace of the virial is 6 U
    np.testing.assert_allclose(abs(jnp.trace(found.virial)), 6 * 27 * 8.40192397, rtol=1e-7)


def test_dispersion_does_not_depend_on_the_damping():
    energies = []
    for damping in (0.9, 1.3):
        potential = md.dispersion_sum(CELL, 3.45, TABLE, tolerance=1e-9, damping=damping)
        inside = dataclasses.replace(potential.terms[0], cutoff=12.0)
        system = md.Particles(inside + potential.terms[1], CELL, species=KINDS, skin=0.1)
        energies.append(float(at(system, PLACES).energy))
    np.testing.assert_allclose(energies[0], energies[1], rtol=1e-7)


def test_a_slab_of_dipoles():
    """Between vacuum and vacuum two sheets of charge have no field outside: 2 pi M^2 / V is what a uniform field would add."""
    z = jnp.asarray([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]])
    system = md.Particles(md.SlabCorrection(), md.Orthorhombic([2.0, 3.0, 12.0]), charge=jnp.asarray([0.5, -0.5]))
    start = md.Atoms(z, jnp.zeros_like(z))
    found = system.prepared(start).gradients(start)
    np.testing.assert_allclose(found.energy, 2 * np.pi / 72.0, rtol=1e-12)
    np.testing.assert_allclose(found.forces[:, 2], [-4 * np.pi * 0.5 / 72.0, 4 * np.pi * 0.5 / 72.0], rtol=1e-12)


def test_sites_at_their_atoms_are_charges_of_atoms():
    sites = lambda potential, weight: md.ChargesOnSites(potential, [[0, 1, 2]], weight, reach=0.3)
    run = lambda potential: float(at(md.Particles(potential, CELL, charge=CHARGES, skin=0.1), PLACES).energy)
    inside = md.CoulombCut(cutoff=3.0)
    np.testing.assert_allclose(run(sites(inside, 0.0)), run(inside), rtol=1e-12)
    waves = md.ewald_sum(CELL, 3.0, tolerance=1e-6).terms[1]
    np.testing.assert_allclose(run(sites(waves, 0.0)), run(waves), rtol=1e-12)
    moved = PLACES.at[0].add(0.1 * (CELL.displacement(PLACES[1], PLACES[0]) + CELL.displacement(PLACES[2], PLACES[0])))
    found = float(at(md.Particles(waves, CELL, charge=CHARGES), moved).energy)
    np.testing.assert_allclose(run(sites(waves, 0.1)), found, rtol=1e-10)


def test_second_moment_ends_smoothly():
    """Value and two derivatives of the polynomials at both ends, by one dimer on a line."""
    space = md.Orthorhombic([30.0, 30.0, 30.0])
    system = md.Particles(md.SecondMoment(), space)
    pair = lambda r: jnp.asarray([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]) * r
    start = md.Atoms(pair(4.0), jnp.zeros((2, 3)))
    prepared = system.prepared(start)
    force = lambda r: float(prepared.gradients(md.Atoms(pair(r), jnp.zeros((2, 3)))).forces[0, 0])
    potential = md.SecondMoment()
    inner, outer = float(potential.inner), float(potential.outer)
    exact = lambda r: (
        2
        * (
            0.21 * 10.35 / 2.88 * np.exp(-10.35 * (r / 2.88 - 1))
            - 1.818 * 4.178 / 2.88 * np.exp(-4.178 * (r / 2.88 - 1))
        )
    )
    np.testing.assert_allclose(force(inner - 1e-4), -exact(inner - 1e-4), rtol=1e-9)
    np.testing.assert_allclose(force(inner + 1e-4), -exact(inner + 1e-4), rtol=1e-5)
    assert abs(force(outer - 1e-3)) < 1e-4


def test_refusals():
    with pytest.raises(simkit.ArgumentError, match="tolerance"):
        md.dispersion_sum(CELL, 3.0, 1.0, tolerance=0.5)
    with pytest.raises(simkit.ArgumentError, match="three dimensions"):
        md.dispersion_sum(md.Orthorhombic([5.0, 5.0]), 2.0, 1.0)
    with pytest.raises(simkit.ArgumentError, match="potential of charges"):
        md.ChargesOnSites(md.LennardJones(), [[0, 1, 2]])
    table = md.ThreeBodyTable(("Si",), {"A": np.ones((1, 1, 1))}, md.METAL)
    for made, reader in ((md.ModifiedTersoff, "mod"), (md.TersoffZBL, "zbl"), (md.Vashishta, "read_vashishta")):
        with pytest.raises(simkit.ArgumentError, match=reader):
            made.from_table(table)
    with pytest.raises(simkit.ArgumentError, match="species"):
        md.ModifiedTersoff(A=np.ones(2))


def test_files_in_which_powers_are_wrong(tmp_path):
    path = tmp_path / "Si.tersoff.mod"
    path.write_text("Si Si Si 2.0 2.4 -.365 1.0 1.0 1.3 121.0 3.0 0.3 3.2 3281.0 .9 0.2 73.0 100.0 1.0 26.0\n")
    with pytest.raises(simkit.DataError, match="beta as 1 or 3"):
        md.read_tersoff_mod(path, ["Si"])
