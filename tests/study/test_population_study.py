"""Populations in study files: `individual`, tables of subjects, covariates and limits, beside the same in Python."""

import pathlib
import shutil

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import simkit
from simkit import StudyError
from simkit.cli import main
from simkit.study import study_from_text
from simkit.study.runs import _run

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
TABLE = """ID,TIME,EVID,AMT,CMT,DV,CENS,WT,OCC
anna,0,1,320,depot,.,0,70,1
anna,1,0,.,.,5.0,0,70,1
anna,30,0,.,.,0.5,1,70,2
ben,0,1,200,depot,.,0,140,1
ben,2,0,.,.,4.0,0,140,1
ben,20,0,.,.,0.9,0,140,2
"""
STUDY = """
[system]
model = "one_compartment"
[y0]
depot = 0.0
central = 0.0
[noise]
concentration = { model = "normal", scale = 0.3 }
[free]
absorption = { prior = { log_normal = [0.4, 1.0] }, individual = true }
volume = { bounds = [10.0, 100.0] }
[free.clearance]
start = 2.8
bounds = [0.5, 20.0]
[free.clearance.individual]
spread = { prior = { half_normal = 0.5 } }
effects = { size = { prior = { normal = [0.75, 0.5] } } }
[dosing]
file = "table.csv"
compartments = ["depot", "central"]
outputs = "concentration"
covariates = { size = "ln(wt / 70)" }
"""


def read(text=STUDY, table=TABLE):
    return study_from_text(text, read={"table.csv": table})


def test_a_population_is_the_problem_in_python():
    study = read()
    problem = study.problem()
    free = {
        "absorption": simkit.Individual(simkit.Free(dist.LogNormal(0.4, 1.0))),
        "clearance": simkit.Individual(
            simkit.Free(bounds=(0.5, 20.0), start=2.8),
            simkit.Free(dist.HalfNormal(0.5)),
            {"size": simkit.Free(dist.Normal(0.75, 0.5))},
        ),
    }
    free = {
        "absorption": free["absorption"],
        "volume": simkit.Free(bounds=(10.0, 100.0)),
        "clearance": free["clearance"],
    }
    names = ("depot", "central")
    subjects = simkit.io.read_doses("table.csv", text=TABLE, compartments=names, outputs="concentration")
    experiments = [
        simkit.Experiment(
            s.name, s.times, s.data, start=s.start, doses=s.doses, covariates={"size": size}, replicates=True
        )
        for s, size in zip(subjects, (0.0, np.log(2.0)), strict=True)
    ]
    noise, y0 = {"concentration": simkit.noise.Normal(0.3)}, {"depot": 0.0, "central": 0.0}
    state = type(study.y0)(**y0)
    known = simkit.Problem(study.system, experiments, free=free, noise=noise, y0=state)
    assert problem.names == known.names
    assert problem.population.labels == ("anna", "ben")
    theta = jnp.array([1.4, 30.0, 2.7, 0.5, 0.3, 0.7, 0.1, -0.2, 0.3, 0.4])
    assert len(theta) == len(problem.names)
    # Both with the tolerances of the default step.
    np.testing.assert_allclose(problem.log_posterior(theta), known.log_posterior(theta), rtol=1e-9)
    values = problem.population.values(theta)
    np.testing.assert_allclose(values[1, 1], 2.7 * 2.0**0.7 * np.exp(0.3 * 0.4))
    # The datum below the limit of quantification counts by its probability, so that its size alone says nothing.
    assert np.isfinite(known.log_likelihood(theta)[0])
    assert "(1 censored)" in repr(problem)


def test_experiments_of_one_individual():
    text = """
    [system]
    model = "exponential_decay"
    [y0]
    amount = 10.0
    [noise]
    amount = { model = "normal", scale = 0.1 }
    [free]
    rate = { prior = { log_normal = [-1.0, 1.0] }, individual = { effects = { age = {} } } }
    [experiments.monday]
    times = [0.0, 1.0]
    data = { amount = [10.0, 6.0] }
    individual = "anna"
    covariates = { age = 0.2 }
    [experiments.tuesday]
    times = [0.0, 1.0]
    data = { amount = [10.0, 6.2] }
    individual = "anna"
    covariates = { age = 0.2 }
    [experiments.ben]
    times = [0.0, 1.0]
    data = { amount = [10.0, 4.0] }
    below = { amount = [nan, 4.0] }
    covariates = { age = -0.1 }
    """
    problem = study_from_text(text).problem()
    assert problem.population.labels == ("anna", "ben")
    assert problem.names == ("rate", "rate.spread", "rate.age", "eta.rate.anna", "eta.rate.ben")
    np.testing.assert_array_equal(problem.population.covariates, [[0.2, -0.1]])


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("individual = true", "individual = 3", r"`individual` in .free.absorption.*must be true, or a table"),
        (
            "individual = true",
            "individual = { spred = {} }",
            r"free.absorption.individual.*has no key `spred`.*`spread`",
        ),
        ("individual = true", 'individual = { transform = "sqrt" }', "there is no transform `sqrt`"),
        ("individual = true", "individual = { correlated = true }", "At least two parameters must be correlated"),
        ("wt / 70", "weight / 70", r"covariates.*subject `anna`.*There is no covariate `weight`.*`wt`"),
        ("wt / 70", "occ", r"column `occ` changes within the subject"),
        ("wt / 70", "wt - 70", "must be a finite number, but for subject `anna`"),
        ("effects = { size", "effects = { mass", r"There is no covariate .of experiment `anna`. `mass`.*`size`"),
    ],
)
def test_what_is_wrong_is_a_sentence(old, new, words):
    assert old in STUDY
    with pytest.raises(simkit.SimkitError, match=words):
        read(STUDY.replace(old, new)).problem()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("ben,2,0", "anna,2,0", "anna"),  # rows of a subject that do not stand together
        ("anna,1,0", "anna,1,7", "EVID"),
        ("anna,0,1,320,depot", "anna,0,1,320,gut", "gut.*depot"),
        ("anna,0,1,320", "anna,40,1,320", "Line 3 .* must not go back in time"),
        ("anna,0,1,320", "anna,0,1,320 mg", "320 mg"),
    ],
)
def test_a_bad_table_is_a_sentence_with_its_line(old, new, words):
    with pytest.raises(simkit.SimkitError, match=words) as told:
        read(table=TABLE.replace(old, new))
    print(told.value)
    assert "table.csv" in str(told.value)


def test_individual_false_is_one_for_all():
    assert read(STUDY.replace("individual = true", "individual = false")).problem().names[0] == "absorption"
    assert isinstance(read(STUDY.replace("individual = true", "individual = false")).free["absorption"], simkit.Free)


@pytest.mark.slow
def test_theophylline_is_fitted_as_nlmixr2_fits_it(tmp_path):
    """The estimates of FOCEI that the documentation of nlmixr2 prints for this table and model (Modifying models by piping):
    log likelihood -179.704, ka exp(0.467), cl exp(1.01), v exp(3.46), variability 69.8, 26.5 and 14.0 %, scatter 0.694."""
    (tmp_path / "data").mkdir()
    shutil.copy(EXAMPLES / "data" / "theophylline_doses.csv", tmp_path / "data")
    shutil.copy(EXAMPLES / "theophylline.toml", tmp_path)
    out = tmp_path / "out"
    assert main(["fit", str(tmp_path / "theophylline.toml"), "--out", str(out), "--no-cache"]) == 0
    fit = simkit.load(out / "result.h5").fit
    found = dict(zip(fit.names, np.asarray(fit.estimate), strict=True))
    print(found, fit.log_likelihood)
    np.testing.assert_allclose(fit.log_likelihood, -179.704, atol=0.1)
    # A tenth of their standard errors of the logarithms, 0.2, 0.06 and 0.05; coefficients of variation are those of log-normals.
    for name, value, close in (("absorption", 0.467, 0.02), ("clearance", 1.01, 0.007), ("volume", 3.46, 0.006)):
        np.testing.assert_allclose(np.log(found[name]), value, atol=close)
    for name, value in (("absorption", 0.698), ("clearance", 0.265), ("volume", 0.140)):
        np.testing.assert_allclose(np.sqrt(np.expm1(found[f"{name}.spread"] ** 2)), value, rtol=0.03)
    np.testing.assert_allclose(found["noise.concentration.scale"], 0.694, atol=0.003)


def test_the_method_of_a_fit_is_the_default_of_the_problem_unless_the_study_names_one(monkeypatch):
    """A population is fitted by its marginal likelihood: its joint optimum is at spreads that are no estimates."""
    asked = []

    def fit(problem, **options):
        asked.append(options["method"])
        raise StudyError("enough")

    monkeypatch.setattr(_run, "fit", fit)
    named = [f'[fit]\nmethod = "{name}"\n' for name in ("gauss_newton", "marginal", "saem")]
    for text in (STUDY, *(STUDY + more for more in named)):
        with pytest.raises(StudyError, match="enough"):
            _run.compute(read(text), ("fit",))
    assert [type(method).__name__ for method in asked] == ["NoneType", "GaussNewton", "Marginal", "SAEM"]


def test_occasions_of_a_table_and_of_experiments():
    text = STUDY.replace('outputs = "concentration"', 'outputs = "concentration"\noccasion = "OCC"')
    text = text.replace("spread = {", "occasion_spread = { prior = { half_normal = 0.2 } }\nspread = {")
    problem = read(text).problem()
    assert "clearance.occasion_spread" in problem.names
    assert problem.names[-4:] == tuple(f"kappa.clearance.{who}" for who in ("anna.1", "anna.2", "ben.1", "ben.2"))
    np.testing.assert_array_equal(problem.base.inputs["occasions"]["clearance"].times, [[0.0, 30.0], [0.0, 20.0]])
    own = """
    [experiments.{name}]
    times = [1.0, 30.0]
    data = {{ concentration = [5.0, 0.5] }}
    occasions = {occasions}
    """
    bare = text[: text.index("[dosing]")].replace("effects = { size = { prior = { normal = [0.75, 0.5] } } }", "")
    bare += own.format(name="anna", occasions="{ early = 0.0, late = 20.0 }") + own.format(
        name="ben", occasions='"early"'
    )
    found = study_from_text(bare).problem()
    assert found.names[-3:] == ("kappa.clearance.anna.early", "kappa.clearance.anna.late", "kappa.clearance.ben.early")
    with pytest.raises(StudyError, match="increase"):
        study_from_text(bare.replace("late = 20.0", "late = -1.0"))


def test_groups_of_a_table_and_of_experiments():
    table = TABLE.replace("WT,OCC", "WT,SITE")
    for who, site in (("anna", "4"), ("ben", "7")):
        table = "\n".join(row[:-1] + site if row.startswith(who) else row for row in table.splitlines())
    table += "\ncara,0,1,200,depot,.,0,70,7\ncara,2,0,.,.,4.0,0,70,7\n"
    text = STUDY.replace('outputs = "concentration"', 'outputs = "concentration"\ngroups = ["SITE"]')
    text = text.replace("spread = {", "group_spreads = { SITE = { prior = { half_normal = 0.2 } } }\nspread = {")
    names = read(text, table).problem().names
    assert "clearance.SITE_spread" in names
    assert names[-2:] == ("zeta.clearance.SITE.4", "zeta.clearance.SITE.7")
    with pytest.raises(StudyError, match="`OCC` of subject `anna` is none"):
        read(text.replace('["SITE"]', '["OCC"]')).problem()
    own = """
    [experiments.{name}]
    times = [1.0, 30.0]
    data = {{ concentration = [5.0, 0.5] }}
    groups = {{ country = "{country}", SITE = "{site}" }}
    """
    bare = text[: text.index("[dosing]")].replace("effects = { size = { prior = { normal = [0.75, 0.5] } } }", "")
    places = (("anna", "nl", "north"), ("ben", "nl", "south"), ("cara", "be", "south 2"), ("dora", "nl", "north"))
    bare += "".join(own.format(name=name, country=country, site=site) for name, country, site in places)
    found = study_from_text(bare).problem()
    assert found.population.levels[0].labels == ("north", "south", "south 2")
    alone = bare.replace("spread = { prior = { half_normal = 0.5 } }", "spread = 0")
    assert "clearance.spread" not in study_from_text(alone).problem().names
    with pytest.raises(StudyError, match="must lie within one group of the level `country`"):
        study_from_text(
            bare.replace("south 2", "south").replace("group_spreads = {", "group_spreads = { country = {},")
        ).problem()


def test_the_groups_of_the_predictive_check():
    assert read(STUDY + '[predict]\nby = "size"\n').predict["by"] == "size"
    assert read(STUDY + "[predict]\nby = { size = [-1, 0.2, 1.0] }\n").predict["by"] == {"size": [-1.0, 0.2, 1.0]}
    for given, words in (
        ('"mass"', r"`by` in \[predict\].*There is no covariate.*`mass`.*`size`"),
        (
            "{ size = [1.0, 0.2] }",
            r"`by` in \[predict\].*must be the name of a covariate, or one with the ends of its bins",
        ),
        ("{ size = [1.0, 2.0], mass = [1.0, 2.0] }", "must be the name of a covariate"),
        ("3", "must be the name of a covariate"),
    ):
        with pytest.raises(simkit.SimkitError, match=words):
            read(STUDY + f"[predict]\nby = {given}\n")
