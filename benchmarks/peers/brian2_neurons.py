"""Izhikevich neurons with currents of their own in Brian2: spike times and CPU time for each length of the time step."""

import time

import _harness
import numpy as np


def main(arrays, options):
    import brian2 as b

    b.prefs.codegen.target = "cython"
    equations = """
    dv/dt = (0.04*v**2 + 5*v + 140 - u + current)/ms : 1
    du/dt = 0.02*(0.2*v - u)/ms : 1
    current : 1
    """
    found = {}
    for k, step in enumerate(options["steps_ms"]):
        spent = []
        for _ in range(3):
            b.start_scope()
            b.defaultclock.dt = step * b.ms
            neurons = b.NeuronGroup(
                len(arrays["current"]),
                equations,
                threshold="v >= 30",
                reset="v = -65; u += 8",
                method=options["method"],
            )
            neurons.v, neurons.u, neurons.current = -65.0, -13.0, arrays["current"]
            spikes = b.SpikeMonitor(neurons)
            network = b.Network(neurons, spikes)
            network.run(0 * b.ms)  # code is generated and compiled here
            start = time.process_time()
            network.run(options["end_ms"] * b.ms)
            spent.append(time.process_time() - start)
            if spent[-1] > 20.0:
                break
        found |= {f"{k}.t": np.asarray(spikes.t / b.ms), f"{k}.i": np.asarray(spikes.i), f"{k}.cpu": np.array(spent)}
    return found, {}


if __name__ == "__main__":
    _harness.serve(main)
