"""The row of `ensembles.py` that asks what a second host device gives: wall time of the heterogeneous ensemble.

Run by itself, it is the process that has two devices. Beside the ratio stands what the machine itself gives at that moment: two
copies of the C program at once against one.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

import _ensemble_peers as peers
import _ensemble_problems as problems
import _harness
import jax
import jax.numpy as jnp
import numpy as np

import simkit
from simkit import Adaptive

DEVICES = 2
SAMPLES = 9


def compared() -> dict[str, float]:
    """Two host devices against one, in a process that has both."""
    before = os.getloadavg()[0]
    machine = _machine()
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={DEVICES}"
    told = subprocess.run(
        [sys.executable, __file__],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "XLA_FLAGS": flags.strip()},
    ).stdout
    wall = json.loads(told.splitlines()[-1])
    machine = max(machine, _machine())
    rows = []
    for name, samples in wall.items():
        lower, median, upper = np.quantile(samples, [0.25, 0.5, 0.75])
        rows.append([name, f"{1e3 * min(samples):.4g}", f"{1e3 * median:.4g}", f"{(upper - lower) / median:.0%}"])
    title = f"van der Pol, wall time; load {before:.1f} before, {os.cpu_count()} cores"
    _harness.print_table(title, ["", "least, ms", "median, ms", "spread"], rows)
    print(f"two copies of the C program at once do {machine:.2f} times the work of one: what the machine gives now")
    least = {name: min(samples) for name, samples in wall.items()}
    return {
        "two_devices_vs_one": least["1 device"] / least[f"{DEVICES} devices"],
        "two_devices_vs_no_devices": least["no devices given"] / least[f"{DEVICES} devices"],
        "two_processes_vs_one": machine,
    }


def _machine() -> float:
    """How much more work two copies of the C program do than one, in the same wall time."""
    case = problems.van_der_pol()
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        commands = [peers.c_command(case, 3, 20, folder) for folder in (one, other)]
        spent = []
        for together in (commands[:1], commands) * 2:
            began = time.perf_counter()
            running = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for command in together]
            for process in running:
                process.wait()
            spent.append((time.perf_counter() - began) / len(together))
    return min(spent[0::2]) / min(spent[1::2])


def _measure() -> dict[str, list[float]]:
    """Wall seconds of a solve on no devices named, on one and on all."""
    case = problems.van_der_pol()
    step = Adaptive(case.rtol, case.atol, max_steps=1_000_000)
    over = {path: jnp.asarray(values) for path, values in case.over.items()}

    def ways(devices):
        return jax.jit(
            lambda over: simkit.ensemble(
                case.system, case.start, case.times(2), over=over, solver=case.solver, step=step, devices=devices
            )
        )

    named = {"no devices given": None, "1 device": jax.devices()[:1], f"{DEVICES} devices": jax.devices()}
    solves = {name: ways(devices) for name, devices in named.items()}
    finals = {name: jax.tree.leaves(solve(over).final()) for name, solve in solves.items()}
    for name, final in finals.items():
        for a, b in zip(final, finals["1 device"], strict=True):
            # Members do not see each other, so where they run changes no more than rounding.
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6, err_msg=name)
    wall = {name: [] for name in solves}
    for _ in range(SAMPLES):
        for name, solve in solves.items():
            began = time.perf_counter()
            jax.block_until_ready(solve(over))
            wall[name].append(time.perf_counter() - began)
    return wall


if __name__ == "__main__":
    simkit.enable_x64()
    print(json.dumps(_measure()))
