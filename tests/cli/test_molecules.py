"""The command `simkit md`: what it reads, relaxes, runs, refuses, and goes on with."""

import csv
import json
import pathlib
import re
import shutil
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from simkit import ArgumentError, md
from simkit.cli import main
from simkit.cli._molecule_files import Asked
from simkit.cli._molecule_run import Rows, Step
from simkit.io import read_h5md

DATA = pathlib.Path(__file__).parents[2] / "data" / "md"
IN = "units real\npair_style lj/cut 8.0\npair_coeff 1 1 0.238 3.405\n"


def simkit_main(*words):
    return main([str(word) for word in words] + ["--no-cache"])


def data_file(side=18.0, count=27):
    """Argon on a cubic lattice, each third atom a little off it."""
    places = np.stack(np.meshgrid(*[np.arange(3) * side / 3] * 3), axis=-1).reshape(-1, 3)[:count]
    places[::3] += 0.4
    rows = [f"{k + 1} 1 {x:.6f} {y:.6f} {z:.6f}" for k, (x, y, z) in enumerate(places)]
    box = [f"0 {side} {axis}lo {axis}hi" for axis in "xyz"]
    return "\n".join(
        [
            "argon",
            "",
            f"{count} atoms",
            "1 atom types",
            "",
            *box,
            "",
            "Masses",
            "",
            "1 39.948",
            "",
            "Atoms # atomic",
            "",
            *rows,
            "",
        ]
    )


@pytest.fixture(scope="module")
def argon(tmp_path_factory):
    folder = tmp_path_factory.mktemp("argon")
    (folder / "argon.data").write_text(data_file())
    (folder / "in.argon").write_text(IN)
    return folder


ASKED = ("--temperature", 90, "--every", 5)


@pytest.fixture(scope="module")
def finished(argon, tmp_path_factory):
    """The folder of a run of 40 steps; tests must not change it."""
    folder = tmp_path_factory.mktemp("out") / "run"
    assert simkit_main("md", argon / "argon.data", argon / "in.argon", *ASKED, "--steps", 40, "--out", folder) == 0
    return folder


def table(folder):
    with open(folder / "table.csv", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_the_run_starts_at_a_minimum_and_is_written(argon, finished):
    model = md.read_lammps(argon / "argon.data", IN)
    start = read_h5md(finished / "start.h5md")[0]
    relaxed = md.Atoms(jax.numpy.asarray(start.position), model.start.momentum)
    forces = model.system.prepared(relaxed).gradients(relaxed).forces
    assert np.linalg.norm(forces, axis=1).max() <= md.REAL.boltzmann * 90.0  # over an angstrom
    head, *rows = table(finished)
    assert head == ["time fs", "temperature K", "potential kcal mol-1", "kinetic kcal mol-1", "pressure bar"]
    np.testing.assert_allclose([float(row[0]) for row in rows], 5.0 * np.arange(9))
    trajectory = read_h5md(finished / "trajectory.h5md")
    assert len(trajectory) == 9
    np.testing.assert_array_equal(trajectory[0].position, start.position)
    # The energies of the table are those of the frames.
    last = md.Atoms(jax.numpy.asarray(trajectory[-1].position), jax.numpy.asarray(trajectory[-1].momentum))
    found = model.system.prepared(last).outputs(0.0, last, None)
    assert float(rows[-1][2]) == pytest.approx(float(found["potential_energy"]), rel=1e-8)
    assert float(rows[-1][3]) == pytest.approx(float(found["kinetic_energy"]), rel=1e-8)
    assert float(rows[-1][4]) == pytest.approx(float(md.REAL.to_unit(found["pressure"], "pressure", "bar")), rel=1e-6)


def test_more_steps_go_on_to_the_same_bits(argon, finished, tmp_path, capsys):
    folder = pathlib.Path(shutil.copytree(finished, tmp_path / "run"))
    files = argon / "in.argon", argon / "argon.data"  # in any order
    assert simkit_main("md", *files, *ASKED, "--steps", 80, "--out", folder) == 0
    told = capsys.readouterr().out
    assert "goes on with what is kept" in told
    assert "minimise" not in told
    assert simkit_main("md", *files, *ASKED, "--steps", 80, "--out", tmp_path / "whole") == 0
    assert table(folder) == table(tmp_path / "whole")
    assert table(folder)[:10] == table(finished)
    # Another temperature is another run, which is refused, and begun anew where that is allowed.
    other = ("md", *files, "--temperature", 80, "--every", 5, "--steps", 40, "--out", folder)
    before = table(folder)
    capsys.readouterr()
    assert simkit_main(*other) == 2
    told = capsys.readouterr()
    assert "holds a run with another --temperature" in told.err
    assert "--out" in told.err
    assert "--overwrite" in told.err
    assert "store" not in told.err.split("holds")[1]
    assert "goes on" not in told.out
    assert "potential" not in told.out
    assert table(folder) == before  # which a refused call leaves alone
    assert simkit_main("md", *files, "--temperature", 90, "--every", 4, "--steps", 80, "--out", folder) == 2
    assert "another --every" in capsys.readouterr().err
    assert simkit_main(*other, "--overwrite", "--minimise", 0) == 0
    assert len(table(folder)) == 10


def test_a_cell_under_pressure_and_json(argon, tmp_path, capsys):
    words = ("md", argon / "argon.data", argon / "in.argon", "--pressure", 100, "--steps", 64, "--every", 4, "--json")
    assert simkit_main(*words, "--out", tmp_path / "run") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["atoms"] == 27
    assert {row["name"] for row in told["averages"]} >= {"temperature", "pressure", "density"}
    density = [float(row[-1]) for row in table(tmp_path / "run")[1:]]
    assert table(tmp_path / "run")[0][-1] == "density g cm-3"
    assert density[0] == pytest.approx(27 * 39.948 / 6.02214076e23 / 18.0**3 * 1e24, rel=1e-6)
    assert np.ptp(density) > 0


def test_molecules_of_amber_keep_their_bonds(tmp_path, capsys):
    files = DATA / "alanine_dipeptide.inpcrd", DATA / "alanine_dipeptide.prmtop"
    assert simkit_main("md", *files, "--steps", 8, "--every", 4, "--minimise", 30, "--out", tmp_path / "run") == 0
    told = capsys.readouterr().out
    assert "22 atoms in 3 residues" in told
    assert "held     12 distances" in told
    assert "not a minimum yet" in told
    model = md.read(files[1], coordinates=files[0], constraints="hydrogens")
    held = model.system.constraints.bonds()
    for frame in read_h5md(tmp_path / "run" / "trajectory.h5md"):
        arms = np.einsum("mca,mad->mcd", held.sign, frame.position[np.asarray(held.atom)])
        np.testing.assert_allclose(np.linalg.norm(arms, axis=-1), held.length, rtol=1e-6)


def refusals(folder):
    top, placed = DATA / "alanine_dipeptide.prmtop", DATA / "alanine_dipeptide.inpcrd"
    argon = folder / "argon.data", folder / "in.argon"
    return {
        "must give a style": [argon[0]],
        "one data file of LAMMPS": [*argon, argon[1]],
        "There is no file": [argon[0], folder / "in.none"],
        "has no|holds no bonds": [*argon, "--constraints", "bonds"],
        "needs a periodic cell": [top, placed, "--pressure", 1],
        "must give|must be given": [top],
        "one file of coordinates for .*prmtop, but these are a.gro, b.pdb": [top, "a.gro", "b.pdb"],
        "no ending": ["argon.zip"],
        "one topology, but these are .*dipeptide.prmtop and other.prmtop": [top, placed, "other.prmtop"],
        "one topology, but these are .*dipeptide.prmtop and .*dipeptide.prmtop": [top, placed, top],
        "one topology, but these are a.top and a.psf": ["a.top", "a.gro", "a.psf"],
        "dipeptide.inpcrd is there twice": [top, placed, placed],
        "so that other.xml would not be used": [top, placed, "other.xml"],
        "so that other.xml, b.itp would not be used": ["a.top", "a.gro", "other.xml", "b.itp"],
        "but a.pdb and b.pdb are two structures": ["a.pdb", "b.pdb", "amber14-all.xml"],
        r"a topology, `.prmtop`, must stand beside it, such as `simkit md x.prmtop x.inpcrd`": ["x.inpcrd"],
        r"a topology, `.prmtop`, must stand": ["x.rst7"],
        r"a topology, `.top`, must stand beside it, such as `simkit md x.top x.gro`": ["x.gro", "amber14-all.xml"],
        "`--step` must be a positive number, but is -1 fs": [*argon, "--step", -1],
        "`--step` must be a positive number, but is nan fs": [*argon, "--step", "nan"],
        "`--temperature` must be a positive number, but is -5 K": [*argon, "--temperature", -5],
    }


@pytest.mark.parametrize("case", range(len(refusals(pathlib.Path()))))
def test_refused(case, argon, tmp_path, capsys):
    (tmp_path / "argon.zip").write_text("")
    text, words = list(refusals(argon).items())[case]
    words = [tmp_path / word if word == "argon.zip" else word for word in words]
    assert simkit_main("md", *words, "--out", tmp_path / "run") == 2
    assert re.search(text, capsys.readouterr().err)
    assert not (tmp_path / "run" / "table.csv").exists()


def test_files_are_told_apart_in_any_order(tmp_path):
    """A structure may follow its force field, and an .xml that holds a system takes coordinates."""
    field, system, place = tmp_path / "field.xml", tmp_path / "system.xml", tmp_path / "a.pdb"
    field.write_text("<ForceField/>")
    system.write_text('<?xml version="1.0" ?>\n<System openmmVersion="8.2"/>')
    assert Asked.of([field, place]) == Asked(place, None, (str(field),), None)
    assert Asked.of([place, system]) == Asked(system, place, (), None)
    (tmp_path / "charmm").mkdir()
    files = [tmp_path / "charmm", pathlib.Path("a.gro"), pathlib.Path("a.top")]
    assert Asked.of(files) == Asked(files[2], files[1], (str(files[0]),), None)
    with pytest.raises(ArgumentError, match="would not be used"):
        Asked.of([system, place, pathlib.Path("other.prm")])


STARTS = {300: "it reached time 1500 fs, temperature", 1000: "failed between"}


@pytest.mark.parametrize("step", STARTS)
def test_a_step_that_is_too_long_is_named(step, argon, tmp_path, capsys):
    """The remedy is a shorter step and not another start: one run reaches absurd energies, and one no number."""
    words = ("md", argon / "argon.data", argon / "in.argon", *ASKED, "--step", step, "--steps", 40)
    assert simkit_main(*words, "--out", tmp_path / "run") == 2
    told = capsys.readouterr()
    assert STARTS[step] in told.err
    assert f"The step of {step} fs is too long for such atoms: give `--step 1`, and --overwrite" in told.err
    assert "minimise" not in told.err
    warm = [float(row[1]) for row in table(tmp_path / "run")[1:]]
    assert all(value < 1000 * 90 for value in warm)


def test_the_first_absurd_row_ends_the_table():
    """In open space, which has no volume; a start far above its minimum may get hot."""
    place = DATA / "alanine_dipeptide.inpcrd"
    langevin = md.Langevin(jnp.asarray(300.0), jnp.asarray(1.0))
    model = md.read(DATA / "alanine_dipeptide.prmtop", coordinates=place, dynamics=langevin)
    names = ["potential_energy", "kinetic_energy", "temperature"]
    numbers = [[-117.0, -100.0, 1e6, -117.0], [65.0, 80.0, 1e6, 65.0], [290.0, 350.0, 4e6, 290.0]]
    rows, values = Rows(model.system, model.start, names), dict(zip(names, numbers, strict=True))
    assert len(rows.of(np.arange(4.0), values, True)) == 2
    assert rows.bad == "time 2 ps, temperature 4e+06 K, potential 1e+06 kJ mol-1, kinetic 1e+06 kJ mol-1"
    values["potential_energy"] = [1e6, 5e5, 0.0, np.nan]
    rows = Rows(model.system, model.start, names)
    assert len(rows.of(np.arange(4.0), values | {"kinetic_energy": [65.0, 4e5, 9e5, 65.0]}, True)) == 3
    assert "potential nan" in str(rows.bad)


def test_advice_on_steps():
    long = [Step(50.0, "fs", 0.05, good, True, good == 2.0).advice() for good in (2.0, 1.0)]
    assert "The step of 50 fs is too long for such bonds: give `--step 2`, and" in long[0]
    assert "give `--step 1`, or 0.5 for hydrogens whose bonds are not held" in long[1]
    assert "`--step 0.5`" in Step(1.0, "fs", 0.001, 1.0, True, False).advice()


def test_a_missing_extra_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "openmm", None)
    assert simkit_main("md", DATA / "alanine_dipeptide.prmtop", "--out", tmp_path) == 2
    assert "simkit[md]" in capsys.readouterr().err
