"""Positions in another unit of length than the potential's, told before a run."""

import numpy as np
from jaxtyping import Array

from .._errors import ArgumentError
from ..core import traced
from ._given import Described
from .potentials._bonds import HarmonicBond, MorseBond
from .potentials._lennard_jones import LennardJones
from .potentials._potential import Potential, parts
from .potentials._weeks_chandler_andersen import WeeksChandlerAndersen
from .space._boxes import Boxes

NEAREST = 0.25
"""Smallest distance of a start, in diameters: a pair there has some 7e7 times the energy of the well, which no sound start has."""

WIDEST = 5.0
"""Largest factor by which most bonds may be longer or shorter than at rest: units of length differ by ten or more."""

LOOKED_AT = 500
"""Number of atoms whose nearest neighbours are searched."""


def check_scale(system: Described, position: Array) -> None:
    """Refuse positions whose distances are not of the size of the potential's lengths.

    **Raises:** an `ArgumentError` that gives both.
    """
    x = np.asarray(position, float)
    # Places in different cells of `Boxes` are not near each other, and atoms at one place are refused elsewhere.
    if len(x) < 2 or not np.isfinite(x).all() or isinstance(system.space, Boxes):
        return
    for part in parts(system.potential):
        if traced(part):
            continue
        if isinstance(part, LennardJones | WeeksChandlerAndersen):
            sizes = np.asarray(part.sigma, float)
            if not (sizes > 0).any():
                continue
            smallest = float(np.min(sizes[sizes > 0]))
            found = _usual_distance(system, x)
            if 0 < found < NEAREST * smallest:
                raise _error(f"most atoms have a neighbour within {found:.3g}", part, "sigma", smallest, found)
        elif isinstance(part, HarmonicBond | MorseBond):
            bonds, rest = np.asarray(part.atoms).reshape(-1, 2), float(np.median(np.asarray(part.length, float)))
            # A bond through the boundary would look long; one to an atom that is not there makes the energy NaN.
            if system.space.periodic or not len(bonds) or bonds.max() >= len(x) or not rest > 0:
                continue
            ends = x[bonds]
            found = float(np.median(np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1)))
            if not rest / WIDEST < found < rest * WIDEST:
                raise _error(f"most bonds are {found:.3g} long", part, "length", rest, found)


def _error(found: str, part: Potential, name: str, size: float, distance: float) -> ArgumentError:
    return ArgumentError(
        f"Argument `y0` must have its positions in the unit of the potential's lengths, but {found}, and `{name}` of "
        f"{type(part).__name__} is {size:.3g}, {size / distance:.3g} times that. Are the positions in nanometres and the "
        "potential in Angstrom? Multiply positions and cell by the ratio of the units."
    )


def _usual_distance(system: Described, x: np.ndarray) -> float:
    """The median distance to the nearest neighbour that is not left out of the pairs; images do not count."""
    from scipy.spatial import KDTree  # on first use: it takes as long to load as the rest of this room

    bound = [np.asarray(system.exclusions).reshape(-1, 2)] if system.exclusions is not None else []
    bonded = [getattr(part, "atoms", None) for part in parts(system.potential)]
    bound += [np.asarray(atoms)[:, [0, -1]] for atoms in bonded if atoms is not None and np.ndim(atoms) == 2]
    pairs = np.concatenate(bound) if bound else np.zeros((0, 2), int)
    left_out = set((np.minimum(*pairs.T) * len(x) + np.maximum(*pairs.T)).tolist()) if len(pairs) else set()
    rows = np.unique(np.linspace(0, len(x) - 1, LOOKED_AT).round().astype(int))
    most = int(np.bincount(pairs.ravel(), minlength=1).max(initial=0)) if len(pairs) else 0
    distance, other = KDTree(x).query(x[rows], k=min(most + 2, len(x)))
    key = np.minimum(rows[:, None], other) * len(x) + np.maximum(rows[:, None], other)
    counts = (other != rows[:, None]) & ~np.isin(key, list(left_out))
    return float(np.median(np.where(counts, distance, np.inf).min(axis=1)))
