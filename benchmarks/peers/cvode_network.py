"""A reaction network in SUNDIALS' CVODE (BDF, SuperLU or LAPACK's dense LU, its Jacobian given), one tolerance after the other."""

import time

import _harness
import _plain_network
import numpy as np


def solver_of(network, kind, tolerance, atol):
    from sksundae.cvode import CVODE

    pattern, filled = filling(network)

    def field(t, y, slope):
        slope[:] = network.field(y)

    def jacobian(t, y, slope, out):
        if kind == "dense":
            out[:] = network.jacobian(y).toarray()
        else:
            out[:] = filled(y)

    how = {"linsolver": "dense"} if kind == "dense" else {"linsolver": "sparse", "sparsity": pattern}
    return CVODE(field, method="BDF", rtol=tolerance, atol=atol, max_num_steps=200_000, jacfn=jacobian, **how)


def filling(network):
    """The pattern of the Jacobian by columns, and the function that gives its entries in that order."""
    import scipy.sparse as sp

    n, count = len(network.y0), len(network.k)
    change = network.change.tocoo()
    i = np.tile(change.row, 2)
    slope = np.concatenate([change.col, change.col + count])
    j = np.concatenate([network.reactants[0][change.col], network.reactants[1][change.col]])
    kept = j < n
    keys = (j * n + i)[kept]
    all_ = np.unique(np.concatenate([keys, np.arange(n) * (n + 1)]))
    places = np.searchsorted(all_, keys)
    spread = sp.csr_array((np.tile(change.data, 2)[kept], (places, slope[kept])), shape=(len(all_), 2 * count))
    ends = np.searchsorted(all_, np.arange(n + 1) * n).astype(np.int32)
    pattern = sp.csc_array((np.ones(len(all_)), (all_ % n).astype(np.int32), ends), shape=(n, n))
    a, b = network.reactants

    def entries(y):
        whole = np.append(y, 1.0)
        return spread @ np.concatenate([network.k * whole[b], network.k * whole[a]])

    return pattern, entries


def main(arrays, options):
    network = _plain_network.read(options["path"])
    found, order = {}, np.argsort(np.array(network.names))
    for kind in options["kinds"]:
        for k, tolerance in enumerate(options["tolerances"]):
            solver = solver_of(network, kind, tolerance, tolerance * options["scale"])
            spent, begun = [], time.perf_counter()
            while len(spent) < 2 or (time.perf_counter() - begun < 5.0 and len(spent) < 10):
                start = time.process_time()
                answer = solver.solve(np.array([0.0, options["end"]]), network.y0)
                spent.append(time.process_time() - start)
            found |= {f"{kind}.{k}.y": answer.y[-1][order], f"{kind}.{k}.cpu": np.array(spent)}
    return found, {}


if __name__ == "__main__":
    _harness.serve(main)
