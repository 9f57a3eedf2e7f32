"""One task of Mosaic by its own harness, without containers: its results, as it writes them, and its own verdict."""

import dataclasses
import json
import os
import pathlib
import resource
import tempfile
import time

from _harness import serve


def main(arrays: dict, options: dict) -> tuple[dict, dict]:
    if options["task"].startswith("optimization"):
        # Steps of L-BFGS are compiled and call back: on one core XLA would have one thread, which waits for what it is to compute.
        os.environ.setdefault("NPROC", "4")
    folder = options.get("results") or tempfile.mkdtemp()
    os.environ["MOSAIC_RESULTS_DIR"] = folder
    problem, spec = entered(options["problem"], options["solvers"], options["solver"])
    start = time.perf_counter()
    problem.experiments[options["task"]].fn(
        problem, {spec.name: f"inprocess:{pathlib.Path(options['solvers'], spec.dir)}/tesseract_api.py"}, gpu_ids=[]
    )
    spent = time.perf_counter() - start
    found = json.loads(pathlib.Path(folder, problem.name, options["task"], "result.json").read_text())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {}, {"seconds": spent, "peak_mib": peak, "result": found, "verdict": verdict(problem, options["task"])}


def entered(name: str, folder: str, solver: str):
    """A problem with one solver of a folder in place of its own, and that solver."""
    from mosaic import get_config
    from mosaic.benchmarks.core.config import discover_solvers

    problem = get_config(name)
    known = discover_solvers(pathlib.Path(folder))
    spec = known[solver]
    own = [entry for entry in problem.solvers if entry.dir == spec.dir]
    if own:
        spec.input_overrides = own[0].input_overrides
    return dataclasses.replace(problem, solvers=[spec]), spec


def verdict(problem, task: str) -> dict:
    """What the harness says of the task's cell: its status, and why."""
    from mosaic.benchmarks.core.status import collect_status, status_to_dict

    suite, _, label = task.partition("/")
    for row in status_to_dict(collect_status(problem, [suite]))["rows"]:
        if label in (row["experiment"], row["label"]):
            (cell,) = row["cells"].values()
            return cell
    return {"status": "missing", "reason": "no row"}


if __name__ == "__main__":
    serve(main)
