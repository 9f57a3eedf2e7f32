"""[system] and [y0] of a study of particles: their potential, dynamics and units, and where they are at the start."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array

from ... import md
from ..._errors import ArgumentError, StudyError
from ...md import UNIT_SYSTEMS, Configuration, Space
from ._built import call, part, read_part, read_potential
from ._files import Files, read_frames, read_reader
from ._names import BUILDERS, DYNAMICS, SPACES
from ._section import Section, at_place

PRECISIONS = ("float32", "float64")
CROWD = 2e4
"""More neighbours than this are a mistake of units."""

Y0_KEYS = ("builder", "file", "reader", "frame", "elements", "temperature")


class Start(NamedTuple):
    """Positions at the start, with masses, charges and momenta where a file has them."""

    space: Space
    position: Any
    species: Any
    mass: Any = None
    charge: Any = None
    momentum: Any = None


MOST_ATOMS = 100_000_000
"""Atoms of a start that a study asks for."""


def read_particles(system: Section, y0: Section, seed: int, files: Files) -> tuple[md.Particles, md.Atoms]:
    """Particles and their state at the start. Random numbers of the start follow from the seed.

    Numbers of the study stand in the units of the edge of its unit system, such as g/mol and bar in metal units.
    """
    system.need("potential")
    units = UNIT_SYSTEMS[str(system.name("units", UNIT_SYSTEMS, "unit system", "reduced"))]
    potential = read_potential(system, "potential", units, files)
    dynamics = read_part(part(system, "dynamics"), DYNAMICS, "dynamics", units) if "dynamics" in system else md.NVE()
    start = _start(y0, seed, units, files)
    if "space" in system:
        start = start._replace(space=read_part(part(system, "space"), SPACES, "space", units))
    mass = _per_atom(system, "mass", start.species, 1.0 if start.mass is None else start.mass, units)
    charge = _per_atom(system, "charge", start.species, start.charge, units)
    skin = system.number("skin", 0.3)
    precision = system.name("precision", PRECISIONS, "precision")
    exclusions = np.asarray(system.numbers("exclusions"), int) if "exclusions" in system else None
    system.finish("model", "parameters", "potential", "dynamics", "space", "mass", "charge", "exclusions")
    with at_place(system.where()):
        found = md.Particles(
            potential,
            start.space,
            mass=mass,
            dynamics=dynamics,
            species=start.species if _by_species(potential) else None,
            charge=charge,
            units=units,
            skin=skin,  # pyright: ignore
            precision=precision,
            exclusions=exclusions,
        )
    momentum = _momentum(y0, found, start, seed)
    atoms = md.Atoms(jnp.asarray(start.position), momentum)
    _check_crowd(y0, found, len(start.position))
    with at_place(y0.where()):
        found.prepared(atoms)  # refuses overlaps, cells that are too small and species without parameters here
    return found, atoms


def _start(y0: Section, seed: int, units: md.Units, files: Files) -> Start:
    if "file" in y0:
        return _from_file(y0, units, files)
    if "builder" not in y0:
        raise StudyError(
            f'{y0.where()} must say where the atoms are at the start, by builder = "crystal" or "liquid", or file = "start.xyz", '
            "but it does not."
        )
    builder = str(y0.name("builder", BUILDERS, "builder"))
    y0.read.update(y0.table)
    table = Section({key: value for key, value in y0.table.items() if key not in Y0_KEYS}, y0.place, y0.file)
    if builder == "liquid":
        table.count("atoms", least=1, most=MOST_ATOMS)
        make = _Liquid(jax.random.fold_in(jax.random.key(seed), 1))
    else:
        make = _crystal
    found = call(table, make, units, what=f"`{builder}`")
    return Start(found.space, found.position, found.species)


class _Liquid(NamedTuple):
    """`liquid` with its key."""

    key: Any

    def __call__(
        self, atoms: int, density: Any, dimensions: int = 3, least_distance: Any = None, fractions: Any = 1.0
    ) -> Configuration:
        least = None if least_distance is None else float(least_distance)
        shares = np.ravel(np.asarray(fractions, float)).tolist()
        return md.liquid(self.key, atoms, float(density), dimensions=dimensions, least_distance=least, fractions=shares)


def _crystal(lattice: str, repeats: Any, constant: Any = None, density: Any = None, ratio: Any = None) -> Configuration:
    """`crystal` by its lattice constant, or by its number density."""
    if (constant is None) == (density is None):
        raise ArgumentError(
            "A crystal needs one of `constant`, its lattice constant, and `density`, its atoms per volume."
        )
    count = float(np.prod(np.abs(np.asarray(repeats, float))) if np.ndim(repeats) else abs(float(repeats)) ** 3)
    if count > MOST_ATOMS:
        raise ArgumentError(
            f"Argument `repeats` must give at most {MOST_ATOMS:,} cells of the crystal, but gives {count:.3g}."
        )
    repeats = int(repeats) if np.ndim(repeats) == 0 and float(repeats).is_integer() else np.asarray(repeats)
    if constant is None:
        if not density > 0:
            raise ArgumentError(f"Argument `density` must be positive, but it is {density}.")
        unit = md.crystal(lattice, 1.0, 1, ratio=ratio)
        atoms, dimensions = unit.position.shape
        constant = math.pow(atoms / (density * float(unit.space.volume())), 1 / dimensions)
    return md.crystal(lattice, constant, repeats, ratio=ratio)


def _from_file(y0: Section, units: md.Units, files: Files) -> Start:
    """A frame of an extended XYZ file of the study, the last one by default."""
    if "builder" in y0:
        raise y0.error("builder", "must not be given together with `file`.")
    name = str(y0.get("file", "text"))
    index = y0.count("frame", least=0)
    elements = y0.get("elements", "an array")
    reader = read_reader(y0, "frames", "extxyz")
    y0.finish(*Y0_KEYS)
    with at_place(y0.where("file")):
        frames = read_frames(name, files, reader, units)
        if index is not None and index >= len(frames):
            raise y0.error(
                "frame", f"must be below the number of frames in `{name}`, {len(frames)}, but it is {index}."
            )
        frame = frames[-1 if index is None else index]
        kinds = tuple(dict.fromkeys(frame.symbols or ())) if elements is None else elements
        species = frame.species(kinds) if kinds else jnp.zeros(len(frame), jnp.int32)
    array = lambda x: None if x is None else jnp.asarray(x)
    return Start(frame.space, frame.position, species, array(frame.mass), array(frame.charge), array(frame.momentum))


def _per_atom(
    system: Section, key: str, species: Array | np.ndarray, default: ArrayLike | None, units: md.Units
) -> Any:
    """One number for all atoms, or one a species or an atom."""
    if key not in system:
        return default
    value = system.table[key]
    kinds = int(np.max(species)) + 1
    if not isinstance(value, list):
        number = system.number(key)
        assert number is not None
        if key == "mass" and not number > 0:
            raise system.error(key, f"must be positive, but it is {number:g}.")
        return units.inside(number, key) if key == "mass" else np.full(len(species), units.inside(number, key))
    array = np.asarray(system.numbers(key), float)
    if array.shape not in {(kinds,), (len(species),)}:
        raise system.error(
            key,
            f"must be a number, or one a species ({kinds}) or an atom ({len(species)}), but it has {len(value)} numbers.",
        )
    if key == "mass" and not (array > 0).all():
        raise system.error(key, f"must be positive, but it is `{value}`.")
    return units.inside(array[np.asarray(species)] if array.shape == (kinds,) else array, key)


def _momentum(y0: Section, system: md.Particles, start: Start, seed: int) -> Any:
    """Drawn at a temperature, that of the dynamics by default; those of a file where it has them and none is given."""
    temperature = y0.number("temperature")
    if temperature is None and start.momentum is not None:
        return start.momentum
    if temperature is None:
        held = getattr(system.dynamics, "temperature", None)
        if held is None:
            raise StudyError(
                f"{y0.where()} must give `temperature` for the momenta, as {system.dynamics.name} holds none, but it does not."
            )
        temperature = float(held)
    if temperature < 0:
        raise y0.error("temperature", f"must be at least 0, but it is {temperature:g}.")
    key = jax.random.fold_in(jax.random.key(seed), 2)
    masses = system.masses(jnp.asarray(start.position))[:, 0]
    dimensions = system.space.dimensions
    return md.maxwell_boltzmann(key, masses, temperature, dimensions=dimensions, boltzmann=system.units.boltzmann)


def _check_crowd(y0: Section, system: md.Particles, atoms: int) -> None:
    """Refuse a density so high that it must stand in other units than the potential."""
    potential, space = system.potential, system.space
    reach, density = max([*md.terms_of(potential).cutoffs, 0.0]), atoms / float(space.volume())
    around = density * (math.pi * reach**2 if space.dimensions == 2 else 4 / 3 * math.pi * reach**3)
    if around > CROWD:
        raise StudyError(
            f"{y0.where()} must leave the atoms room, but at {density:.3g} atoms per volume each has {around:.2g} others within "
            f"the cutoff, {reach:g}. Lengths must be in one unit; `density` is a number of atoms per volume, not a mass."
        )


def _by_species(potential: md.Potential) -> bool:
    """Tell whether the potential has parameters by species."""
    return bool(md.terms_of(potential).species_counts())
