"""Molecules from a data file of LAMMPS and the commands that give its styles."""

from collections.abc import Sequence
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from ..._errors import ArgumentError
from .._particles import Particles
from ..dynamics._dynamics import Dynamics
from ..dynamics._nve import NVE
from ..neighbours._exclusions import excluded_pairs
from ..potentials._potential import Potential, Sum
from ..space._atoms import Atoms
from ..space._space import Orthorhombic, Space, Triclinic
from ._lammps_commands import UNITS, Commands
from ._lammps_data import MEMBERS, LammpsData, read_data
from ._lammps_many_body import MANY_BODY, species_of_types
from ._lammps_pair_terms import Near, cutoff_of, pair_terms
from ._lammps_terms import bonded_terms, weighted_ends
from ._lammps_words import types_in
from ._molecular_model import MolecularModel


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
    if said.open:
        data = data._replace(vectors=data.vectors * np.array([1.0, 1.0, said.slab])[:, None])
    units, space = UNITS[said.units], _space(data)
    found: list[tuple[str, Potential]] = []
    lines = {kind: [*_plain(data.coefficients.get(kind, [])), *said.lines.get(kind, [])] for kind in MEMBERS}
    for kind in MEMBERS:
        rows = data.terms[kind]
        if len(rows) and kind not in said.styles:
            raise ArgumentError(
                f"Argument `commands` must give a `{kind}_style`, since the file has {kind}s, but gives none."
            )
        style = said.styles.get(kind, ["zero"])
        found += bonded_terms(kind, style, _spread(lines[kind], rows), rows, units.boltzmann, said.units)
    near = Near(_special(data, said), left_out=True)
    ends = weighted_ends(
        said.styles.get("dihedral", ["zero"]),
        _spread(lines["dihedral"], data.terms["dihedral"]),
        data.terms["dihedral"],
    )
    pairs = pair_terms(data, said, units, space, near, ends)
    if len(near.groups) and min(np.asarray(space.plane_distances())) < 2 * cutoff_of(pairs) and _double(precision):
        near = Near(near.groups, left_out=False)
        pairs = pair_terms(data, said, units, space, near, ends)
    found += pairs
    if not found and not said.pair:
        raise ArgumentError("Argument `commands` must give a style that has an energy, but gives none.")
    excluded = near.pairs if near.left_out else near.pairs[:0]
    species = data.kind
    if said.pair and said.pair[0] in MANY_BODY:  # types of one element are one species: fewer triples of them
        species = species_of_types(said.pair, said.lines["pair"], len(data.mass))[1][data.kind]
    mass = jnp.asarray(units.inside(data.mass[data.kind], "mass"))
    particles = Particles(
        Sum(tuple(potential for _, potential in found)),
        space,
        mass=mass,
        dynamics=NVE() if dynamics is None else dynamics,
        species=jnp.asarray(species, jnp.int32),
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
    style = said.styles.get("bond", [""])
    if "quartic" in style[1:]:
        raise ArgumentError(
            "`bond_style quartic` must stand alone, as it takes off the pairs of its bonds, but is a hybrid."
        )
    if not len(bonds):
        return []
    for apart in (1, 2, 3):
        pairs = [
            pair for pair in map(tuple, np.asarray(excluded_pairs(bonds, apart=apart)).tolist()) if pair not in known
        ]
        known |= set(pairs)
        weights = said.special[0][apart - 1], said.special[1][apart - 1]
        if apart == 1 and style[0] == "quartic":  # the style itself takes these pairs off, as bonds may break
            weights = 0.0, 0.0
        if pairs and weights != (1.0, 1.0):
            found.append((np.array(pairs), weights))
    return found


def _double(precision: str | None) -> bool:
    return (precision or str(jnp.zeros(()).dtype)) == "float64"
