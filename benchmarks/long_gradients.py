"""Gradients through 10,000 fixed steps of Lorenz's circle of 40 numbers: reversible steps beside records in memory and on disk.

Each gradient is compared with that of the same steps from a record before it is timed.
`python benchmarks/run.py fluids` with ROWS=long has a spectral flow.
"""

import tempfile
from typing import Any

import _harness
import jax
import jax.numpy as jnp
import numpy as np

import simkit

STEPS, SPAN = 10_000, 5.0


def main() -> dict[str, float]:
    jax.config.update("jax_enable_x64", True)
    system, y0, _, _ = simkit.odes.Lorenz96.example()
    times = np.linspace(0.0, SPAN, 11)
    inner = simkit.solvers.Tsit5()
    twice = simkit.solvers.Reversible(inner)

    def loss(system: Any, solver: Any, gradient: Any = None) -> Any:
        step = simkit.Fixed(STEPS // 10)
        run = simkit.simulate(system, y0, times, solver=solver, step=step, gradient=gradient, on_failure="mark")
        return jnp.sum(run.final().x ** 2)

    with tempfile.TemporaryDirectory() as folder:
        choices = {
            "Tsit5, record of the square root": (inner, None),
            "Tsit5, every step": (inner, simkit.Checkpointed("1 GiB")),
            "Tsit5, on disk": (inner, simkit.OnDisk(folder, "64 KiB")),
            "reversible": (twice, None),
            "reversible, every step recorded": (twice, simkit.Checkpointed("1 GiB")),
        }
        build = lambda choice: jax.jit(jax.value_and_grad(lambda system: loss(system, *choice))).lower(system).compile()
        compiled = {name: build(choice) for name, choice in choices.items()}
        forward = jax.jit(lambda system: loss(system, inner)).lower(system).compile()
        found = {name: float(program(system)[1].forcing) for name, program in compiled.items()}
        functions = {"forward, Tsit5": lambda: forward(system)}
        functions |= {name: lambda c=c: c(system) for name, c in compiled.items()}
        timings = _harness.compare(functions, samples=3)
    _harness.print_timings(f"{STEPS} steps of 40 numbers", timings, reference="forward, Tsit5")
    rows = {f"kib {name}": c.memory_analysis().temp_size_in_bytes / 1024 for name, c in compiled.items()}
    exact = found["reversible, every step recorded"]
    rows["reversible_error"] = abs(found["reversible"] - exact) / abs(exact)
    if not rows["reversible_error"] < 1e-6:
        raise AssertionError("The gradient by reconstruction is not that of the steps.")
    rows["reversible_vs_forward"] = timings["reversible"].minimum / timings["forward, Tsit5"].minimum
    print("\n".join(f"{name} {value:.3g}" for name, value in rows.items()), flush=True)
    return rows


if __name__ == "__main__":
    main()
