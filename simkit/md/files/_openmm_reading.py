"""Common parts of the translators of an OpenMM System: the order of rows, species, exclusions."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from ..._errors import ArgumentError
from ..potentials._potential import Potential
from ..potentials._truncation import Switched, Truncated, Truncation
from ..space._space import Space

Found: TypeAlias = list[tuple[str, Potential]]
"""Potentials with the names of the forces that they come from."""


class Reading:
    """The rows of a System as they are simulated: atoms in their order, then virtual sites.

    - `order`: the particle of every row; `row`: the row of every particle.
    - `species`: one whole number a row; equal parameters of pairs are one species.
    """

    def __init__(self, system: Any, space: Space, labels: dict[int, str], columns: dict[str, np.ndarray]):
        self.labels = labels
        count = system.getNumParticles()
        site = np.asarray([system.isVirtualSite(k) for k in range(count)], bool)
        self.system, self.space = system, space
        self.atoms, self.sites = np.flatnonzero(~site), np.flatnonzero(site)
        self.order = np.concatenate([self.atoms, self.sites]).astype(int)
        self.row = np.argsort(self.order)
        self.columns = columns
        whole = np.concatenate([np.zeros((count, 0)), *columns.values()], axis=1)[self.order]
        self.kinds, self.species = rows_by_kind(whole)
        self.starts = dict(zip(columns, np.cumsum([0, *(block.shape[1] for block in columns.values())]), strict=False))
        self.exclusions: dict[str, np.ndarray] = {}

    def label(self, force: Any) -> str:
        """The name of a force, with a number where several have it."""
        return self.labels[id(force)]

    def places(self, particles: Sequence[Any] | np.ndarray) -> np.ndarray:
        """The rows of particles."""
        return self.row[np.asarray(particles, int)]

    def of_species(self, label: str, column: int) -> np.ndarray:
        """One parameter of every species."""
        return self.kinds[:, self.starts[label] + column]

    def exclude(self, pairs: Sequence[Any] | np.ndarray, label: str) -> None:
        """Note the pairs that a force leaves out.

        **Raises:** an `ArgumentError` where another force leaves out others.
        """
        rows = self.places(pairs).reshape(-1, 2)
        rows = np.unique(np.sort(rows, axis=1), axis=0)
        for other, known in self.exclusions.items():
            if not np.array_equal(known, rows):
                raise ArgumentError(
                    f"Argument `system` must leave out the same pairs in all forces of pairs, but {label} leaves out {len(rows)} "
                    f"and {other} {len(known)} pairs. Give both the same exclusions."
                )
        self.exclusions[label] = rows


def labelled(forces: Sequence[Any]) -> dict[int, str]:
    """Names of forces, told apart by numbers where several have one; by their identity."""
    found: dict[int, str] = {}
    for force in forces:
        name, others = force.getName(), list(found.values())
        count = 1 + sum(other == name or other.startswith(f"{name} ") for other in others)
        found[id(force)] = name if count == 1 else f"{name} {count}"
    return found


def plain(value: Any) -> Any:
    """A number in nm, ps, kJ/mol, g/mol, e and rad, without its unit."""
    if not hasattr(value, "value_in_unit_system"):
        return value
    from openmm import unit

    return value.value_in_unit_system(unit.md_unit_system)


def parameters_of(force: Any, what: str) -> list[list[Any]]:
    """The parameters of all bonds, angles, particles or exceptions of a force, without units."""
    each = getattr(force, f"get{what}Parameters")
    count = getattr(force, f"getNum{what}s")()
    return [[plain(x) for x in each(k)] for k in range(count)]


def table_of(rows: Sequence[Any], columns: int) -> np.ndarray:
    """Rows of numbers as an array, also where there are none."""
    return np.asarray([[plain(x) for x in row] for row in rows], float).reshape(len(rows), columns)


def ending(force: Any, tail: bool) -> Truncation:
    """The switch of a force of pairs, or a plain cutoff; with the energy beyond where there is a `tail`."""
    if force.getUseSwitchingFunction() and force.getNonbondedMethod() != force.NoCutoff:
        return Switched(plain(force.getSwitchingDistance()), by="distance", tail=tail)
    return Truncated(tail=tail)


def rows_by_kind(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the different rows, in the order in which they appear, and which of them each row is."""
    if not rows.shape[1]:
        return np.zeros((1, 0)), np.zeros(len(rows), int)
    different, first, kind = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    place = np.argsort(np.argsort(first))
    return different[np.argsort(first)], place[kind.ravel()]
