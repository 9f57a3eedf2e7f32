"""Data files and commands of LAMMPS, against LAMMPS itself: energies, forces and stress of 47 styles."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import md
from simkit.md.potentials._potential import parts

KNOWN = json.loads((Path(__file__).parents[2] / "data" / "md" / "lammps_styles.json").read_text())
BARE = "units real\nbond_style zero\nangle_style zero\ndihedral_style zero\nimproper_style zero\n"
# Beside rounding: LAMMPS has Coulomb's constant with eight digits and takes erfc from a polynomial with an error of 1.5e-7, and
# its factor of pressures has eight digits.
CHARGED = {"coul/dsf": 1e-5, "long": 3e-6, "coul/cut": 1e-7}
ENERGY_ALONE = {"angle fourier/simple"}
"""LAMMPS' forces of this style are not the derivative of its energy: -183.3 where differences of the energy give -62.1."""


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    path = tmp_path_factory.mktemp("lammps") / "chain.data"
    path.write_text(KNOWN["data"])
    return path


def tolerance(name):
    return next((found for part, found in CHARGED.items() if part in name), 2e-12)


@pytest.mark.parametrize("name", KNOWN["cases"])
def test_styles_are_those_of_lammps(chain, name):
    case, within = KNOWN["cases"][name], tolerance(name)
    model = md.read_lammps(chain, BARE + "\n".join(case["commands"]))
    system = model.system.prepared(model.start)
    found = system.gradients(model.start)
    np.testing.assert_allclose(found.energy, case["energy"], rtol=within)
    if name in ENERGY_ALONE:
        return
    forces = np.array(case["forces"])
    np.testing.assert_allclose(found.forces, forces, atol=within * np.sqrt(np.mean(forces**2)))
    stress = system.units.outside(-found.virial / system.space.volume(), "pressure")
    six = [stress[i, j] for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))]
    scale = np.abs(case["pressure"]).max()
    np.testing.assert_allclose(six, case["pressure"], atol=max(within, 3e-7) * scale)


def test_what_is_read_is_a_system_to_run_and_to_fit(chain):
    commands = KNOWN["cases"]["pair lj/cut/coul/cut"]["commands"]
    model = md.read_lammps(chain, BARE + "\n".join([*commands, *KNOWN["cases"]["bond harmonic"]["commands"]]))
    assert model.names == ("bonds", "pairs", "pairs_special", "coulomb", "coulomb_special")
    # Velocities are A/fs: the kinetic energy is that of the file, in kcal/mol per g/mol A^2/fs^2 = 2390.057.
    system = model.system.prepared(model.start)
    mass = np.array([12.011, 1.008, 15.999])[np.array(system.species)]
    velocity = np.array([[1e-3 * (i % 5), -2e-3 * (i % 3), 1e-3] for i in range(14)])
    kinetic = 0.5 * np.sum(mass[:, None] * velocity**2) * 2390.0573615
    np.testing.assert_allclose(system.outputs(0.0, model.start, None)["kinetic_energy"], kinetic, rtol=1e-8)
    slope = jax.grad(lambda k: _energy(model, k))(jnp.array([250.0, 300.0]))
    assert np.isfinite(slope).all()
    assert (np.asarray(slope) > 0).all()


def _energy(model, k):
    potential = simkit.core.Setup(model.system, None, None).put({"potential.terms.0.parameters.k": k}).system
    return potential.prepared(model.start).gradients(model.start).energy


@pytest.mark.parametrize(
    ("commands", "match"),
    [
        ("fix 1 all nve", "fix 1 all nve"),
        ("units electron", "unit system"),
        ("bond_style oxdna/fene\nbond_coeff 1 1 1 1", "bond style of LAMMPS"),
        ("pair_style lj/cut 6.0\npair_coeff 1 1 0.1 3.0", "type 2"),
        (
            "pair_style lj/cut 6.0\npair_modify tail yes\npair_coeff * * 0.1 3.0\npair_coeff 1 2 0.1 3.0 5.0",
            "one cutoff",
        ),
        ("pair_style lj/expand 6.0\npair_modify shift yes\npair_coeff * * 0.1 3.0 0.1", "must not shift"),
        ("pair_style gauss 6.0\npair_coeff 1 1 1 1\npair_coeff 2 2 -1 1\npair_coeff 3 3 1 1", "different signs"),
        ("pair_style sw\npair_coeff * * Si.sw Si Si Si", "without bonds"),
        ("pair_style lj/cut 6.0\npair_coeff * * 0.1 3.0 5.0 4.0", "must hold epsilon, sigma"),
        ("pair_style lj/cut\npair_coeff * * 0.1 3.0", "must be followed by rc"),
        ("pair_style lj/cut 6.0\npair_coeff C * 0.1 3.0", "Types must be numbers"),
        ("pair_modify pair lj/cut special lj 0 0 0", "pair_modify pair"),
        ("kspace_modify slab 3.0", "kspace_modify slab"),
        ("boundary p p f\nkspace_modify slab nozforce", "with a number above 1"),
        ("pair_style hybrid lj/cut 6.0 reaxff NULL", "hybrid style"),
        ("pair_style hybrid lj/cut 6.0 yukawa 1.0 6.0\npair_coeff 1 1 morse 1 1 1", "must name one of the styles"),
        ("pair_style hybrid lj/cut 6.0 yukawa 1.0 6.0\npair_coeff 1 * lj/cut 0.1 3.0", "give a style to types 2 and 2"),
        (
            "pair_style hybrid lj/cut 6.0 coul/dsf 0.2 6.0\npair_coeff * * lj/cut 0.1 3.0\npair_coeff 1 1 coul/dsf",
            "dsf must",
        ),
        ("special_bonds lj/coul 1 1 1\npair_style sw twobody off\npair_coeff * * Si.sw Si Si Si", "settings"),
        ("special_bonds lj/coul 1 1 1\npair_style tersoff\npair_coeff * * Si.tersoff Si", "3 types"),
        ("special_bonds lj/coul 1 1 1\npair_style eam\npair_coeff 1 1 Cu.eam", "file to type 2"),
        ("bond_style hybrid harmonic table\nbond_coeff 1 harmonic 1 1", "bond style of LAMMPS"),
        ("bond_style hybrid harmonic morse\nbond_coeff 1 harmonic 1 1", "style to type 2"),
        ("bond_style hybrid harmonic morse\nbond_coeff 1 gromos 1 1", "must name one of the styles"),
        ("angle_style class2\nangle_coeff * 110.0 1.0 1.0 1.0\nangle_coeff * bb 1.0 1.0 1.0", "gives none for n1"),
        ("angle_style harmonic x\nangle_coeff * 1 1", "without settings"),
        ("bond_style lepton\nbond_coeff * 'r^2'", "must end in a formula"),
        ("pair_style buck 6.0\npair_coeff 1 1 1 1 1\npair_coeff 2 2 1 1 1\npair_coeff 3 3 1 1 1", "types 1 and 2"),
        ("pair_style reaxff NULL", "pair style of LAMMPS"),
        ("bond_style harmonic\nbond_coeff 1 250.0 1.5", "type 2"),
        ("bond_style harmonic\nbond_coeff * 250.0", "must hold k, r0"),
        ("angle_style cosine\nangle_coeff * x", "must hold numbers"),
        ("special_bonds lj 0 0", "three weights"),
        ("pair_style coul/long 6.0\npair_coeff * *", "kspace_style"),
        ("dihedral_style charmm\ndihedral_coeff * 1.0 2 180 0.5", "weights"),
        ("", "has an energy"),
    ],
)
def test_commands_that_simkit_does_not_read_are_refused(chain, commands, match):
    with pytest.raises((simkit.ArgumentError, simkit.UnknownNameError), match=match):
        md.read_lammps(chain, BARE + commands)


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("14 atoms", "15 atoms", "15 atoms"),
        ("13 bonds", "12 bonds", "12 bonds"),
        ("Atoms # full", "Atoms", "styles"),
        ("Atoms # full", "Atoms # dipole", "dipole"),
        ("3 15.999\n", "", "type 3"),
        ("\n1 1 1 2\n", "\n1 1 1 99\n", "atom 99"),
        ("Atoms # full", "Points", "Atoms"),
    ],
)
def test_files_that_contradict_themselves_are_refused(tmp_path, old, new, match):
    path = tmp_path / "bad.data"
    assert old in KNOWN["data"]
    path.write_text(KNOWN["data"].replace(old, new, 1))
    with pytest.raises(simkit.DataError, match=match):
        md.read_lammps(path, BARE + "pair_style lj/cut 6.0\npair_coeff * * 0.1 3.0")


def test_sections_of_the_style_zero_hold_no_coefficients(tmp_path):
    """As the files of LAMMPS' own tests have them."""
    path = tmp_path / "zero.data"
    path.write_text(KNOWN["data"].replace("\nAtoms # full", "\nBond Coeffs # zero\n\n1 1.5\n2 1.4\n\nAtoms # full"))
    model = md.read_lammps(path, BARE + "bond_style gromos\nbond_coeff * 60.0 1.5")
    np.testing.assert_allclose(model.term("bonds").parameters["r0"], [1.5, 1.5])


def test_many_body_styles_read_their_files(tmp_path):
    """Numbers of a file in metal units become those of the commands; species are the elements of the types."""
    (tmp_path / "Si.sw").write_text("Si Si Si 2.1683 2.0951 1.80 21.0 1.20 -0.333 7.0495 0.60222 4.0 0.0 0.0\n")
    crystal = md.crystal("diamond", 5.431, 1)
    rows = "\n".join(
        f"{i + 1} {i % 2 + 1} {x} {y} {z}" for i, (x, y, z) in enumerate(np.asarray(crystal.position) + 0.1)
    )
    box = "".join(f"0 5.431 {c}lo {c}hi\n" for c in "xyz")
    path = tmp_path / "si.data"
    path.write_text(f"Si\n\n8 atoms\n2 atom types\n{box}\nMasses\n\n1 28\n2 28\n\nAtoms # atomic\n\n{rows}\n")
    table = md.read_stillinger_weber(tmp_path / "Si.sw", ["Si"])
    read = lambda units: md.read_lammps(path, f"units {units}\npair_style sw\npair_coeff * * {tmp_path}/Si.sw Si Si")
    (term,) = parts(read("metal").system.potential)
    np.testing.assert_array_equal(term.epsilon, table["epsilon"][0, 0, 0])
    assert set(np.asarray(read("metal").system.species)) == {0}
    (term,) = parts(read("real").system.potential)
    np.testing.assert_allclose(term.epsilon, 2.1683 * 23.0605478, rtol=1e-8)
