"""Spectral neighbour analysis potentials against LAMMPS, which computed energies, forces and pressures of the same files."""

import json
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import DataError, md

KNOWN = json.loads((Path(__file__).parents[2] / "data" / "md" / "lammps_snap.json").read_text())
BAR = 1602176.634  # of an electron volt in a cubic angstrom, by today's constants
TA = "# UNITS: metal\n1 6\nTa 0.5 1\n-2.9\n-0.011\n-0.008\n-0.049\n-0.15\n0.092 # the last\n"
SETTINGS = "rcutfac 4.6\ntwojmax 2\nbzeroflag 0\n"


def files(folder, coefficients, parameters):
    (folder / "a.snapcoeff").write_text(coefficients)
    (folder / "a.snapparam").write_text(parameters)
    return folder / "a.snapcoeff", folder / "a.snapparam"


def table_of(name, folder):
    case = KNOWN["cases"][name]
    return md.read_snap(*files(folder, case["coefficients"], case["parameters"]), case["elements"])


def system(potential):
    space = md.Triclinic(jnp.asarray(KNOWN["vectors"]))
    species = jnp.asarray(KNOWN["species"], jnp.int32)
    position = jnp.asarray(KNOWN["position"])
    start = md.Atoms(position, jnp.zeros_like(position))
    return md.Particles(potential, space, species=species, units=md.METAL).prepared(start), start


@pytest.mark.parametrize("name", KNOWN["cases"])
def test_values_of_lammps(name, tmp_path):
    case = KNOWN["cases"][name]
    particles, start = system(md.SNAP.from_table(table_of(name, tmp_path)))
    found = particles.gradients(start)
    assert float(found.energy) == pytest.approx(case["energy"], rel=1e-13)
    np.testing.assert_allclose(found.forces, case["forces"], atol=1e-13 * np.abs(case["forces"]).max())
    virial = np.asarray(found.virial) / np.linalg.det(np.array(KNOWN["vectors"])) * BAR
    pressure = [-virial[i, j] for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))]
    # LAMMPS' constant of pressures has eight digits.
    np.testing.assert_allclose(pressure, case["pressure"], atol=1e-7 * np.abs(case["pressure"]).max())


def test_forces_are_those_of_the_energy_where_coefficients_lack_the_symmetry_of_components(tmp_path):
    """LAMMPS' energy is met, and its differences, which its own forces contradict."""
    case = KNOWN["without symmetry"]
    table = md.read_snap(*files(tmp_path, case["coefficients"], case["parameters"]), case["elements"])
    particles, start = system(md.SNAP.from_table(table))
    found = particles.gradients(start)
    assert float(found.energy) == pytest.approx(case["energy"], rel=1e-13)
    # Differences of fourth order with a step of 1e-3 angstrom.
    np.testing.assert_allclose(found.forces[:2], case["differences"], atol=1e-10)


def test_single_precision_and_forces_linear_in_the_coefficients(tmp_path):
    potential = md.SNAP.from_table(table_of("linear", tmp_path))
    particles, start = system(potential)
    forces = lambda p: eqx.tree_at(lambda s: s.potential, particles, p).gradients(start).forces
    direction = jax.tree.map(jnp.zeros_like, potential)
    direction = eqx.tree_at(lambda p: p.linear, direction, potential.linear)
    whole, change = jax.jvp(forces, (potential,), (direction,))
    np.testing.assert_allclose(change, whole, rtol=1e-9, atol=1e-12)  # a constant energy has no force
    single, begin = simkit.cast((particles, start), "float32")
    low = single.gradients(begin).forces
    assert low.dtype == jnp.float32
    np.testing.assert_allclose(low, whole, atol=1e-5 * np.abs(whole).max())


def test_other_units_and_the_files_of_mliap(tmp_path):
    case = KNOWN["cases"]["linear"]
    table = table_of("linear", tmp_path)
    scaled, start = system(md.SNAP.from_table(table, energy=2.0))
    assert float(scaled.energy(start)) == pytest.approx(2 * case["energy"], rel=1e-12)
    lines = case["coefficients"].splitlines()
    head = [line for line in lines if line.startswith(("Xa", "Yb"))]
    (tmp_path / "model").write_text("\n".join(line for line in lines if line not in head))
    extra = "nelems 2\nelems Xa Yb\nradelems 0.9 0.7\nwelems 1.0 0.8\n"
    flags = ("quadraticflag",)
    kept = [line for line in case["parameters"].splitlines() if not line.startswith(flags)]
    (tmp_path / "descriptor").write_text("\n".join(kept) + "\n" + extra)
    other = md.read_mliap(tmp_path / "model", tmp_path / "descriptor", ["Xa", "Yb"])
    for name in ("radius", "weight", "constant", "linear"):
        np.testing.assert_array_equal(getattr(other, name), getattr(table, name))
    assert "linear, twojmax 3" in repr(other)


WRONG = {
    "a setting that is not known": (TA, SETTINGS + "rmin1 0\n", "setting that is known"),
    "no cutoff": (TA, "twojmax 2\n", "must give `rcutfac`"),
    "too many momenta": (TA, SETTINGS.replace("2\n", "40\n"), "whole number up to"),
    "another number of coefficients": (TA, SETTINGS.replace("twojmax 2", "twojmax 3"), "coefficients an element"),
    "a cut file": (TA[:-20], SETTINGS, "ends before"),
    "a longer file": (TA + "0.1\n", SETTINGS, "must be the end"),
    "a word": (TA.replace("-0.15", "x"), SETTINGS, "as a number"),
    "other units": (
        TA.replace("metal", "real"),
        SETTINGS,
        "Line 1 of .*`a.snapcoeff` must name metal units.* real units",
    ),
    "settings in other units": (TA, "# UNITS: lj\n" + SETTINGS, "Line 1 of .*`a.snapparam` must name metal units"),
    "a flag of two": (
        TA,
        SETTINGS.replace("bzeroflag 0", "bzeroflag 2"),
        "Line 3 of .*`bzeroflag` as 0 or 1, but it is 2",
    ),
    "no radius": (TA.replace("Ta 0.5", "Ta 0"), SETTINGS, "Line 3 of .*`a.snapcoeff` .*radius of `Ta` as a positive"),
    "a negative radius": (TA.replace("Ta 0.5", "Ta -0.5"), SETTINGS, "Line 3 of .*radius of `Ta` .*it is -0.5"),
    "a negative cutoff": (
        TA,
        SETTINGS.replace("4.6", "-4.6"),
        "Line 1 of .*`a.snapparam` must hold `rcutfac` as a positive",
    ),
    "a cutoff that begins at its end": (TA, SETTINGS + "rmin0 4.6\n", "Line 4 of .*`rmin0` below .*`rcutfac`.* 4.6"),
    "no inner switch": (TA, SETTINGS + "switchinnerflag 1\n", "must give `sinner`"),
}


@pytest.mark.parametrize("name", WRONG)
def test_refused_files(name, tmp_path):
    *texts, match = WRONG[name]
    with pytest.raises(DataError, match=match):
        md.read_snap(*files(tmp_path, *texts), ["Ta"])


def test_refused_elements_and_tables(tmp_path):
    paths = files(tmp_path, TA, SETTINGS)
    with pytest.raises(simkit.ArgumentError, match="must hold elements of `a"):
        md.read_snap(*paths, ["W"])
    with pytest.raises(simkit.ArgumentError, match="list of names"):
        md.read_snap(*paths, "Ta")
    with pytest.raises(simkit.ArgumentError, match="holds `Ta` more than once"):
        md.read_snap(*paths, ["Ta", "Ta"])
    case = KNOWN["cases"]["triples"]
    paths = files(tmp_path, case["coefficients"], case["parameters"])
    with pytest.raises(simkit.ArgumentError, match="each element"):
        md.read_snap(*paths, ["Xa"])
    with pytest.raises(simkit.ArgumentError, match="SnapTable"):
        md.SNAP.from_table(3)


def test_a_mark_of_byte_order_is_skipped(tmp_path):
    plain = md.read_snap(*files(tmp_path, TA, SETTINGS), ["Ta"])
    marked = md.read_snap(*files(tmp_path, "\ufeff" + TA.split("\n", 1)[1], "\ufeff" + SETTINGS), ["Ta"])
    np.testing.assert_array_equal(marked.linear, plain.linear)
    assert (marked.factor, marked.twice) == (plain.factor, plain.twice)


def test_a_radius_of_mliap_that_is_not_positive(tmp_path):
    (tmp_path / "model").write_text("1 6\n" + "0.1\n" * 6)
    (tmp_path / "descriptor").write_text("rcutfac 4.6\ntwojmax 2\nelems Ta\nradelems -0.5\nwelems 1\n")
    with pytest.raises(DataError, match=r"Line 4 of .*`descriptor` must hold the radius of `Ta`"):
        md.read_mliap(tmp_path / "model", tmp_path / "descriptor", ["Ta"])


def test_on_some_species_only():
    """Atoms that take no part change nothing: the energy is that of the others alone."""
    silicon = md.StillingerWeber()
    crystal = md.crystal("diamond", 5.431, 1)
    position = crystal.position + 0.1 * jax.random.normal(jax.random.key(0), crystal.position.shape)
    more = jnp.concatenate([position, position[:3] + 1.0])
    species = jnp.array([0] * len(position) + [1] * 3, jnp.int32)
    energies = []
    for potential, x, kinds in ((silicon, position, None), (md.OnSpecies(silicon, (0, -1)), more, species)):
        start = md.Atoms(x, jnp.zeros_like(x))
        particles = md.Particles(potential, crystal.space, species=kinds, units=md.METAL)
        energies.append(float(particles.prepared(start).energy(start)))
    assert energies[1] == pytest.approx(energies[0], rel=1e-12)
    apart = md.OnSpecies(silicon, (0, 0), pairs=[[False, True], [True, False]])
    start = md.Atoms(position, jnp.zeros_like(position))
    alone = md.Particles(apart, crystal.space, species=jnp.zeros(len(position), jnp.int32), units=md.METAL)
    assert float(alone.prepared(start).energy(start)) == 0.0
    with pytest.raises(simkit.ArgumentError, match="numbers from -1 to 0"):
        md.OnSpecies(silicon, (0, 1))
