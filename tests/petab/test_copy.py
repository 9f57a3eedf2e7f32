"""What was read, written again: the same problem, with other nominal values."""

import numpy as np
import pytest
from petab_models import sbml, write_problem

import simkit
from simkit import ArgumentError

MODEL = sbml({"A": 2.0}, {"k": 1.0}, {"r": ("A", "", "cell * k * A")})
PARAMETERS = """parameterId | parameterScale | lowerBound | upperBound | nominalValue | estimate | note
k | log10 | 0.01 | 10 | 0.5 | 1 | "a, b"
sd | lin | 0 | 10 | | 1 |
s | lin | 0 | 10 | 2.0 | 0 |"""
OBSERVABLES = "observableId | observableFormula | noiseFormula\no | s * A | sd"
MEASUREMENTS = "observableId | simulationConditionId | time | measurement\no | c0 | 1 | 2.0"


@pytest.fixture
def read(tmp_path):
    return simkit.petab.load(write_problem(tmp_path, MODEL, PARAMETERS, OBSERVABLES, MEASUREMENTS))


@pytest.mark.filterwarnings("ignore")  # of the package of PEtab
def test_files_come_back_with_fitted_values(tmp_path, read):
    from petab import v1

    path = simkit.petab.write(read, tmp_path / "new", nominal=[0.25, 0.125])
    assert path.name == "problem.yaml"
    again = simkit.petab.load(path)
    np.testing.assert_array_equal(again.nominal, [0.25, 0.125])
    same = {name: text for name, text in again.texts.items() if name != "parameters.tsv"}
    assert same == {name: text for name, text in read.texts.items() if name != "parameters.tsv"}
    theirs = v1.Problem.from_yaml(str(path))
    assert not v1.lint_problem(theirs)
    assert dict(theirs.parameter_df["nominalValue"]) == {"k": 0.25, "sd": 0.125, "s": 2.0}
    assert theirs.parameter_df["note"]["k"] == "a, b"
    # Without values the nominal ones stay, and what was not known stays unknown.
    plain = simkit.petab.load(simkit.petab.write(read, tmp_path / "plain"))
    np.testing.assert_array_equal(plain.nominal, [0.5, np.nan])


def test_what_cannot_be_written_is_named(tmp_path, read):
    with pytest.raises(ArgumentError, match="2 free parameters"):
        simkit.petab.write(read, tmp_path / "new", nominal=[1.0])
    with pytest.raises(ArgumentError, match=r"simkit\.petab\.load"):
        simkit.petab.write(read.problem, tmp_path / "new")
