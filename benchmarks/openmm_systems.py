"""Test systems of OpenMM's tools, translated term by term: energies and forces beside OpenMM's reference platform.

`python benchmarks/run.py openmm_systems`; some: `SYSTEMS=WaterBox,DHFRExplicit python benchmarks/run.py openmm_systems`. The peer's
environment writes the systems as files, which are kept; reading them needs `openmm` here (`simkit[md]`).
"""

import collections
import dataclasses
import os
import pathlib
import subprocess
import time
from typing import Any

import _harness
import jax
import numpy as np

import simkit
from simkit import md
from simkit.md.neighbours._energy import energy
from simkit.md.potentials._potential import parts

ENERGY, FORCE = 1e-6, 1e-5
FORCE_OF = {
    "bonds": "HarmonicBondForce",
    "angles": "HarmonicAngleForce",
    "dihedrals": "PeriodicTorsionForce",
    "dihedrals_rb": "RBTorsionForce",
    "torsion_map": "CMAPTorsionForce",
    "generalized_born": "GBSAOBCForce",
}


def ours(model: Any) -> tuple[dict[str, float], np.ndarray]:
    system = model.system.prepared(model.start)

    @jax.jit
    def each(atoms: Any) -> Any:
        lists = system.listed(atoms)
        _, space, position = system._known(atoms)
        plan, kinds = system._plan(), system._kinds()
        return [energy(term, space, position, lists.neighbours, plan, **kinds) for term in parts(system.potential)]

    found: dict[str, float] = {}
    for name, value in zip(model.names, each(model.start), strict=True):
        known = "NonbondedForce" if name.startswith(("lennard_jones", "coulomb")) else FORCE_OF.get(name, name)
        found[known] = found.get(known, 0.0) + float(value)
    return found, np.asarray(system.gradients(model.start).forces)


def compare(folder: pathlib.Path, name: str) -> str:
    import openmm

    known = np.load(folder / f"{name}.npz")
    system = openmm.XmlSerializer.deserialize((folder / f"{name}.xml").read_text())
    try:
        model = md.from_openmm(system, known["positions"])
        # At the very positions of the file, which may miss the constraints by what it rounds.
        free = dataclasses.replace(model.system, constraints=None)
        start = md.Atoms(
            jax.numpy.asarray(known["positions"].astype(float)[list(model.order)][: free.mass.size]),
            model.start.momentum,
        )
        model = dataclasses.replace(model, system=free, start=start)
        found, forces = ours(model)
    except simkit.ArgumentError as error:
        return f"refused  {name}: {error}"
    wanted: dict[str, float] = {}
    for key, value in zip(known["labels"].tolist(), known["energies"].tolist(), strict=True):
        wanted[key] = wanted.get(key, 0.0) + value
    true = known["forces"][np.asarray(model.order)][: len(model.start.position)]
    worst, scale = 0.0, max(abs(value) for value in wanted.values())
    for key, value in wanted.items():
        worst = max(worst, abs(found.get(key, 0.0) - value) / max(abs(value), 1e-3 * scale, 1e-12))
    size = max(float(np.sqrt(np.mean(true**2))), 1e-12)
    error = float(np.sqrt(np.mean((forces - true) ** 2))) / size
    word = "right   " if worst <= ENERGY and error <= FORCE else "WRONG   "
    row = f"{word} {name}: energies {worst:.1e}, forces {error:.1e}, {sum(wanted.values()):.8g} kJ/mol"
    return row if word.strip() == "right" else f"{row}\n    {wanted}\n    {found}"


def main() -> dict[str, float]:
    jax.config.update("jax_enable_x64", True)
    python = _harness.environment("openmm_systems", ["openmm", "openmmtools"])
    folder = _harness.ENVIRONMENTS / "openmm_systems_files"
    chosen = [name for name in os.environ.get("SYSTEMS", "").split(",") if name]
    if chosen or not folder.exists():
        script = _harness.HERE / "peers" / "openmm_systems.py"
        subprocess.run([python, script, folder, *chosen], check=True, stdin=subprocess.DEVNULL)
    counts: collections.Counter[str] = collections.Counter()
    for name in chosen or sorted(path.stem for path in folder.glob("*.npz")):
        begun = time.time()
        try:
            row = compare(folder, name)
        except Exception as error:  # a row of its own: the others go on
            row = f"FAILED   {name}: {type(error).__name__}: {str(error)[:150]}"
        counts[row.split()[0].lower()] += 1
        print(row, f"({time.time() - begun:.0f} s)", flush=True)
    return {f"openmm_systems_{word}": counts[word] for word in ("right", "refused", "wrong", "failed")}


if __name__ == "__main__":
    main()
