"""Gradients through 10,240 steps of a spectral flow at 64^2: memory and time of each record, after the gradients were compared."""

import tempfile
from typing import Any

import _harness
import jax
import jax.numpy as jnp
import numpy as np

import simkit
from simkit import fluids

STEPS, STEP, CELLS = 10_240, 2e-3, 64
SMALL = "1100 KiB"  # less than the cube root of 10,240 states and the work of a step


def long_gradient() -> dict[str, float]:
    """Rows of the benchmark."""
    grid = fluids.Grid((CELLS, CELLS))
    velocity = fluids.random_velocity(grid, jax.random.key(0), peak=6.0)
    flow = fluids.SpectralFlow2D(grid, viscosity=1e-3, drag=0.1)
    system, y0 = flow, flow.State(fluids.vorticity(grid, velocity))
    times = np.array([0.0, STEP * STEPS])

    def loss(y0: Any, gradient: Any = None) -> Any:
        run = simkit.simulate(system, y0, times, step=simkit.Fixed(STEPS), gradient=gradient, on_failure="mark")
        return jnp.mean(run.final().vorticity ** 2)

    with tempfile.TemporaryDirectory() as folder:
        records = {
            "recursive": None,
            "64 MiB": simkit.Checkpointed("64 MiB"),
            "disk 32 MiB": simkit.OnDisk(folder, "32 MiB"),
            f"disk {SMALL}": simkit.OnDisk(folder, SMALL),
        }
        gradient = lambda record: jax.jit(jax.value_and_grad(lambda y: loss(y, record))).lower(y0).compile()
        try:
            gradient(simkit.Checkpointed(SMALL))
            raise AssertionError(f"{SMALL} should not be enough without a disk.")
        except simkit.ArgumentError as refusal:
            print(refusal, flush=True)
        compiled = {name: gradient(record) for name, record in records.items()}
        forward = jax.jit(loss).lower(y0).compile()
        found = {name: program(y0)[1].vorticity for name, program in compiled.items()}
        size = jnp.abs(found["recursive"]).max()
        rows: dict[str, float] = {}
        for name, field in found.items():
            rows[f"long_gradient_error {name}"] = float(jnp.abs(field - found["recursive"]).max() / size)
        functions = {"forward": lambda: forward(y0), **{name: lambda c=c: c(y0) for name, c in compiled.items()}}
        timings = _harness.compare(functions, samples=2)
        _harness.print_timings(f"{STEPS} steps at {CELLS}^2 float64", timings, reference="forward")
        for name, program in compiled.items():
            rows[f"long_gradient_mib {name}"] = program.memory_analysis().temp_size_in_bytes / 2**20
            rows[f"long_gradient_vs_forward {name}"] = timings[name].minimum / timings["forward"].minimum
    rows["long_gradient_mib"] = rows["long_gradient_mib recursive"]
    rows["long_gradient_vs_forward"] = rows["long_gradient_vs_forward recursive"]
    print("\n".join(f"{name} {value:.3g}" for name, value in rows.items()), flush=True)
    return rows
