"""PEtab problems as studies: what the command line runs, and what a result file makes again."""

import numpy as np
import pytest
from petab_models import sbml, write_problem

import simkit
from simkit.io import provenance
from simkit.study import study_from_provenance


@pytest.fixture
def path(tmp_path):
    return write_problem(
        tmp_path,
        sbml({"A": 2.0}, {"k": 9.0}, {"r": ("A", "", "cell * k * A")}),
        "parameterId | parameterScale | lowerBound | upperBound | nominalValue | estimate\nk | log10 | 0.01 | 10 | 1 | 1",
        "observableId | observableFormula | noiseFormula\no | A | 0.1",
        "observableId | simulationConditionId | time | measurement\no | c0 | 1 | 0.7\no | c0 | 4 | 0.1",
    )


def test_a_petab_problem_is_a_study(path):
    study = simkit.load_study(path, seed=3)
    assert study.seed == 3
    assert study.problem().names == ("k",)
    np.testing.assert_allclose(study.prediction_times[[0, -1]], [0, 4])
    assert set(study.files) == {"parameters.tsv", "observables.tsv", "measurements.tsv", "conditions.tsv", "model.xml"}


def test_what_a_result_holds_makes_the_study_again(path):
    made = provenance(simkit.load_study(path))
    for file in path.parent.iterdir():
        file.unlink()
    again = study_from_provenance(made)
    assert again.sha256 == made.study_sha256
    np.testing.assert_array_equal(again.problem().data["o"], [[0.7, 0.1]])
