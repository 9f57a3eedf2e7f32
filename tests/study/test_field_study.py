"""Study files of unknown fields: the same problem as in Python, data by cells, results, reports, and bad input."""

import jax
import numpy as np
import pytest

import simkit
from simkit import StudyError, fields, fluids
from simkit.report import write_report
from simkit.study import study_from_text
from simkit.study.runs import run
from simkit.study.runs._reproduce import comparisons
from simkit.viz import plot_field_fit

STUDY = """
[system]
model = "spectral_flow_2d"
grid = { shape = [8, 8] }
parameters = { viscosity = 0.05, drag = 0.0, hyperviscosity = 0.0 }
[y0]
velocity = { builder = "rest" }
[solve]
step = 0.1
[noise]
vorticity = { model = "normal", scale = 0.1 }
[free]
"y0.vorticity" = { prior = { matern = { scale = 1.0, length = 2.0, smoothness = 2.5, average = 1e-3 } } }
[experiments.tank]
start = 0.0
file = "pixels.csv"
cells = ["i", "j"]
[fit]
method = "gauss_newton_cg"
modes = 20
[predict]
times = [0.1, 0.3]
count = 3
"""
BOX = (2 * np.pi, 2 * np.pi)
PRIOR = fields.Matern(1.0, length=2.0, box=BOX, smoothness=2.5, average=1e-3)


def pixels():
    random = np.random.default_rng(0)
    rows = [(time, i, j, random.normal()) for time in (0.2, 0.1) for i, j in ((7, 0), (0, 7), (3, 4), (5, 5), (1, 2))]
    return "time,i,j,vorticity\n" + "\n".join(",".join(map(str, row)) for row in rows), rows


def read(text, table=None):
    return study_from_text(text, read={"pixels.csv": pixels()[0] if table is None else table})


def test_a_study_of_a_field_is_the_problem_in_python(tmp_path):
    _, rows = pixels()
    study = read(STUDY)
    data = np.full((2, 8, 8), np.nan)
    for time, i, j, value in rows:
        data[int(time > 0.15), i, j] = value
    State = fluids.SpectralFlow2D.State
    problem = simkit.Problem(
        fluids.SpectralFlow2D(fluids.Grid((8, 8)), viscosity=0.05),
        simkit.Experiment("tank", [0.1, 0.2], {"vorticity": data}, start=0.0),
        free={"y0.vorticity": simkit.Free(PRIOR)},
        noise={"vorticity": simkit.noise.Normal(0.1)},
        y0=State(np.zeros((8, 8))),
        step=0.1,
    )
    told = simkit.fit(problem, method=simkit.GaussNewtonCG(modes=20))
    said = []
    whole = run(
        study, tmp_path / "out", say=said.append, report=lambda file, page: write_report(simkit.load(file), page)
    )
    found = whole.field_fit
    assert found.status == 0
    assert np.abs(found["y0.vorticity"] - told["y0.vorticity"]).max() < 1e-6
    assert any("fields are sampled where [sample] says how" in line for line in said)
    assert whole.posterior is None
    assert next(iter(whole.prediction.curves.values())).shape == (3, 1, 2, 8, 8)
    results = simkit.load(tmp_path / "out" / "result.h5")
    kept = results.field_fit
    compared = {row.part: row.verdict for row in comparisons(results, whole)}
    assert compared == {"field_fit": "bitwise equal", "prediction": "bitwise equal"}
    assert np.array_equal(kept.estimate, found.estimate)
    page = (tmp_path / "out" / "report.html").read_text()
    for words in ("64 unknown numbers of 1 array(s)", "8 x 8", "The data say more than the prior in", "20 directions"):
        assert words in page
    assert (tmp_path / "out" / "figures" / "unknown_fields.png").stat().st_size > 5000
    figure = plot_field_fit(kept)
    shown = figure.axes[0].images[0].get_array()
    assert np.allclose(shown, np.asarray(kept["y0.vorticity"]).T)
    assert np.allclose(figure.axes[1].images[0].get_array(), np.asarray(kept.standard_error("y0.vorticity")).T)


def test_the_method_of_a_field_need_not_be_given():
    text = STUDY.replace('[fit]\nmethod = "gauss_newton_cg"\nmodes = 20\n', "")
    assert read(text).fit == {"method": "gauss_newton_cg"}


def test_curves_of_a_fitted_field_of_one_axis():
    class Row(simkit.PlainSystem):
        a: jax.Array = simkit.quantity()

        def vector_field(self, t, y, inputs):
            return {"y": self.a}

        def outputs(self, t, y, inputs):
            return y

        @classmethod
        def example(cls):
            return simkit.Example(cls(np.zeros(6)), {"y": np.zeros(6)}, np.linspace(0.0, 1.0, 3))

    problem = simkit.Problem(
        Row(np.zeros(6)),
        simkit.Experiment("a", [1.0], {"y": np.arange(6.0)[None]}, start=0.0),
        free={"a": simkit.Free(fields.Matern(5.0, length=0.5, box=1.0))},
        noise={"y": simkit.noise.Normal(0.5)},
        y0={"y": np.zeros(6)},
    )
    fit = simkit.fit(problem, method=simkit.GaussNewtonCG(modes=6))
    figure = plot_field_fit(fit)
    assert np.allclose(figure.axes[0].get_lines()[0].get_ydata(), fit["a"])
    assert np.allclose(figure.axes[1].get_lines()[0].get_ydata(), fit.standard_error("a"))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            'cells = ["i", "j"]',
            'cells = ["i"]',
            r"must name 2 column\(s\) for `vorticity`, whose array has the shape \(8, 8\)",
        ),
        ('cells = ["i", "j"]', "cells = [1]", r"must be headers of columns such as"),
        ('cells = ["i", "j"]', 'cells = ["i", "k"]', "has no column `k`"),
        ("scale = 1.0, length", "scale = 1.0, lenth", "has no key `lenth`"),
        ("scale = 1.0, length = 2.0", "length = 2.0", "must give `scale`"),
        ("matern = { scale = 1.0", "matern = { scale = -1.0", "must be a positive number"),
        (
            "prior = { matern = { scale = 1.0, length = 2.0, smoothness = 2.5, average = 1e-3 } }",
            "prior = { matern = 1.0 }",
            "a table such as",
        ),
        (
            "average = 1e-3",
            'average = 1e-3, ends = "open"',
            "must be of periodic, neumann, dirichlet, but it is `open`",
        ),
        (
            'cells = ["i", "j"]\n',
            "",
            r"must name the columns that count the cells of `vorticity`, an array of shape \(8, 8\)",
        ),
        (
            'method = "gauss_newton_cg"\nmodes = 20',
            'method = "lbfgs"',
            "must be one of gauss_newton_cg, field_lbfgs, since `y0.vorticity`",
        ),
        ("[predict]", '[sample]\nmethod = "ensemble"\n[predict]', 'must be "nuts"'),
        ("modes = 20", "starts = 3", 'does not go with `method = "gauss_newton_cg"`'),
        ("modes = 20", "members = 30", 'goes with `method = "ensemble_inversion"`'),
        ("[predict]", "[profile]\n[predict]", "whose unknowns are fields"),
    ],
)
def test_what_studies_of_fields_refuse(old, new, words):
    assert old in STUDY
    with pytest.raises(simkit.SimkitError, match=words):
        read(STUDY.replace(old, new)).problem()


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("0.1,8,0,1.0", r"must be below the shape \(8, 8\) of `vorticity`, counted from 0, but one is 8"),
        ("0.1,-1,0,1.0", "whole numbers that count cells from 0, but one is -1"),
        ("0.1,1.5,0,1.0", "but one is 1.5"),
        ("0.1,7,0,1.0", r"must give each cell once at a time, but \(7, 0\) is there twice at 0.1"),
        (",7,0,1.0", "must give each row a time"),
    ],
)
def test_rows_that_are_no_cells(row, words):
    with pytest.raises(StudyError, match=words):
        read(STUDY, f"{pixels()[0]}\n{row}")
