"""Energies, forces and virials of LAMMPS' own tests of its force styles: molecules, solids, slabs."""

import json
from pathlib import Path

import numpy as np
import pytest

import simkit
from simkit import md

KNOWN = json.loads((Path(__file__).parents[2] / "data" / "md" / "lammps_force_styles.json").read_text())
# Constants with eight digits, erfc from a polynomial good to 1.5e-7, and waves up to the accuracy that the input asks for.
WITHIN = {"gauss": 3e-6, "long": 3e-6, "slab": 3e-5, "tip4p": 1e-6, "vashishta": 1e-6, "msm": 1e-6, "coul": 1e-6}


def read(name, tmp_path, **settings):
    """The model of a case, its own files beside it."""
    case = KNOWN["molecules"].get(name) or KNOWN["solids"][name]
    path = tmp_path / "case.data"
    path.write_text(KNOWN[case.get("data", "data")])
    commands = case["commands"]
    for file, text in KNOWN["files"].items():
        (tmp_path / file).write_text(text)
        commands = commands.replace(f" {file} ", f" {tmp_path / file} ")
    return case, md.read_lammps(path, commands, **settings)


@pytest.mark.parametrize("name", [*KNOWN["molecules"], *KNOWN["solids"]])
def test_values_of_lammps(name, tmp_path):
    case, model = read(name, tmp_path)
    found = model.system.prepared(model.start).gradients(model.start)
    within = next((value for part, value in WITHIN.items() if part in name), 1e-9)
    forces, known = np.asarray(found.forces), np.array(case["forces"])
    largest = np.abs(forces).max()
    np.testing.assert_allclose(forces[: len(known)], known, atol=within * largest)
    if "kspace" in name:  # of waves alone LAMMPS tells no energy
        return
    virial = np.asarray(found.virial)
    stress = [-virial[i, j] for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))]
    np.testing.assert_allclose(stress, case["stress"], atol=within * np.abs(case["stress"]).max())
    np.testing.assert_allclose(float(found.energy), case["energy"], rtol=within)


def test_slabs_are_three_times_as_high(tmp_path):
    case, model = read("kspace-ewald_slab", tmp_path)
    assert "slab 3.0" in case["commands"]
    lengths = np.linalg.norm(np.asarray(model.system.space.vectors()), axis=1)
    np.testing.assert_allclose(lengths[2], 3 * lengths[1], rtol=1e-12)


WRONG = {
    "lj/long/coul/long short off 8.0": "long, cut or off",
    "tip4p/cut 5 2 5 1 0.15": "types of oxygen, hydrogen, bond and angle",
    "tip4p/cut 5 1 5 1 0.15 10.0": "two atoms of type 1 behind each atom of type 5",
    "lj/long/coul/long long off 8.0": "kspace style of LAMMPS for lj/long/coul/long",
    "coul/msm 12.0": "needs a `kspace_style`",
    "tersoff shift": "must stand without settings",
    "sw threebody maybe": "must stand without settings",
}


@pytest.mark.parametrize("style", WRONG)
def test_refused_styles(style, tmp_path):
    path = tmp_path / "case.data"
    path.write_text(KNOWN["data"])
    kinds = "\n".join(f"{kind}_style zero" for kind in ("bond", "angle", "dihedral", "improper"))
    with pytest.raises(simkit.SimkitError, match=WRONG[style]):
        md.read_lammps(
            path, f"units real\n{kinds}\nspecial_bonds lj/coul 1 1 1\npair_style {style}\npair_coeff * * 1.0 1.0"
        )


def test_open_cells_need_a_slab_and_quartic_bonds_stand_alone(tmp_path):
    path = tmp_path / "case.data"
    path.write_text(KNOWN["data"])
    with pytest.raises(simkit.ArgumentError, match="kspace_modify slab"):
        md.read_lammps(path, "units real\nboundary p p f\npair_style zero 8.0")
    kinds = "\n".join(f"{kind}_style zero" for kind in ("angle", "dihedral", "improper"))
    with pytest.raises(simkit.ArgumentError, match="quartic"):
        md.read_lammps(
            path, f"units real\n{kinds}\npair_style zero 8.0\nbond_style hybrid quartic zero\nbond_coeff * zero 1.0"
        )
