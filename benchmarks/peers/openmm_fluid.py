"""OpenMM on one core (its CPU platform computes in single precision): the Lennard-Jones fluid of `md.py`.

Lengths in nm, energies in kJ/mol and masses in dalton make its unit of time, the ps, that of the reduced units.
"""

import time

import _harness
import numpy as np
import openmm


def main(arrays, options):
    found, energies = {}, {}
    for name, length in options["lengths"].items():
        position, velocity = arrays[f"{name}.position"], arrays[f"{name}.velocity"]
        system = openmm.System()
        force = openmm.NonbondedForce()
        force.setNonbondedMethod(openmm.NonbondedForce.CutoffPeriodic)
        force.setCutoffDistance(2.5)
        force.setUseDispersionCorrection(False)
        for _ in position:
            system.addParticle(1.0)
            force.addParticle(0.0, 1.0, 1.0)
        system.addForce(force)
        system.setDefaultPeriodicBoxVectors([length, 0, 0], [0, length, 0], [0, 0, length])
        platform = openmm.Platform.getPlatformByName("CPU")
        context = openmm.Context(system, openmm.VerletIntegrator(0.005), platform, {"Threads": "1"})
        context.setPositions(position)
        context.setVelocities(velocity)
        state = context.getState(getEnergy=True)
        energies[name] = state.getPotentialEnergy()._value / len(position)
        steps, spent = options["steps"][name], []
        context.getIntegrator().step(steps)
        for _ in range(options["samples"]):
            began = time.process_time()
            context.getIntegrator().step(steps)
            context.getState(getEnergy=True)
            spent.append((time.process_time() - began) / steps)
        found[name] = np.array(spent)
    return found, energies


if __name__ == "__main__":
    _harness.serve(main)
