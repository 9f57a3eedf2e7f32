"""The primitive equations on the sphere beside dinosaur: the same state by both, and the cost of a step.

Jablonowski and Williamson's baroclinic wave in 20 equal layers, by `PrimitiveEquationsSphere` with `ETDRK4` and by the form of
dinosaur with the vertical differences of Simmons and Burridge, stepped by its SIL3 (four evaluations, implicit in gravity waves).
With short steps in float64 both solve one system of ordinary differential equations, so that answers agree but for errors of steps.
Then both are timed in float32 with steps of 30 minutes at T42.

Run: `taskset -c 0 python benchmarks/run.py atmosphere`. Some: `ROWS=agree,years,gradient python benchmarks/run.py atmosphere`.
"""

import os
from typing import Any

import _harness
import jax
import jax.numpy as jnp
import numpy as np

import simkit
from simkit import fluids

DAY = 86400.0
DINOSAUR = ["dinosaur==1.5.1", "jax==0.10.2"]
GAS, ROTATION = 1004 * 2 / 7, 7.292e-5
LAYERS, REFERENCE = 20, 288.0


def wave(truncation: int, dtype: str) -> tuple[Any, Any]:
    """System and start."""
    sphere = fluids.Sphere(truncation)
    start, bed = fluids.jablonowski_williamson(sphere, LAYERS, gas_constant=GAS, rotation=ROTATION)
    system = fluids.PrimitiveEquationsSphere(
        sphere, levels=LAYERS, bed=bed, gas_constant=GAS, rotation=ROTATION, reference_temperature=REFERENCE
    )
    return simkit.cast((system, start), jnp.dtype(dtype))


def by_dinosaur(system: Any, start: Any, step: float, steps: int, samples: int) -> dict[str, np.ndarray]:
    """The end of a run by dinosaur, and its seconds a step."""
    found = {name: np.asarray(x, float) for name, x in system.outputs(0.0, start, None).items()}
    arrays = {name: found[name] for name in ("vorticity", "divergence", "temperature", "surface_pressure")}
    options = {
        "truncation": system.sphere.truncation,
        "latitudes": system.sphere.latitudes,
        "layers": LAYERS,
        "reference": REFERENCE,
        "precision": str(start.temperature.dtype),
        "step": step,
        "steps": steps,
        "samples": samples,
        "version": DINOSAUR[0].partition("==")[2],
    }
    arrays["bed"] = np.asarray(system.bed, float)
    return _harness.run_peer("dinosaur", DINOSAUR, "dinosaur_atmosphere.py", arrays, options)[0]


def apart(system: Any, end: Any, other: dict[str, np.ndarray]) -> dict[str, float]:
    """The largest differences of pressure, temperature and vorticity, over the range of each."""
    found = system.outputs(0.0, end, None)
    off = lambda name: float(np.max(np.abs(other[name] - found[name])) / np.ptp(np.asarray(found[name])))
    return {name: off(name) for name in ("surface_pressure", "temperature", "vorticity")}


def agree(truncation: int = 21) -> dict[str, float]:
    """Differences from dinosaur in float64 after an hour, and after six days.

    Its steps are of second order in the gravity waves, so that after an hour the difference falls fourfold with half the step; what
    is left is read from the two shortest by extrapolation.
    """
    system, start = wave(truncation, "float64")
    ours = simkit.simulate(system, start, [0.0, 3600.0], step=75.0).final()
    ends = [by_dinosaur(system, start, step, round(3600.0 / step), 0) for step in (150.0, 75.0)]
    off = [apart(system, ours, end) for end in ends]
    limit = {name: (4 * ends[1][name] - ends[0][name]) / 3 for name in off[0]}
    left = apart(system, ours, limit)
    print(f"T{truncation}, an hour: steps of 150 s {off[0]}, of 75 s {off[1]}, extrapolated {left}", flush=True)
    if max(left.values()) > 1e-5 or not all(3.8 < off[0][name] / off[1][name] < 4.2 for name in left):
        raise AssertionError("simkit and dinosaur do not agree.")
    later = simkit.simulate(system, start, [0.0, 6 * DAY], step=600.0).final()
    six = apart(system, later, by_dinosaur(system, start, 300.0, round(6 * DAY / 300), 0))
    print(f"T{truncation}, six days: {six}", flush=True)
    rows = {f"atmosphere_vs_dinosaur_{name}": value for name, value in left.items()}
    return rows | {f"atmosphere_vs_dinosaur_{name}_six_days": value for name, value in six.items()}


def years(truncation: int = 42, step: float = 1800.0, days: float = 5.0) -> dict[str, float]:
    """The cost of a step in float32 beside dinosaur's."""
    system, start = wave(truncation, "float32")
    steps = round(days * DAY / step)
    times = np.array([0.0, days * DAY], np.float32)
    run = lambda: simkit.simulate(system, start, times, step=simkit.Fixed(steps), on_failure="mark")
    spent = _harness.compare({"simkit": run}, samples=5)["simkit"].minimum
    other = by_dinosaur(system, start, step, steps, 5)
    theirs = float(np.min(other["spent"]))
    off = apart(system, run().final(), other)
    print(
        f"T{truncation}, {days:g} days: {1e3 * spent / steps:.3g} ms a step, dinosaur {1e3 * theirs:.3g} ms; apart by {off}"
    )
    return {
        "atmosphere_t42_ms_a_step": 1e3 * spent / steps,
        "atmosphere_t42_years_a_day": days / 365 / spent * DAY,
        "atmosphere_vs_dinosaur_speed": theirs * steps / spent,
    }


def gradient(truncation: int = 21, days: float = 5.0, step: float = 3600.0) -> dict[str, float]:
    """A gradient by the start, with 256 MiB for its memory, by the time of the run."""
    system, start = wave(truncation, "float32")
    times = np.array([0.0, days * DAY], np.float32)

    def loss(start: Any) -> Any:
        options: dict[str, Any] = {"gradient": simkit.Checkpointed("256 MiB"), "on_failure": "mark"}
        run = simkit.simulate(system, start, times, step=simkit.Fixed(round(days * DAY / step)), **options)
        return jnp.mean((run.final().surface_pressure / 1e5 - 1) ** 2)

    forward, both = jax.jit(loss), jax.jit(jax.value_and_grad(loss))
    timings = _harness.compare({"forward": lambda: forward(start), "gradient": lambda: both(start)}, samples=3)
    _harness.print_timings(f"{days:g} days at T{truncation}", timings, reference="forward")
    return {"atmosphere_gradient_vs_forward": timings["gradient"].minimum / timings["forward"].minimum}


def main() -> dict[str, float]:
    wanted = os.environ.get("ROWS", "agree,years,gradient").split(",")
    simkit.enable_x64()
    rows: dict[str, float] = {}
    for name, measured in {"agree": agree, "years": years, "gradient": gradient}.items():
        if name in wanted:
            rows |= measured()
    return rows
