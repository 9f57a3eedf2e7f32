"""OpenMM on one core: energies and forces of many molecules, one context each, made beforehand; `_md_molecules.py`."""

import time

import _harness
import numpy as np
import openmm


def system_of(arrays, options, first, count):
    inside = lambda rows: rows[(rows[:, 0] >= first) & (rows[:, 0] < first + count)] - first
    system = openmm.System()
    bonds, angles, torsions = openmm.HarmonicBondForce(), openmm.HarmonicAngleForce(), openmm.PeriodicTorsionForce()
    pairs = openmm.NonbondedForce()
    for k in range(count):
        system.addParticle(12.0)
        pairs.addParticle(float(arrays["charge"][first + k]), options["sigma"], options["epsilon"])
    for a, b in inside(arrays["bonds"]).tolist():
        bonds.addBond(a, b, options["bond"][1], options["bond"][0])
        pairs.addException(a, b, 0.0, 1.0, 0.0)
    for a, b, c in inside(arrays["angles"]).tolist():
        angles.addAngle(a, b, c, options["angle"][1], options["angle"][0])
        pairs.addException(a, c, 0.0, 1.0, 0.0)
    for a, b, c, d in inside(arrays["torsions"]).tolist():
        torsions.addTorsion(a, b, c, d, 3, 0.0, options["torsion"])
    for force in (bonds, angles, torsions, pairs):
        system.addForce(force)
    return system


def main(arrays, options):
    sizes, forces, spent = arrays["sizes"], [], {}
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    for name, settings in (("CPU", {"Threads": "1"}), ("Reference", {})):
        platform, contexts = openmm.Platform.getPlatformByName(name), []
        for first, count in zip(starts.tolist(), sizes.tolist(), strict=True):
            system = system_of(arrays, options, first, count)
            context = openmm.Context(system, openmm.VerletIntegrator(0.001), platform, settings)
            context.setPositions(arrays["position"][first : first + count])
            contexts.append(context)
        states = [context.getState(getEnergy=True, getForces=True) for context in contexts]
        forces = np.concatenate([state.getForces(asNumpy=True)._value for state in states])
        least = np.inf
        for _ in range(options["samples"]):
            began = time.process_time()
            for context in contexts:
                context.getState(getEnergy=True, getForces=True)
            least = min(least, time.process_time() - began)
        spent[name] = least
        del contexts, states
    return {"force": forces}, spent


if __name__ == "__main__":
    _harness.serve(main)
