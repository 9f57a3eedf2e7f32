"""The frames that a file of a trajectory holds."""

import dataclasses
from pathlib import Path

import numpy as np

from ..md import Frame, OpenSpace, Space, Units, space_from_vectors

MOVING = {"velocity": "velocity", "force": "force"}
"""Series of vectors beside the positions, with their dimensions."""


@dataclasses.dataclass(frozen=True)
class FrameSeries:
    """Frames of a trajectory file, with the numbers of a unit system.

    `position`, `velocity` and `force`, shape (frames, atoms, d); `vectors`, the cells, shape (frames, d, d), or None; `time` and
    `step`, shape (frames,); `mass`, `charge`, `symbols` of the atoms; `observables` by name. What the file does not hold is None.
    `trajectory[i]` is a `Frame`, and `space(i)` its space.
    """

    path: Path
    units: Units
    position: np.ndarray
    step: np.ndarray
    time: np.ndarray
    vectors: np.ndarray | None
    velocity: np.ndarray | None
    force: np.ndarray | None
    mass: np.ndarray | None
    charge: np.ndarray | None
    symbols: tuple[str, ...] | None
    observables: dict[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.position)

    def space(self, index: int) -> Space:
        """The space of a frame."""
        if self.vectors is None:
            return OpenSpace(dimensions=self.position.shape[2])
        return space_from_vectors(self.vectors[index])

    def __getitem__(self, index: int) -> Frame:
        pick = lambda series: None if series is None else series[index]
        momentum = None if self.velocity is None or self.mass is None else self.velocity[index] * self.mass[:, None]
        energy = self.observables.get("potential_energy")
        return Frame(
            self.space(index),
            self.position[index],
            units=self.units,
            symbols=self.symbols,
            mass=self.mass,
            charge=self.charge,
            momentum=momentum,
            force=pick(self.force),
            energy=None if energy is None else float(energy[index]),
            time=float(self.time[index]),
            step=int(self.step[index]),
        )

    def __repr__(self) -> str:
        frames, atoms, _ = self.position.shape
        span = f", time {self.time[0]:g} to {self.time[-1]:g}" if frames else ""
        names = [name for name in MOVING if getattr(self, name) is not None] + sorted(self.observables)
        held = f", with {', '.join(names)}" if names else ""
        return f"FrameSeries of {frames} frames of {atoms} atoms{span} ({self.units.name} units){held}"
