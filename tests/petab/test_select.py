"""Model selection over the spaces of PEtab Select: its public test cases, criteria, and what is refused."""

import pathlib
from typing import Any, NamedTuple

import numpy as np
import pytest
import yaml

import simkit
from simkit import DataError

pytest.importorskip("petab_select")
CASES = pathlib.Path(__file__).parents[2] / "data/petab_select"


class Told(NamedTuple):
    """A fit whose likelihood is known."""

    log_likelihood: float
    estimate: Any
    names: tuple[str, ...]


def told(problem):
    """Half a unit of the log likelihood for each parameter."""
    return Told(10.0 + 0.5 * len(problem.names), np.full(len(problem.names), 0.1), problem.names)


def test_criteria_count_parameters_and_the_best_is_taken(tmp_path):
    rows = [("M0", "0", "0"), ("M1", "estimate", "0"), ("M2", "estimate", "estimate")]
    problem = CASES / "0001/petab/petab_problem.yaml"
    space = "model_subspace_id\tmodel_subspace_petab_yaml\tk1\tk2\tk3\n"
    space += "".join(f"{name}\t{problem}\t{one}\t0.1\t{other}\n" for name, one, other in rows)
    (tmp_path / "space.tsv").write_text(space)
    text = "format_version: beta_1\ncriterion: BIC\nmethod: brute_force\nmodel_space_files: [space.tsv]\n"
    (tmp_path / "problem.yaml").write_text(text)
    found = simkit.petab.select(tmp_path / "problem.yaml", told)
    assert (found.criterion, found.method, len(found.models)) == ("BIC", "brute_force", 3)
    for model in found.models:
        count = len(model.estimate)
        assert model.log_likelihood == pytest.approx(10.0 + 0.5 * count)
        # Six data; the criterion's definition.
        assert model.criterion == pytest.approx(count * np.log(6) - 2 * (10.0 + 0.5 * count))
    # A parameter costs ln 6 = 1.8 and gains 1, so that the smallest model is the best.
    assert tuple(found.best.estimate) == found.petab.problem.names == ("sigma_x2",)
    assert found.best.fixed == {"k1": 0.0, "k2": 0.1, "k3": 0.0}
    assert "3 models, best `M0-" in repr(found)
    found.write(tmp_path / "best.yaml")
    written = yaml.safe_load((tmp_path / "best.yaml").read_text())
    assert written["model_id"] == found.best.name
    assert written["criteria"]["BIC"] == pytest.approx(found.best.criterion)


@pytest.mark.slow
@pytest.mark.parametrize("case", [f"000{i}" for i in range(1, 9)])
def test_public_cases(case):
    """The best model of each case of the public suite, its criterion and its estimates; within 1e-3, and 5e-3 for estimates."""
    fit = lambda problem: simkit.fit(problem, starts=5)
    found = simkit.petab.select(CASES / case / "petab_select_problem.yaml", fit)
    expected = yaml.safe_load((CASES / case / "expected.yaml").read_text())
    assert found.best.name == expected["model_id"]
    assert -found.best.log_likelihood == pytest.approx(expected["criteria"]["NLLH"], rel=1e-3)
    assert found.best.criterion == pytest.approx(expected["criteria"][found.criterion], rel=1e-3)
    assert found.best.estimate == pytest.approx(expected["estimated_parameters"], rel=5e-3)


def test_refusals(tmp_path):
    with pytest.raises(DataError, match="must be a PEtab Select problem"):
        simkit.petab.select(tmp_path / "missing.yaml", told)
    failed = lambda problem: Told(np.nan, np.zeros(len(problem.names)), problem.names)
    with pytest.raises(simkit.SimulationError, match="must have a finite likelihood"):
        simkit.petab.select(CASES / "0001" / "petab_select_problem.yaml", failed)
