"""Molecules from a data file of LAMMPS and the commands that give its styles."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._errors import ArgumentError, check_known
from .._particles import Particles
from ..dynamics._dynamics import Dynamics
from ..dynamics._nve import NVE
from ..neighbours._exclusions import excluded_pairs
from ..potentials._coulomb import CoulombCut
from ..potentials._ewald import ewald_sum
from ..potentials._listed_pairs import ListedPairs
from ..potentials._potential import PairPotential, Potential, Sum, parts
from ..space._atoms import Atoms
from ..space._space import Orthorhombic, Space, Triclinic
from ..space._units import METAL, REAL, REDUCED, Units
from ._lammps_data import MEMBERS, LammpsData, read_data
from ._lammps_pairs import coulomb_potential, pair_potential, parts_of
from ._lammps_terms import bonded_terms, types_in
from ._molecular_model import MolecularModel

UNITS: Mapping[str, Units] = {"real": REAL, "metal": METAL, "lj": REDUCED}

SPECIAL = {
    "amber": ((0.0, 0.0, 0.5), (0.0, 0.0, 5 / 6)),
    "charmm": ((0.0,) * 3,) * 2,
    "dreiding": ((0.0, 0.0, 1.0),) * 2,
}
"""Weights of pairs one, two and three bonds apart: of Lennard-Jones, of Coulomb."""

SILENT = frozenset(
    [
        "atom_modify",
        "atom_style",
        "clear",
        "compute",
        "dump",
        "dump_modify",
        "echo",
        "log",
        "minimize",
        "min_style",
        "neigh_modify",
        "neighbor",
        "newton",
        "print",
        "processors",
        "read_data",
        "reset_timestep",
        "restart",
        "run",
        "thermo",
        "thermo_modify",
        "thermo_style",
        "timestep",
        "velocity",
        "write_data",
    ]
)
"""Commands that say nothing about energies."""

KEYS = {"mix", "shift", "tail"}
"""Settings of `pair_modify` that change energies of the styles that simkit has."""


class Commands:
    """The commands of an input of LAMMPS that say what energies are."""

    def __init__(self, text: str):
        self.units = "lj"
        self.pair: list[str] = []
        self.kspace: list[str] = []
        self.styles: dict[str, str] = {}
        self.lines: dict[str, list[list[str]]] = {}
        self.modify: dict[str, str] = {}
        self.special: tuple[Sequence[float], Sequence[float]] = ((0.0,) * 3, (0.0,) * 3)
        for line in text.replace("&\n", " ").splitlines():
            words = line.partition("#")[0].split()
            if words and words[0] not in SILENT:
                self._read(words, line)

    def _read(self, words: list[str], line: str) -> None:
        name, *rest = words
        kind, _, what = name.partition("_")
        if name == "units":
            check_known(rest[0], UNITS, "unit system of LAMMPS that simkit reads")
            self.units = rest[0]
        elif name == "pair_style":
            self.pair = rest
        elif name == "pair_modify":
            self.modify |= {a: b for a, b in zip(rest[::2], rest[1::2], strict=True) if a in KEYS}
        elif name == "kspace_style":
            self.kspace = [] if rest[0] == "none" else rest
        elif name == "special_bonds":
            self.special = _weights(rest)
        elif what == "style" and kind in MEMBERS:
            self.styles[kind] = rest[0]
        elif what == "coeff" and kind in (*MEMBERS, "pair"):
            self.lines.setdefault(kind, []).append(rest)
        elif (name == "boundary" and rest == ["p"] * 3) or (name == "dielectric" and float(rest[0]) == 1):
            return
        else:
            raise ArgumentError(
                f"Argument `commands` must hold only commands of LAMMPS that simkit reads, but holds `{line.strip()}`. Leave it "
                "out where it changes no energy."
            )


def read_lammps(
    path: str | Path,
    commands: str = "",
    *,
    dynamics: Dynamics | None = None,
    skin: float | None = None,
    precision: str | None = None,
) -> MolecularModel:
    """Particles and their start from a data file of LAMMPS, and from the commands of an input that give styles and coefficients.

    **Arguments:**

    - `path`: a data file, as `write_data` and builders of molecules make it, in a periodic cell, orthogonal or not. Its sections of
        coefficients are read; commands go first.
    - `commands`: text of an input: `units` (real, metal or lj), `pair_style`, `pair_coeff`, `pair_modify`, `kspace_style`,
        `special_bonds`, and `bond_style`, `bond_coeff` and so on for angles, dihedrals and impropers. Commands about runs and
        output are passed over; `fix` and others are refused.
    - `dynamics`, `skin`, `precision`: as for `Particles`.

    **Returns:** a `MolecularModel` in the units of the commands. Styles are potentials or formulas with named numbers, one a type,
    so that a fit changes types. Pairs one to three bonds apart are left out of pair potentials and added with their weights.

    **Raises:** a `DataError` for a file that contradicts itself, an `ArgumentError` that names a style or command that simkit has
    not, or types without numbers: nothing is left out silently.

    ```python
    # model = md.read_lammps("water.data", "units real\\npair_style lj/cut/coul/long 9.0\\nkspace_style pppm 1e-5 ...")
    ```
    """
    file = Path(path)
    if not file.is_file():
        raise ArgumentError(f"Argument `path` must name a file that exists, but there is no {file}.")
    data, said = read_data(file), Commands(commands)
    units, space = UNITS[said.units], _space(data)
    found: list[tuple[str, Potential]] = []
    lines = {kind: [*_plain(data.coefficients.get(kind, [])), *said.lines.get(kind, [])] for kind in MEMBERS}
    for kind in MEMBERS:
        rows = data.terms[kind]
        if len(rows) and kind not in said.styles:
            raise ArgumentError(
                f"Argument `commands` must give a `{kind}_style`, since the file has {kind}s, but gives none."
            )
        found += bonded_terms(kind, said.styles.get(kind, "zero"), _spread(lines[kind], rows), rows)
    near = _special(data, said)
    found += _pairs(data, said, units, space, near)
    if not found:
        raise ArgumentError("Argument `commands` must give a style that has an energy, but gives none.")
    excluded = np.concatenate([pairs for pairs, _ in near]) if near else np.zeros((0, 2), int)
    mass = jnp.asarray(units.inside(data.mass[data.kind], "mass"))
    particles = Particles(
        Sum(tuple(potential for _, potential in found)),
        space,
        mass=mass,
        dynamics=NVE() if dynamics is None else dynamics,
        species=jnp.asarray(data.kind, jnp.int32),
        charge=None if data.charge is None else jnp.asarray(data.charge),
        units=units,
        exclusions=jnp.asarray(excluded, jnp.int32) if len(excluded) else None,
        skin=Particles.skin if skin is None else skin,
        precision=precision,
    )
    position = jnp.asarray(data.position - data.origin)
    velocity = jnp.zeros_like(position) if data.velocity is None else jnp.asarray(data.velocity)
    momentum = jnp.asarray(units.inside(velocity, "velocity")) * mass[:, None]
    return MolecularModel(
        particles, Atoms(position, momentum), tuple(name for name, _ in found), tuple(range(len(position)))
    )


def _weights(words: Sequence[str]) -> tuple[Sequence[float], Sequence[float]]:
    """The weights of `special_bonds`, of Lennard-Jones and of Coulomb."""
    if words and words[0] in SPECIAL:
        return SPECIAL[words[0]]
    lj, coulomb = (0.0,) * 3, (0.0,) * 3
    for i in range(0, len(words), 4):
        values = tuple(float(v) for v in words[i + 1 : i + 4])
        if words[i] not in ("lj", "coul", "lj/coul") or len(values) != 3:
            raise ArgumentError(
                f"`special_bonds` must be followed by lj, coul or lj/coul and three weights, but is "
                f"`{' '.join(words)}`."
            )
        lj = values if words[i] != "coul" else lj
        coulomb = values if words[i] != "lj" else coulomb
    return lj, coulomb


def _plain(lines: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    return [line for line in lines if len(line) > 1]


def _spread(lines: Sequence[Sequence[str]], rows: np.ndarray) -> list[list[str]]:
    """Lines of coefficients with `*` and ranges written out."""
    largest = int(rows[:, 0].max()) + 1 if len(rows) else 0
    return [[str(type_ + 1), *rest] for first, *rest in lines for type_ in types_in(first, largest)]


def _space(data: LammpsData) -> Space:
    edges = np.diagonal(data.vectors)
    straight = (data.vectors == np.diag(edges)).all()
    return Orthorhombic(jnp.asarray(edges)) if straight else Triclinic(jnp.asarray(data.vectors))


def _special(data: LammpsData, said: Commands) -> list[tuple[np.ndarray, tuple[float, float]]]:
    """Pairs one, two and three bonds apart, with the weights of Lennard-Jones and Coulomb; without those that count as others."""
    bonds, known, found = data.terms["bond"][:, 1:], set(), []
    if not len(bonds):
        return []
    for apart in (1, 2, 3):
        pairs = [
            pair for pair in map(tuple, np.asarray(excluded_pairs(bonds, apart=apart)).tolist()) if pair not in known
        ]
        known |= set(pairs)
        weights = said.special[0][apart - 1], said.special[1][apart - 1]
        if pairs and weights != (1.0, 1.0):
            found.append((np.array(pairs), weights))
    return found


def _pairs(data: LammpsData, said: Commands, units: Units, space: Space, near: Any) -> list[tuple[str, Potential]]:
    if not said.pair or said.pair[0] in ("zero", "none"):
        return []
    first, second, numbers = parts_of(said.pair)
    found: list[tuple[str, Potential]] = []
    if first is not None:
        file = [[line[0], *line] for line in _plain(data.coefficients.get("pair", []))]
        own = pair_potential(first, [*file, *said.lines.get("pair", [])], len(data.mass), numbers, said.modify)
        found += [("pairs", own), *_weighted("pairs", own, [(pairs, weights[0]) for pairs, weights in near])]
    if second is None:
        return found
    if data.charge is None:
        raise ArgumentError(f"The pair style {said.pair[0]} needs charges, but the atoms of the file have none.")
    constant = float(units.coulomb)
    if second == "coul/long":
        if not said.kspace:
            raise ArgumentError(f"The pair style {said.pair[0]} needs a `kspace_style`, but there is none.")
        check_known(said.kspace[0], ("ewald", "pppm"), "kspace style of LAMMPS")
        excluded = np.concatenate([pairs for pairs, _ in near]) if near else None
        cutoff, tolerance = numbers["coulomb_cutoff"], float(said.kspace[1])
        whole = ewald_sum(space, cutoff, tolerance=tolerance, constant=constant, excluded=excluded)
        found += [("coulomb", part) for part in parts(whole)]
        bare: PairPotential = CoulombCut(constant=constant, cutoff=np.inf)  # pyright: ignore
    else:
        bare = coulomb_potential(second, numbers, constant)
        found.append(("coulomb", bare))
    if second == "coul/dsf":  # LAMMPS takes what weights leave off from the bare interaction
        damped, bare = bare, CoulombCut(constant=constant, cutoff=np.inf)  # pyright: ignore
        found += _weighted("coulomb", damped, [(pairs, 1.0) for pairs, _ in near])
        near = [(pairs, (weights[0], weights[1] - 1)) for pairs, weights in near]
    return found + _weighted("coulomb", bare, [(pairs, weights[1]) for pairs, weights in near])


def _weighted(
    name: str, potential: PairPotential, near: Sequence[tuple[np.ndarray, float]]
) -> list[tuple[str, Potential]]:
    """The pairs near along bonds, each with its weight; none where all weights are 0."""
    some = [(pairs, weight) for pairs, weight in near if weight != 0]
    if not some:
        return []
    scale: Array = jnp.asarray(np.concatenate([np.full(len(pairs), weight) for pairs, weight in some]))
    return [(f"{name}_special", ListedPairs(potential, np.concatenate([pairs for pairs, _ in some]), scale=scale))]  # pyright: ignore
