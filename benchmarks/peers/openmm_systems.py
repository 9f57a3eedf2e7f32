"""Writes test systems of OpenMM's tools as files, with energies and forces of its reference platform.

`python openmm_systems.py FOLDER [NAME ...]`, in an environment with `openmm` and `openmmtools`.
"""

import pathlib
import sys
import warnings
from typing import Any

import numpy as np
import openmm
from openmm import unit
from openmmtools import testsystems

LARGE = 30_000
"""More particles than this take longer on the reference platform than the rest together."""

LARGE_MANY_BODY = 1_000
"""The same with the polarisable force field AMOEBA, which simkit refuses."""


def names() -> list[str]:
    def below(kind: type) -> list[str]:
        return [name for sub in kind.__subclasses__() for name in [sub.__name__, *below(sub)]]

    return sorted(set(below(testsystems.TestSystem)))


def reference(system: Any, positions: Any) -> tuple[list[tuple[str, float]], np.ndarray, np.ndarray]:
    """Energies by name of force, all forces, and the positions with virtual sites in their places."""
    for k, force in enumerate(system.getForces()):
        force.setForceGroup(k)
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatformByName("Reference"))
    context.setPositions(positions)
    context.computeVirtualSites()
    places = np.asarray(context.getState(getPositions=True).getPositions(asNumpy=True).value_in_unit(unit.nanometer))
    energies = []
    for k, force in enumerate(system.getForces()):
        found = context.getState(getEnergy=True, groups={k}).getPotentialEnergy()
        energies.append((force.getName(), found.value_in_unit(unit.kilojoule_per_mole)))
    forces = context.getState(getForces=True).getForces(asNumpy=True)
    return energies, np.asarray(forces.value_in_unit(unit.kilojoule_per_mole / unit.nanometer)), places


def write(name: str, folder: pathlib.Path) -> str:
    try:
        made = getattr(testsystems, name)()
    except Exception as error:
        return f"not made: {type(error).__name__}"
    system = made.system
    many_body = any(type(force).__name__.startswith("Amoeba") for force in system.getForces())
    if system.getNumParticles() > (LARGE_MANY_BODY if many_body else LARGE):
        return f"{system.getNumParticles()} particles: left out"
    for force in system.getForces():
        # The tail's count of pairs differs from simkit's by one part in the number of atoms.
        if hasattr(force, "setUseDispersionCorrection"):
            force.setUseDispersionCorrection(False)
        if hasattr(force, "setUseLongRangeCorrection"):
            force.setUseLongRangeCorrection(False)
    energies, forces, positions = reference(system, made.positions)
    (folder / f"{name}.xml").write_text(openmm.XmlSerializer.serialize(system))
    labels, values = zip(*energies, strict=True)
    np.savez(folder / f"{name}.npz", positions=positions, labels=labels, energies=values, forces=forces)
    return "written"


def main() -> None:
    warnings.filterwarnings("ignore")
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or names():
        print(name, write(name, folder), flush=True)


if __name__ == "__main__":
    main()
