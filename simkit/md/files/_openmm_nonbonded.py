"""Lennard-Jones and charges of an OpenMM System, with its exceptions."""

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..potentials._coulomb import CoulombCut
from ..potentials._ewald import CoulombScreened, Ewald, ParticleMeshEwald
from ..potentials._lennard_jones import LennardJones
from ..potentials._listed_pairs import ListedPairs
from ..potentials._own_pairs import CoulombBond, LennardJonesBond
from ..potentials._potential import Potential
from ..potentials._reaction_field import CoulombReactionField
from ..potentials._truncation import Truncated, Truncation
from ..space._units import GROMACS
from ._openmm_custom import refused
from ._openmm_reading import Found, Reading, ending, parameters_of, plain, rows_by_kind, table_of

SAME = 1e-6
"""Relative spread of the scales of 1-4 pairs that are taken as one number: files write eight digits or fewer."""


NEUTRAL = 1e-9
"""Relative net charge below which a cell counts as neutral; above it a uniform background is added, as OpenMM does."""


def lennard_jones_rows(force: Any) -> np.ndarray:
    """Sigma and epsilon of all particles; the diameter of an atom without depth does not matter."""
    return table_of([row[1:] for row in parameters_of(force, "Particle")], 2)


def charges(force: Any, reading: Reading) -> np.ndarray:
    """Charge of every row."""
    return np.asarray([row[0] for row in parameters_of(force, "Particle")], float)[reading.order]


def nonbonded(force: Any, reading: Reading) -> Found:
    """Pairs of all atoms and the exceptions among them."""
    if force.getNumParticleParameterOffsets() or force.getNumExceptionParameterOffsets():
        raise refused(force, "parameters with offsets", "Set them to their values.")
    if force.getNonbondedMethod() == force.LJPME:
        raise refused(
            force, "LJPME, a mesh for dispersion", "Take PME with a cutoff and `setUseDispersionCorrection(True)`."
        )
    exceptions = parameters_of(force, "Exception")
    pairs = np.asarray([row[:2] for row in exceptions], int).reshape(-1, 2)
    own = table_of([row[2:] for row in exceptions], 3)
    rows = reading.places(pairs).reshape(-1, 2)
    reading.exclude(pairs, reading.label(force))
    charge = charges(force, reading)
    found: Found = []
    sigma, epsilon = (reading.of_species(reading.label(force), k) for k in (0, 1))
    cutoff, truncation = _reach(force)
    bare = LennardJones(sigma=sigma, epsilon=epsilon, cutoff=cutoff, truncation=truncation)
    if bare.epsilon.any():
        found.append(("lennard_jones", bare))
    found += _lennard_jones_exceptions(
        LennardJones(sigma=sigma, epsilon=epsilon, cutoff=math.inf), reading, rows, own[:, 1:]
    )
    if charge.any():
        found += [("coulomb", part) for part in _coulomb(force, reading, rows, charge)]
    return found + _coulomb_exceptions(rows, own[:, 0], charge)


def _reach(force: Any) -> tuple[float, Truncation]:
    method = force.getNonbondedMethod()
    if method == force.NoCutoff:
        return math.inf, Truncated()
    tail = bool(force.getUseDispersionCorrection()) and method != force.CutoffNonPeriodic
    return plain(force.getCutoffDistance()), ending(force, tail)


def _lennard_jones_exceptions(pair: LennardJones, reading: Reading, rows: np.ndarray, own: np.ndarray) -> Found:
    some = own[:, 1] != 0
    rows, own = rows[some], own[some]
    if not len(rows):
        return []
    sigma, epsilon = (np.asarray(values)[reading.species] for values in (pair.sigma, pair.epsilon))
    mixed_sigma = 0.5 * (sigma[rows[:, 0]] + sigma[rows[:, 1]])
    mixed = np.sqrt(epsilon[rows[:, 0]] * epsilon[rows[:, 1]])
    alike = np.isclose(own[:, 0], mixed_sigma, rtol=SAME, atol=0) & (mixed > 0)
    found: Found = []
    if alike.any():
        scale = own[alike, 1] / mixed[alike]
        found.append(("lennard_jones_14", ListedPairs(pair, rows[alike], _one(scale))))
    if not alike.all():
        kinds, kind = rows_by_kind(own[~alike])
        found.append(("lennard_jones_own", LennardJonesBond(rows[~alike], kinds[:, 0], kinds[:, 1], kind)))
    return found


def _coulomb_exceptions(rows: np.ndarray, product: np.ndarray, charge: np.ndarray) -> Found:
    some = product != 0
    rows, product = rows[some], product[some]
    if not len(rows):
        return []
    bare = charge[rows[:, 0]] * charge[rows[:, 1]]
    alike = bare != 0
    found: Found = []
    if alike.any():
        scale = product[alike] / bare[alike]
        found.append(
            ("coulomb_14", ListedPairs(CoulombCut(constant=GROMACS.coulomb, cutoff=math.inf), rows[alike], _one(scale)))
        )
    if not alike.all():
        found.append(("coulomb_own", CoulombBond(rows[~alike], product[~alike], GROMACS.coulomb)))
    return found


def _one(scale: np.ndarray) -> Any:
    """One number where all are the same."""
    return float(np.median(scale)) if np.ptp(scale) <= SAME * np.abs(scale).max() else scale


def _coulomb(force: Any, reading: Reading, rows: np.ndarray, charge: np.ndarray) -> Sequence[Potential]:
    method, constant = force.getNonbondedMethod(), GROMACS.coulomb
    if method == force.NoCutoff:
        return [CoulombCut(constant=constant, cutoff=math.inf)]
    cutoff = plain(force.getCutoffDistance())
    if method in (force.CutoffNonPeriodic, force.CutoffPeriodic):
        return [CoulombReactionField(constant=constant, permittivity=force.getReactionFieldDielectric(), cutoff=cutoff)]
    damping, *mesh = (plain(x) for x in force.getPMEParameters())
    tolerance = force.getEwaldErrorTolerance()
    damping = damping or math.sqrt(-math.log(2 * tolerance)) / cutoff
    widths = np.asarray(np.diagonal(np.asarray(reading.space.vectors())), float)
    excluded = jnp.asarray(rows, jnp.int32) if len(rows) else None
    charged = bool(abs(charge.sum()) > NEUTRAL * np.abs(charge).sum())
    inside = CoulombScreened(constant=constant, damping=damping, cutoff=cutoff)
    if method == force.Ewald:
        a, b, c = (_ewald_waves(width, damping, tolerance) for width in widths)
        whole = Ewald(constant=constant, damping=damping, waves_along=(a, b, c), excluded=excluded, background=charged)
        return [inside, whole]
    if not all(mesh):
        mesh = [max(6, math.ceil(2 * damping * width / (3 * tolerance**0.2))) for width in widths]
    a, b, c = mesh
    return [
        inside,
        ParticleMeshEwald(
            constant=constant, damping=damping, mesh=(a, b, c), order=5, excluded=excluded, background=charged
        ),
    ]


def _ewald_waves(width: float, damping: float, tolerance: float) -> int:
    """Waves along one vector by the error that OpenMM's documentation gives for their sum; it counts an odd number of them."""

    def too_few(count: int) -> bool:
        return (
            0.05 * math.sqrt(width * damping) * count * math.exp(-((count * math.pi / (width * damping)) ** 2))
            > tolerance
        )

    count = 10
    if too_few(count):
        while too_few(count):
            count += 1
    else:
        while count > 0 and not too_few(count):
            count -= 1
        count += 1
    return count + (count % 2 == 0) - 1
