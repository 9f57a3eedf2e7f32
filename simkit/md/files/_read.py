"""Molecules from files of structures and force fields."""

import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from ..._doors import shown
from ..._errors import ArgumentError, check_known, missing_package
from ..dynamics._dynamics import Dynamics
from ._molecular_model import MolecularModel
from ._openmm import from_openmm

Path = str | pathlib.Path
METHODS = "PME", "Ewald", "CutoffPeriodic", "CutoffNonPeriodic", "NoCutoff"
HELD = {None: None, "hydrogens": "HBonds", "bonds": "AllBonds", "hydrogen angles": "HAngles"}


def read(
    path: Path,
    force_field: Path | Sequence[Path] | None = None,
    *,
    coordinates: Path | None = None,
    method: Literal["PME", "Ewald", "CutoffPeriodic", "CutoffNonPeriodic", "NoCutoff"] | None = None,
    cutoff: float = 1.0,
    switch: float | None = None,
    tolerance: float = 5e-4,
    constraints: Literal["hydrogens", "bonds", "hydrogen angles"] | None = None,
    rigid_water: bool = True,
    hydrogen_mass: float | None = None,
    add_hydrogens: bool = False,
    implicit_solvent: Literal["HCT", "OBC1", "OBC2", "GBn", "GBn2"] | None = None,
    dynamics: Dynamics | None = None,
    skin: float = 0.1,
    precision: str | None = None,
) -> MolecularModel:
    """Molecules with their force field from files, read by OpenMM and translated term by term; in `GROMACS` units.

    **Arguments:**

    - `path`: a structure (`.pdb`, `.cif`) whose `force_field` names OpenMM's XML files, its own such as `"amber14-all.xml"` or
        yours; or a topology: AMBER's `.prmtop` or `.parm7`, GROMACS' `.top`, CHARMM's `.psf` with its parameter files as
        `force_field`; or a `.xml` that holds a serialised `openmm.System`.
    - `coordinates`: of a topology: `.inpcrd`, `.rst7`, `.gro`, `.pdb` or `.cif`.
    - `method`: of charges and Lennard-Jones; by default "PME" where the files hold a cell, else "NoCutoff".
    - `cutoff`, `switch`: in nm; from `switch` on Lennard-Jones is switched off.
    - `tolerance`: of PME and Ewald.
    - `constraints`: which bonds keep their length: those of "hydrogens", all "bonds", or "hydrogen angles" too; None for none.
    - `rigid_water`: keep water's shape.
    - `hydrogen_mass`: in g/mol; what a hydrogen gains its heavy atom loses, so that steps of 4 fs are stable at 1.5 to 4.
    - `add_hydrogens`: complete a structure by hydrogens at pH 7.
    - `implicit_solvent`: a model of solvent of AMBER's topologies.
    - `dynamics`, `skin`, `precision`: as for `Particles`.

    **Returns:** a `MolecularModel`.

    **Good values:** a cutoff of 0.9 to 1.2, `constraints="hydrogens"` with steps of 2 fs.

    **Raises:** an `ArgumentError` for files that OpenMM cannot read, residues without a template and types without parameters, by
    its own words; and for terms that simkit has not. Needs the extra `simkit[md]`.

    ```python
    # model = md.read("protein.pdb", ["amber14-all.xml", "amber14/tip3p.xml"], constraints="hydrogens", cutoff=0.9)
    ```
    """
    try:
        import openmm
        from openmm import app
    except ModuleNotFoundError as error:
        raise missing_package("Reading molecules from files", error.name, "md") from None
    check_known(constraints or "", {name or "" for name in HELD}, "choice of `constraints`")
    if not isinstance(path, str | pathlib.Path):
        raise ArgumentError(f"Argument `path` must be the name of a file, but is {shown(path)}.")
    path, given = pathlib.Path(path), _paths(force_field)
    for one in [path, *([] if coordinates is None else [coordinates])]:
        if not pathlib.Path(one).is_file():
            raise ArgumentError(f"Argument `path` must name files that exist, but there is no {one}.")
    check_known(path.suffix.lower(), READERS, "ending of a molecule's file")
    source = READERS[path.suffix.lower()]
    reading = path
    try:
        reading = path if coordinates is None else pathlib.Path(coordinates)
        structure = None if coordinates is None else _coordinates(app, reading)
        reading = path
        source_topology, create, positions, box = source(app, path, given, structure)
        if add_hydrogens:
            source_topology, positions = _with_hydrogens(app, source_topology, positions, given)
        periodic = box is not None
        chosen = method or ("PME" if periodic else "NoCutoff")
        check_known(chosen, METHODS, "method")
        options: dict[str, Any] = {
            "nonbondedMethod": getattr(app, chosen),
            "constraints": HELD[constraints] and getattr(app, HELD[constraints]),
            "rigidWater": rigid_water,
            "removeCMMotion": False,
        }
        if chosen != "NoCutoff":
            options["nonbondedCutoff"] = cutoff
        if hydrogen_mass is not None:
            options["hydrogenMass"] = hydrogen_mass * openmm.unit.dalton  # type: ignore[attr-defined]
        if implicit_solvent is not None:
            options["implicitSolvent"] = getattr(app, implicit_solvent)
        system = create(source_topology, options)
    except ArgumentError:
        raise
    except Exception as error:
        raise ArgumentError(
            f"Argument `path` must be a molecule that OpenMM reads, but of {reading.name} it says: {type(error).__name__}: "
            f"{error}. "
            "A file that is cut off or empty, or a name without parameters, may be the reason."
        ) from error
    for force in system.getForces():
        if isinstance(force, openmm.NonbondedForce):
            force.setEwaldErrorTolerance(tolerance)
            if switch is not None:
                force.setUseSwitchingFunction(True)
                force.setSwitchingDistance(switch)
    if positions is None:
        raise ArgumentError(f"Argument `coordinates` must be given for {path.name}, which holds no positions.")
    if not np.all(np.isfinite(np.asarray(positions.value_in_unit(openmm.unit.nanometer)))):  # type: ignore[attr-defined]
        raise ArgumentError(f"Argument `coordinates` must be finite, but some of {(coordinates or path)!s} are not.")
    return from_openmm(
        system, positions, box=box, dynamics=dynamics, topology=source_topology, skin=skin, precision=precision
    )


def _paths(given: Path | Sequence[Path] | None) -> list[str]:
    if given is None:
        return []
    return [str(given)] if isinstance(given, str | pathlib.Path) else [str(one) for one in given]


def _structure(app: Any, path: pathlib.Path, force_field: list[str], structure: Any) -> Any:
    if not force_field:
        raise ArgumentError(
            f'Argument `force_field` must name XML files for {path.name}, but is None. Give such as ["amber14-all.xml", '
            '"amber14/tip3p.xml"].'
        )
    found = app.PDBFile(str(path)) if path.suffix.lower() in (".pdb", ".ent") else app.PDBxFile(str(path))
    fields = app.ForceField(*force_field)
    return (
        found.topology,
        lambda topology, options: fields.createSystem(topology, **options),
        found.positions,
        found.topology.getPeriodicBoxVectors(),
    )


def _amber(app: Any, path: pathlib.Path, force_field: list[str], structure: Any) -> Any:
    found = app.AmberPrmtopFile(str(path), periodicBoxVectors=None if structure is None else structure.box)
    return found.topology, lambda _, options: found.createSystem(**options), *_placed(structure, found.topology)


def _gromacs(app: Any, path: pathlib.Path, force_field: list[str], structure: Any) -> Any:
    box = None if structure is None else structure.box
    folder = {"includeDir": force_field[0]} if force_field else {}
    found = app.GromacsTopFile(str(path), periodicBoxVectors=box, **folder)
    return found.topology, lambda _, options: found.createSystem(**options), *_placed(structure, found.topology)


def _charmm(app: Any, path: pathlib.Path, force_field: list[str], structure: Any) -> Any:
    found = app.CharmmPsfFile(str(path))
    if structure is not None and structure.box is not None:
        from openmm import unit

        vectors = np.asarray(structure.box.value_in_unit(unit.nanometer))  # type: ignore[attr-defined]
        lengths = np.linalg.norm(vectors, axis=1)
        angles = [np.arccos(vectors[i] @ vectors[j] / lengths[i] / lengths[j]) for i, j in ((1, 2), (0, 2), (0, 1))]
        found.setBox(*lengths * unit.nanometer, *(angle * unit.radian for angle in angles))  # type: ignore[attr-defined]
    parameters = app.CharmmParameterSet(*force_field)
    return (
        found.topology,
        lambda _, options: found.createSystem(parameters, **options),
        *_placed(structure, found.topology),
    )


def _serialised(app: Any, path: pathlib.Path, force_field: list[str], structure: Any) -> Any:
    import openmm

    system = openmm.XmlSerializer.deserialize(path.read_text(encoding="utf-8"))
    if not isinstance(system, openmm.System):
        raise ArgumentError(
            f"Argument `path` must hold a serialised openmm.System, but {path.name} holds a {type(system).__name__}."
        )
    return None, lambda _, options: system, *_placed(structure, None)


class _Coordinates:
    """Positions and cell of a file; None where it has none, which GROMACS writes as zeros."""

    def __init__(self, positions: Any, box: Any):
        self.positions, self.box = positions, None if box is None else _reduced(box)


def _reduced(box: Any) -> Any:
    """Vectors of a cell in the form that OpenMM takes, from which rounded files may be off; None of zeros."""
    from openmm import Vec3, unit

    a, b, c = (np.asarray(row) for row in unit.Quantity(box).value_in_unit(unit.nanometer))  # type: ignore[attr-defined]
    if not np.any([a, b, c]):
        return None
    if not np.linalg.det([a, b, c]):
        vectors = [row.tolist() for row in (a, b, c)]
        raise ArgumentError(
            f"Argument `coordinates` must have a cell with a volume, or none, but its vectors are {vectors} nm."
        )
    c = c - b * np.round(c[1] / b[1])
    c, b = c - a * np.round(c[0] / a[0]), b - a * np.round(b[0] / a[0])
    return unit.Quantity([Vec3(*row.tolist()) for row in (a, b, c)], unit.nanometer)  # type: ignore[attr-defined]


def _coordinates(app: Any, path: pathlib.Path) -> _Coordinates:
    kind = path.suffix.lower()
    if kind in (".crd", ".cor") and _is_charmm(path):
        return _Coordinates(app.CharmmCrdFile(str(path)).positions, None)
    if kind in (".inpcrd", ".rst7", ".crd", ".restrt"):
        found = app.AmberInpcrdFile(str(path))
        return _Coordinates(found.positions, found.boxVectors)
    if kind == ".gro":
        found = app.GromacsGroFile(str(path))
        return _Coordinates(found.positions, found.getPeriodicBoxVectors())
    if kind in (".pdb", ".ent", ".cif"):
        found = app.PDBxFile(str(path)) if kind == ".cif" else app.PDBFile(str(path))
        return _Coordinates(found.positions, found.topology.getPeriodicBoxVectors())
    raise ArgumentError(f"Argument `coordinates` must end in .inpcrd, .rst7, .gro, .pdb or .cif, but is {path.name}.")


def _is_charmm(path: pathlib.Path) -> bool:
    """Tell CHARMM's coordinates, which begin with lines of a title, from AMBER's of the same ending."""
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.read(1) == "*"


def _placed(structure: _Coordinates | None, topology: Any) -> tuple[Any, Any]:
    own = None if topology is None else topology.getPeriodicBoxVectors()
    return (None, own) if structure is None else (structure.positions, own if structure.box is None else structure.box)


def _with_hydrogens(app: Any, topology: Any, positions: Any, force_field: list[str]) -> tuple[Any, Any]:
    modeller = app.Modeller(topology, positions)
    modeller.addHydrogens(app.ForceField(*force_field))
    return modeller.topology, modeller.positions


READERS: Mapping[str, Callable[..., Any]] = {
    ".pdb": _structure,
    ".ent": _structure,
    ".cif": _structure,
    ".mmcif": _structure,
    ".prmtop": _amber,
    ".parm7": _amber,
    ".top": _gromacs,
    ".psf": _charmm,
    ".xml": _serialised,
}
"""Readers by the ending of a file."""
