"""Atoms of ASE, in and out."""

from typing import TYPE_CHECKING, Any

import numpy as np

from .._errors import ArgumentError, missing_package
from ..md import METAL, REDUCED, Frame, OpenSpace, Units, space_from_vectors, three_dimensional
from ._ase_units import from_ase_numbers, to_ase_numbers

if TYPE_CHECKING:
    import ase


def to_ase(frame: Frame) -> Any:
    """A frame as `ase.Atoms`, with masses, charges, momenta, and energy and forces in a `SinglePointCalculator`.

    **Arguments:** `frame`, in any unit system; numbers of reduced units are taken as they are. Names that are no chemical elements
    become X.

    **Raises:** a `MissingPackageError` where ASE is not installed.
    """
    ase, calculator = _import()
    frame = to_ase_numbers(three_dimensional(frame))
    known = ase.data.atomic_numbers
    symbols = [symbol if symbol in known else "X" for symbol in frame.symbols or ("X",) * len(frame)]
    atoms = ase.Atoms(
        symbols,
        positions=frame.position,
        cell=np.asarray(frame.space.vectors()) if frame.space.periodic else None,
        pbc=frame.space.periodic,
        masses=frame.mass,
        charges=frame.charge,
        info={"time": frame.time, "step": frame.step},
    )
    if frame.momentum is not None:
        atoms.set_momenta(frame.momentum)
    results = {"energy": frame.energy, "forces": frame.force}
    if any(value is not None for value in results.values()):
        atoms.calc = calculator(atoms, **{name: value for name, value in results.items() if value is not None})
    return atoms


def from_ase(atoms: "ase.Atoms", units: Units = METAL) -> Frame:
    """A frame from `ase.Atoms`.

    Energy and forces are taken where its calculator has them at hand; nothing is computed.

    **Arguments:** `atoms`; `units`, the unit system that the numbers shall have; with `REDUCED` they are taken as they are.

    **Raises:** an `ArgumentError` where atoms are periodic along some axes only.

    ```python
    import simkit
    try:
        from ase.build import bulk
        print(simkit.io.from_ase(bulk("Cu", cubic=True)))
    except ImportError:
        print("ASE is an extra: simkit[md]")
    ```
    """
    flags = np.asarray(atoms.pbc, bool)
    if flags.any() and not flags.all():
        raise ArgumentError(
            f"Argument `atoms` must be periodic along all axes or none, but `pbc` is {flags.tolist()}. Put vacuum between "
            f"the images "
            "and set it to True."
        )
    results = getattr(atoms.calc, "results", {})
    charges = atoms.get_initial_charges()
    info = {kind: atoms.info.get(kind, 0) for kind in ("time", "step")}
    frame = Frame(
        space_from_vectors(np.asarray(atoms.cell)) if flags.all() else OpenSpace(),
        atoms.get_positions(),
        units=REDUCED if units == REDUCED else METAL,
        symbols=tuple(atoms.get_chemical_symbols()),
        mass=atoms.get_masses(),
        charge=charges if atoms.has("initial_charges") else None,
        momentum=atoms.get_momenta() if atoms.has("momenta") else None,
        force=results.get("forces"),
        energy=results.get("energy"),
        time=float(info["time"]),
        step=int(info["step"]),
    )
    return from_ase_numbers(frame).converted(units)


def _import() -> tuple[Any, Any]:
    try:
        import ase
        import ase.data
        from ase.calculators.singlepoint import SinglePointCalculator
    except ImportError as error:
        raise missing_package("`to_ase`", "ase", "md") from error
    return ase, SinglePointCalculator
