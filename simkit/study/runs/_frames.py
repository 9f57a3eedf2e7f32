"""Frames of a run in parts, written to a trajectory as soon as a part is done."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from ...core import Trajectory
from ...io import H5MDWriter
from ...md import OUTPUT_DIMENSIONS, Frame, Particles, space_from_vectors

Outputs = dict[str, Any]
Keep = Callable[[Trajectory, Outputs], None]


@contextlib.contextmanager
def written_frames(system: Particles, path: Path, overwrite: bool) -> Iterator[Keep]:
    """Open the writer of an H5MD trajectory: a function of a part of the run and of its outputs, by name."""
    names = [name for name in OUTPUT_DIMENSIONS if name != "potential_energy"]
    step = 0
    writer: H5MDWriter | None = None

    def keep(run: Trajectory, outputs: Outputs) -> None:
        nonlocal writer, step
        count = len(run.times)
        each = int(run.steps) // max(1, count - 1 if step == 0 and writer is None else count)
        held = {name: np.asarray(outputs[name]) for name in names if name in outputs}
        for k in range(count):
            frame = _frame(system, run, k, float(outputs["potential_energy"][k]), step)
            if writer is None:
                dimensions = {name: OUTPUT_DIMENSIONS[name] for name in held}
                writer = H5MDWriter(path, frame, observables=dimensions, overwrite=overwrite)
            writer.write(frame, **{name: float(values[k]) for name, values in held.items()})
            step += each

    try:
        yield keep
    finally:
        if writer is not None:
            writer.close()


def _frame(system: Particles, run: Trajectory, k: int, energy: float, step: int) -> Frame:
    atoms = run.ys
    space = system.space if atoms.cell is None else space_from_vectors(atoms.cell[k])
    position = np.asarray(atoms.position[k])
    return Frame(
        space,
        position,
        units=system.units,
        mass=np.asarray(system.masses(jnp.asarray(position)))[:, 0],
        charge=None if system.charge is None else np.asarray(system.charge)[: len(position)],  # without virtual sites
        momentum=np.asarray(atoms.momentum[k]),
        energy=energy,
        time=float(run.times[k]),
        step=step,
    )
