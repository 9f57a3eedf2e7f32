"""Shallow water on the sphere through `simkit.simulate`: simulated years a day on one core, and gradients of ten days.

Test case 5 of Williamson et al. (1992), zonal flow over a mountain, in float32 with `ETDRK4`. Steps are those of the documentation,
whose error in five days is below that of the truncation. SpeedyWeather's published figures (one thread of another processor, its
own default steps of a semi-implicit leapfrog, and its own start) stand beside ours as they are: rows
`..._vs_published` are not of one
machine, and no kernel was run on both.

Run: `taskset -c 0 python benchmarks/run.py sphere`. Some: `ROWS=31,42 python benchmarks/run.py sphere`, of 31, 42, 85, gradient.
"""

import os
from typing import Any

import _harness
import jax
import jax.numpy as jnp
import numpy as np

import simkit
from simkit import fluids

STEPS = {31: 7200.0, 42: 5400.0, 85: 2400.0}
PUBLISHED = {31: 19308.0, 42: 8616.0, 85: 960.0}
DAY = 86400.0


def mountain(truncation: int) -> tuple[Any, Any]:
    """System and start in float32."""
    sphere = fluids.Sphere(truncation)
    longitude, latitude = sphere.mesh()
    flow = fluids.zonal_flow(sphere, speed=20.0, height=5960.0)
    away = np.sqrt((longitude - 1.5 * np.pi) ** 2 + (latitude - np.pi / 6) ** 2)
    bed = 2000.0 * (1 - np.minimum(away, np.pi / 9) / (np.pi / 9))
    system = fluids.ShallowWaterSphere(sphere, depth=5960.0, bed=jnp.asarray(bed))
    start = fluids.ShallowWaterSphere.State(flow.height - bed, flow.velocity)
    return simkit.cast((system, start), jnp.dtype("float32"))


def years_a_day(truncation: int, days: float = 5.0) -> dict[str, float]:
    system, start = mountain(truncation)
    steps = round(days * DAY / STEPS[truncation])
    times = np.array([0.0, days * DAY], np.float32)
    run = lambda: simkit.simulate(system, start, times, step=simkit.Fixed(steps), on_failure="mark")
    if not np.isfinite(run().final().height).all():
        raise AssertionError("The run is not finite.")
    timing = _harness.compare({"simkit": run}, samples=7)["simkit"]
    years = days / 365 / timing.minimum * DAY
    print(
        f"T{truncation}: {1e3 * timing.minimum / steps:.3g} ms a step of {STEPS[truncation]:g} s, {years:.0f} years a day"
    )
    return {
        f"sphere_t{truncation}_years_a_day": years,
        f"sphere_t{truncation}_vs_published": years / PUBLISHED[truncation],
    }


def gradient(truncation: int = 31, days: float = 10.0) -> dict[str, float]:
    """A gradient by the start through ten days, with 256 MiB for its memory, by the time of the run."""
    system, start = mountain(truncation)
    steps = round(days * DAY / STEPS[truncation])
    times = np.array([0.0, days * DAY], np.float32)

    def loss(start: Any) -> Any:
        options: dict[str, Any] = {"gradient": simkit.Checkpointed("256 MiB"), "on_failure": "mark"}
        run = simkit.simulate(system, start, times, step=simkit.Fixed(steps), **options)
        return jnp.mean((run.final().height / 1000 - 5) ** 2)

    forward, both = jax.jit(loss), jax.jit(jax.value_and_grad(loss))
    timings = _harness.compare({"forward": lambda: forward(start), "gradient": lambda: both(start)}, samples=5)
    _harness.print_timings(f"Ten days at T{truncation}", timings, reference="forward")
    return {"sphere_gradient_vs_forward": timings["gradient"].minimum / timings["forward"].minimum}


def main() -> dict[str, float]:
    wanted = os.environ.get("ROWS", "31,42,85,gradient").split(",")
    rows: dict[str, float] = {}
    for truncation in STEPS:
        if str(truncation) in wanted:
            rows |= years_a_day(truncation)
    if "gradient" in wanted:
        rows |= gradient()
    return rows
