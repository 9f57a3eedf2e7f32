"""Fields on grids as VTKHDF, the format of HDF5 that ParaView and VTK read by themselves."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from .._errors import ArgumentError
from ..core import System, Trajectory
from ..fluids import Grid
from ..stores import write_whole
from ._fields import checked_grid, field_arrays

VERSION = (2, 2)
"""Version of the format, the first in which image data have times; VTK 9.4 and ParaView 5.13 read it."""


def write_vtkhdf(
    path: str | Path, system: System, run: Trajectory, *, outputs: Sequence[str] = (), overwrite: bool = False
) -> Path:
    """Write the fields at the centres of cells, over all times of a run, as image data in one VTKHDF file.

    **Arguments:**

    - `path`: its name ends in `.vtkhdf`, by which ParaView knows it.
    - `system`, `run`: a system with a `grid` of equal cells, and one trajectory of it.
    - `outputs`: which of the system's outputs to write beside the state: such as "velocity" of an incompressible flow, whose
      components stand on faces and are left out otherwise.
    - `overwrite`: whether a file that exists may be replaced.

    Vectors have three components, and grids three dimensions, of which those that are missing are one cell wide.

    **Returns:** the path.

    **Raises:** an `ArgumentError` for a system without a grid, stretched cells, an ensemble, an output that is none or no field,
    or a file that exists.

    **Source:** the VTKHDF file format, docs.vtk.org.

    ```python
    import simkit
    system, y0, times, _ = simkit.fluids.CompressibleFlow.example()
    run = simkit.simulate(system, y0, times)
    file = simkit.io.write_vtkhdf("tube.vtkhdf", system, run, outputs=["mach"])
    ```
    """
    path = Path(path)
    grid = checked_grid(path, system, run, overwrite)
    if any(cells is not None for cells in grid.stretched):
        raise ArgumentError(
            "Image data have equal cells, but the grid is stretched. Take `write_fields`, whose XDMF has such."
        )
    fields = _fields(grid, field_arrays(system, run, outputs), outputs)
    missing = 3 - grid.dimensions

    def write(temporary: Path) -> None:
        with h5py.File(temporary, "w") as file:
            root = file.create_group("VTKHDF")
            root.attrs["Version"] = np.array(VERSION, np.int64)
            root.attrs.create("Type", b"ImageData", dtype=h5py.string_dtype("ascii", len(b"ImageData")))
            sizes = (*grid.shape, *(1,) * missing)
            root.attrs["WholeExtent"] = np.array([end for n in sizes for end in (0, n)], np.int64)
            root.attrs["Origin"] = np.array([*grid.origin, *(0.0,) * missing], float)
            widths = [grid.spacing(axis) for axis in range(grid.dimensions)]
            root.attrs["Spacing"] = np.array([*widths, *(min(widths),) * missing], float)
            root.attrs["Direction"] = np.eye(3).ravel()
            times = np.asarray(run.times, float)
            steps = root.create_group("Steps")
            steps.attrs["NSteps"] = np.int64(times.size)
            steps["Values"] = times
            for name, values in fields.items():
                root[f"CellData/{name}"] = values
                root[f"Steps/CellDataOffsets/{name}"] = np.arange(times.size)

    write_whole(path, write)
    return path


def _fields(grid: Grid, arrays: dict[str, Any], outputs: Sequence[str]) -> dict[str, np.ndarray]:
    """Name -> values (times, z, y, x), and components behind them."""
    d, found = grid.dimensions, {}
    for name, (values, faces, _) in arrays.items():
        leading = values.shape[1 : values.ndim - d]
        if faces is not None or values.shape[values.ndim - d :] != grid.shape:
            if name in outputs:
                raise ArgumentError(f"Argument `outputs` names {name!r}, which is no field at the centres of cells.")
            continue
        turned = np.moveaxis(values, range(-d, 0), range(-1, -d - 1, -1))
        rows = turned.reshape((values.shape[0], -1, *(1,) * (3 - d), *reversed(grid.shape)))
        if leading == (d,):
            rows = np.concatenate([rows, np.zeros_like(rows[:, : 3 - d])], axis=1)
        found[name] = np.moveaxis(rows, 1, -1) if leading else rows[:, 0]
    if not found:
        raise ArgumentError(
            'There is no field at the centres of cells; name outputs that are, such as `outputs=["velocity"]`.'
        )
    return found
