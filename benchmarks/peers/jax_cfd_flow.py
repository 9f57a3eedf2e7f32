"""jax-cfd: the decaying plane flow of `fluids.py` by its spectral solver, Crank-Nicolson with a Runge-Kutta method."""

import functools
import importlib.metadata

import _harness
import jax
import numpy as np


def main(arrays, options):
    jax.config.update("jax_enable_x64", options["precision"] == "float64")
    from jax_cfd.base import grids
    from jax_cfd.spectral import equations, time_stepping

    start = jax.numpy.asarray(arrays["start"], options["precision"])
    grid = grids.Grid(start.shape, domain=((0, 2 * np.pi),) * 2)
    equation = equations.NavierStokes2D(options["viscosity"], grid, drag=options["drag"], smooth=True)
    step = time_stepping.crank_nicolson_rk4(equation, options["step"])
    run = jax.jit(functools.partial(jax.lax.fori_loop, 0, options["steps"], lambda _, u: step(u)))
    modes = jax.numpy.fft.rfftn(start)
    end = jax.block_until_ready(run(modes))
    spent = []
    for _ in range(options["samples"]):
        began = _harness.clock()
        jax.block_until_ready(run(modes))
        spent.append((_harness.clock() - began) / options["steps"])
    found = {"end": np.asarray(jax.numpy.fft.irfftn(end, start.shape)), "spent": np.array(spent)}
    return found, {"jax-cfd": importlib.metadata.version("jax-cfd"), "jax": jax.__version__}


if __name__ == "__main__":
    _harness.serve(main)
