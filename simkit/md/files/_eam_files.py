"""Tables of the embedded-atom method: the file styles setfl, funcfl and Finnis-Sinclair."""

import dataclasses
from pathlib import Path

import numpy as np
from jaxtyping import Float

from ..space._units import Units
from ._potential_text import PotentialText, shown

HARTREE_BOHR = 27.2 * 0.529
"""Hartree times Bohr radius in eV Angstrom with the digits that the funcfl format fixes, Daw and Baskes (1984)."""


@dataclasses.dataclass(frozen=True)
class EAMTables:
    r"""The tables of an embedded-atom potential,

    $$U = \sum_i F_i\Big(\sum_{j \ne i} \rho_{ji}(r_{ij})\Big) + \sum_{i < j} \frac{z_{ij}(r_{ij})}{r_{ij}}$$

    Number k of a table over distances belongs to the distance `k * distance_step`, number k of a table over densities to the
    density `k * density_step`, k from 0 on.

    - `elements`: names, one a species; `atomic_numbers`, `masses` (g/mol), `lattice_constants` and `lattices` as the file has them.
    - `embedding`: F, shape (species, densities).
    - `density`: entry (j, i) is what an atom of species j adds to the density at an atom of species i, shape (species, species,
      distances).
    - `pair`: z, the pair energy times the distance, symmetric, shape (species, species, distances).
    - `cutoff`: the distance from which on nothing acts.
    - `units`: the unit system of the numbers.
    """

    elements: tuple[str, ...]
    atomic_numbers: tuple[int, ...]
    masses: tuple[float, ...]
    lattice_constants: tuple[float, ...]
    lattices: tuple[str, ...]
    embedding: Float[np.ndarray, "species densities"]
    density: Float[np.ndarray, "species species distances"]
    pair: Float[np.ndarray, "species species distances"]
    density_step: float
    distance_step: float
    cutoff: float
    units: Units

    def __repr__(self) -> str:
        return (
            f"EAMTables of {', '.join(self.elements)}: {self.embedding.shape[1]} densities, {self.pair.shape[2]} distances, "
            f"cutoff {self.cutoff:g} ({self.units.name} units)"
        )


def read_setfl(path: str | Path) -> EAMTables:
    """An embedded-atom potential from a setfl file, as LAMMPS' pair style `eam/alloy` reads it.

    **Returns:** an `EAMTables`; every atom adds the same density at atoms of all species.

    **Raises:** a `DataError` that names the line: a file that is cut short, a size or number that is none, a file of another style.

    **Source:** https://docs.lammps.org/pair_eam.html.
    """
    return _read_many(path, finnis_sinclair=False)


def read_finnis_sinclair(path: str | Path) -> EAMTables:
    """A Finnis-Sinclair potential from a file of LAMMPS' pair style `eam/fs`: setfl with a density for each pair of species.

    **Returns:** an `EAMTables`.

    **Raises:** a `DataError`, as `read_setfl`.

    **Source:** https://docs.lammps.org/pair_eam.html.
    """
    return _read_many(path, finnis_sinclair=True)


def read_funcfl(path: str | Path, element: str = "") -> EAMTables:
    r"""The embedded-atom potential of one element from a funcfl file, as LAMMPS' pair style `eam` reads it.

    The file holds an effective charge Z(r), of which the pair energy is $27.2 \cdot 0.529\, Z(r)^2 / r$ in eV and Angstrom.

    **Arguments:**

    - `path`: the file.
    - `element`: what to call the species; by default what the file's name begins with, as `Cu` for `Cu_u3.eam`.

    **Returns:** an `EAMTables` of one species.

    **Raises:** a `DataError`, as `read_setfl`.

    **Source:** https://docs.lammps.org/pair_eam.html; Daw and Baskes (1984), Phys. Rev. B 29:6443, doi:10.1103/PhysRevB.29.6443.
    """
    text = PotentialText(path)
    text.take("a comment")
    number, mass, constant, lattice = _element(text)
    densities, density_step, distances, distance_step, cutoff = _grid(text)
    embedding = text.block(densities, "the embedding energy")
    charge = text.block(distances, "the effective charge")
    density = text.block(distances, "the density")
    text.finish()
    name = element or Path(path).name.split(".")[0].split("_")[0]
    return EAMTables(
        (name,),
        (number,),
        (mass,),
        (constant,),
        (lattice,),
        embedding[None],
        density[None, None],
        HARTREE_BOHR * charge[None, None] ** 2,
        density_step,
        distance_step,
        cutoff,
        text.units(),
    )


def _read_many(path: str | Path, *, finnis_sinclair: bool) -> EAMTables:
    text = PotentialText(path)
    for _ in range(3):
        text.take("a comment")
    words = text.words("the number of elements and their names", 2)
    count = text.whole(words[0], "the number of elements")
    elements = tuple(words[1:])
    if len(elements) != count:
        raise text.error(
            f"must name as many elements as it says, but it says {count} and names {len(elements)}. A file of the style funcfl "
            "is read by `read_funcfl`."
        )
    densities, density_step, distances, distance_step, cutoff = _grid(text)
    heads, embedding = [], np.zeros((count, densities))
    density, pair = np.zeros((count, count, distances)), np.zeros((count, count, distances))
    for i, element in enumerate(elements):
        heads.append(_element(text))
        embedding[i] = text.block(densities, f"the embedding energy of {element}")
        if finnis_sinclair:
            for j, other in enumerate(elements):
                density[i, j] = text.block(distances, f"the density of {element} at {other}")
        else:
            density[i, :] = text.block(distances, f"the density of {element}")
    for i in range(count):
        for j in range(i + 1):
            pair[i, j] = pair[j, i] = text.block(distances, f"the pair energy of {elements[i]} and {elements[j]}")
    text.finish()
    numbers, masses, constants, lattices = (tuple(column) for column in zip(*heads, strict=True))
    return EAMTables(
        elements,
        numbers,
        masses,
        constants,
        lattices,
        embedding,
        density,
        pair,
        density_step,
        distance_step,
        cutoff,
        text.units(),
    )


def _element(text: PotentialText) -> tuple[int, float, float, str]:
    what = "an element (atomic number, mass, lattice constant, lattice)"
    words = text.words(what, 1)
    lattice = words[3] if len(words) == 4 else ""  # some files leave it out
    if len(words) not in (3, 4) or not words[0].isdigit() or _is_number(lattice):
        raise text.error(f"must hold {what}, but it is `{shown(' '.join(words))}`. Is the file of another style?")
    number = text.whole(words[0], "an atomic number", least=0)
    return number, text.number(words[1], "a mass"), text.number(words[2], "a lattice constant"), lattice


def _grid(text: PotentialText) -> tuple[int, float, int, float, float]:
    what = "the sizes (number and step of densities, number and step of distances, cutoff)"
    words = text.words(what, 5)
    densities, distances = text.whole(words[0], what, 2), text.whole(words[2], what, 2)
    steps = [text.number(words[i], what) for i in (1, 3, 4)]
    if min(steps) <= 0:
        raise text.error(f"must hold positive steps and a positive cutoff, but they are {steps}.")
    return densities, steps[0], distances, steps[1], steps[2]


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
