"""Bad tables: every complaint names file, row and column."""

import math

import numpy as np
import pytest
from petab_models import GOOD, check_complaint, load_observed, sbml, write_problem

import simkit
from simkit import DataError

# What is replaced by what, and what the message says.
BAD = {
    "unknown symbol": (
        "observables",
        "A *",
        "B *",
        r"`observables.tsv`, line 2, column `observableFormula`.*`B` is none",
    ),
    "no formula": ("observables", "A * obs", "A * * obs", r"line 2, column `observableFormula`.*must be a formula"),
    "unknown observable": (
        "measurements",
        "o | c0",
        "p | c0",
        r"`measurements.tsv`, line 2, column `observableId`.*`p`",
    ),
    "unknown condition": ("measurements", "c0", "c7", r"line 2, column `simulationConditionId`.*`c7` is none"),
    "no number": ("measurements", "2.0", "two", r"line 2, column `measurement`.*must be a number, but it is `two`"),
    "negative time": ("measurements", "| 1 |", "| -1 |", r"line 2, column `time`.*at least 0"),
    "missing override": ("measurements", "2.0 | 1.0", "2.0 | ", r"column `observableParameters`.*must hold 1 values"),
    "an override too many": (
        "measurements",
        "2.0 | 1.0",
        "2.0 | 1.0; 0.4",
        r"line 2, column `observableParameters`.*no more values than the formula of `o` has places, 1, but it holds 2",
    ),
    "unknown override": (
        "measurements",
        "2.0 | 1.0",
        "2.0 | scal",
        r"column `observableParameters`.*`scal` is neither",
    ),
    "bounds on the wrong scale": ("parameters", "0.01", "-2", r"column `lowerBound`.*must be positive.*linear"),
    "bounds the wrong way": ("parameters", "0.01", "20", r"column `lowerBound`.*must be less than the upper bound"),
    "duplicate": (
        "parameters",
        "0.5 | 1",
        "0.5 | 1\nk | lin | 0 | 1 | 1 | 1",
        r"line 3, column `parameterId`.*there once",
    ),
    "duplicate observable": (
        "observables",
        "| 0.1",
        "| 0.1\no | A | 0.2",
        r"`observables.tsv`, line 3, column `observableId`.*there once",
    ),
    "duplicate condition": ("conditions", "c0 | 1", "c0 | 1\nc0 | 2", r"line 3, column `conditionId`.*line 2 already"),
    "no identifier": ("parameters", "k | log10", " | log10", r"line 2, column `parameterId`.*must not be empty"),
    "infinite datum": ("measurements", "2.0 |", "inf |", r"line 2, column `measurement`.*must be finite"),
    "too many cells": ("measurements", "2.0 | 1.0", "2.0 | 1.0 | 7", r"`measurements.tsv`, line 2, must have 5 cells"),
    "call of an unknown function": ("observables", "A *", "system(A) *", r"calls `system`, which is not defined"),
    "attribute": ("observables", "A *", "A.real *", r"line 2, column `observableFormula`"),
    "observables that name each other": (
        "observables",
        "A * observableParameter1_o | 0.1",
        "p + observableParameter1_o | 0.1\np | o | 0.1",
        r"column `observableFormula`.*must not depend on itself",
    ),
    "deep formula": (
        "observables",
        "A *",
        f"{'exp(' * 5000}A{')' * 5000} *",
        r"line 2, column `observableFormula`.*nested",
    ),
    "unknown scale": ("parameters", "log10", "ln", r"column `parameterScale`.*must be one of lin, log, log10"),
    "unknown target": ("conditions", "k2", "k3", r"`conditions.tsv`.*`k3` is none"),
    "unknown value": ("conditions", "| k2\nc0 | 1", "| k2\nc0 | kk", r"line 2, column `k2`.*`kk` is neither"),
    "a parameter that nothing names": (
        "parameters",
        "0.5 | 1",
        "0.5 | 1\nk3 | lin | 0 | 1 | 0.5 | 1",
        r"`parameters.tsv`, line 3.*`k3`, but neither the model nor another table names it.*`k2`",
    ),
    "missing column": (
        "measurements",
        "measurement |",
        "measured |",
        r"`measurements.tsv` must have a column `measurement`",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_complaints_name_the_place(tmp_path, case):
    model = sbml({"A": 2.0}, {"k": 1.0, "k2": 1.0}, {"r": ("A", "", "cell * k * k2 * A")})
    check_complaint(lambda tables: write_problem(tmp_path, model, **tables), GOOD, BAD[case])


@pytest.mark.parametrize(
    ("species", "parameters", "name"),
    [({"A": math.nan}, {}, "A"), ({"A": math.inf}, {}, "A"), ({"A": 2.0}, {"k3": math.nan}, "k3")],
)
def test_numbers_of_the_model_that_are_not_finite(tmp_path, species, parameters, name):
    law = " * ".join(["cell", "k", "k2", "A", *parameters])
    model = sbml(species, {"k": 1.0, "k2": 1.0, **parameters}, {"r": ("A", "", law)})
    with pytest.raises(DataError, match=f"`{name}` of the model must be finite in the experiment `c0`"):
        simkit.petab.load(write_problem(tmp_path, model, **GOOD))
    column = "conditionId | k2\nc0 | 1", f"conditionId | k2 | {name}\nc0 | 1 | 0.5"
    tables = GOOD | {"conditions": GOOD["conditions"].replace(*column)}
    read = simkit.petab.load(write_problem(tmp_path, model, **tables))
    assert np.isfinite(read.problem.log_likelihood(read.nominal)[0])


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(DataError, match="no PEtab problem"):
        simkit.petab.load(tmp_path / "problem.yaml")
    (tmp_path / "problem.yaml").write_text("format_version: 7\n")
    with pytest.raises(DataError, match="version 7"):
        simkit.petab.load(tmp_path / "problem.yaml")
    (tmp_path / "problem.yaml").write_text(
        "format_version: 1\nparameter_file: https://host/p.tsv\nproblems:\n- {sbml_files: [a], condition_files: [a], "
        "observable_files: [a], measurement_files: [a]}\n"
    )
    with pytest.raises(DataError, match="relative to itself"):
        simkit.petab.load(tmp_path / "problem.yaml")


@pytest.mark.parametrize(
    ("kind", "numbers", "message"),
    [
        ("normal", "0.5;-1", "must end in a positive width"),
        ("laplace", "0.5;0", "must end in a positive width"),
        ("normal", "nan;1", "must be finite"),
        ("uniform", "1;0", "a lower and a higher end"),
        ("parameterScaleUniform", "1;1", "a lower and a higher end"),
    ],
)
def test_numbers_that_make_no_prior(tmp_path, kind, numbers, message):
    model = sbml({"A": 2.0}, {"k": 1.0, "k2": 1.0}, {"r": ("A", "", "cell * k * k2 * A")})
    head, row = GOOD["parameters"].strip().splitlines()
    table = f"{head} | objectivePriorType | objectivePriorParameters\n{row} | {kind} | {numbers}"
    with pytest.raises(DataError, match=f"line 2, column `objectivePriorParameters`.*{message}"):
        simkit.petab.load(write_problem(tmp_path, model, **(GOOD | {"parameters": table})))


@pytest.mark.parametrize(
    ("trigger", "message"),
    [("floor(A)", r"event `low`.*holds `floor`"), ("A + 1", r"event `low`.*holds `add`")],
)
def test_triggers_that_cannot_be_located_are_named(tmp_path, trigger, message):
    model = sbml(
        {"A": 2.0}, {"k": 1.0, "k2": 1.0}, {"r": ("A", "", "cell * k * k2 * A")}, events={"low": (trigger, {"A": "2"})}
    )
    with pytest.raises(DataError, match=message):
        simkit.petab.load(write_problem(tmp_path, model, **GOOD))


def test_tricks_of_xml_are_refused(tmp_path):
    good = sbml({"A": 2.0}, {"k": 1.0, "k2": 1.0}, {"r": ("A", "", "cell * k * k2 * A")})
    path = write_problem(tmp_path, good, **GOOD)
    head, body = good.split("\n", 1)
    bomb = '<!DOCTYPE sbml [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]>'
    outside = '<!DOCTYPE sbml SYSTEM "http://host/evil.dtd">'
    for trick in (bomb, outside, "<!  DOCTYPE sbml []>"):
        (tmp_path / "model.xml").write_text(f"{head}\n{trick}\n{body}")
        with pytest.raises(DataError, match="document type"):
            simkit.petab.load(path)
    (tmp_path / "model.xml").write_bytes(f"{head}\n{bomb}\n{body}".encode("utf-16"))
    with pytest.raises(DataError, match="UTF-8"):
        simkit.petab.load(path)
    (tmp_path / "model.xml").write_text(good[: len(good) // 2])
    with pytest.raises(DataError, match=r"`model.xml`, line \d+ must be SBML"):
        simkit.petab.load(path)


@pytest.mark.parametrize("name", ["time", "pi", "nan"])
def test_a_name_of_the_model_that_formulas_have_as_a_constant(tmp_path, name):
    # It was taken for the constant without a word.
    model = sbml({"A": 2.0}, {"k": 1.0, name: 5.0}, {"r": ("A", "", "cell * k * A")})
    with pytest.raises(DataError, match=f"must not hold `{name}`, which formulas have as a constant"):
        load_observed(tmp_path, model, {"k": 0.4}, f"A * {name}", [0.0, 1.0])
