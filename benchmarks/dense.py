"""Dense linear algebra of many rows: Rodas5P on copies of Robertson's reaction, and decompositions from 3 to 1000 rows.

Wall and processor time; where the second is several times the first, threads fight for the processor. `simkit` is what our
programs do, `library` the same decomposition by JAX with the threads that OpenBLAS starts, in a process of its own.
Run: `python benchmarks/dense.py`.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

COPIES = (1, 10, 40, 48, 100)
ROWS = (3, 15, 46, 150, 300, 1000)
SECONDS = 0.5


def timed(call: Callable[[], Any]) -> str:
    """Medians of a call, wall time, and processor time a call, in milliseconds."""
    jax.block_until_ready(call())
    walls: list[float] = []
    spent = time.process_time()
    while sum(walls) < SECONDS or len(walls) < 3:
        begin = time.perf_counter()
        jax.block_until_ready(call())
        walls.append(time.perf_counter() - begin)
        if sum(walls) > 20 * SECONDS:
            break
    spent = (time.process_time() - spent) / len(walls)
    return f"{1e3 * statistics.median(walls):10.3f} ms, {1e3 * spent:10.3f} CPU ms"


def solves() -> None:
    import simkit

    def field(t, y, p):
        a, b, c = y
        r, s, u = p["k"][0] * a, p["k"][1] * b * b, p["k"][2] * b * c
        return jnp.stack([u - r, r - s - u, s])

    for copies in COPIES:
        system = simkit.from_function(field, {"k": np.array([0.04, 3e7, 1e4])})
        y0 = np.repeat(np.array([[1.0], [0.0], [0.0]]), copies, axis=1)
        step = simkit.Adaptive(rtol=1e-6, atol=1e-9)
        call = lambda system=system, y0=y0, step=step: (
            simkit.simulate(system, y0, [0.0, 1e4], solver=simkit.solvers.Rodas5P(), step=step).ys
        )
        print(f"Rodas5P, {3 * copies:4d} states: {timed(call)}", flush=True)


def decompositions(kind: str) -> None:
    rng = np.random.default_rng(0)
    if kind == "library":
        functions = {
            "lu": jax.lax.linalg.lu,
            "qr": lambda a: jnp.linalg.qr(a, mode="r"),
            "svd": lambda a: jnp.linalg.svd(a, full_matrices=False),
        }
    else:
        from simkit import linear

        functions = {"lu": linear.lu_factors, "qr": linear.triangle, "svd": linear.singular_values}
    for name, function in functions.items():
        program = jax.jit(function)
        for n in ROWS:
            a = jnp.asarray(rng.normal(size=(n, n)))
            print(f"{name:4s} of {n:5d} rows, {kind:8s}: {timed(lambda a=a, program=program: program(a))}", flush=True)


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    if sys.argv[1:]:
        return decompositions(sys.argv[1]) if sys.argv[1] != "solves" else solves()
    for kind in ("solves", "simkit", "library"):
        subprocess.run([sys.executable, __file__, kind], check=True)


if __name__ == "__main__":
    main()
