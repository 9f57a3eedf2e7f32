"""OpenMM on one core (its CPU platform, mixed precision): the rigid water of `_md_water.py`."""

import time

import _harness
import numpy as np
import openmm


def main(arrays, options):
    position, velocity, length = arrays["position"], arrays["velocity"], options["length"]
    system, force = openmm.System(), openmm.NonbondedForce()
    force.setNonbondedMethod(openmm.NonbondedForce.PME)
    force.setCutoffDistance(options["cutoff"])
    force.setUseDispersionCorrection(False)
    force.setPMEParameters(options["damping"], *options["mesh"])
    charge, across = options["charge"], 2 * options["bond"] * np.sin(options["angle"] / 2)
    for k, mass in enumerate(options["mass"] * (len(position) // 3)):
        system.addParticle(mass)
        force.addParticle(charge if k % 3 else -2 * charge, options["sigma"], 0.0 if k % 3 else options["epsilon"])
    for a in range(0, len(position), 3):
        for i, j, distance in ((a, a + 1, options["bond"]), (a, a + 2, options["bond"]), (a + 1, a + 2, across)):
            force.addException(i, j, 0.0, 1.0, 0.0)
            system.addConstraint(i, j, distance)
    system.addForce(force)
    system.setDefaultPeriodicBoxVectors([length, 0, 0], [0, length, 0], [0, 0, length])
    platform = openmm.Platform.getPlatformByName("CPU")
    context = openmm.Context(system, openmm.VerletIntegrator(options["step"]), platform, {"Threads": "1"})
    context.setPositions(position)
    context.setVelocities(velocity)
    state = context.getState(getEnergy=True, getForces=True)
    energy, found = state.getPotentialEnergy()._value, state.getForces(asNumpy=True)._value
    steps, spent = options["steps"], []
    context.getIntegrator().step(steps)
    for _ in range(options["samples"]):
        began = time.process_time()
        context.getIntegrator().step(steps)
        context.getState(getEnergy=True)
        spent.append((time.process_time() - began) / steps)
    return {"spent": np.array(spent), "force": np.asarray(found, float)}, {"energy": energy}


if __name__ == "__main__":
    _harness.serve(main)
