"""The state of many atoms."""

from typing import Any

import equinox as eqx
from jaxtyping import Array

from ..core import quantity


class Atoms(eqx.Module):
    """Positions and momenta of atoms, and what their dynamics keep.

    - `position`: shape (atoms, d). Positions are not wrapped into the cell, so that displacements can be read from them.
    - `momentum`: shape (atoms, d), mass times velocity.
    - `thermostat`: what a thermostat keeps, such as the heat it took or the chain of Nose and Hoover; None before a run.
    - `cell`: the lattice vectors as rows, shape (d, d), where the cell moves; None where it is that of the space.
    """

    position: Array = quantity()
    momentum: Array = quantity()
    thermostat: Any = None
    cell: Any = None
