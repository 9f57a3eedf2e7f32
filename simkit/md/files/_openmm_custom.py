"""Forces that OpenMM is given as formulas."""

import math
from typing import Any

import numpy as np

from ..._errors import ArgumentError
from ..potentials._formula import Function, lookup
from ..potentials._formula_born import KINDS, FormulaThroughAtoms
from ..potentials._formula_terms import FormulaField, FormulaPair, FormulaTerms
from ._openmm_reading import Found, Reading, ending, parameters_of, plain, rows_by_kind, table_of

BONDED = {"CustomBondForce": "Bond", "CustomAngleForce": "Angle", "CustomTorsionForce": "Torsion"}


def custom_terms(force: Any, reading: Reading) -> Found:
    """Bonds, angles and dihedral angles whose energies are formulas."""
    what = BONDED[type(force).__name__]
    rows = parameters_of(force, what)
    return _formula_terms(force, reading, [row[:-1] for row in rows], [row[-1] for row in rows], f"Per{what}Parameter")


def compound_terms(force: Any, reading: Reading) -> Found:
    """Terms of several atoms whose energies are formulas of distances, angles and coordinates."""
    if force.getNumTabulatedFunctions():
        raise refused(force, f"a table `{force.getTabulatedFunctionName(0)}`", "Write it as a formula.")
    rows = parameters_of(force, "Bond")
    return _formula_terms(force, reading, [row[0] for row in rows], [row[1] for row in rows], "PerBondParameter")


def _formula_terms(force: Any, reading: Reading, atoms: list[Any], values: list[Any], what: str) -> Found:
    if not atoms:
        return []
    names = _names(force, what)
    numbers, kind = rows_by_kind(table_of(values, len(names)))
    given: dict[str, Any] = dict(zip(names, numbers.T, strict=True)) | _globals(force)
    term = FormulaTerms(force.getEnergyFunction(), reading.places(atoms), given, kind if names else None)
    return [(reading.label(force), term)]


def external_field(force: Any, reading: Reading) -> Found:
    """Energies of single atoms as formulas of their places."""
    rows, names = parameters_of(force, "Particle"), _names(force, "PerParticleParameter")
    if not rows:
        return []
    numbers = table_of([row[1] for row in rows], len(names))
    given: dict[str, Any] = dict(zip(names, numbers.T, strict=True)) | _globals(force)
    field = FormulaField(force.getEnergyFunction(), reading.places([row[0] for row in rows]), given)
    return [(reading.label(force), field)]


def custom_pairs(force: Any, reading: Reading) -> Found:
    """Pairs whose energy is a formula of their distance; parameters are those of species."""
    if force.getNumInteractionGroups():
        raise refused(force, "interaction groups", "Give the groups species of their own.")
    if force.getNumComputedValues():
        raise refused(force, "computed values", "Write them into the formula.")
    method, names, label = force.getNonbondedMethod(), _names(force, "PerParticleParameter"), reading.label(force)
    reading.exclude([force.getExclusionParticles(k) for k in range(force.getNumExclusions())], label)
    numbers = {name: reading.of_species(label, k) for k, name in enumerate(names)}
    cutoff = math.inf if method == force.NoCutoff else plain(force.getCutoffDistance())
    truncation = ending(force, bool(force.getUseLongRangeCorrection()) and method == force.CutoffPeriodic)
    pair = FormulaPair(force.getEnergyFunction(), numbers, _globals(force), cutoff, truncation, _tables(force))
    return [(label, pair)]


def through_atoms(force: Any, reading: Reading) -> Found:
    """Energies through computed values of atoms, as models of implicit solvent are written."""
    names = _names(force, "PerParticleParameter")
    numbers = table_of(parameters_of(force, "Particle"), len(names))[reading.order]
    excluded = reading.places([force.getExclusionParticles(k) for k in range(force.getNumExclusions())])
    term = FormulaThroughAtoms(
        [(name, text, KINDS[kind]) for name, text, kind in parameters_of(force, "ComputedValue")],
        [(text, KINDS[kind]) for text, kind in parameters_of(force, "EnergyTerm")],
        dict(zip(names, numbers.T, strict=True)),
        _globals(force),
        excluded,
        None if force.getNonbondedMethod() == force.NoCutoff else plain(force.getCutoffDistance()),
        _tables(force),
    )
    return [(reading.label(force), term)]


def species_rows_of(force: Any) -> np.ndarray:
    """The parameters of all particles by which pairs differ, (particles, parameters)."""
    return table_of(parameters_of(force, "Particle"), force.getNumPerParticleParameters())


def refused(force: Any, what: str, remedy: str) -> ArgumentError:
    return ArgumentError(
        f"Argument `system` must hold only what simkit has, but its {type(force).__name__} has {what}. {remedy}"
    )


def _names(force: Any, what: str) -> list[str]:
    return [getattr(force, f"get{what}Name")(k) for k in range(getattr(force, f"getNum{what}s")())]


def _globals(force: Any) -> dict[str, float]:
    values = range(force.getNumGlobalParameters())
    return {force.getGlobalParameterName(k): force.getGlobalParameterDefaultValue(k) for k in values}


def _tables(force: Any) -> dict[str, Function]:
    """Functions that are tables over whole numbers."""
    found: dict[str, Function] = {}
    for k in range(force.getNumTabulatedFunctions()):
        name, table = force.getTabulatedFunctionName(k), force.getTabulatedFunction(k)
        kind = type(table).__name__
        if not kind.startswith("Discrete"):
            raise refused(force, f"a table `{name}` of the type {kind}", "Tables over whole numbers are known.")
        *sizes, values = table.getFunctionParameters()
        shape = sizes[::-1] if sizes else (len(values),)
        # The first index varies fastest.
        found[name] = lookup(np.asarray(values, float).reshape(shape).T)
    return found
