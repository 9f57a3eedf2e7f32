"""A three-dimensional periodic flow by XLB's backend of JAX: nineteen velocities, one relaxation time, float32."""

import time

import _harness
import jax
import numpy as np
import warp
import warp.utils

if not hasattr(warp.utils, "ScopedTimer"):  # which XLB imports from there, and newer versions of Warp have at the top
    warp.utils.ScopedTimer = warp.ScopedTimer

import xlb
from xlb.compute_backend import ComputeBackend
from xlb.grid import grid_factory
from xlb.operator.stepper import IncompressibleNavierStokesStepper
from xlb.precision_policy import PrecisionPolicy


def main(arrays, options):
    backend, policy = ComputeBackend.JAX, PrecisionPolicy.FP32FP32
    lattice = xlb.velocity_set.D3Q19(precision_policy=policy, compute_backend=backend)
    xlb.init(velocity_set=lattice, default_backend=backend, default_precision_policy=policy)
    stepper = IncompressibleNavierStokesStepper(
        grid=grid_factory(arrays["populations"].shape[1:]), boundary_conditions=[], collision_type="BGK"
    )
    ours = [tuple(c) for c in arrays["velocities"].tolist()]
    theirs = [tuple(int(x) for x in c) for c in np.asarray(lattice.c).T]
    order = [ours.index(c) for c in theirs]
    blank, _, mask, missing = stepper.prepare_fields()
    first = jax.numpy.asarray(arrays["populations"][order], blank.dtype)
    omega, steps = options["omega"], options["steps"]

    def one_by_one(f):
        other = f
        for i in range(steps):
            f, other = stepper(f, other, mask, missing, omega, i)
            f, other = other, f
        return f

    @jax.jit
    def together(f):
        return jax.lax.fori_loop(0, steps, lambda i, f: stepper(f, f, mask, missing, omega, 0)[1], f)

    spent = {}
    for name, run in (("one_by_one", one_by_one), ("together", together)):
        found = jax.block_until_ready(run(first))
        spent[name] = []
        for _ in range(options["samples"]):
            start = time.process_time()
            jax.block_until_ready(run(first))
            spent[name].append((time.process_time() - start) / steps)
    after = np.empty_like(arrays["populations"])
    after[order] = np.asarray(found)
    return {"populations": after} | {name: np.array(x) for name, x in spent.items()}, {}


if __name__ == "__main__":
    _harness.serve(main)
