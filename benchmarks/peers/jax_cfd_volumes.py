"""jax-cfd: the decaying plane flow of `_fluids_volumes.py` by its finite volumes on a staggered grid, forward Euler."""

import functools
import importlib.metadata

import _harness
import jax
import numpy as np


def main(arrays, options):
    jax.config.update("jax_enable_x64", options["precision"] == "float64")
    from jax_cfd.base import advection, boundaries, equations, grids

    components = [jax.numpy.asarray(arrays[name], options["precision"]) for name in ("u", "v")]
    grid = grids.Grid(components[0].shape, domain=((0, 2 * np.pi),) * 2)
    periodic = boundaries.periodic_boundary_conditions(2)
    variables = tuple(
        grids.GridVariable(grids.GridArray(x, offset, grid), periodic)
        for x, offset in zip(components, grid.cell_faces, strict=True)
    )
    step = equations.semi_implicit_navier_stokes(
        density=1.0,
        viscosity=options["viscosity"],
        dt=options["step"],
        grid=grid,
        convect=advection.convect_linear if options["flux"] == "central" else None,
    )
    run = jax.jit(functools.partial(jax.lax.fori_loop, 0, options["steps"], lambda _, v: step(v)))
    end = jax.block_until_ready(run(variables))
    spent = []
    for _ in range(options["samples"]):
        began = _harness.clock()
        jax.block_until_ready(run(variables))
        spent.append((_harness.clock() - began) / options["steps"])
    found = {"u": np.asarray(end[0].data), "v": np.asarray(end[1].data), "spent": np.array(spent)}
    return found, {"jax-cfd": importlib.metadata.version("jax-cfd"), "jax": jax.__version__}


if __name__ == "__main__":
    _harness.serve(main)
