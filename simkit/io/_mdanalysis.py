"""Trajectories of other programs (DCD, XTC, TRR, NetCDF and others), in and out through MDAnalysis."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._doors import check_kind
from .._errors import ArgumentError, DataError, missing_package
from ..md import REDUCED, Frame, Units, si_value, three_dimensional
from ._frame_series import FrameSeries
from ._h5md_layout import MDANALYSIS, value_of

TILT = 1e-5
"""Part of the cell by which an axis may leave the places that files of lengths and angles can say: what float32 rounds off, and
some."""

UNEVEN = 1e-4
"""Part of the time between frames by which one may come early or late and is evenly spaced, as times of files are float32."""


def read_trajectory(
    path: str | Path, units: Units, *, topology: str | Path | None = None, frames: slice = slice(None)
) -> FrameSeries:
    """Read a trajectory of another program through MDAnalysis: DCD, XTC, TRR, Amber's NetCDF, LAMMPS' dump and others.

    **Arguments:**

    - `path`: the file; its ending says the format.
    - `units`: the unit system that the numbers shall have. With `REDUCED` they are taken as they stand in the file, so far as
        MDAnalysis lets them: lengths as Angstrom, times as ps.
    - `topology`: a file that names the atoms (PDB, GRO, PSF, prmtop, LAMMPS' data), for symbols, masses and charges. Without it
        there are positions, cells, and velocities and forces where the file has them.
    - `frames`: which frames, such as `slice(-100, None)`; only these are read.

    **Returns:** the frames: `series[i]` is a `Frame`, `series.position` an array. Files of these kinds hold 7 digits.

    **Raises:** a `MissingPackageError` where MDAnalysis is not installed; a `DataError` where the file cannot be read, or its cells
    are periodic in part.

    **Good values:** name a topology where velocities shall become momenta, which needs masses.
    """
    check_kind("path", path, str | Path, "a path", 'Write `read_trajectory("run.dcd", METAL)`.')
    check_kind(
        "units", units, Units, "a unit system", "Write `simkit.md.METAL`, or `REDUCED` to take the numbers as they are."
    )
    check_kind("frames", frames, slice, "a slice", "Write `frames=slice(-100, None)`, and `series[3]` for one frame.")
    mda = _import("`read_trajectory`")
    path = Path(path)
    for file in (path, topology):
        if file is not None and not Path(file).is_file():
            raise DataError(f"There is no file `{file}`.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on what a file lacks, which is None here
            universe = _universe(mda, path, topology)
            taken = [_taken(step, path) for step in universe.trajectory[frames]]
    except (ValueError, OSError, TypeError, EOFError, KeyError, AttributeError, IndexError, RuntimeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"`{path}` cannot be read by MDAnalysis: {reason}") from error
    if not taken:
        raise DataError(f"`{path}` must hold frames, but of {len(universe.trajectory)} `frames` takes none.")
    factor = lambda dimension: _factor(units, dimension)
    series = {name: [one[name] for one in taken] for name in taken[0]}
    held = lambda name, dimension: (
        None if any(one is None for one in series[name]) else np.asarray(series[name], float) * factor(dimension)
    )
    atoms = universe.atoms
    position = held("position", "length")
    assert position is not None
    return FrameSeries(
        path,
        units,
        position,
        np.asarray(series["step"], np.int64),
        np.asarray(series["time"], float) * factor("time"),
        _cells(series["cell"], mda, factor("length"), path),
        held("velocity", "velocity"),
        held("force", "force"),
        _of_atoms(atoms, "masses", factor("mass")),
        _of_atoms(atoms, "charges", factor("charge")),
        _symbols(atoms),
        {},
    )


def write_trajectory(path: str | Path, frames: Sequence[Frame] | FrameSeries) -> Path:
    """Write a trajectory for other programs through MDAnalysis: DCD, XTC, TRR, Amber's NetCDF and others, by the file's ending.

    **Arguments:**

    - `path`: the file.
    - `frames`: frames of the same atoms, in any unit system; numbers of reduced units are taken as Angstrom and ps. Velocities and
        forces are written where the format has places for them (TRR, NetCDF).

    **Returns:** the path. The formats hold 7 digits, XTC a hundredth of an Angstrom; H5MD (`H5MDWriter`) holds all.

    **Raises:** a `MissingPackageError` where MDAnalysis is not installed; an `ArgumentError` where the number of atoms differs,
    times are unevenly spaced in a format that states one interval (DCD), or a cell is not along the axes in the way in which
    lengths and angles can say it: a along x, b in the plane of x and y.
    """
    check_kind("path", path, str | Path, "a path", 'Write `write_trajectory("run.dcd", frames)`.')
    remedy = "Write `[frame]` for one frame."
    check_kind("frames", frames, FrameSeries | list | tuple, "a sequence of frames", remedy)
    for frame in frames if not isinstance(frames, FrameSeries) else ():
        check_kind("frames", frame, Frame, "a sequence of frames", remedy)
    mda = _import("`write_trajectory`")
    path = Path(path)
    solid = [three_dimensional(frames[i]) for i in range(len(frames))]
    if not solid:
        raise ArgumentError("Argument `frames` must hold a frame at least, but is empty. Give the frames of a run.")
    atoms = len(solid[0])
    for i, frame in enumerate(solid):
        if len(frame) != atoms:
            raise ArgumentError(
                f"Argument `frames` must have the same atoms in all frames, but frame {i} has {len(frame)} and the first {atoms}. "
                "Write frames of different atoms by `write_extxyz`."
            )
    times = np.array([frame.time * _from(frame.units, "time") for frame in solid])
    interval = _interval(times, [frame.step for frame in solid]) if path.suffix.lower() == ".dcd" else {}
    moving = solid[0].momentum is not None and solid[0].mass is not None
    pushed = solid[0].force is not None
    universe = mda.Universe.empty(atoms, trajectory=True, velocities=moving, forces=pushed)
    step = universe.trajectory.ts
    try:
        with (
            warnings.catch_warnings(),
            mda.Writer(
                str(path), n_atoms=atoms, velocities=moving, forces=pushed, multiframe=True, **interval
            ) as writer,
        ):
            warnings.simplefilter("ignore")  # on names of atoms, which these formats do not need
            for i, frame in enumerate(solid):
                step.dimensions = _dimensions(frame, mda, i)
                step.positions = frame.position * _from(frame.units, "length")
                if moving:
                    step.velocities = value_of(frame, "velocity") * _from(frame.units, "velocity")
                if pushed:
                    step.forces = np.asarray(frame.force) * _from(frame.units, "force")
                step.time, step.data["step"] = times[i], frame.step
                writer.write(universe.atoms)
    except (ValueError, TypeError, NotImplementedError) as error:
        raise ArgumentError(
            f"Argument `path` must end in a format of trajectories that MDAnalysis writes, such as .dcd, .xtc or .trr, but "
            f"`{path.name}` cannot be written: {str(error).splitlines()[0]}"
        ) from error
    return path


def _import(what: str) -> Any:
    try:
        import MDAnalysis
    except ImportError as error:
        raise missing_package(what, "MDAnalysis", "md") from error
    return MDAnalysis


def _universe(mda: Any, path: Path, topology: str | Path | None) -> Any:
    if topology is not None:
        return mda.Universe(str(topology), str(path))
    reader = mda.coordinates.core.get_reader_for(str(path))
    with reader(
        str(path), **({"n_atoms": reader.parse_n_atoms(str(path))} if hasattr(reader, "parse_n_atoms") else {})
    ) as file:
        atoms = file.n_atoms
    found = mda.Universe.empty(atoms)
    found.load_new(str(path))
    return found


def _taken(step: Any, path: Path) -> dict[str, Any]:
    """The contents of one frame, in the units of MDAnalysis."""
    return {
        "position": np.array(step.positions, float),
        "velocity": np.array(step.velocities, float) if step.has_velocities else None,
        "force": np.array(step.forces, float) if step.has_forces else None,
        "cell": None if step.dimensions is None else np.array(step.dimensions, float),
        "time": step.time,
        "step": step.frame if path.suffix.lower() == ".dcd" else step.data.get("step", step.frame),  # a DCD has none
    }


def _cells(given: list[Any], mda: Any, factor: float, path: Path) -> np.ndarray | None:
    periodic = [cell is not None and bool((cell[:3] > 0).all()) for cell in given]
    if not any(periodic):
        return None
    if not all(periodic):
        raise DataError(
            f"`{path}` must have a cell in all frames or in none, but frame {periodic.index(False)} has none."
        )
    return np.stack([np.asarray(mda.lib.mdamath.triclinic_vectors(cell), float) for cell in given]) * factor


def _dimensions(frame: Frame, mda: Any, index: int) -> np.ndarray | None:
    """Lengths and angles of a cell, which must lie along the axes as they say."""
    if not frame.space.periodic:
        return None
    vectors = np.asarray(frame.space.vectors(), float) * _from(frame.units, "length")
    above = np.abs(np.triu(vectors, 1)).max()
    if not above <= TILT * np.abs(vectors).max():
        raise ArgumentError(
            f"Argument `frames` must have cells with a along x and b in the plane of x and y, which lengths and angles can say, "
            f"but frame {index} has the vectors {vectors.tolist()}. Turn the system, or write H5MD or extended XYZ."
        )
    return mda.lib.mdamath.triclinic_box(*vectors)


def _interval(times: np.ndarray, steps: list[int]) -> dict[str, Any]:
    """Statements of a DCD of all its frames at once: the time between them, the steps between them, and the first step."""
    gaps = np.diff(times)
    if not len(gaps) and times[0] < 0:
        raise ArgumentError(
            f"Argument `frames` must not begin before 0 for one frame in DCD, but does at {times[0]:g} ps. Write TRR."
        )
    if not len(gaps):  # one interval from the origin of time
        return {"dt": float(times[0]), "nsavc": 1, "istart": 1} if times[0] else {}
    if not (gaps[0] > 0 and np.abs(gaps - gaps[0]).max() <= UNEVEN * gaps[0]):
        raise ArgumentError(
            f"Argument `frames` must be evenly spaced in time for DCD, which states one interval, but the times between them lie "
            f"from {gaps.min():g} to {gaps.max():g} ps. Write TRR or XTC."
        )
    between = max(steps[1] - steps[0], 1)
    first = round(float(times[0] / gaps[0] * between))  # a DCD counts time in steps
    if not abs(first / between * gaps[0] - times[0]) <= UNEVEN * gaps[0]:
        raise ArgumentError(
            f"Argument `frames` must begin at a whole number of steps for DCD, which counts time in them, but begins at "
            f"{times[0]:g} ps in steps of {gaps[0] / between:g} ps. Write TRR or XTC."
        )
    return {"dt": float(gaps[0]), "nsavc": between, "istart": first}


def _factor(units: Units, dimension: str) -> float:
    """Return the factor from MDAnalysis' numbers to those of the simulation."""
    return 1.0 if units == REDUCED else si_value(MDANALYSIS[dimension]) / units.si(dimension)


def _from(units: Units, dimension: str) -> float:
    return 1 / _factor(units, dimension)


def _of_atoms(atoms: Any, name: str, factor: float) -> np.ndarray | None:
    found = getattr(atoms, name, None)
    return None if found is None else np.asarray(found, float) * factor


def _symbols(atoms: Any) -> tuple[str, ...] | None:
    found = getattr(atoms, "elements", getattr(atoms, "types", None))
    return None if found is None else tuple(str(name) for name in found)
