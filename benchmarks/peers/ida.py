"""A differential-algebraic problem in SUNDIALS' IDA (BDF, dense), one tolerance after the other."""

import time

import _harness
import numpy as np
from _constrained_problems import PROBLEMS


def main(arrays, options):
    from sksundae.ida import IDA

    problem = PROBLEMS[options["problem"]]()

    def residual(t, y, slope, left):
        left[:] = problem.mass @ slope - problem.right(np, t, y)

    found = {}
    slope = np.linalg.lstsq(problem.mass, problem.right(np, 0.0, problem.y0), rcond=None)[0]
    for k, tolerance in enumerate(options["tolerances"]):
        settings = {"rtol": tolerance, "atol": tolerance * options["scale"], "max_num_steps": 100_000}
        solver = IDA(residual, **settings)
        spent = []
        for _ in range(5):
            start = time.process_time()
            answer = solver.solve(np.array([0.0, problem.end]), problem.y0, slope).y[-1]
            spent.append(time.process_time() - start)
        found |= {f"{k}.y": np.asarray(answer), f"{k}.cpu": np.array(spent)}
    start = time.process_time()
    count = 2000
    left = np.empty_like(problem.y0)
    for _ in range(count):
        residual(0.0, problem.y0, slope, left)
    return found, {"residual": (time.process_time() - start) / count}


if __name__ == "__main__":
    _harness.serve(main)
