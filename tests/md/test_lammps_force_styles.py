"""Energies, forces and virials of LAMMPS' own tests of its force styles: molecules, solids, slabs."""

import dataclasses
import json
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import md
from simkit.md.files._lammps_data import read_data
from simkit.md.potentials._potential import parts

KNOWN = json.loads((Path(__file__).parents[2] / "data" / "md" / "lammps_force_styles.json").read_text())
# Constants with eight digits, erfc from a polynomial good to 1.5e-7, and waves up to the accuracy that the input asks for.
WITHIN = {
    "gauss": 3e-6,
    "long": 3e-6,
    "slab": 3e-5,
    "tip4p": 1e-6,
    "vashishta": 1e-6,
    "msm": 1e-6,
    "coul": 1e-6,
    "snap": 1e-6,
}


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


@pytest.mark.parametrize("style", ["charmm", "charmmfsw"])
def test_weights_of_the_ends_of_dihedrals(style, tmp_path):
    """What weights add is half of the pair energy of the ends, with numbers of their own, by CHARMM's formulas."""
    path = tmp_path / "case.data"
    path.write_text(KNOWN["data"])
    kinds = "\n".join(f"{kind}_style zero" for kind in ("bond", "angle", "improper"))
    pairs = "lj/charmm/coul/charmm/implicit" if style == "charmm" else "lj/charmmfsw/coul/charmmfsh"
    text = f"units real\nspecial_bonds charmm\n{kinds}\npair_style {pairs} 7.0 8.0\npair_coeff * * 0.1 3.0 0.05 2.8\n"
    text += f"dihedral_style {style}\ndihedral_coeff * 10.0 2 180 {{weight}}\n"
    models = [md.read_lammps(path, text.format(weight=weight)) for weight in (0.0, 0.5)]
    plain, weighted = (parts(model.system.potential) for model in models)
    assert [type(part) for part in weighted[: len(plain)]] == [type(part) for part in plain]
    # Those parts alone: pairs along bonds, added and taken off, are 1e5 times as large, and leave their rounding in the whole.
    system = dataclasses.replace(
        models[1].system, potential=sum(weighted[len(plain) + 1 :], start=weighted[len(plain)])
    )
    added = system.prepared(models[1].start).energy(models[1].start)
    data, space = read_data(path), models[0].system.space
    first, last = data.terms["dihedral"][:, 1], data.terms["dihedral"][:, 4]
    x = jnp.asarray(data.position)
    r = np.linalg.norm(np.asarray(space.displacement(x[first], x[last])), axis=1)
    lj = 4 * 0.05 * ((2.8 / r) ** 12 - (2.8 / r) ** 6)
    charges = np.asarray(data.charge)[first] * np.asarray(data.charge)[last]
    if style == "charmm":
        found = lj + float(md.REAL.coulomb) * charges / r**2
    else:
        lj += 4 * 0.05 * 2.8**6 * (1 / 56.0**3 - 2.8**6 / 56.0**6)
        found = lj + 332.0716 * charges / r * (1 - r / 8.0) ** 2
    assert float(added) == pytest.approx(0.5 * found.sum(), rel=1e-12)


def test_weights_need_pairs_of_charmm(tmp_path):
    path = tmp_path / "case.data"
    path.write_text(KNOWN["data"])
    kinds = "\n".join(f"{kind}_style zero" for kind in ("bond", "angle", "improper"))
    text = f"units real\n{kinds}\npair_style lj/cut 8.0\npair_coeff * * 0.1 3.0\n"
    with pytest.raises(simkit.ArgumentError, match="1-4 pairs"):
        md.read_lammps(path, text + "dihedral_style charmm\ndihedral_coeff * 10.0 2 180 0.5")


@pytest.mark.parametrize(
    ("lines", "match"),
    [
        ("pair_style lepton 8.0\npair_coeff 1 1 '1/r'", "give a formula"),
        ("pair_style lepton\npair_coeff * * '1/r'", "followed by a cutoff"),
        ("pair_style lepton 8.0\npair_coeff * * '1/r' 7.0 6.0", "hold a formula"),
    ],
)
def test_formulas_of_pairs_that_are_refused(lines, match, tmp_path):
    path = tmp_path / "case.data"
    path.write_text(KNOWN["data"])
    kinds = "\n".join(f"{kind}_style zero" for kind in ("bond", "angle", "dihedral", "improper"))
    with pytest.raises(simkit.ArgumentError, match=match):
        md.read_lammps(path, f"units real\n{kinds}\n{lines}")
