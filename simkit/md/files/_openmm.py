"""Systems of OpenMM, translated term by term."""

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..._doors import shown
from ..._errors import ArgumentError
from ...core import as_float_array
from .._particles import Particles
from ..dynamics._constraint import constraints_of, obeyed
from ..dynamics._distances import Constraints
from ..dynamics._dynamics import Dynamics
from ..dynamics._nve import NVE
from ..dynamics._rigid_water import RigidWater
from ..potentials._angles import HarmonicAngle, PeriodicDihedral, RyckaertBellemans
from ..potentials._bonds import HarmonicBond
from ..potentials._generalized_born import GeneralizedBorn
from ..potentials._potential import Sum
from ..potentials._torsion_map import TorsionMap
from ..space._atoms import Atoms
from ..space._space import OpenSpace, Orthorhombic, Space, Triclinic
from ..space._units import GROMACS
from ..space._virtual_sites import VirtualSites
from ._molecular_model import MolecularModel
from ._openmm_custom import (
    compound_terms,
    custom_pairs,
    custom_terms,
    external_field,
    refused,
    species_rows_of,
    through_atoms,
)
from ._openmm_nonbonded import charges, lennard_jones_rows, nonbonded
from ._openmm_reading import Found, Reading, labelled, parameters_of, plain, rows_by_kind, table_of


def from_openmm(
    system: Any,
    positions: Any,
    *,
    velocities: Any = None,
    box: Any = None,
    dynamics: Dynamics | None = None,
    topology: Any = None,
    skin: float = 0.1,
    precision: str | None = None,
) -> MolecularModel:
    """Particles with all terms of an `openmm.System`, and their start; in `GROMACS` units.

    **Arguments:**

    - `system`: as `openmm.app.ForceField.createSystem` and its relatives make it, with or without units.
    - `positions`, `velocities`: of all its particles, shape (particles, 3), in nm and nm/ps or with units; at rest by default.
        Atoms whose distances are constrained are moved to them.
    - `box`: lattice vectors in nm, shape (3, 3); by default those of the system.
    - `dynamics`: as for `Particles`, in K and ps; `NVE()` by default. A thermostat or barostat of OpenMM is refused.
    - `topology`: an `openmm.app.Topology`, from which names of atoms and residues are kept.
    - `skin`, `precision`: as for `Particles`.

    **Returns:** a `MolecularModel`. Equal parameters become one kind, so that a fit changes them together. 1-4 pairs that follow
    the mixing rule stay tied to it by one scale; the tail of Lennard-Jones counts pairs as $N_s N_t$, where OpenMM counts
    $N_s (N_s + 1)$ of one species.

    **Raises:** an `ArgumentError` that names the force, site or setting that simkit has not: nothing is left out silently.

    ```python
    # model = md.from_openmm(forcefield.createSystem(pdb.topology), pdb.positions)
    ```
    """
    if not hasattr(system, "getNumForces"):
        raise ArgumentError(f"Argument `system` must be an `openmm.System`, but it is {shown(system)}.")
    space = _space(system, box)
    forces = [system.getForce(k) for k in range(system.getNumForces())]
    labels = labelled(forces)
    columns = {labels[id(force)]: ROWS[type(force).__name__](force) for force in forces if type(force).__name__ in ROWS}
    reading = Reading(system, space, labels, columns)
    found: Found = []
    charge = None
    for force in forces:
        kind = type(force).__name__
        if kind not in TRANSLATORS:
            remedy = (
                "Give `dynamics=` instead and remove it"
                if kind in MOVERS
                else f"Known are {', '.join(sorted(TRANSLATORS))}"
            )
            raise ArgumentError(
                f"Argument `system` must hold only forces that simkit has, but it holds {kind}. {remedy}."
            )
        found += TRANSLATORS[kind](force, reading)
        if kind in ("NonbondedForce", "GBSAOBCForce"):
            own = charges(force, reading)
            if charge is not None and not np.array_equal(own, charge):
                raise refused(force, "other charges than another force", "Give both the same charges.")
            charge = own
    if not found:
        raise ArgumentError("Argument `system` must hold a force, but holds none that has an energy.")
    exclusions = next(iter(reading.exclusions.values()), np.zeros((0, 2), int))
    particles = Particles(
        Sum(tuple(potential for _, potential in found)),
        space,
        mass=_masses(system, reading),
        dynamics=NVE() if dynamics is None else dynamics,
        species=jnp.asarray(reading.species, jnp.int32) if len(reading.kinds) > 1 or reading.kinds.size else None,
        charge=None if charge is None else jnp.asarray(charge),
        constraints=_constraints(system, reading),
        units=GROMACS,
        skin=skin,
        precision=precision,
        exclusions=jnp.asarray(exclusions, jnp.int32) if len(exclusions) else None,
        sites=_sites(system, reading),
    )
    position = _vectors("positions", positions, reading)
    position = obeyed(constraints_of(particles.constraints), space, particles.masses(position), position)
    momentum = (
        0 * position if velocities is None else _vectors("velocities", velocities, reading) * particles.masses(position)
    )
    names = tuple(name for name, _ in found)
    return MolecularModel(
        particles, Atoms(position, momentum), names, tuple(reading.order.tolist()), *_described(topology)
    )


def _vectors(name: str, values: Any, reading: Reading) -> Any:
    rows = np.asarray(plain(values), float)
    count = len(reading.order)
    if rows.shape != (count, 3):
        raise ArgumentError(
            f"Argument `{name}` must have the shape ({count}, 3) of the system's particles, but has {rows.shape}."
        )
    return jnp.asarray(rows[reading.atoms])


def _space(system: Any, box: Any) -> Space:
    if not system.usesPeriodicBoundaryConditions():
        return OpenSpace()
    given = [list(plain(v)) for v in system.getDefaultPeriodicBoxVectors()] if box is None else plain(box)
    vectors = np.asarray(given, float).reshape(3, 3)
    right = np.abs(vectors - np.diag(np.diagonal(vectors))).max() == 0
    return Orthorhombic(as_float_array(np.diagonal(vectors))) if right else Triclinic(vectors)


def _masses(system: Any, reading: Reading) -> Any:
    mass = np.asarray([plain(system.getParticleMass(int(k))) for k in reading.atoms], float)
    if (mass <= 0).any():
        still = int(reading.atoms[np.argmin(mass > 0)])
        raise ArgumentError(
            f"Argument `system` must have atoms with masses, but particle {still} has none and is no virtual site. Hold it by a "
            "`HarmonicTrap` instead."
        )
    return jnp.asarray(mass)


def _constraints(system: Any, reading: Reading) -> Any:
    """Triangles of rigid water, and the other distances."""
    rows = parameters_of(system, "Constraint")
    if not rows:
        return None
    pairs, lengths = reading.places([row[:2] for row in rows]), np.asarray([row[2] for row in rows], float)
    waters, used = _triangles(system, reading, pairs, lengths)
    rest = [k for k in range(len(pairs)) if k not in used]
    found: list[Any] = [
        RigidWater([list(atoms) for atoms in water], bond, 2 * np.arcsin(min(1.0, across / (2 * bond))))
        for (bond, across), water in waters.items()
    ]
    if rest:
        found.append(Constraints(pairs[rest], as_float_array(lengths[rest])))
    return found[0] if len(found) == 1 else tuple(found)


def _triangles(
    system: Any, reading: Reading, pairs: np.ndarray, lengths: np.ndarray
) -> tuple[dict[Any, list[Any]], set[int]]:
    """Three atoms that are held by three distances and nothing else, two of the same length and with ends of one mass."""
    partners: dict[int, dict[int, int]] = {}
    for k, (a, b) in enumerate(pairs.tolist()):
        partners.setdefault(a, {})[b] = k
        partners.setdefault(b, {})[a] = k
    mass = lambda row: plain(system.getParticleMass(int(reading.order[row])))
    waters: dict[Any, list[Any]] = {}
    used: set[int] = set()
    for apex, ends in partners.items():
        if len(ends) != 2:
            continue
        left, right = ends
        if set(partners[left]) != {apex, right} or set(partners[right]) != {apex, left}:
            continue
        across = partners[left][right]
        if across in used or lengths[ends[left]] != lengths[ends[right]] or mass(left) != mass(right):
            continue
        if lengths[across] == lengths[ends[left]] and mass(apex) == mass(left) and apex > min(left, right):
            continue
        used |= {ends[left], ends[right], across}
        waters.setdefault((lengths[ends[left]], lengths[across]), []).append((apex, left, right))
    return waters, used


def _sites(system: Any, reading: Reading) -> VirtualSites | None:
    if not len(reading.sites):
        return None
    parents, weights, cross, local, axes = [], [], [], [], []
    for k in reading.sites.tolist():
        site = system.getVirtualSite(k)
        kind, atoms = type(site).__name__, [site.getParticle(i) for i in range(site.getNumParticles())]
        out, place, turns = 0.0, [0.0, 0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]]
        if any(system.isVirtualSite(a) for a in atoms):
            raise ArgumentError(
                f"Argument `system` must have sites that hang on atoms, but site {k} hangs on another site."
            )
        if kind in ("TwoParticleAverageSite", "ThreeParticleAverageSite"):
            shares = [site.getWeight(i) for i in range(len(atoms))]
            if abs(sum(shares) - 1) > 1e-6:
                raise ArgumentError(
                    f"Argument `system` must have weights of sites that add up to 1, but those of {k} to {sum(shares)}."
                )
            weights.append([*shares[1:], 0.0][:2])
        elif kind == "OutOfPlaneSite":
            weights.append([site.getWeight12(), site.getWeight13()])
            out = site.getWeightCross()
        elif kind == "LocalCoordinatesSite" and len(atoms) <= 3:
            origin, *turns = ([*rows, 0.0][:3] for rows in _frame(site))
            weights.append(origin[1:])
            place, turns = list(plain(site.getLocalPosition())), [row[1:] for row in turns]
        else:
            raise ArgumentError(
                f"Argument `system` must have virtual sites that simkit has, but site {k} is a {kind}. Known are "
                "TwoParticleAverageSite, ThreeParticleAverageSite, OutOfPlaneSite, and LocalCoordinatesSite of three atoms."
            )
        cross.append(out)
        local.append(place)
        axes.append(turns)
        parents.append([*atoms, atoms[0]][:3])
    beyond = {
        **({"cross": np.asarray(cross, float)} if any(cross) else {}),
        **({"local": np.asarray(local, float), "axes": np.asarray(axes, float)} if np.any(local) else {}),
    }
    return VirtualSites(reading.places(parents), np.asarray(weights, float), **beyond)


def _frame(site: Any) -> list[list[float]]:
    """Shares of the atoms in the origin and the two directions of a frame."""
    return [list(rows) for rows in (site.getOriginWeights(), site.getXWeights(), site.getYWeights())]


def _described(topology: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if topology is None:
        return (), ()
    atoms = list(topology.atoms())
    return tuple(atom.name for atom in atoms), tuple(f"{atom.residue.name}{atom.residue.id}" for atom in atoms)


def _bonds(force: Any, reading: Reading) -> Found:
    rows = parameters_of(force, "Bond")
    return _harmonic("bonds", HarmonicBond, reading, rows, 2)


def _angles(force: Any, reading: Reading) -> Found:
    rows = parameters_of(force, "Angle")
    return _harmonic("angles", HarmonicAngle, reading, rows, 3)


def _harmonic(name: str, potential: Callable[..., Any], reading: Reading, rows: list[list[Any]], size: int) -> Found:
    rows = [row for row in rows if row[size + 1] != 0]  # a term without stiffness has no energy
    if not rows:
        return []
    kinds, kind = rows_by_kind(np.asarray([row[size:] for row in rows], float))
    atoms = reading.places([row[:size] for row in rows])
    return [(name, potential(atoms, kinds[:, 1], kinds[:, 0], kind))]


def _dihedrals(force: Any, reading: Reading) -> Found:
    rows = parameters_of(force, "Torsion")
    if not rows:
        return []
    kinds, kind = rows_by_kind(np.asarray([row[4:] for row in rows], float))
    atoms = reading.places([row[:4] for row in rows])
    return [
        (
            "dihedrals",
            PeriodicDihedral(
                atoms,
                stiffness=kinds[:, 2],
                multiplicity=tuple(int(n) for n in kinds[:, 0]),
                phase=kinds[:, 1],
                kind=jnp.asarray(kind),
            ),
        )
    ]


def _powers(force: Any, reading: Reading) -> Found:
    rows = parameters_of(force, "Torsion")
    if not rows:
        return []
    kinds, kind = rows_by_kind(np.asarray([row[4:] for row in rows], float))
    return [
        (
            "dihedrals_rb",
            RyckaertBellemans(
                reading.places([row[:4] for row in rows]), coefficients=jnp.asarray(kinds), kind=jnp.asarray(kind)
            ),
        )
    ]


def _maps(force: Any, reading: Reading) -> Found:
    rows = parameters_of(force, "Torsion")
    found: Found = []
    tables = parameters_of(force, "Map")
    for size in sorted({size for size, _ in tables}):
        which = [k for k, table in enumerate(tables) if table[0] == size]
        mine = [row for row in rows if row[0] in which]
        if not mine:
            continue
        # The first angle varies fastest.
        values = np.stack([np.asarray(tables[k][1], float).reshape(size, size).T for k in which])
        kind = np.asarray([which.index(row[0]) for row in mine], int)
        found.append(
            (
                "torsion_map",
                TorsionMap(
                    reading.places([row[1:] for row in mine]), table=jnp.asarray(values), kind=jnp.asarray(kind)
                ),
            )
        )
    return found


def _born(force: Any, reading: Reading) -> Found:
    if force.getNonbondedMethod() != force.NoCutoff:
        raise refused(force, "a cutoff", "Take `NoCutoff`: the model here is that of open space.")
    rows = table_of(parameters_of(force, "Particle"), 3)
    radius, scale = jnp.asarray(rows[reading.order, 1]), jnp.asarray(rows[reading.order, 2])
    potential = GeneralizedBorn(
        radius,
        scale,
        "OBC2",
        GROMACS.coulomb,
        force.getSoluteDielectric(),
        force.getSolventDielectric(),
        0.009,
        plain(force.getSurfaceAreaEnergy()),
        0.14,
    )
    return [("generalized_born", potential)]


TRANSLATORS: Mapping[str, Callable[[Any, Reading], Found]] = {
    "HarmonicBondForce": _bonds,
    "HarmonicAngleForce": _angles,
    "PeriodicTorsionForce": _dihedrals,
    "RBTorsionForce": _powers,
    "CMAPTorsionForce": _maps,
    "NonbondedForce": nonbonded,
    "GBSAOBCForce": _born,
    "CustomBondForce": custom_terms,
    "CustomAngleForce": custom_terms,
    "CustomTorsionForce": custom_terms,
    "CustomCompoundBondForce": compound_terms,
    "CustomExternalForce": external_field,
    "CustomNonbondedForce": custom_pairs,
    "CustomGBForce": through_atoms,
    "CMMotionRemover": lambda force, reading: [],
}
"""Translators by the name of a force's class; the mover of the centre of mass has no energy."""

ROWS = {"NonbondedForce": lennard_jones_rows, "CustomNonbondedForce": species_rows_of}
"""Parameters of pairs, from which species are made, by the name of a force's class."""

MOVERS = (
    "AndersenThermostat",
    "MonteCarloBarostat",
    "MonteCarloAnisotropicBarostat",
    "MonteCarloMembraneBarostat",
    "MonteCarloFlexibleBarostat",
)
