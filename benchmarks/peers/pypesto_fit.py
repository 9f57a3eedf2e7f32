"""A fit of a PEtab problem by pyPESTO with fides and AMICI: one start after the other until the CPU seconds are used up.

Run by `benchmarks/petab_large.py` in an environment of its own: `pypesto_fit.py PROBLEM.yaml SECONDS STARTS`. Prints for each start
its objective and the CPU seconds until then, C++ compilation apart.
"""

import sys
import time

import numpy as np
import petab.v1 as petab
import pypesto
import pypesto.optimize
import pypesto.petab


def main(file: str, seconds: float, starts: int) -> None:
    read = petab.Problem.from_yaml(file)
    # What AMICI does not take: numbers of observables and noise that change from one time to the next.
    petab.flatten_timepoint_specific_output_overrides(read)
    problem = pypesto.petab.PetabImporter(read).create_problem()
    optimizer = pypesto.optimize.FidesOptimizer(verbose=40, options={"maxiter": 1000})
    # Starts are drawn from the global generator.
    np.random.seed(1)  # noqa: NPY002
    spent, begin = 0.0, time.process_time()
    for _ in range(starts):
        result = pypesto.optimize.minimize(problem, optimizer, n_starts=1, progress_bar=False)
        spent = time.process_time() - begin
        print("start", float(result.optimize_result.fval[0]), spent, flush=True)
        if spent > seconds:
            break


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))
