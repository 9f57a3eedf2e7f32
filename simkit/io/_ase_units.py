"""Frames in the numbers of ASE: Angstrom, eV, g/mol, and momenta in (g/mol eV)^(1/2)."""

import dataclasses
import math

from ..md import METAL, REDUCED, Frame

# Of a momentum of METAL, eV ps / Angstrom.
MOMENTUM = math.sqrt(METAL.inside(1.0, "mass"))


def to_ase_numbers(frame: Frame) -> Frame:
    """The frame with the numbers that ASE counts; those of reduced units as they are."""
    if frame.units == REDUCED:
        return frame
    frame = frame.converted(METAL)
    return dataclasses.replace(
        frame,
        mass=None if frame.mass is None else METAL.outside(frame.mass, "mass"),
        momentum=None if frame.momentum is None else frame.momentum / MOMENTUM,
    )


def from_ase_numbers(frame: Frame) -> Frame:
    """The frame of metal units, from one that holds ASE's numbers."""
    if frame.units == REDUCED:
        return frame
    return dataclasses.replace(
        frame,
        mass=None if frame.mass is None else METAL.inside(frame.mass, "mass"),
        momentum=None if frame.momentum is None else frame.momentum * MOMENTUM,
    )
