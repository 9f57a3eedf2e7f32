"""Claim: units of other tools become systems with the trajectories of FMPy's CVODE or SciPy's Radau, or are refused by name.

`REFERENCE_FMUS` names a folder of units, searched through: those of modelica/Reference-FMUs as its CMake builds them
(`-DFMI_VERSION=2` and `3`), and those of OpenModelica/OMSimulator, testsuite. Units for co-simulation alone, whose equations no
importer sees, and those without a library for this machine are not counted. Records counts in `fmi_units.json`.
"""

import collections
import hashlib
import json
import os
import pathlib
import sys
import warnings
from typing import Any

import fmpy
import jax
import numpy as np

import simkit

HERE = pathlib.Path(__file__).parent
TOLERANCE = 1e-6
"""Of the largest value of a state; simkit's steps take 1e-8 each, CVODE's 1e-10."""

OUTSIDE = ("co-simulation alone", "a library for this machine")
LEVEL = {"U": 12.0}
"""Inputs that say nothing at 0 are held at these values; all others at 0.5."""


def judged(path: pathlib.Path) -> tuple[str, str]:
    """The end of one unit, and a remark."""
    try:
        system = simkit.networks.read_fmu(path)
    except (simkit.ArgumentError, simkit.DataError) as error:
        return ("" if any(word in str(error) for word in OUTSIDE) else "refused"), str(error)
    inputs = {name: LEVEL.get(name, 0.5) for name in system.reads() or {}}
    begin, end = system.unit.span
    times = np.linspace(begin, end, 51)
    if isinstance(system, simkit.networks.StaticFMU):
        return _static(system, path, times, inputs)
    try:
        found = simkit.simulate(
            system,
            system.start(),
            times,
            inputs=inputs or None,
            events=system.own_events() or None,
            step=simkit.Adaptive(1e-8),
        )
    except simkit.SimulationError as error:
        return "failed", str(error)
    values = found.ys
    try:
        expected = _by_fmpy(path, times, inputs, list(values))
    except RuntimeError:  # CVODE's limit of steps between two outputs
        expected = _by_radau(system, times, inputs)
    return _compared(values, expected)


def _static(
    system: simkit.networks.StaticFMU, path: pathlib.Path, times: np.ndarray, inputs: dict[str, float]
) -> tuple[str, str]:
    values = jax.vmap(lambda t: system.outputs(t, None, inputs))(times)
    return _compared(values, _by_fmpy(path, times, inputs, list(values)))


def _compared(values: Any, expected: Any) -> tuple[str, str]:
    errors = {name: np.abs(np.asarray(values[name]) - expected[name]).max() for name in values}
    worst = max(float(error / (np.abs(expected[name]).max() or 1.0)) for name, error in errors.items())
    return "right" if worst <= TOLERANCE else "wrong", f"{worst:.1e}"


def _by_fmpy(path: pathlib.Path, times: np.ndarray, inputs: dict[str, float], names: list[str]) -> Any:
    signals = None
    if inputs:
        rows = [(time, *inputs.values()) for time in (times[0], times[-1])]
        signals = np.array(rows, [("time", float), *((name, float) for name in inputs)])
    return fmpy.simulate_fmu(
        str(path),
        fmi_type="ModelExchange",
        start_time=times[0],
        stop_time=times[-1],
        relative_tolerance=1e-10,
        output_interval=times[1] - times[0],
        output=names,
        input=signals,
    )


def _by_radau(system: simkit.networks.FMUSystem, times: np.ndarray, inputs: dict[str, float]) -> Any:
    """SciPy's Radau on the slopes of the unit, where it has no events that change the state."""
    import scipy.integrate

    slopes = lambda t, y: system.unit.values("slopes", t, y, np.array([*inputs.values()]), _numbers(system))
    start = np.array([float(x) for x in system.start().values()])
    found = scipy.integrate.solve_ivp(slopes, times[[0, -1]], start, "Radau", times, rtol=1e-9, atol=1e-16)
    return dict(zip(system.start(), found.y, strict=True))


def _numbers(system: simkit.networks.FMUSystem) -> np.ndarray:
    return np.array([float(system.parameters[one.name]) for one in system.unit.parameters])


def main() -> None:
    simkit.enable_x64()
    warnings.simplefilter("ignore")
    counts: collections.Counter[str] = collections.Counter()
    seen = set()
    for path in sorted(pathlib.Path(os.environ["REFERENCE_FMUS"]).rglob("*.fmu")):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if digest in seen or path.stat().st_size < 1000:
            continue
        seen.add(digest)
        end, remark = judged(path)
        if end:
            counts[end] += 1
            print(f"{path.parent.parent.name}/{path.name}: {end}, {remark[:140]}")
    print(dict(counts))
    if "--record" in sys.argv:
        (HERE / "fmi_units.json").write_text(json.dumps(dict(sorted(counts.items())), indent=4) + "\n")


if __name__ == "__main__":
    main()
