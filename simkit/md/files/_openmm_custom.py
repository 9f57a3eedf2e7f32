"""Forces that OpenMM is given as formulas."""

from typing import Any

import numpy as np

from ..._errors import ArgumentError
from ..potentials._formula import Function, lookup
from ..potentials._formula_born import KINDS, FormulaThroughAtoms
from ..potentials._formula_terms import FormulaField, FormulaPair, FormulaTerms
from ..potentials._truncation import Switched, Truncated
from ._openmm_reading import Found, Reading, plain, rows_by_kind

BONDED = {"CustomBondForce": "Bond", "CustomAngleForce": "Angle", "CustomTorsionForce": "Torsion"}


def custom_terms(force: Any, reading: Reading) -> Found:
    """Bonds, angles and dihedral angles whose energies are formulas."""
    what = BONDED[type(force).__name__]
    each = getattr(force, f"get{what}Parameters")
    rows = [each(k) for k in range(getattr(force, f"getNum{what}s")())]
    names = _names(force, f"Per{what}Parameter")
    return _formula_terms(force, reading, [row[:-1] for row in rows], [row[-1] for row in rows], names)


def compound_terms(force: Any, reading: Reading) -> Found:
    """Terms of several atoms whose energies are formulas of distances, angles and coordinates."""
    _refuse_tables(force)
    rows = [force.getBondParameters(k) for k in range(force.getNumBonds())]
    return _formula_terms(
        force, reading, [row[0] for row in rows], [row[1] for row in rows], _names(force, "PerBondParameter")
    )


def _formula_terms(force: Any, reading: Reading, atoms: list[Any], values: list[Any], names: list[str]) -> Found:
    if not atoms:
        return []
    numbers, kind = rows_by_kind(
        np.asarray([[plain(x) for x in row] for row in values], float).reshape(len(values), len(names))
    )
    given: dict[str, Any] = dict(zip(names, numbers.T, strict=True)) | _globals(force)
    return [
        (
            reading.label(force),
            FormulaTerms(force.getEnergyFunction(), reading.places(atoms), given, kind if names else None),
        )
    ]


def external_field(force: Any, reading: Reading) -> Found:
    """Energies of single atoms as formulas of their places."""
    count = force.getNumParticles()
    if not count:
        return []
    rows = [force.getParticleParameters(k) for k in range(count)]
    names = _names(force, "PerParticleParameter")
    numbers = np.asarray([[plain(x) for x in row[1]] for row in rows], float).reshape(count, len(names))
    given: dict[str, Any] = dict(zip(names, numbers.T, strict=True)) | _globals(force)
    return [
        (reading.label(force), FormulaField(force.getEnergyFunction(), reading.places([row[0] for row in rows]), given))
    ]


def custom_pairs(force: Any, reading: Reading) -> Found:
    """Pairs whose energy is a formula of their distance; parameters are those of species."""
    if force.getNumInteractionGroups():
        raise refused(force, "interaction groups", "Give the groups species of their own.")
    if force.getNumComputedValues() if hasattr(force, "getNumComputedValues") else 0:
        raise refused(force, "computed values", "Write them into the formula.")
    method, names = force.getNonbondedMethod(), _names(force, "PerParticleParameter")
    reading.exclude([force.getExclusionParticles(k) for k in range(force.getNumExclusions())], reading.label(force))
    numbers = {name: reading.of_species(reading.label(force), k) for k, name in enumerate(names)}
    cutoff = np.inf if method == force.NoCutoff else plain(force.getCutoffDistance())
    tail = force.getUseLongRangeCorrection() and method == force.CutoffPeriodic
    truncation = (
        Switched(plain(force.getSwitchingDistance()), by="distance", tail=tail)
        if force.getUseSwitchingFunction() and method != force.NoCutoff
        else Truncated(tail=tail)
    )
    return [
        (
            reading.label(force),
            FormulaPair(force.getEnergyFunction(), numbers, _globals(force), cutoff, truncation, _tables(force)),
        )
    ]


def through_atoms(force: Any, reading: Reading) -> Found:
    """Energies through computed values of atoms, as models of implicit solvent are written."""
    names = _names(force, "PerParticleParameter")
    numbers = np.asarray(
        [[plain(x) for x in force.getParticleParameters(k)] for k in range(force.getNumParticles())], float
    )
    numbers = numbers.reshape(-1, len(names))[reading.order]
    excluded = reading.places([force.getExclusionParticles(k) for k in range(force.getNumExclusions())])
    values = [force.getComputedValueParameters(k) for k in range(force.getNumComputedValues())]
    energies = [force.getEnergyTermParameters(k) for k in range(force.getNumEnergyTerms())]
    return [
        (
            reading.label(force),
            FormulaThroughAtoms(
                [(name, text, KINDS[kind]) for name, text, kind in values],
                [(text, KINDS[kind]) for text, kind in energies],
                dict(zip(names, numbers.T, strict=True)),
                _globals(force),
                excluded,
                None if force.getNonbondedMethod() == force.NoCutoff else plain(force.getCutoffDistance()),
                _tables(force),
            ),
        )
    ]


def species_rows_of(force: Any) -> np.ndarray:
    """The parameters of all particles by which pairs differ, (particles, parameters)."""
    count = force.getNumParticles()
    return np.asarray([[plain(x) for x in force.getParticleParameters(k)] for k in range(count)], float).reshape(
        count, -1
    )


def refused(force: Any, what: str, remedy: str) -> ArgumentError:
    return ArgumentError(
        f"Argument `system` must hold only what simkit has, but its {type(force).__name__} has {what}. {remedy}"
    )


def _names(force: Any, what: str) -> list[str]:
    return [getattr(force, f"get{what}Name")(k) for k in range(getattr(force, f"getNum{what}s")())]


def _globals(force: Any) -> dict[str, float]:
    values = range(force.getNumGlobalParameters())
    return {force.getGlobalParameterName(k): force.getGlobalParameterDefaultValue(k) for k in values}


def _refuse_tables(force: Any) -> None:
    if force.getNumTabulatedFunctions():
        raise refused(force, f"a table `{force.getTabulatedFunctionName(0)}`", "Write it as a formula.")


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
