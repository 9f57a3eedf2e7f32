"""Ensembles in numbalsoda: LSODA and DOP853, a compiled loop over the members around a compiled vector field."""

import ctypes
import importlib
import time

import _harness
import numba
import numpy as np

# What LSODA calls: time, state, rates (to be written), parameters.
SIGNATURE = numba.types.void(numba.types.double, *[numba.types.CPointer(numba.types.double)] * 3)


@numba.cfunc(SIGNATURE)
def lorenz(t, y, rate, p):
    rate[0] = 10.0 * (y[1] - y[0])
    rate[1] = y[0] * (p[0] - y[2]) - y[1]
    rate[2] = y[0] * y[1] - 8.0 / 3.0 * y[2]


@numba.cfunc(SIGNATURE)
def lotka_volterra(t, y, rate, p):
    rate[0] = (p[0] - p[1] * y[1]) * y[0]
    rate[1] = (p[2] * y[0] - p[3]) * y[1]


@numba.cfunc(SIGNATURE)
def van_der_pol(t, y, rate, p):
    rate[0] = y[1]
    rate[1] = p[0] * (1.0 - y[0] * y[0]) * y[1] - y[0]


@numba.cfunc(SIGNATURE)
def robertson(t, y, rate, p):
    a, b, c = p[0] * y[0], p[1] * y[1] * y[1], p[2] * y[1] * y[2]
    rate[0] = c - a
    rate[1] = a - b - c
    rate[2] = b


FIELDS = {"lorenz": lorenz, "lotka_volterra": lotka_volterra, "van_der_pol": van_der_pol, "robertson": robertson}


def over_members(solver):
    """The compiled loop over the members."""

    @numba.njit
    def run(address, y0, p, times, rtol, atol):
        final, failed = np.empty_like(y0), 0
        for i in range(len(y0)):
            states, success = solver(address, y0[i], times, p[i], rtol, atol, 1_000_000)
            final[i] = states[-1]
            failed += not success
        return final, failed

    return run


def solvers(library):
    """The package's solvers, or its LSODA from a library where the package could not be built."""
    if library is None:
        numbalsoda = importlib.import_module("numbalsoda")
        return {"lsoda": over_members(numbalsoda.lsoda), "dop853": over_members(numbalsoda.dop853)}
    entry = ctypes.CDLL(library).lsoda_wrapper
    pointer, number, whole = ctypes.c_void_p, ctypes.c_double, ctypes.c_int
    entry.argtypes = [pointer, whole, pointer, pointer, whole, pointer, pointer, number, number, whole, pointer]
    entry.restype = None

    @numba.njit
    def lsoda(address, y0, times, p, rtol, atol, most):
        states, success = np.empty((len(times), len(y0))), np.zeros(1, np.int32)
        pointers = y0.ctypes.data, p.ctypes.data, times.ctypes.data, states.ctypes.data
        sizes = len(y0), len(times)
        entry(
            address,
            sizes[0],
            pointers[0],
            pointers[1],
            sizes[1],
            pointers[2],
            pointers[3],
            rtol,
            atol,
            most,
            success.ctypes.data,
        )
        return states, success[0] == 1

    return {"lsoda": over_members(lsoda)}


def main(arrays, options):
    found, found_solvers = {}, solvers(options.get("library"))
    for name, (end, rtol, atol) in options["cases"].items():
        y0, p, times = arrays[f"{name}.y0"], arrays[f"{name}.p"], np.array([0.0, end])
        for solver, run in found_solvers.items():
            if solver == "dop853" and name in ("van_der_pol", "robertson"):
                continue  # stiff: it prints a line for each member
            final, failed = run(FIELDS[name].address, y0, p, times, rtol, atol)
            if failed:
                raise RuntimeError(f"{solver} failed on {failed} members of {name}.")
            spent = []
            for _ in range(options["samples"]):
                began = time.process_time()
                run(FIELDS[name].address, y0, p, times, rtol, atol)
                spent.append(time.process_time() - began)
            found |= {f"{name}.{solver}.y": final, f"{name}.{solver}.cpu": np.array(spent)}
    return found, {}


if __name__ == "__main__":
    _harness.serve(main)
