"""Study files: what they give, and what is refused with which words."""

import pathlib

import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import DataError, StudyError, UnknownNameError
from simkit.study import load_study, study_from_text

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "lynx_hare.toml"

STUDY = """
[study]
title = "Two years"
seed = 3
[system]
model = "lotka_volterra"
parameters = { death = 0.9 }
[y0]
hare = 30.0
lynx = 4.0
[solve]
step = { rtol = 1e-5, atol = 1e-8 }
[noise]
hare = { model = "log_normal", scale = 0.2 }
lynx = { model = "student_t", scale = 0.3, freedom = 5 }
[free]
growth = { prior = { normal = [1.0, 0.5] }, bounds = [0.1, 2.0], start = 0.6 }
y0.hare = { prior = { log_normal = [3.0, 1.0] }, transform = "log" }
other_growth = { bounds = [0.1, 2.0] }
[set]
predation = 0.03
[experiments.first]
times = [0, 1, 2]
data = { hare = [30.0, nan, 50.0], lynx = [4.0, 5.0, 6.0] }
[experiments.second]
start = -1.0
times = [0.0, 1.0]
data = { hare = [30.0, 31.0] }
errors = { hare = [1.0, 2.0] }
set = { growth = "other_growth", death = 1.1 }
y0 = { lynx = 5.0 }
[predict]
times = [0.0, 2.0, 4.0]
count = 20
"""


def changed(old, new):
    """The study with one passage replaced, which must be there."""
    assert old in STUDY
    return STUDY.replace(old, new)


def test_a_study_becomes_a_problem():
    study = study_from_text(STUDY)
    problem = study.problem()
    assert problem.names == ("growth", "y0.hare", "other_growth")
    assert problem.labels == ("first", "second")
    assert problem.data_count == 7
    theta = jnp.array([0.5, 20.0, 0.7])
    first, second = (problem.setup(theta, name) for name in problem.labels)
    assert [float(first.get(p)) for p in ("growth", "death", "predation", "y0.lynx")] == [0.5, 0.9, 0.03, 4.0]
    assert [float(second.get(p)) for p in ("growth", "death", "y0.hare", "y0.lynx")] == [0.7, 1.1, 20.0, 5.0]
    assert float(problem.method.step.rtol) == 1e-5
    assert isinstance(problem.base.noise["lynx"], simkit.noise.StudentT)
    np.testing.assert_array_equal(study.prediction_times, [0, 2, 4])
    assert (study.title, study.seed, len(study.sha256)) == ("Two years", 3, 64)


def test_the_example_is_the_problem_of_its_data_file():
    study = load_study(EXAMPLE)
    assert study.problem().data_count == 42
    assert list(study.files) == ["data/hudson_bay.csv"]
    again = study_from_text(study.text, name=study.name, read=study.files)
    np.testing.assert_array_equal(again.experiments[0].data["lynx"], study.experiments[0].data["lynx"])


def test_inputs():
    study = study_from_text(
        """
        [system]
        model = "one_compartment"
        [inputs]
        dose = { kind = "pulses", times = [0, 12], amounts = [100, 50], duration = 0.5 }
        current = 2
        ramp = { times = [0, 1], values = [0, 2] }
        stairs = { times = [0, 1], values = [0, 2], kind = "steps" }
        smooth = { times = [0, 1, 2, 3], values = [0, 1, 4, 9], kind = "cubic" }
        daily = { times = [0, 1, 2], values = [1, 3, 1], kind = "monotone", periodic = true }
        """
    )
    smooth, daily = (study.inputs.pop(name) for name in ("smooth", "daily"))
    np.testing.assert_allclose(float(smooth(0.25)), 0.0625, rtol=1e-14)  # a spline through a parabola is the parabola
    assert float(daily(2.25)) == float(daily(0.25)) > 1.0
    values = {name: float(signal(0.25)) for name, signal in study.inputs.items()}
    assert values == {"dose": 200.0, "current": 2.0, "ramp": 0.5, "stairs": 0.0}


def test_names_may_be_quoted_or_nested():
    quoted = study_from_text(changed("y0.hare = {", '"y0.hare" = {'))
    assert tuple(quoted.free) == tuple(study_from_text(STUDY).free)
    with pytest.raises(StudyError, match="twice"):
        study_from_text(changed("other_growth = {", '"y0.hare" = {}\nother_growth = {'))


def test_own_models_can_be_named():
    class Mine(simkit.odes.LotkaVolterra):
        """Another name for the same thing."""

    assert isinstance(
        study_from_text('[system]\nmodel = "mine"', models={"mine": Mine}).system, simkit.odes.LotkaVolterra
    )


@pytest.mark.parametrize(
    ("old", "new", "kind", "words"),
    [
        ('"lotka_volterra"', '"lotka_voltera"', UnknownNameError, ["[system]", "Close matches: `lotka_volterra`"]),
        ("[predict]", "[predicts]", UnknownNameError, ["[predicts]", "Close matches: `predict`"]),
        ("seed = 3", "sed = 3", UnknownNameError, ["[study]", "Close matches: `seed`"]),
        ("seed = 3", "seed = -3", StudyError, ["`seed`", "whole number of at least 0"]),
        ("seed = 3", "seed = true", StudyError, ["`seed`", "`True`"]),
        ('"Two years"', "7", StudyError, ["`title`", "must be text"]),
        ("death = 0.9", "deth = 0.9", UnknownNameError, ["[system]", "Close matches: `death`"]),
        ("death = 0.9", 'death = "high"', StudyError, ["`parameters.death`", "a number"]),
        ("death = 0.9", "death = [0.9]", StudyError, ["`parameters.death`", "a number"]),
        ("lynx = 4.0\n", "", StudyError, ["[y0]", "`lynx`"]),
        ("lynx = 4.0\n", "lynx = inf\n", StudyError, ["[y0]", "`lynx`", "finite"]),
        ("lynx = 4.0\n", "lynx = nan\n", StudyError, ["[y0]", "`lynx`", "finite"]),
        ("death = 0.9", "death = nan", StudyError, ["[system]", "`parameters.death`", "finite"]),
        ("times = [0, 1, 2]", "times = [0, nan, 2]", StudyError, ["`times`", "entry 1", "nan"]),
        ("hare = 30.0\n", "hair = 30.0\n", UnknownNameError, ["[y0]", "Close matches: `hare`"]),
        ("step = { rtol", 'solver = "tsit"\nstep = { rtol', UnknownNameError, ["[solve]", "Close matches: `tsit5`"]),
        ("rtol = 1e-5", "rtol = -1", StudyError, ["[solve.step]", "rtol"]),
        ("rtol = 1e-5", "tol = 1e-5", UnknownNameError, ["[solve.step]", "`tol`", "`rtol`"]),
        ("rtol = 1e-5", "substeps = 3", StudyError, ["one of"]),
        (
            '"log_normal", scale',
            '"lognormal", scale',
            UnknownNameError,
            ["[noise.hare]", "Close matches: `log_normal`"],
        ),
        ("scale = 0.2", "scale = 0.0", StudyError, ["[noise.hare]", "positive"]),
        ("scale = 0.2", "scale = -1", StudyError, ["[noise.hare]", "positive", "-1"]),
        ("freedom = 5", "fredom = 5", UnknownNameError, ["[noise.lynx]", "Close matches: `freedom`"]),
        ("{ normal = [1.0, 0.5] }", "{ norml = [1.0, 0.5] }", UnknownNameError, ["[free.growth]", "`normal`"]),
        ("{ normal = [1.0, 0.5] }", "{ normal = [1.0, -0.5] }", StudyError, ["[free.growth]", "normal"]),
        ("{ normal = [1.0, 0.5] }", "{ normal = [1, 2, 3, 4] }", StudyError, ["[free.growth]", "normal"]),
        ("{ normal = [1.0, 0.5] }", "{ normal = 'wide' }", StudyError, ["[free.growth]", "numbers"]),
        ("{ prior = { normal", "{ priors = { normal", UnknownNameError, ["[free.growth]", "Close matches: `prior`"]),
        ("bounds = [0.1, 2.0], start", "bounds = [0.1], start", StudyError, ["`bounds`", "two numbers"]),
        ('transform = "log"', 'transform = "lg"', UnknownNameError, ["[free.y0.hare]", "`lg`", "`log`"]),
        ("predation = 0.03", "predation = [1]", StudyError, ["[set]", "predation"]),
        ("times = [0, 1, 2]", "times = [0, 2, 1]", StudyError, ["[experiments.first]", "must increase"]),
        ("times = [0, 1, 2]", "times = [0, 1, 1]", StudyError, ["[experiments.first]", "twice"]),
        ("times = [0, 1, 2]", 'times = [0, "a", 2]', StudyError, ["`times`", "entry 1"]),
        ("times = [0, 1, 2]", "times = [0, 1]", StudyError, ["`hare`", "one entry a time"]),
        ("start = -1.0", "start = 0.5", StudyError, ["[experiments.second]", "start"]),
        ("errors = { hare = [1.0, 2.0] }", "errors = { hare = [1.0, 0.0] }", StudyError, ["errors", "positive"]),
        ("count = 20", "count = 0", StudyError, ["[predict]", "at least 1"]),
        ("times = [0.0, 2.0, 4.0]", "times = [0.0, 2.0, 2.0]", StudyError, ["[predict]", "increasing"]),
        (
            "times = [0.0, 2.0, 4.0]",
            "times = { from = 1, to = 1, count = 9 }",
            StudyError,
            ["[predict.times]", "after"],
        ),
        ("[study]", "study = 1\n[other]", StudyError, ["[study]", "must be a table"]),
        ("seed = 3", "seed = ", StudyError, ["must be TOML"]),
    ],
)
def test_bad_studies(old, new, kind, words):
    with pytest.raises(kind) as caught:
        study_from_text(changed(old, new), name="bad.toml")
    for word in [*words, "bad.toml"]:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "kind", "words"),
    [
        ("growth = { prior", "grwth = { prior", UnknownNameError, ["grwth", "Close matches: `growth`"]),
        ("start = 0.6", "start = 3.0", StudyError, ["start of `growth`", "bounds"]),
        ("{ bounds = [0.1, 2.0] }\n", "{ bounds = [-2.0, -1.0] }\n", StudyError, ["other_growth", "support"]),
        ("{ log_normal = [3.0, 1.0] }", "{ cauchy = [3.0, 1.0] }", StudyError, ["y0.hare", "support"]),
        ("[30.0, nan, 50.0]", "[30.0, -2.0, 50.0]", StudyError, ["positive data", "`first`", "-2"]),
        (
            "data = { hare = [30.0, 31.0] }\nerrors",
            "data = { hair = [30.0, 31.0] }\nerrors = {}\n#",
            UnknownNameError,
            ["hair"],
        ),
        ('{ growth = "other_growth"', '{ growth = "another"', UnknownNameError, ["another", "`other_growth`"]),
    ],
)
def test_studies_that_make_no_problem(old, new, kind, words):
    with pytest.raises(kind) as caught:
        study_from_text(changed(old, new), name="bad.toml").problem()
    for word in [*words, "bad.toml"]:
        assert word in str(caught.value)


def test_studies_without_what_a_verb_needs():
    study = study_from_text('[system]\nmodel = "sir"')
    with pytest.raises(StudyError, match="at least one experiment"):
        study.problem()
    with pytest.raises(StudyError, match=r"must give `times`"):
        _ = study.prediction_times
    with pytest.raises(StudyError, match=r"no table \[system\]"):
        study_from_text("")
    free = STUDY[STUDY.index("[free]") : STUDY.index("[set]")]
    nothing_free = study_from_text(changed(free, "[free]\n").replace('growth = "other_growth",', ""))
    with pytest.raises(StudyError, match="must name what is unknown"):
        nothing_free.problem()


def test_data_files(tmp_path):
    text = """
    [system]
    model = "lotka_volterra"
    [y0]
    hare = 30
    lynx = 4
    [noise]
    hare = { model = "normal" }
    [experiments.a]
    file = "data.csv"
    columns = { time = "year", hare = "hare" }
    errors = { hare = "sd" }
    """
    path = tmp_path / "study.toml"
    path.write_text(text)
    (tmp_path / "data.csv").write_text("year,hare,sd\n1,30,1\n2,40,2\n")
    experiment = load_study(path).experiments[0]
    np.testing.assert_array_equal(experiment.errors["hare"], [1, 2])
    for old, new, words in (
        ('"data.csv"', '"date.csv"', "no data file"),
        ('hare = "hare" }', 'hare = "hares" }', "no column `hares`"),
        ('hare = "hare" }', "hare = 3 }", "header"),
        ('time = "year", ', "", "which column holds the times"),
        ('file = "data.csv"', 'file = "data.csv"\ntimes = [1]', "together with `file`"),
    ):
        path.write_text(text.replace(old, new))
        with pytest.raises((DataError, StudyError), match=words) as caught:
            load_study(path)
        assert "experiments.a" in str(caught.value)


def test_files_that_are_no_studies(tmp_path):
    (tmp_path / "good.toml").write_text(STUDY)
    with pytest.raises(StudyError, match=r"There is no study file.*Close matches: `good.toml`"):
        load_study(tmp_path / "god.toml")
    with pytest.raises(StudyError, match="cannot be read"):
        load_study(tmp_path)
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(StudyError, match="UTF-8"):
        load_study(tmp_path / "bad.toml")
