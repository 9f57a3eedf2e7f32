"""What a step costs through `simulate`, beside a bare `lax.scan` of the same method.

Goal: at most 1.15 times the bare loop. Run: `python benchmarks/stepping.py`.
"""

import functools
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import simkit
from simkit import Fixed, PlainSystem, quantity
from simkit.solvers import Tsit5

GOAL = 1.15
REPEATS = 15


class Lorenz(PlainSystem):
    """Three states."""

    sigma: jax.Array = quantity(10.0)
    rho: jax.Array = quantity(28.0)
    beta: jax.Array = quantity(8 / 3)

    def vector_field(self, t, y, inputs):
        return jnp.stack([self.sigma * (y[1] - y[0]), y[0] * (self.rho - y[2]) - y[1], y[0] * y[1] - self.beta * y[2]])

    @classmethod
    def example(cls):
        raise NotImplementedError


class Heat(PlainSystem):
    """A periodic line of cells."""

    diffusivity: jax.Array = quantity(1.0)

    def vector_field(self, t, y, inputs):
        return self.diffusivity * (jnp.roll(y, 1) - 2 * y + jnp.roll(y, -1))

    @classmethod
    def example(cls):
        raise NotImplementedError


def bare(system: Any, y0: Any, end: float, steps: int) -> Callable[[], Any]:
    """The method written out over `lax.scan`: nothing but its arithmetic, each stage of a field kept apart as simkit does."""
    table, h, field = Tsit5.tableau, end / steps, y0.size >= 64
    keep = jax.lax.optimization_barrier if field else lambda x: x

    def apart(i, state):  # what some versions of XLA need beside barriers
        return jax.lax.cond(i == i, state, lambda: jnp.full_like(y0, jnp.nan)) if field else state()

    def step(system, carry, i):
        y, first = carry
        slopes, stage = [first], y
        for node, row in zip(table.c, table.a_lower, strict=True):
            pairs = [(float(a), k) for a, k in zip(row, slopes, strict=True) if a != 0]
            stage = apart(i, lambda y=y, pairs=pairs: y + h * sum(a * k for a, k in pairs))
            slopes.append(keep(system.vector_field((i + float(node)) * h, stage, None)))
        return (stage, slopes[-1]), None

    # The parameters are arguments, as a fit or an ensemble needs them: XLA would fold constants into the arithmetic.
    @jax.jit
    def solve(system, y0):
        start = y0, system.vector_field(0.0, y0, None)
        return jax.lax.scan(functools.partial(step, system), start, jnp.arange(steps, dtype=y0.dtype))[0][0]

    return lambda: solve(system, y0)


def through_simulate(system: Any, y0: Any, end: float, steps: int) -> Callable[[], Any]:
    times = jnp.asarray([0.0, end])
    return lambda: simkit.simulate(system, y0, times, solver=Tsit5(), step=Fixed(steps)).ys


def inside_jit(system: Any, y0: Any, end: float, steps: int) -> Callable[[], Any]:
    """The same inside a compiled function: what is left of the difference then is the checking of a single call."""
    times = np.asarray([0.0, end])
    solve = eqx.filter_jit(
        lambda system, y0: simkit.simulate(system, y0, times, solver=Tsit5(), step=Fixed(steps)).ys[-1]
    )
    return lambda: solve(system, y0)


def cpu_times(runs: list[Callable[[], Any]]) -> list[list[float]]:
    """CPU seconds of a call of each run: in turns, so that a busy machine troubles all alike, and over blocks of some 20 ms,
    since the clock of pool threads ticks coarsely.
    """
    counts = []
    for run in runs:
        start = time.perf_counter()
        jax.block_until_ready(run())
        counts.append(1 + int(0.02 / (time.perf_counter() - start)))
    spent: list[list[float]] = [[] for _ in runs]
    for _ in range(REPEATS):
        for run, count, record in zip(runs, counts, spent, strict=True):
            start = time.process_time()
            for _ in range(count):
                jax.block_until_ready(run())
            record.append((time.process_time() - start) / count)
    return spent


def main() -> dict[str, float]:
    jax.config.update("jax_enable_x64", True)
    x = jnp.arange(100_000) / 100_000
    # Lorenz loses a digit of agreement every 2.5 units of time: at time 10 two orders of summation still agree to 1e-9.
    cases = {
        "lorenz_10k": (Lorenz(), jnp.ones(3), 10.0, 10_000),
        "lorenz_100k": (Lorenz(), jnp.ones(3), 10.0, 100_000),
        "heat_100k_cells": (Heat(), jnp.sin(2 * jnp.pi * x) + 0.1 * jnp.cos(2e4 * jnp.pi * x), 10.0, 50),
    }
    rows: dict[str, float] = {}
    print(f"{'case':18} {'':9} {'compile s':>10} {'min ms':>9} {'median ms':>10} {'spread ms':>10}")
    for name, (system, y0, end, steps) in cases.items():
        ways = {"bare": bare, "simulate": through_simulate, "jit": inside_jit}
        runs = {label: way(system, y0, end, steps) for label, way in ways.items()}
        results, compiled = {}, {}
        for label, run in runs.items():
            start = time.perf_counter()
            results[label] = np.asarray(run()).reshape(-1, y0.size)[-1]
            compiled[label] = time.perf_counter() - start
        for label in ("simulate", "jit"):
            np.testing.assert_allclose(results[label], results["bare"], rtol=1e-8, atol=1e-8)
        spent = dict(zip(runs, cpu_times(list(runs.values())), strict=True))
        for label, record in spent.items():
            milliseconds = [1e3 * s for s in record]
            print(
                f"{name:18} {label:9} {compiled[label]:10.2f} {min(milliseconds):9.2f} "
                f"{statistics.median(milliseconds):10.2f} {max(milliseconds) - min(milliseconds):10.2f}"
            )
        for row, label in ((name, "simulate"), (f"{name}_jit", "jit")):
            rows[row] = min(spent[label]) / min(spent["bare"])
            verdict = "reached" if rows[row] <= GOAL else "missed"
            print(f"{row:22} ratio {rows[row]:.3f} (goal {GOAL}: {verdict})")
    print(json.dumps({row: round(figure, 4) for row, figure in rows.items()}))
    return rows


if __name__ == "__main__":
    main()
