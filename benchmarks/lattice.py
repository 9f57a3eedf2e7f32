"""Lattice Boltzmann in three dimensions through `simkit.simulate`: cells a second on one core, beside XLB's backend of JAX.

The decay of a Taylor-Green vortex with nineteen velocities and one relaxation time in float32, the whole call of `simulate` with
its checks. XLB runs from the same populations, one compiled step after the other and all steps in one loop, of which the faster
counts; densities and velocities are compared before anything is timed. Runs are in turns: XLB, simkit, XLB, simkit. The share of
the bandwidth is that of reading and writing each population once in a step, by that of copying a large array.

Run: `taskset -c 0 python benchmarks/run.py lattice`. Some: `ROWS=peer,walls python benchmarks/run.py lattice`, of peer, walls,
surfaces, gradient.
"""

import os
import time
from typing import Any

import _harness
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import simkit
from simkit import fluids

SIZES, STEPS, SAMPLES = (64, 96), 20, 3
XLB = ("xlb==0.3.1", "jax[cpu]==0.10.2")


def vortex(n: int, walls: bool = False, **options: Any) -> tuple[Any, Any]:
    """System and start in float32, in lattice units; with `walls` a cavity whose lid moves."""
    grid, k, speed = fluids.Grid((n, n, n), float(n)), 2 * np.pi / n, 0.05
    if walls:
        wall, lid = fluids.NoSlip(), fluids.NoSlip(jnp.array([speed, 0.0, 0.0]))
        options["boundaries"] = [wall, wall, (wall, lid)]
    system = fluids.LatticeBoltzmann(grid, step=1.0, viscosity=0.05, **options)

    def velocity(x: Any) -> Any:
        a, b, c = (k * y for y in x)
        u, v = jnp.sin(a) * jnp.cos(b) * jnp.cos(c), jnp.cos(a) * jnp.sin(b) * jnp.cos(c)
        return speed * u, -speed * v, 0 * u

    return simkit.cast((system, system.start(None if walls else velocity)), jnp.dtype("float32"))


def seconds_a_step(system: Any, start: Any) -> tuple[np.ndarray, Any]:
    """CPU seconds a step of some runs, and the last state."""
    times = np.array([0.0, STEPS], np.float32)
    run = lambda: jax.block_until_ready(simkit.simulate(system, start, times, on_failure="mark").ys.populations)
    last, spent = run()[-1], []
    for _ in range(SAMPLES):
        begin = time.process_time()
        run()
        spent.append((time.process_time() - begin) / STEPS)
    return np.array(spent), last


def bandwidth() -> float:
    """Bytes a second that copying a large array reads and writes."""
    first = np.ones(20_000_000, np.float32)
    second, spent = np.zeros_like(first), []
    for _ in range(10):
        begin = time.perf_counter()
        np.copyto(second, first)
        spent.append(time.perf_counter() - begin)
    return 2 * first.nbytes / min(spent)


def beside_xlb(n: int) -> dict[str, float]:
    system, start = vortex(n, collision="bgk")
    lattice = system.lattice
    weights = np.array(lattice.weights, np.float32).reshape(-1, 1, 1, 1)
    given = {
        "populations": np.asarray(start.populations) + weights,
        "velocities": np.array(lattice.velocities),
    }
    options = {"omega": 1 / (0.5 + 3 * 0.05), "steps": STEPS, "samples": SAMPLES}
    ours, theirs = [], []
    for _ in range(2):
        answer, _ = _harness.run_peer("xlb", XLB, "xlb_lattice.py", given, options)
        theirs.append(answer)
        spent, last = seconds_a_step(system, start)
        other = system.State(jnp.asarray(answer["populations"] - weights))
        a, b = (system.outputs(0.0, state, None) for state in (system.State(last), other))
        # A collision keeps density and velocity, and XLB collides after it streams. Its populations carry the weights, of size 1.
        for name, size in (("density", 1.0), ("velocity", 0.05)):
            wrong = np.abs(np.asarray(a[name] - b[name])).max() / size
            if not wrong < (2e-6 if name == "density" else 1e-4):
                raise AssertionError(f"The {name} differs from that of XLB by {wrong:.1e}.")
        ours.append(spent)
    mine = np.concatenate(ours)
    single, loop = (np.concatenate([answer[way] for answer in theirs]) for way in ("one_by_one", "together"))
    copied = bandwidth()
    share = lattice.size * 2 * 4 * n**3 / mine.min() / copied
    rows = [
        [name, f"{1e3 * x.min():.4g}", f"{1e3 * np.median(x):.4g}", f"{n**3 / x.min() / 1e6:.4g}"]
        for name, x in (("simkit", mine), ("XLB, step by step", single), ("XLB, in one loop", loop))
    ]
    head = ["", "ms a step, least", "median", "million cells/s"]
    _harness.print_table(f"{n}^3 cells, copying {copied / 1e9:.3g} GB/s of which simkit uses {share:.0%}", head, rows)
    return {
        f"lattice_{n}_cells_a_second": n**3 / mine.min(),
        f"lattice_{n}_vs_xlb": min(single.min(), loop.min()) / mine.min(),
        f"lattice_{n}_vs_xlb_step_by_step": single.min() / mine.min(),
        f"lattice_{n}_share_of_bandwidth": share,
    }


def with_walls(n: int = 64) -> dict[str, float]:
    """Two relaxation times, and a cavity whose lid moves."""
    rows = {}
    for name, walls in (("trt", False), ("cavity", True)):
        spent, _ = seconds_a_step(*vortex(n, walls))
        rows[f"lattice_{n}_{name}_cells_a_second"] = n**3 / spent.min()
        print(f"{name}: {n**3 / spent.min() / 1e6:.4g} million cells/s (median {n**3 / np.median(spent) / 1e6:.4g})")
    return rows


def surfaces(rounds: int = 3) -> dict[str, float]:
    """A box without a body, with one of whole cells and with one whose surface cuts links, in turns."""
    rows = {}
    for shape in ((512, 512), (64, 64, 64)):
        grid, d = fluids.Grid(shape, float(shape[0])), len(shape)
        body = fluids.Disk(jnp.full(d, 0.5 * shape[0]), 0.2 * shape[0])
        ways: dict[str, dict[str, Any]] = {
            "none": {},
            "cells": {"obstacle": body},
            "cut": {"obstacle": body, "surface": "cut"},
        }
        ready, spent = {}, {name: [] for name in ways}
        for name, options in ways.items():
            system = fluids.LatticeBoltzmann(grid, step=1.0, viscosity=0.05, **options)
            start = system.start(lambda x: tuple(0.05 * jnp.ones_like(c) for c in x))
            ready[name] = simkit.cast((system, start), jnp.dtype("float32"))
        for _ in range(rounds):
            for name, pair in ready.items():
                spent[name].append(seconds_a_step(*pair)[0])
        least = {name: min(x.min() for x in values) for name, values in spent.items()}
        table = [[name, f"{1e3 * x:.4g}", f"{x / least['none']:.3g}"] for name, x in least.items()]
        _harness.print_table(f"D{d}: {shape}", ["body", "ms a step, least", "over none"], table)
        rows |= {f"lattice_{d}d_{name}_vs_none": x / least["none"] for name, x in least.items() if name != "none"}
    return rows


def gradient(n: int = 32, steps: int = 200) -> dict[str, float]:
    """A gradient by viscosity and start through many steps, with 1 GiB for its memory, by the time of the run."""
    system, start = vortex(n)
    times = np.array([0.0, steps], np.float32)

    def loss(system: Any, start: Any) -> Any:
        options: dict[str, Any] = {"gradient": simkit.Checkpointed("1 GiB"), "on_failure": "mark"}
        return jnp.mean(simkit.simulate(system, start, times, **options).final().populations ** 2)

    def both(viscosity: Any, start: Any) -> Any:
        return loss(eqx.tree_at(lambda s: s.viscosity, system, viscosity), start)

    run, slope = jax.jit(both), jax.jit(jax.value_and_grad(both, (0, 1)))
    timings = _harness.compare(
        {"forward": lambda: run(system.viscosity, start), "gradient": lambda: slope(system.viscosity, start)}, samples=3
    )
    _harness.print_timings(f"{steps} steps of {n}^3 cells", timings, reference="forward")
    return {"lattice_gradient_vs_forward": timings["gradient"].minimum / timings["forward"].minimum}


def main() -> dict[str, float]:
    wanted = os.environ.get("ROWS", "peer,walls,surfaces,gradient").split(",")
    rows: dict[str, float] = {}
    if "peer" in wanted:
        for n in SIZES:
            rows |= beside_xlb(n)
    if "walls" in wanted:
        rows |= with_walls()
    if "surfaces" in wanted:
        rows |= surfaces()
    if "gradient" in wanted:
        rows |= gradient()
    return rows
