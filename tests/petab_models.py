"""Small SBML models and PEtab problems, written to a folder."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import libsbml
import pytest

import simkit


def sbml(
    species: Mapping[str, float],
    parameters: Mapping[str, float],
    reactions: Mapping[str, tuple[str, str, str]],
    *,
    rules: Mapping[str, str] | None = None,
    rates: Mapping[str, str] | None = None,
    initial: Mapping[str, str] | None = None,
    events: Mapping[str, tuple[str, Mapping[str, str]]] | None = None,
    functions: Mapping[str, str] | None = None,
    algebraic: Sequence[str] = (),
    free: Sequence[str] = (),
    volume: float = 1.0,
    amounts: Sequence[str] = (),
) -> str:
    """The text of a model in one compartment `cell`: reactions are (reactant, product, kinetic law).

    `algebraic` rules are what is 0; `free` names the parameters that they determine.
    """
    document = libsbml.SBMLDocument(3, 1)
    model = document.createModel()
    model.setId("small")
    cell = model.createCompartment()
    cell.setId("cell"), cell.setSize(volume), cell.setConstant(True), cell.setSpatialDimensions(3)
    for name, value in species.items():
        s = model.createSpecies()
        s.setId(name), s.setCompartment("cell"), s.setInitialConcentration(value)
        s.setHasOnlySubstanceUnits(name in amounts), s.setBoundaryCondition(False), s.setConstant(False)
        if name in amounts:
            s.setInitialAmount(value)
    changing = {*free, *(rules or {}), *(rates or {}), *(x for _, given in (events or {}).values() for x in given)}
    for name, value in parameters.items():
        p = model.createParameter()
        p.setId(name), p.setValue(value), p.setConstant(name not in changing)
    for name, formula in (functions or {}).items():
        f = model.createFunctionDefinition()
        f.setId(name), f.setMath(libsbml.parseL3Formula(formula))
    for name, (reactant, product, law) in reactions.items():
        r = model.createReaction()
        r.setId(name), r.setReversible(False), r.setFast(False)
        for ids, make in ((reactant, r.createReactant), (product, r.createProduct)):
            for word in ids.split():
                x = make()
                x.setSpecies(word), x.setStoichiometry(1.0), x.setConstant(True)
        r.createKineticLaw().setMath(libsbml.parseL3Formula(law))
    for name, formula in (rules or {}).items():
        x = model.createAssignmentRule()
        x.setVariable(name), x.setMath(libsbml.parseL3Formula(formula))
    for formula in algebraic:
        model.createAlgebraicRule().setMath(libsbml.parseL3Formula(formula))
    for name, formula in (rates or {}).items():
        x = model.createRateRule()
        x.setVariable(name), x.setMath(libsbml.parseL3Formula(formula))
    for name, formula in (initial or {}).items():
        x = model.createInitialAssignment()
        x.setSymbol(name), x.setMath(libsbml.parseL3Formula(formula))
    for name, (trigger, assigned) in (events or {}).items():
        e = model.createEvent()
        e.setId(name), e.setUseValuesFromTriggerTime(True)
        t = e.createTrigger()
        t.setInitialValue(True), t.setPersistent(True), t.setMath(libsbml.parseL3Formula(trigger))
        for variable, formula in assigned.items():
            a = e.createEventAssignment()
            a.setVariable(variable), a.setMath(libsbml.parseL3Formula(formula))
    return libsbml.writeSBMLToString(document)


def write_problem(
    folder: Path,
    model: str,
    parameters: str,
    observables: str,
    measurements: str,
    conditions: str = "conditionId\nc0\n",
) -> Path:
    """A PEtab problem of version 1; columns of the tables may be separated by `|`, which is easier to read."""
    tables = {
        "parameters": parameters,
        "observables": observables,
        "measurements": measurements,
        "conditions": conditions,
    }
    for name, text in tables.items():
        lines = ["\t".join(cell.strip() for cell in line.split("|")) for line in text.strip().splitlines()]
        (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    (folder / "model.xml").write_text(model)
    path = folder / "problem.yaml"
    path.write_text(
        "format_version: 1\nparameter_file: parameters.tsv\nproblems:\n- condition_files: [conditions.tsv]\n"
        "  measurement_files: [measurements.tsv]\n  observable_files: [observables.tsv]\n  sbml_files: [model.xml]\n"
    )
    return path


def write_version_2(folder: Path, model: str, tables: Mapping[str, str]) -> Path:
    """A PEtab problem of version 2, its tables written like those of `write_problem`."""
    for name, text in tables.items():
        lines = ["\t".join(cell.strip() for cell in line.split("|")) for line in text.strip().splitlines()]
        (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    (folder / "model.xml").write_text(model)
    path = folder / "problem.yaml"
    files = "".join(f"{name[:-1]}_files: [{name}.tsv]\n" for name in tables)
    path.write_text(f"format_version: 2.0.0\n{files}model_files:\n  m:\n    location: model.xml\n    language: sbml\n")
    return path


def check_complaint(
    write: Callable[[Mapping[str, str]], Path], tables: Mapping[str, str], spoilt: tuple[str, str, str, str]
) -> None:
    """Reading a problem whose tables are spoilt says so: (table, what is replaced in it, by what, what the message says)."""
    table, old, new, message = spoilt
    assert old in tables[table]
    path = write({**tables, table: tables[table].replace(old, new, 1)})
    with pytest.raises(simkit.DataError, match=re.compile(message, re.DOTALL)):
        simkit.petab.load(path)


GOOD = {
    "parameters": """parameterId | parameterScale | lowerBound | upperBound | nominalValue | estimate
k | log10 | 0.01 | 10 | 0.5 | 1""",
    "observables": """observableId | observableFormula | noiseFormula
o | A * observableParameter1_o | 0.1""",
    "measurements": """observableId | simulationConditionId | time | measurement | observableParameters
o | c0 | 1 | 2.0 | 1.0""",
    "conditions": "conditionId | k2\nc0 | 1",
}
"""Tables of a small problem without mistakes."""


def load_observed(
    folder: Path, model: str, names: Mapping[str, float], observable: str, times: Sequence[float]
) -> simkit.petab.PEtab:
    """A problem with free parameters, by their values, and one observable `o`, which is measured as 1 at all times."""
    rows = "\n".join(f"o | c0 | {t} | 1" for t in times)
    parameters = "\n".join(f"{name} | lin | -50 | 50 | {value} | 1" for name, value in names.items())
    path = write_problem(
        folder,
        model,
        f"parameterId | parameterScale | lowerBound | upperBound | nominalValue | estimate\n{parameters}",
        f"observableId | observableFormula | noiseFormula\no | {observable} | 0.1",
        f"observableId | simulationConditionId | time | measurement\n{rows}",
    )
    return simkit.petab.load(path)
