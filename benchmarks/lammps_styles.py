"""Claim: of LAMMPS' own tests of force styles none is wrong: each is right, or refused by name.

Cases are the files of lammps/lammps, unittest/force-styles/tests, but for those of fixes: energies, forces and virial of the start
by the rule of its tester, |a - b| <= epsilon min(|a|, |b|) with the epsilon of the file, and with room for the rounding of the
largest number. Run: `LAMMPS_STYLES=folder LAMMPS_POTENTIALS=folder python benchmarks/lammps_styles.py`, half an hour of one core;
names behind it run these anew. The counts go to `benchmarks/lammps_styles.json`.
"""

import dataclasses
import json
import os
import pathlib
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from _lammps_inputs import COULOMB, Input, NotMade, case_of, kind_of, numbers_of, potentials_folder

import simkit
from simkit import md
from simkit.md.potentials._potential import Sum, parts

HERE = pathlib.Path(__file__).parent
ORIGIN = "lammps/lammps, unittest/force-styles/tests of 2 August 2023, without fixes; benchmarks/lammps_styles.py"
UNITS = {"real": md.REAL, "metal": md.METAL, "lj": md.REDUCED}
ROUNDING = 2e-13
"""Numbers are sums of larger ones: rounding is measured by the largest force or stress of the case."""

APPROXIMATE = ("coul/long", "coul/dsf", "coulgauss/long", "slater/long", "coul/msm", "tip4p/long")
"""Styles for which LAMMPS takes erfc from a polynomial that errs by 1.5e-7 (7.1.26 of Abramowitz and Stegun), or from a table."""
CONSTANTS = ("_real", "zbl", "-vashishta", "-gaussian", "pair-snap", "snap_chem", "snap_linear", "snap_quadratic")
"""Cases in which LAMMPS takes constants with eight digits that charges cannot carry here: of electron volts, of nuclear
charges; Boltzmann's of bonded Gaussians differs by 1e-6."""
CLOSE = 3e-6
"""What both may miss, of the largest number of the case; sums over waves miss the accuracy that the file asks for."""

CONTRADICT = {
    "angle-cosine_delta": ("forces", "stress"),
    "angle-mm3": ("forces", "stress"),
    "dihedral-charmmfsw": ("forces",),
    "mol-pair-lj_charmmfsw_coul_charmmfsw": ("forces", "stress"),
    "angle-fourier_simple": ("forces", "stress"),
    "dihedral-spherical": ("stress",),
    "mol-pair-lj_smooth_linear": ("vdwl",),
}
"""Files whose forces are not the derivative of their energy (LAMMPS' own, by differences), and what in them is then not compared.
Those of the first are right in the LAMMPS of 2025; of the spherical dihedral the virial is none of its forces; the energy of the
last lacks the weights of `special_bonds`."""


OF_EWALD = {
    "kspace-pppm_slab": "kspace-ewald_slab",
    "kspace-pppm_electrode_slab": "kspace-ewald_electrode_slab",
    "kspace-pppm_tip4p_slab": None,
}
"""Files of meshes whose forces miss the accuracy that they ask for three times, and those of the same waves summed one by one, by
LAMMPS, too: forces are compared with these, where they are."""


def model_of(given: Input, folder: pathlib.Path) -> md.MolecularModel:
    path = folder / "case.data"
    units = UNITS.get(given.units, md.REDUCED)
    own = COULOMB["real"] if "charmmfsw" in given.text else float(units.coulomb)  # CHARMM's constant is that of both
    path.write_text(given.data_text(own))
    return md.read_lammps(path, given.text)


def values(model: md.MolecularModel, kind: str) -> dict[str, Any]:
    """Energy of pairs and of charges, virial and forces, as LAMMPS' tester asks for them.

    Where the file is one of bonds and the like, energy and virial are those of these terms alone.
    """
    found: dict[str, Any] = {
        "vdwl": 0.0,
        "coul": 0.0,
        "stress": np.zeros(6),
        "forces": np.zeros_like(model.start.position),
    }
    terms = parts(model.system.potential)
    part = lambda name: 1 if name.startswith("coulomb") else 0 if kind == "pair" or name == f"{kind}s" else 2
    for which in range(3):
        chosen = [t for t, name in zip(terms, model.names, strict=True) if part(name) == which]
        if not chosen:
            continue
        system = dataclasses.replace(model.system, potential=Sum(tuple(chosen))).prepared(model.start)
        result = system.gradients(model.start)
        found["forces"] = found["forces"] + np.asarray(result.forces)
        if which == 2 or (kind != "pair" and which == 1):
            continue
        found["coul" if which else "vdwl"] += float(result.energy)
        virial = np.asarray(result.virial)
        found["stress"] = found["stress"] + [-virial[i, j] for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))]
    return found


def error(found: Any, told: Any, epsilon: float) -> tuple[float, float]:
    """The largest error over what the tester allows, by its rule; and where rounding of the largest number is allowed, too."""
    found, told = np.asarray(found, float), np.asarray(told, float)
    apart, least = np.abs(found - told), np.minimum(np.abs(found), np.abs(told))
    strict = np.where(least > 0, apart / np.where(least > 0, least, 1), apart) / epsilon
    loose = apart / (epsilon * least + ROUNDING * np.abs(told).max() + 1e-300)
    return float(strict.max()), float(loose.max())


def case(path: pathlib.Path, potentials: pathlib.Path | None) -> str:
    """How one file ends: right, wrong, refused with the sentence, or not run."""
    told = case_of(path)
    try:
        given = Input(told, path.parent, potentials)
        with tempfile.TemporaryDirectory() as folder:
            model = model_of(given, pathlib.Path(folder))
    except NotMade as reason:
        return f"not run: {reason}"
    except simkit.SimkitError as reason:
        return f"refused: {reason}"
    found, epsilon = values(model, kind_of(told)), float(told["epsilon"])
    if path.stem in OF_EWALD:
        other = OF_EWALD[path.stem]
        if other is None:
            return "not run: the mesh of slabs misses its accuracy, and no file has the same waves one by one"
        end = verdict(other, told, found, {"forces": _forces(path.with_name(f"{other}.yaml"))}, epsilon)
        return f"not run: its mesh misses its accuracy; {end}" if end.startswith(("right", "near")) else end
    expected = {"forces": _forces(path), "stress": numbers_of(told["init_stress"])[0]}
    if "init_energy" in told:
        expected["energy"] = float(told["init_energy"])
        found["energy"] = found["vdwl"] + found["coul"]
    else:
        expected |= {name: float(told[f"init_{name}"]) for name in ("vdwl", "coul")}
    if "pair_modify compute no" in told["post_commands"]:  # what is left are the forces of waves
        expected = {"forces": expected["forces"]}
    for name in CONTRADICT.get(path.stem, ()):
        expected.pop(name)
    return verdict(path.stem, told, found, expected, epsilon)


def _forces(path: pathlib.Path) -> np.ndarray:
    """The forces of a file, by atom."""
    rows = np.array(numbers_of(case_of(path)["init_forces"]))
    return rows[np.argsort(rows[:, 0]), 1:]


def verdict(name: str, told: dict[str, str], found: dict[str, Any], expected: dict[str, Any], epsilon: float) -> str:
    errors = {key: error(found[key], value, epsilon) for key, value in expected.items()}
    worst = max(errors, key=lambda key: errors[key][1])
    said = f"{worst} {errors[worst][1] * epsilon:.1e}, epsilon {epsilon:.1e}"
    if all(one[0] <= 1 or one[1] <= 1 for one in errors.values()):
        return (
            f"not run: its forces contradict its energy; the rest is right, {said}"
            if name in CONTRADICT
            else f"right: {said}"
        )
    apart = {key: float(np.abs(found[key] - np.asarray(value)).max()) for key, value in expected.items()}
    largest = {key: float(np.abs(value).max()) for key, value in expected.items()}
    within = {key: CLOSE * value for key, value in largest.items()}
    if name.startswith("kspace"):
        # The accuracy is that of forces, a root of a mean of squares, by the force of two unit charges at unit distance.
        accuracy = next(float(line.split()[2]) for line in told["post_commands"].splitlines() if "kspace_style" in line)
        square = np.sum((found["forces"] - expected["forces"]) ** 2, axis=1)
        apart["forces"], within["forces"] = float(np.sqrt(np.mean(square))), accuracy * COULOMB["real"]
    close = any(style in told.get("pair_style", "") for style in APPROXIMATE) or name.endswith(CONSTANTS)
    if close and all(apart[key] <= within[key] for key in apart):
        return f"near: {max(apart[key] / (largest[key] or 1) for key in apart):.1e} of the largest number"
    return f"wrong: {said}; {errors}"


def main(chosen: Sequence[str] = ()) -> dict[str, float]:
    simkit.enable_x64()
    folder, potentials = pathlib.Path(os.environ["LAMMPS_STYLES"]), potentials_folder()
    names = list(chosen) or sorted(path.stem for path in folder.glob("*.yaml") if not path.stem.startswith("fix"))
    ends = json.loads((HERE / "lammps_styles.json").read_text())["ends"] if chosen else {}
    for count, name in enumerate(names, 1):
        if count % 50 == 0:  # programs of hundreds of cases exhaust the memory maps of a process
            jax.clear_caches()
        ends[name] = case(folder / f"{name}.yaml", potentials)[:150]
        print(f"{name}: {ends[name]}", flush=True)
    words = [end.split(":")[0] for end in ends.values()]
    counts = {word: words.count(word) for word in ("right", "near", "refused", "wrong", "not run")}
    print(counts)
    (HERE / "lammps_styles.json").write_text(json.dumps({"origin": ORIGIN} | counts | {"ends": ends}, indent=1) + "\n")
    return {"lammps_styles_right": counts["right"] + counts["near"], "lammps_styles_wrong": counts["wrong"]}


if __name__ == "__main__":
    main(sys.argv[1:])
