"""One large stiff problem in pydiffsol (BDF, sparse) and in SUNDIALS' CVODE (BDF, SuperLU, GMRES), by tolerance."""

import _harness
import numpy as np
from _stiff_problems import PROBLEMS


def pydiffsol(problem, tolerance):
    import pydiffsol as ds

    small = len(problem.y0) <= 12
    ode = ds.Ode(problem.code, matrix_type=ds.nalgebra_dense if small else ds.faer_sparse, ode_solver=ds.bdf)
    # Its own sparse LU: with KLU, version 0.6.2 ends in a segmentation fault.
    ode.rtol, ode.atol = tolerance, tolerance * problem.scale
    end, one = np.array([problem.end]), np.array([1.0])
    return lambda: ode.solve_dense(one, end).ys[:, -1]


def cvode(problem, tolerance, krylov=False):
    import scipy.sparse as sp
    from sksundae.cvode import CVODE

    rows, columns = (x.astype(np.int32) for x in problem.sparsity)
    size = len(problem.y0)
    pattern = sp.csc_array((np.ones(len(rows)), (rows, columns)), shape=(size, size))

    def field(t, y, slope):
        slope[:] = problem.field(np, y)

    how = {"linsolver": "dense"} if size <= 30 else {"linsolver": "sparse", "sparsity": pattern}
    if krylov:
        how = {"linsolver": "gmres"}
    settings = {"rtol": tolerance, "atol": tolerance * problem.scale, "max_num_steps": 100_000}
    solver = CVODE(field, method="BDF", **settings, **how)
    return lambda: solver.solve(np.array([0.0, problem.end]), problem.y0).y[-1]


def main(arrays, options):
    problem = PROBLEMS[options["problem"]]()
    found = {}
    peers = {"pydiffsol": pydiffsol, "cvode": cvode, "cvode-gmres": lambda *given: cvode(*given, krylov=True)}
    if not problem.code:
        del peers["pydiffsol"]
    if problem.species == 1:
        del peers["cvode-gmres"]
    if len(problem.y0) > 20_000 and problem.species > 1:
        del peers["cvode"]  # SuperLU takes minutes a solve, GMRES seconds
    if problem.algebraic:
        del peers["cvode"], peers["cvode-gmres"]
    for name, make in peers.items():
        for k, tolerance in enumerate(options["tolerances"]):
            run = make(problem, tolerance)
            answer, spent = _harness.least_cpu(run, seconds=1.0, samples=50)
            found |= {f"{name}.{k}.y": np.asarray(answer), f"{name}.{k}.cpu": np.array(spent)}
    return found, {}


if __name__ == "__main__":
    _harness.serve(main)
