"""Correlations between priors and missing covariates in study files, beside the same problems in Python."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import simkit
from simkit import Experiment, Free, GaussianCopula, Individual, Problem, StudyError
from simkit.study import study_from_text

STUDY = """
[system]
model = "logistic_growth"
[y0]
size = 10.0
[noise]
size = { model = "normal", scale = 1.0 }
[free]
growth = { prior = { log_normal = [-1.0, 0.5] } }
capacity = { prior = { log_normal = [4.5, 0.2] } }
[dependence.plot]
names = ["growth", "capacity"]
correlation = CORRELATION
[experiments.plot]
times = [1.0, 2.0, 3.0]
data = { size = [13.0, 18.0, 25.0] }
"""
THETA = jnp.array([0.4, 90.0])


@pytest.mark.parametrize("given", ["-0.6", "[[1.0, -0.6], [-0.6, 1.0]]"])
def test_a_copula_of_a_study_file(given):
    study = study_from_text(STUDY.replace("CORRELATION", given))
    system = simkit.odes.LogisticGrowth()
    known = Problem(
        system,
        Experiment("plot", [1.0, 2.0, 3.0], {"size": [13.0, 18.0, 25.0]}),
        y0=system.State(10.0),
        free={"growth": Free(dist.LogNormal(-1.0, 0.5)), "capacity": Free(dist.LogNormal(4.5, 0.2))},
        noise={"size": simkit.noise.Normal(1.0)},
        dependence=GaussianCopula(("growth", "capacity"), -0.6),
    )
    np.testing.assert_allclose(study.problem().log_posterior(THETA), known.log_posterior(THETA), rtol=1e-12)
    alone = study_from_text(STUDY[: STUDY.index("[dependence")] + STUDY[STUDY.index("[experiments") :])
    assert not np.isclose(study.problem().log_prior(THETA), alone.problem().log_prior(THETA))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("1.5", "dependence.plot.*positive definite|dependence.plot.*correlation"),
        ('"high"', "correlation.*dependence.plot.*number"),
        ("0.5\nwidth = 3", "no key `width`"),
    ],
)
def test_wrong_copulas_are_refused(given, message):
    with pytest.raises((StudyError, simkit.UnknownNameError), match=message):
        study_from_text(STUDY.replace("CORRELATION", given))


def test_an_unknown_name_in_a_copula():
    study = study_from_text(
        STUDY.replace("CORRELATION", "0.5").replace('["growth", "capacity"]', '["growth", "capcity"]')
    )
    with pytest.raises((StudyError, simkit.UnknownNameError), match="capcity"):
        study.problem()


def test_a_missing_covariate_of_a_study_file():
    one = """
    [experiments.NAME]
    times = [0.0, 1.0]
    data = { amount = [10.0, 6.0] }
    covariates = { age = AGE }
    """
    text = """
    [system]
    model = "exponential_decay"
    [y0]
    amount = 10.0
    [noise]
    amount = { model = "normal", scale = 0.1 }
    [free]
    rate = { prior = { log_normal = [-1.0, 1.0] }, individual = { effects = { age = {} } } }
    """
    text += one.replace("NAME", "anna").replace("AGE", "0.2") + one.replace("NAME", "ben")
    problem = study_from_text(text.replace("AGE", "{ normal = [0.1, 0.3] }")).problem()
    system = simkit.odes.ExponentialDecay()
    rate = Individual(Free(dist.LogNormal(-1.0, 1.0)), effects={"age": Free()})
    data = {"amount": [10.0, 6.0]}
    known = Problem(
        system,
        [
            Experiment("anna", [0.0, 1.0], data, covariates={"age": 0.2}),
            Experiment("ben", [0.0, 1.0], data, covariates={"age": dist.Normal(0.1, 0.3)}),
        ],
        y0=system.State(10.0),
        free={"rate": rate},
        noise={"amount": simkit.noise.Normal(0.1)},
    )
    assert problem.names == known.names
    theta = jnp.linspace(0.2, 0.7, len(problem.names))
    np.testing.assert_allclose(problem.log_posterior(theta), known.log_posterior(theta), rtol=1e-12)
    with pytest.raises(StudyError, match=r"age.*one distribution"):
        study_from_text(text.replace("AGE", "{ normal = [0.1, 0.3], uniform = [0, 1] }"))
