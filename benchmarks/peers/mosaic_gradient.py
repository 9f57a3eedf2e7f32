"""A gradient of Mosaic's loss by the initial velocity, by the Tesseract of one solver: time, and memory of its process."""

import pathlib
import resource
import time

import jax
from _harness import serve
from mosaic_task import entered


def main(arrays: dict, options: dict) -> tuple[dict, dict]:
    from mosaic.benchmarks.problems.shared.gradient import _vjp_grad
    from tesseract_core import Tesseract

    problem, spec = entered(options["problem"], options["solvers"], options["solver"])
    physics = options["physics"]
    start = problem.make_ic[options["ic"]](L=problem.domain_extent, seed=42, **physics)
    inputs = problem.make_inputs(spec.name, start, domain_extent=problem.domain_extent, **physics)
    served = Tesseract.from_tesseract_api(pathlib.Path(options["solvers"], spec.dir, "tesseract_api.py"))
    before = _peak()
    calls = {"forward": lambda: served.apply(inputs), "gradient": lambda: _vjp_grad(served, inputs, "result", "v0")}
    spent = {}
    for name, call in calls.items():
        times = []
        for _ in range(1 + options["samples"]):
            begin = time.perf_counter()
            jax.block_until_ready(call())
            times.append(time.perf_counter() - begin)
        spent |= {name: min(times[1:]), f"{name}_first": times[0]}
    return {}, spent | {"peak_mib": _peak() - before}


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    serve(main)
