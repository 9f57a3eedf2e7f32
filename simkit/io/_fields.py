"""Fields on grids as netCDF-4 files that xarray reads, and XDMF beside them for ParaView."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import equinox as eqx
import h5py
import jax
import numpy as np
from jaxtyping import Array

from .._errors import ArgumentError
from .._processes import check_held
from .._types import State
from ..core import System, Trajectory, field_metadata, named_leaves
from ..fluids import Grid, IncompressibleFlow
from ..stores import write_text, write_whole
from ._netcdf import write_dimension, write_variable

AXES = ("x", "y", "z")


def write_fields(
    path: str | Path,
    system: System,
    run: Trajectory,
    *,
    outputs: Sequence[str] = (),
    xdmf: bool = True,
    overwrite: bool = False,
) -> list[Path]:
    """Write the fields of a run on a grid.

    **Arguments:**

    - `path`: a netCDF-4 file; its name ends in `.nc`.
    - `system`, `run`: a system with a `grid`, and one trajectory of it.
    - `outputs`: which of the system's outputs to write beside the state, such as "energy" or "pressure".
    - `xdmf`: whether to write a file `.xdmf` beside it, which ParaView opens (with "Xdmf3 Reader S").
    - `overwrite`: whether a file that exists may be replaced.

    Dimensions are `time`, then `component` of vectors, then the axes from the last to the first, as climate and forecast data
    have them; coordinates are the centres of cells, `x_face` and so on for what stands on faces.

    **Returns:** the files.

    **Raises:** an `ArgumentError` for a system without a grid, an ensemble, an output that is none, or a file that exists.

    ```python
    import numpy as np
    import simkit
    system, y0, times, _ = simkit.fluids.CompressibleFlow.example()
    run = simkit.simulate(system, y0, times)
    files = simkit.io.write_fields("tube.nc", system, run, outputs=["mass"])
    ```
    """
    path = Path(path)
    grid = checked_grid(path, system, run, overwrite)
    arrays = field_arrays(system, run, outputs)
    shapes = {}

    def write(temporary: Path) -> None:
        with h5py.File(temporary, "w", track_order=True) as file:
            file.attrs["Conventions"] = "CF-1.11"
            write_dimension(file, "time", np.asarray(run.times))
            for axis, name in enumerate(AXES[: grid.dimensions]):
                write_dimension(file, name, grid.centres(axis))
            for name, (values, faces, unit) in arrays.items():
                dims = _dims(file, grid, values, faces)
                if dims[-1] in (AXES[0], f"{AXES[0]}_face"):  # a field
                    d = grid.dimensions
                    values = np.moveaxis(values, range(-d, 0), range(-1, -d - 1, -1))
                write_variable(file, name, values, dims, unit)
                shapes[name] = (values.shape, faces)

    write_whole(path, write)
    if not xdmf:
        return [path]
    beside = path.with_suffix(".xdmf")
    write_text(beside, _xdmf(path.name, grid, np.asarray(run.times, float), shapes))
    return [path, beside]


def checked_grid(path: Path, system: object, run: Trajectory, overwrite: bool) -> Grid:
    """The grid of a run that can be written to a file."""
    check_held(run)
    grid = getattr(system, "grid", None)
    if not isinstance(grid, Grid):
        raise ArgumentError(f"Argument `system` must have a grid, but {type(system).__name__} has none.")
    if np.ndim(run.times) != 1:
        raise ArgumentError("Argument `run` must be one trajectory, but it is an ensemble. Write each member.")
    if not path.parent.is_dir():
        raise ArgumentError(
            f"There is no folder {path.parent} for the file {path.name}. Make it, or choose another path."
        )
    if path.exists() and not overwrite:
        raise ArgumentError(f"The file {path} exists. Choose another name, or pass `overwrite=True`.")
    return grid


def field_arrays(
    system: System, run: Trajectory, outputs: Sequence[str]
) -> dict[str, tuple[np.ndarray, int | None, str]]:
    """Name -> values, the axis on whose faces they stand or None, and the unit."""
    found: dict[str, tuple[np.ndarray, int | None, str]] = {}
    staggered = isinstance(run.ys, IncompressibleFlow.State)
    for name, leaf in named_leaves(run.ys).items():
        head, _, last = name.partition(".")
        faces = int(last) if staggered and head == "velocity" else None
        unit = "length/time" if faces is not None else "1" if "." in name else field_metadata(run.ys, name).unit
        found[f"{head}_{AXES[faces]}" if faces is not None else name] = (np.asarray(leaf), faces, unit)
    if not outputs:
        return found
    values = named_leaves(_mapped(system, run.times, run.ys))
    for name in outputs:
        if name not in values:
            raise ArgumentError(f"Argument `outputs` names {name!r}, but the system has {', '.join(values)}.")
        if name not in found:
            found[name] = (np.asarray(values[name]), None, "1")
    return found


@eqx.filter_jit
def _mapped(system: System, times: Array, states: State) -> Any:
    return jax.lax.map(lambda at: system.outputs(at[0], at[1], None), (times, states))


def _dims(file: h5py.File, grid: Grid, values: np.ndarray, faces: int | None) -> list[str]:
    """The dimensions of what is written; those that are missing are made."""
    d = grid.dimensions
    shape = values.shape[1:]
    if faces is None and shape[len(shape) - d :] != grid.shape:  # no field, a few numbers at every time
        return ["time", *(_numbered(file, n) for n in shape)]
    names = [str(name) for name in AXES[:d]]
    if faces is not None:
        names[faces] = f"{AXES[faces]}_face"
        if names[faces] not in file:
            write_dimension(file, names[faces], grid.faces(faces)[: shape[faces]])
    leading = ["component" if n == d else _numbered(file, n) for n in shape[: len(shape) - d]]
    if "component" in leading and "component" not in file:
        write_dimension(file, "component", list(AXES[:d]))
    return ["time", *leading, *reversed(names)]


def _numbered(file: h5py.File, n: int) -> str:
    name = f"n{n}"
    if name not in file:
        write_dimension(file, name, np.arange(n))
    return name


def _xdmf(file: str, grid: Grid, times: np.ndarray, shapes: dict[str, tuple[tuple[int, ...], int | None]]) -> str:
    """The fields at the centres, scalar by scalar, over the times."""
    d = grid.dimensions
    names = [f"{AXES[k]}" for k in range(d)]
    nodes = " ".join(str(n + 1) for n in reversed(grid.shape))
    flat = grid.shape if d > 1 else (*grid.shape, 1)
    if d == 1:  # readers want a plane at least
        nodes = f"2 {grid.shape[0] + 1}"
    kind = "2DRectMesh" if d < 3 else "3DRectMesh"
    coordinates = []
    for axis in range(max(d, 2)):
        values = grid.faces(axis) if axis < d else np.array([0.0, 1.0])
        text = " ".join(f"{x:.17g}" for x in values)
        coordinates.append(
            f'<DataItem Dimensions="{len(values)}" NumberType="Float" Precision="8" Format="XML">{text}</DataItem>'
        )
    lines = [
        '<?xml version="1.0"?>',
        '<Xdmf Version="3.0">',
        "<Domain>",
        '<Grid Name="fields" GridType="Collection" CollectionType="Temporal">',
    ]
    cells = " ".join(str(n) for n in reversed(flat))
    for k, time in enumerate(times):
        lines += [
            f'<Grid Name="{k}" GridType="Uniform">',
            f'<Time Value="{time:.17g}"/>',
            f'<Topology TopologyType="{kind}" Dimensions="{nodes}"/>',
            f'<Geometry GeometryType="{"VXVY" if d < 3 else "VXVYVZ"}">',
            *coordinates,
            "</Geometry>",
        ]
        for name, (shape, faces) in shapes.items():
            if faces is not None or shape[len(shape) - d :] != tuple(reversed(grid.shape)):
                continue
            for index in np.ndindex(*shape[1 : len(shape) - d]):
                suffix = "".join(f"_{names[i] if n == d else i}" for i, n in zip(index, shape[1:], strict=False))
                start = " ".join(map(str, (k, *index, *(0,) * d)))
                ones = " ".join(["1"] * len(shape))
                count = " ".join(map(str, (1, *(1 for _ in index), *shape[len(shape) - d :])))
                whole = " ".join(map(str, shape))
                lines += [
                    f'<Attribute Name={quoteattr(name + suffix)} AttributeType="Scalar" Center="Cell">',
                    f'<DataItem ItemType="HyperSlab" Dimensions="{cells}">',
                    f'<DataItem Dimensions="3 {len(shape)}" Format="XML">{start} {ones} {count}</DataItem>',
                    f'<DataItem Dimensions="{whole}" NumberType="Float" Precision="8" Format="HDF">{file}:/{name}</DataItem>',
                    "</DataItem>",
                    "</Attribute>",
                ]
        lines.append("</Grid>")
    return "\n".join([*lines, "</Grid>", "</Domain>", "</Xdmf>", ""])
