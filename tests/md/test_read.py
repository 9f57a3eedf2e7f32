"""Molecules from files of AMBER, GROMACS, PDB with force fields, and serialised systems."""

import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
import openmm
import pytest
from openmm import app
from openmm_reference import reference

import simkit
from simkit import md

DATA = pathlib.Path(__file__).parents[2] / "data" / "md"

WATER = """\
CRYST1   20.000   20.000   20.000  90.00  90.00  90.00 P 1           1
HETATM    1  O   HOH A   1       1.000   1.000   1.000  1.00  0.00           O
HETATM    2  H1  HOH A   1       1.957   1.000   1.000  1.00  0.00           H
HETATM    3  H2  HOH A   1       0.760   1.927   1.000  1.00  0.00           H
HETATM    4  O   HOH A   2       3.900   1.300   1.200  1.00  0.00           O
HETATM    5  H1  HOH A   2       4.857   1.300   1.200  1.00  0.00           H
HETATM    6  H2  HOH A   2       3.660   2.227   1.200  1.00  0.00           H
HETATM    7 NA    NA A   3       6.000   5.000   4.000  1.00  0.00          NA
HETATM    8 CL    CL A   4       9.000   5.500   4.500  1.00  0.00          CL
END
"""

BUTANE = """\
[ defaults ]
1 3 yes 0.5 0.5
[ atomtypes ]
CH3 15.035 0.0 A 0.3905 0.73220
CH2 14.027 0.0 A 0.3905 0.49371
[ moleculetype ]
butane 3
[ atoms ]
1 CH3 1 BUT C1 1 0.1 15.035
2 CH2 1 BUT C2 2 -0.1 14.027
3 CH2 1 BUT C3 3 -0.1 14.027
4 CH3 1 BUT C4 4 0.1 15.035
[ bonds ]
1 2 1 0.1526 217568.0
2 3 1 0.1526 217568.0
3 4 1 0.1526 217568.0
[ angles ]
1 2 3 1 112.4 527.184
2 3 4 1 112.4 527.184
[ dihedrals ]
1 2 3 4 3 8.4 16.8 1.1 -26.3 0.2 0.1
[ pairs ]
1 4 1
[ system ]
butane
[ molecules ]
butane 1
"""
PLACES = [[0.1, 0.1, 0.1], [0.25, 0.1, 0.12], [0.32, 0.23, 0.1], [0.47, 0.24, 0.16]]


def gro() -> str:
    rows = [f"    1BUT  {f'C{k + 1}':>5}{k + 1:5d}" + "".join(f"{x:8.3f}" for x in row) for k, row in enumerate(PLACES)]
    return "\n".join(["butane", "    4", *rows, "   3.00000   3.00000   3.00000", ""])


def ours(model: md.MolecularModel) -> float:
    return float(model.system.prepared(model.start).energy(model.start))


def test_amber_in_vacuum_runs_at_two_femtoseconds():
    files = DATA / "alanine_dipeptide.prmtop", DATA / "alanine_dipeptide.inpcrd"
    topology, coordinates = app.AmberPrmtopFile(str(files[0])), app.AmberInpcrdFile(str(files[1]))
    free = md.read(files[0], coordinates=files[1])
    assert ours(free) == pytest.approx(reference(topology.createSystem(), coordinates.positions)[0], rel=1e-8)
    assert free.atom_names[:2] == ("H1", "CH3")
    assert free.residues[0] == "ACE1"
    heavy = md.read(
        files[0],
        coordinates=files[1],
        constraints="hydrogens",
        hydrogen_mass=3.0,
        dynamics=md.Langevin(300.0, 5.0),
    )
    assert float(heavy.system.mass[0]) == pytest.approx(3.0)
    assert float(heavy.system.mass.sum()) == pytest.approx(float(free.system.mass.sum()))
    assert len(heavy.system.constraints.lengths) == 12
    system = heavy.system.prepared(heavy.start)
    run = simkit.simulate(system, heavy.start, jnp.array([0.0, 0.2]), step=0.002, key=jax.random.key(1))
    last = jax.tree.map(lambda x: x[-1], run.ys)
    bond = float(jnp.linalg.norm(last.position[0] - last.position[1]))
    assert bond == pytest.approx(float(jnp.linalg.norm(heavy.start.position[0] - heavy.start.position[1])), rel=1e-9)
    assert 50 < float(system.outputs(0.0, last, None)["temperature"]) < 900


def test_a_structure_with_a_force_field(tmp_path):
    (tmp_path / "salt.pdb").write_text(WATER)
    model = md.read(tmp_path / "salt.pdb", "amber14/tip3p.xml", cutoff=0.8)
    pdb = app.PDBFile(str(tmp_path / "salt.pdb"))
    made = app.ForceField("amber14/tip3p.xml").createSystem(pdb.topology, nonbondedMethod=app.PME, nonbondedCutoff=0.8)
    (tail,) = [part.truncation.with_tail for part in model.system.potential.terms if isinstance(part, md.LennardJones)]
    assert tail  # which counts pairs of a species as N^2: a thousandth of it apart here
    assert ours(model) == pytest.approx(reference(made, np.asarray(model.start.position))[0], rel=1e-5)
    assert isinstance(model.system.constraints, md.RigidWater)
    assert model.residues[6] == "NA3"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # OpenMM leaves a file open
def test_gromacs(tmp_path):
    (tmp_path / "butane.top").write_text(BUTANE)
    (tmp_path / "butane.gro").write_text(gro())
    model = md.read(tmp_path / "butane.top", coordinates=tmp_path / "butane.gro", method="NoCutoff")
    top = app.GromacsTopFile(str(tmp_path / "butane.top"))
    assert ours(model) == pytest.approx(reference(top.createSystem(), np.asarray(PLACES))[0], rel=1e-8)
    assert "dihedrals_rb" in model.names


def test_a_serialised_system(tmp_path):
    system = openmm.System()
    system.addParticle(1.0)
    system.addParticle(2.0)
    force = openmm.HarmonicBondForce()
    force.addBond(0, 1, 0.1, 500.0)
    system.addForce(force)
    (tmp_path / "pair.xml").write_text(openmm.XmlSerializer.serialize(system))
    pdb = "".join(WATER.splitlines(keepends=True)[1:3]) + "END\n"
    (tmp_path / "pair.pdb").write_text(pdb)
    model = md.read(tmp_path / "pair.xml", coordinates=tmp_path / "pair.pdb")
    assert ours(model) == pytest.approx(0.5 * 500.0 * (0.0957 - 0.1) ** 2, rel=1e-12)


def test_bad_files_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "salt.pdb"
    path.write_text(WATER.replace("HOH", "XYZ"))
    cases = [
        ((tmp_path / "none.pdb", "amber14/tip3p.xml"), {}, "there is no"),
        ((path,), {}, "must name XML files"),
        ((path, "amber14/tip3p.xml"), {}, "No template found for residue"),
        ((path, "nothing.xml"), {}, "nothing.xml"),
        ((DATA / "alanine_dipeptide.prmtop",), {}, "holds no positions"),
        ((DATA / "alanine_dipeptide.prmtop",), {"coordinates": DATA / "alanine_dipeptide.prmtop"}, "must end in"),
        ((pathlib.Path(__file__),), {}, "no ending of"),
    ]
    for given, options, message in cases:
        with pytest.raises((simkit.ArgumentError, simkit.UnknownNameError), match=message):
            md.read(*given, **options)
    monkeypatch.setitem(sys.modules, "openmm", None)
    with pytest.raises(simkit.MissingPackageError, match=r"simkit\[md\]"):
        md.read(path, "amber14/tip3p.xml")


PSF = """\
PSF

       1 !NTITLE
 REMARKS two argon atoms

       2 !NATOM
       1 A    1    AR   AR   AR     0.000000       39.9480           0
       2 A    2    AR   AR   AR     0.000000       39.9480           0

       0 !NBOND: bonds

       0 !NTHETA: angles

       0 !NPHI: dihedrals

       0 !NIMPHI: impropers

       0 !NDON: donors

       0 !NACC: acceptors

       0 !NNB

       0       0

       1       0 !NGRP NST2
       0       0       0

"""
PARAMETERS = """\
* argon
*

ATOMS
MASS  1 AR 39.94800 AR

NONBONDED nbxmod 5 atom cdiel shift vatom vdistance vswitch -
cutnb 14.0 ctofnb 12.0 ctonnb 10.0 eps 1.0 e14fac 1.0 wmin 1.5
AR 0.0 -0.238 1.908

END
"""
CARD = """\
* two argon atoms
*
    2
    1    1 AR   AR     1.00000   1.00000   1.00000 A    1      0.00000
    2    2 AR   AR     1.00000   1.00000  11.00000 A    2      0.00000
"""
TRICLINIC = """\
CRYST1   14.000   14.000   14.000  90.00  90.00  70.00 P 1           1
HETATM    1 AR    AR A   1       1.000   1.000   1.000  1.00  0.00          AR
HETATM    2 AR    AR A   2       8.500  10.000   1.000  1.00  0.00          AR
END
"""


@pytest.fixture
def charmm(tmp_path):
    (tmp_path / "argon.psf").write_text(PSF)
    (tmp_path / "argon.prm").write_text(PARAMETERS)
    (tmp_path / "argon.crd").write_text(CARD)
    (tmp_path / "argon.pdb").write_text(TRICLINIC)
    return tmp_path


def test_coordinates_of_charmm(charmm):
    """Its cards have the ending of AMBER's coordinates, and no cell."""
    model = md.read(charmm / "argon.psf", charmm / "argon.prm", coordinates=charmm / "argon.crd")
    assert not model.system.space.periodic
    sigma = 2 * 1.908 / 2 ** (1 / 6)
    exact = 4 * 0.238 * 4.184 * ((sigma / 10) ** 12 - (sigma / 10) ** 6)
    assert ours(model) == pytest.approx(exact, rel=1e-6)


def test_charmm_in_a_cell_that_is_not_orthogonal(charmm):
    model = md.read(charmm / "argon.psf", charmm / "argon.prm", coordinates=charmm / "argon.pdb", cutoff=0.5)
    angle = np.radians(70.0)
    oblique = 1.4 * np.array([np.cos(angle), np.sin(angle), 0.0])
    np.testing.assert_allclose(np.asarray(model.system.space.vectors())[1], oblique, atol=1e-7)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_cell_of_gromacs_that_is_none_or_not_reduced(tmp_path):
    """Zeros are no cell; vectors may be longer than OpenMM takes them, by whole vectors."""
    (tmp_path / "butane.top").write_text(BUTANE)
    for cell, periodic in (("0.0 0.0 0.0", False), ("3.0 3.0 3.0 0.0 0.0 2.0 0.0 -2.0 1.0", True)):
        (tmp_path / "butane.gro").write_text("\n".join([*gro().splitlines()[:-1], cell]) + "\n")
        model = md.read(tmp_path / "butane.top", coordinates=tmp_path / "butane.gro", cutoff=1.0)
        assert model.system.space.periodic is periodic
        if periodic:
            vectors = np.asarray(model.system.space.vectors())
            np.testing.assert_allclose(vectors, [[3.0, 0.0, 0.0], [-1.0, 3.0, 0.0], [1.0, 1.0, 3.0]], atol=1e-9)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_cell_without_a_volume(tmp_path):
    (tmp_path / "butane.top").write_text(BUTANE)
    flat = "\n".join([*gro().splitlines()[:-1], "3.0 3.0 0.0"]) + "\n"
    (tmp_path / "butane.gro").write_text(flat)
    with pytest.raises(simkit.ArgumentError, match="a cell with a volume"):
        md.read(tmp_path / "butane.top", coordinates=tmp_path / "butane.gro", cutoff=1.0)


def test_places_that_are_none(charmm):
    (charmm / "argon.crd").write_text(CARD.replace("1.00000", "    nan", 1))
    with pytest.raises(simkit.ArgumentError, match="must be finite"):
        md.read(charmm / "argon.psf", charmm / "argon.prm", coordinates=charmm / "argon.crd")
