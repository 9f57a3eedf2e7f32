"""The fluid tasks of Mosaic, a suite of differentiable solvers by Pasteur Labs, by its own harness, with simkit as the solver.

The environment variable MOSAIC names a checkout of https://github.com/pasteurlabs/mosaic; nothing of it is kept here. Its harness
runs without containers: the Tesseract in `benchmarks/mosaic/navier-stokes-grid/simkit` is imported in the process. Each task runs
in a process of its own, so that its peak memory is its own. Verdicts are the harness's.

Run: `MOSAIC=FOLDER python benchmarks/mosaic_flows.py`, or with problems or tasks, such as `ns-grid/gradient/fd_check`. All of them
take some 40 minutes on one core. `MOSAIC_PEERS=1` also times a gradient by the Tesseracts of jax-cfd and exponax in it, in
turns with ours.

Source: Rehmann, Zimmermann and Haefner (2026), Mosaic, arXiv:2606.27895.
"""

import os
import pathlib
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from _harness import HERE, print_table, run_peer

PACKAGES = (
    f"-e{HERE.parent}[tesseract]",
    *("rich", "typer", "pandas", "psutil", "pyyaml", "filelock", "nvidia-ml-py", "docker", "tesseract-jax"),
    *("jax-cfd==0.2.1", "exponax==0.2.0"),
)
SOLVERS = HERE / "mosaic" / "navier-stokes-grid"
FORWARD = (
    "forward/baseline",
    "forward/physical_laws/vs_N",
    "forward/physical_laws/vs_steps",
    "forward/physical_laws/vs_nu",
)
COST = ("cost/spatial_cost", "cost/temporal_cost", "cost/vjp_cost/by_N", "cost/vjp_cost/by_steps")
SPECTRA = ("jacobian_svd", "jacobian_svd_steps20", "jacobian_svd_steps40", "jacobian_svd_nu01")
TASKS = {
    "ns-grid": (
        *FORWARD,
        "forward/agreement/tgv",
        "forward/agreement/multimode",
        "forward/tgv_nu_sweep",
        "forward/cylinder",
        "gradient/fd_check",
        "gradient/param_sweep",
        "gradient/horizon_sweep",
        *(f"gradient/{name}" for name in SPECTRA),
        *COST,
        "optimization/drag_opt",
    ),
    "ns-3d-grid": (
        *FORWARD,
        "forward/agreement",
        "gradient/fd_check",
        "gradient/horizon_sweep_limits",
        *(f"gradient/{name}" for name in SPECTRA),
        *COST,
        "optimization/recovery_constant_ic_bfgs_proj",
    ),
}


def main() -> dict[str, float]:
    """Run the tasks that are asked for, by default all; print a table and return the figures."""
    asked = sys.argv[1:] if pathlib.Path(sys.argv[0]).stem == "mosaic_flows" else []
    checkout = where()
    wanted = [f"{problem}/{task}" for problem, tasks in TASKS.items() for task in tasks]
    wanted = [name for name in wanted if not asked or name in asked or name.partition("/")[0] in asked]
    rows, figures, failed = [], {}, 0
    for name in wanted:
        row, found = _row(checkout, name)
        rows.append(row)
        figures |= found
        failed += row[1] != "ok"
        print("  ".join(row), flush=True)
    print_table("Mosaic, fluid tasks", ["task", "verdict", "seconds", "peak MiB", "figures"], rows)
    if os.environ.get("MOSAIC_PEERS") == "1":
        figures |= beside_peers(checkout)
    return {"mosaic_tasks": float(len(wanted)), "mosaic_checks_failed": float(failed), **figures}


def where() -> pathlib.Path:
    """The checkout; ends with a plain message where there is none."""
    folder = os.environ.get("MOSAIC")
    if folder is None or not pathlib.Path(folder, "mosaic", "benchmarks").is_dir():
        print(
            "The environment variable MOSAIC must name a checkout of https://github.com/pasteurlabs/mosaic, "
            f"but {'is not set' if folder is None else f'{folder} is none'}. Run `git clone` first.",
            file=sys.stderr,
        )
        raise SystemExit(2)
    return pathlib.Path(folder).resolve()


def with_paths(checkout: pathlib.Path) -> None:
    """Let processes of peers import this simkit and the checkout."""
    wanted = [str(HERE.parent), str(checkout), str(checkout / "mosaic")]
    kept = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p and p not in wanted]
    os.environ["PYTHONPATH"] = os.pathsep.join(wanted + kept)


def run_task(
    checkout: pathlib.Path, name: str, solvers: pathlib.Path = SOLVERS, solver: str = "simkit"
) -> dict[str, Any]:
    """Results, verdict, seconds and peak memory of one task of one solver."""
    problem, _, task = name.partition("/")
    with_paths(checkout)
    options = {"problem": problem, "task": task, "solvers": str(solvers), "solver": solver}
    return run_peer("mosaic", PACKAGES, "mosaic_task.py", options=options)[1]


GRADIENTS = (
    ("ns-grid", "jax_cfd", "multimode", {"N": 128, "nu": 0.01, "dt": 0.01, "steps": 100}),
    ("ns-3d-grid", "exponax", "rand_div_free", {"N": 32, "nu": 0.01, "dt": 0.01, "steps": 50}),
)


def beside_peers(checkout: pathlib.Path) -> dict[str, float]:
    """Seconds and memory of a gradient by simkit and by the nearest solver of the suite, in turns, each in a process of its own."""
    theirs = checkout / "mosaic" / "tesseracts" / "navier-stokes-grid"
    rows, figures = [], {}
    for problem, peer, ic, physics in GRADIENTS:
        options = {"problem": problem, "ic": ic, "physics": physics, "samples": 3}
        runs: dict[str, list[dict[str, Any]]] = {"simkit": [], peer: []}
        for solver, folder in [("simkit", SOLVERS), (peer, theirs)] * 2:
            with_paths(checkout)
            given = options | {"solver": solver, "solvers": str(folder)}
            runs[solver].append(run_peer("mosaic", PACKAGES, "mosaic_gradient.py", options=given)[1])
        for solver, found in runs.items():
            least = {key: min(each[key] for each in found) for key in found[0]}
            rows.append([f"{problem} {physics['N']}", solver, *(f"{least[key]:.3g}" for key in least)])
            figures |= {f"mosaic_{problem}_{solver}_{key}": value for key, value in least.items()}
    print_table("A gradient, least of two runs of three", ["problem, cells", "solver", *least], rows)
    return figures


def _row(checkout: pathlib.Path, name: str) -> tuple[list[str], dict[str, float]]:
    try:
        found = run_task(checkout, name)
    except subprocess.CalledProcessError as error:
        return [name, "failed", "", "", f"the process ended with {error.returncode}"], {}
    figures = figures_of(name, found["result"])
    status = found["verdict"]["status"]
    if not figures or not np.isfinite(list(figures.values())).all():
        status = "failed"
    text = ", ".join(f"{key} {value:.3g}" for key, value in figures.items()) or found["verdict"]["reason"][:80]
    label = "mosaic_" + name.replace("ns-grid", "2d").replace("ns-3d-grid", "3d").replace("/", "_")
    named = {f"{label}_{key}": value for key, value in figures.items()}
    return [name, status, f"{found['seconds']:.0f}", f"{found['peak_mib']:.0f}", text], named


def figures_of(name: str, result: Mapping[str, Any]) -> dict[str, float]:
    """The figures of a task from the results of the harness."""
    entries = [e for e in result["results"] if e["solver"] == "simkit" and e["metrics"]]
    task = name.split("/")[2]
    reader = next(f for start, f in READERS.items() if task.startswith(start))
    return reader([(e["sweep_value"], e["metrics"]) for e in entries], result)


Entries = list[tuple[str | None, dict[str, Any]]]


def _error(entries: Entries, result: Any) -> dict[str, float]:
    return {"error": statistics.fmean(m["error"] for _, m in entries)}


def _laws(entries: Entries, result: Any) -> dict[str, float]:
    worst = lambda key: max(m[key] for _, m in entries)
    return {"divergence": worst("divergence_rms"), "error": worst("analytic_error")}


def _cost(entries: Entries, result: Any) -> dict[str, float]:
    size, metrics = entries[-1]
    return {"seconds": min(metrics["trials_s"]), "at": float(size or 0)}


def _checked(entries: Entries, result: Any) -> dict[str, float]:
    best = min(entries[0][1]["eps_sweep"].values(), key=lambda e: statistics.median(e["rel_error"]))
    return {"error": statistics.median(best["rel_error"]), "cosine_defect": 1 - best["cosine"]}


def _swept(entries: Entries, result: Any) -> dict[str, float]:
    best = [min(m["eps_sweep"].values(), key=lambda e: e["rel_error_mean"]) for _, m in entries]
    return {"error": max(b["rel_error_mean"] for b in best), "cosine_defect": max(1 - b["cosine_mean"] for b in best)}


def _limits(entries: Entries, result: Any) -> dict[str, float]:
    fine = [(int(v or 0), m) for v, m in entries if m["status"] == "ok"]
    if not fine:
        return {}
    steps, metrics = fine[-1]
    return {"steps": float(steps), "seconds": metrics["wall_time_s"], "gradient_norm": metrics["grad_norm"]}


def _spectrum(entries: Entries, result: Any) -> dict[str, float]:
    found = entries[0][1]
    return {"rank": found["eff_rank"], "norm": found["grad_norm"]}


def _drag(entries: Entries, result: Any) -> dict[str, float]:
    found = entries[0][1]
    return {"first": found["initial_drag"], "last": found["final_drag"], "iterations": float(found["n_iters"])}


def _recovered(entries: Entries, result: Any) -> dict[str, float]:
    found = entries[0][1]
    return {"error": found["final_ic_error"], "loss": found["final_loss"]}


READERS: dict[str, Callable[[Entries, Any], dict[str, float]]] = {
    "physical_laws": _laws,
    "spatial_cost": _cost,
    "temporal_cost": _cost,
    "vjp_cost": _cost,
    "fd_check": _checked,
    "param_sweep": _swept,
    "horizon_sweep_limits": _limits,
    "horizon_sweep": _swept,
    "jacobian_svd": _spectrum,
    "drag_opt": _drag,
    "recovery": _recovered,
    "": _error,
}

if __name__ == "__main__":
    print(main())
