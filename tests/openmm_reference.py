"""Energies and forces of OpenMM's reference platform."""

from typing import Any

import numpy as np
import openmm
from openmm import unit


def reference(system: openmm.System, positions: Any) -> tuple[float, np.ndarray]:
    """Energy in kJ/mol, and forces in kJ/(mol nm), at positions in nm."""
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatformByName("Reference"))
    context.setPositions(positions)
    state = context.getState(getEnergy=True, getForces=True)
    per = unit.kilojoule_per_mole
    forces = state.getForces(asNumpy=True).value_in_unit(per / unit.nanometer)
    return state.getPotentialEnergy().value_in_unit(per), np.asarray(forces)
