"""Sparse fits that a study file asks for: chosen, saved, checked, reported and reproduced."""

import json

import numpy as np
import pytest

import simkit
from simkit import StudyError, UnknownNameError
from simkit.cli import main
from simkit.report import write_report
from simkit.study import study_from_text
from simkit.study.runs import check_study, compute

X = np.linspace(0.1, 2.0, 20)
Y = 2 * X + 0.1 * np.random.default_rng(3).normal(size=20)
CURVE = f"""
[study]
title = "Which powers act?"
[system.equations]
"d y" = "a + b * t + c * t^2"
[system.parameters]
a = 1.0
b = 0.1
c = 0.1
[y0]
y = 0.0
[noise]
y = {{ model = "normal", scale = 0.1 }}
[free]
a = {{ bounds = [-5.0, 5.0], transform = "linear" }}
b = {{ bounds = [-5.0, 5.0], transform = "linear" }}
c = {{ bounds = [-5.0, 5.0], transform = "linear" }}
[experiments.curve]
start = 0.0
times = {X.tolist()}
data.y = {Y.tolist()}
[fit]
starts = 4
method = "sparse"
"""
NAMES = 'names = ["a", "b", "c"]\n'


def direct(**more):
    problem = study_from_text(CURVE + NAMES).problem()
    return problem, simkit.fit(problem, starts=4, method=simkit.Sparse(["a", "b", "c"], **more))


@pytest.mark.parametrize(
    ("more", "keywords"),
    [("", {}), ('search = "all"\nby = "aicc"\n', {"search": "all", "by": "aicc"})],
    ids=["path", "all"],
)
def test_a_study_chooses_as_the_verb_does(more, keywords):
    """And samples the chosen model: of a line alone, whose posterior is normal with the standard error of least squares."""
    found = compute(study_from_text(CURVE + NAMES + more + "[sample]\nchains = 2\ndraws = 400\nwarmup = 200\n"))
    _, own = direct(**keywords)
    assert found.sparse_fit.kept == own.kept == ("a",)
    assert found.sparse_fit.by == own.by
    np.testing.assert_allclose(found.sparse_fit.criterion[own.chosen], own.criterion[own.chosen], rtol=1e-9)
    assert found.fit.names == found.posterior.names == found.problem.names == ("a",)
    slope, error = X @ Y / (X @ X), 0.1 / np.sqrt(X @ X)
    np.testing.assert_allclose(found.fit.estimate[0], slope, rtol=1e-5)  # by a solver with a tolerance of 1e-6
    # 800 draws: the mean to a tenth of the error at least, its spread to a fifth.
    assert abs(float(found.posterior.draws.mean()) - slope) < 0.2 * error
    assert float(found.posterior.draws.std()) == pytest.approx(error, rel=0.2)


def test_results_are_saved_reported_and_reproduced(tmp_path, capsys):
    file, out = tmp_path / "curve.toml", tmp_path / "out"
    file.write_text(CURVE + NAMES + '[profile]\nnames = ["a", "b"]\n')
    assert main(["run", str(file), "--out", str(out), "--no-cache"]) == 0
    results = simkit.load(out / "result.h5")
    assert results.sparse_fit.kept == ("a",)
    assert results.fit.names == ("a",)
    assert results.profiles.names == ("a",)  # `b` has vanished
    page = (out / "report.html").read_text()
    for words in ("Which unknowns act?", "1 of 3 unknowns that may vanish are kept by BIC: a.", "Does the model fit?"):
        assert words in page
    again = write_report(results, tmp_path / "again.html")
    assert "Which unknowns act?" in again[0].read_text()
    capsys.readouterr()
    assert main(["reproduce", str(out / "result.h5"), "--json", "--no-cache"]) == 0
    rows = {row["part"]: row["verdict"] for row in json.loads(capsys.readouterr().out)["comparisons"]}
    assert rows["sparse_fit"] == rows["fit"] == rows["posterior"] == "bitwise equal"


def test_nothing_may_be_left(tmp_path):
    """Data of noise alone: the run ends with the fit, whose report names no unknown."""
    noise = (0.1 * np.random.default_rng(5).normal(size=20)).tolist()
    study = CURVE.replace(str(Y.tolist()), str(noise)) + NAMES
    found = compute(study_from_text(study))
    assert found.sparse_fit.kept == ()
    assert found.fit is None
    assert found.posterior is None


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("", "`names` .*must be given with `method"),
        ("names = 3", "an array"),
        ("names = []", "must be names of unknowns"),
        (NAMES + 'by = "cp"', '"bic"'),
        (NAMES + 'search = "all"\nby = 5', "folds choose a strength"),
        (NAMES + "members = 5", 'goes with `method = "ensemble_inversion"`'),
    ],
)
def test_wrong_keys_are_refused(more, words):
    with pytest.raises(StudyError, match=words):
        study_from_text(CURVE + more + "\n")


def test_names_that_no_unknown_has_are_found_without_a_run():
    with pytest.raises(UnknownNameError, match=r"\[fit\] of .* no free parameter `d`"):
        check_study(study_from_text(CURVE + 'names = ["a", "d"]\n'))
    with pytest.raises(UnknownNameError, match="there is no search `most`"):
        study_from_text(CURVE + NAMES + 'search = "most"')
    with pytest.raises(StudyError, match="goes with `method"):
        study_from_text(CURVE.replace('"sparse"', '"lbfgs"') + NAMES)
