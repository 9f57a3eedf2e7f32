"""Reaction networks of BioNetGen: what a first and a further solve cost, beside CVODE at equal error.

The models are no part of simkit. `egfr_net.net` (356 species, 3,749 reactions; Blinov et al. 2006, BioSystems 83:136) stands in
SciMLBenchmarks.jl, and `bcr.net` (1,122 species, 24,388 reactions; Barua et al. 2012, doi:10.4049/jimmunol.1102003) in
ReactionNetworkImporters.jl. Put them into `benchmarks/.models`; a model that is not there is passed over.

Errors are those of the last state over its largest number, against CVODE at 1e-11. Simkit takes the solver that it chooses
itself. The peer's cost is read off, by interpolation of the logarithms, at the error that simkit has at 1e-6. Goals: compiling
under 20 CPU seconds, and at most 1.5 times the CPU time of the faster of CVODE's linear solvers.

Run: `python benchmarks/networks.py`, or with the names of some models.
"""

import sys
import time

import _harness
import jax
import jax.numpy as jnp
import numpy as np

import simkit

MODELS = {"egfr_net": 10.0, "bcr": 10_000.0}  # and the ends of their runs in BioNetGen's own files
PACKAGES = ("numpy", "scipy", "scikit-sundae==1.2.0")
TOLERANCES = (1e-4, 1e-6, 1e-8)
TRUTH, SCALE = 1e-11, 1.0  # the absolute tolerance is the relative one of one molecule
KINDS = ("sparse", "dense")
SAMPLES = 3


def measured(name: str) -> dict[str, float]:
    """The rows of one model."""
    path, end = _harness.HERE / ".models" / f"{name}.net", MODELS[name]
    if not path.exists():
        print(f"{path} is not there.")
        return {}
    options = {"path": str(path), "end": end, "tolerances": (*TOLERANCES, TRUTH), "scale": SCALE, "kinds": KINDS}
    theirs, _ = _harness.run_peer("networks", PACKAGES, "cvode_network.py", options=options)
    begun = time.process_time()
    system = simkit.networks.load(path)
    rows = {f"{name}_read_cpu_s": time.process_time() - begun}
    y0, times = system.start(), jnp.array([0.0, end])
    solver = simkit.solvers.choose(system, y0, times).solver

    @jax.jit
    def solve(system, y0, tolerance):
        step = simkit.Adaptive(tolerance, tolerance * SCALE, max_steps=100_000)
        return system.encode(simkit.simulate(system, y0, times, solver=solver, step=step, on_failure="mark").final())

    begun = time.process_time()
    run = solve.lower(system, y0, jnp.asarray(1e-6)).compile()
    rows[f"{name}_compile_cpu_s"] = time.process_time() - begun
    truth = theirs[f"sparse.{len(TOLERANCES)}.y"]
    error = lambda y: float(np.abs(y - truth).max() / np.abs(truth).max())
    table, curves = [], {}
    for kind in KINDS:
        curves[kind] = [
            (error(theirs[f"{kind}.{k}.y"]), theirs[f"{kind}.{k}.cpu"].min()) for k in range(len(TOLERANCES))
        ]
        table += [
            [f"CVODE {kind} {t:.0e}", f"{e:.1e}", f"{1e3 * c:.4g}"]
            for t, (e, c) in zip(TOLERANCES, curves[kind], strict=True)
        ]
    ours = []
    for tolerance in TOLERANCES:
        call = lambda tolerance=tolerance: run(system, y0, jnp.asarray(tolerance))
        answer, spent = _harness.least_cpu(call, seconds=2.0, samples=SAMPLES)
        ours.append((error(np.asarray(answer)), spent))
        table.append(
            [f"simkit {type(solver).__name__} {tolerance:.0e}", f"{ours[-1][0]:.1e}", f"{1e3 * ours[-1][1]:.4g}"]
        )
    _harness.print_table(name, ["solver, tolerance", "error", "CPU min, ms"], table)
    at, cost = ours[1]
    best = min(_harness.read_off(curve, at) for curve in curves.values())
    return rows | {f"{name}_solve_cpu_s": cost, f"{name}_cvode_cpu_s": best, f"{name}_vs_cvode": cost / best}


def main(names: tuple[str, ...] = tuple(MODELS)) -> dict[str, float]:
    simkit.enable_x64()
    rows: dict[str, float] = {}
    for name in names:
        rows |= measured(name)
        print({row: round(value, 3) for row, value in rows.items() if row.startswith(name)}, flush=True)
    return rows


if __name__ == "__main__":
    main(tuple(sys.argv[1:]) or tuple(MODELS))
