"""Claim: importing simkit and its `simulate` costs at most 0.3 s more than importing JAX, Diffrax and Equinox."""

import importlib.util
import resource
import subprocess
import sys
import time

import _harness
import numpy as np

SAMPLES = 11
DEPENDENCIES, OURS, HELP = "import jax, diffrax, equinox", "import simkit; simkit.simulate", "simkit --help"


def main() -> dict[str, float]:
    commands = {DEPENDENCIES: ["-c", DEPENDENCIES], OURS: ["-c", OURS]}
    command_line = importlib.util.find_spec("simkit.cli")
    if command_line is not None and command_line.origin is not None:
        commands[HELP] = ["-c", "from simkit.cli import main; main(['--help'])"]
    timings = _fresh_processes(commands)
    _harness.print_timings(f"Fresh processes, {SAMPLES} each in turns", timings, reference=DEPENDENCIES)
    extra = float(np.median(timings[OURS].wall - timings[DEPENDENCIES].wall))
    extra_cpu = timings[OURS].median - timings[DEPENDENCIES].median
    print(f"\nimport simkit costs {extra:.3f} s (wall) and {extra_cpu:.3f} s (CPU) beyond its dependencies.")
    figures = {
        "import simkit beyond dependencies, wall s": extra,
        "import simkit beyond dependencies, CPU s": extra_cpu,
    }
    return figures | {f"{name}, wall median s": float(np.median(timing.wall)) for name, timing in timings.items()}


def _fresh_processes(commands: dict[str, list[str]]) -> dict[str, _harness.Timing]:
    """One process a sample, in turns; the first round, which reads the files into memory, is kept apart."""
    taken = {name: [] for name in commands}
    for _ in range(1 + SAMPLES):
        for name, words in commands.items():
            cpu, wall = _children(), time.perf_counter()
            subprocess.run([sys.executable, *words], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            taken[name].append((_children() - cpu, time.perf_counter() - wall))
    timings = {}
    for name, pairs in taken.items():
        cpu, wall = np.array(pairs).T
        timings[name] = _harness.Timing(cpu[1:], wall[1:], float(cpu[0]))
    return timings


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
