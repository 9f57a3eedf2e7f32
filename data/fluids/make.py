"""Make the reference fields in this folder: `python data/fluids/make.py`, with the environments of the benchmarks.

A decaying plane flow on 48 x 48 cells, from a random start that both grids resolve, by exponax and by jax-cfd.
"""

import json
import pathlib
import sys

import jax
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "benchmarks"))

import _harness  # noqa: E402

from simkit import fluids  # noqa: E402

COMMON = {"precision": "float64", "viscosity": 0.2, "drag": 0.1, "samples": 0}
PROGRAMS = {
    "exponax": (["exponax==0.2.0", "numpy"], "exponax_flow.py", {"step": 0.01, "steps": 100}),
    # Of second order in the linear part: smaller steps.
    "jax_cfd": (["jax-cfd==0.2.1", "numpy"], "jax_cfd_flow.py", {"step": 0.0005, "steps": 2000}),
}


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    grid = fluids.Grid((48, 48))
    start = fluids.vorticity(grid, fluids.random_velocity(grid, jax.random.key(5), peak=2.0))
    for name, (packages, script, options) in PROGRAMS.items():
        found, versions = _harness.run_peer(name, packages, script, {"start": np.asarray(start)}, COMMON | options)
        np.savez_compressed(HERE / f"{name}.npz", start=start, end=found["end"])
        about = {"versions": versions, "cells": [48, 48], "length": "2 pi", "time": 1.0, **COMMON, **options}
        (HERE / f"{name}.json").write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main()
