"""A process that writes frames until it is killed; it prints the step of each frame that is in the file."""

import os
import sys

import numpy as np

from simkit.io import H5MDWriter
from simkit.md import METAL, Frame, Orthorhombic

ATOMS = 40


def frame(step):
    """A frame whose every number tells its step."""
    full = np.full((ATOMS, 3), float(step))
    return Frame(
        Orthorhombic(np.full(3, 10.0 + step)),
        full,
        units=METAL,
        mass=np.ones(ATOMS),
        momentum=2 * full,
        energy=-float(step),
        time=0.5 * step,
        step=step,
    )


if __name__ == "__main__":
    with H5MDWriter(sys.argv[1], frame(0), append=True) as file:
        step = file.frames
        while True:
            file.write(frame(step))
            os.write(1, b"%d\n" % step)
            step += 1
