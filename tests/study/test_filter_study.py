"""Studies of stochastic systems by filters, and fits by ensembles."""

import jax
import numpy as np
import pytest

from simkit import StudyError, UnknownNameError, fit, profile
from simkit.filters import KalmanFilter, ParticleFilter
from simkit.fitting import EnsembleKalmanInversion, IteratedFiltering
from simkit.infer import members_as_draws
from simkit.io import load
from simkit.report import _methods
from simkit.study import study_from_text
from simkit.study.runs import compute, run

WALK = """
[study]
title = "A walk that returns"
seed = 3
[system]
model = "ornstein_uhlenbeck"
[y0]
x = 3.0
[noise]
x = { model = "normal", scale = 0.1 }
[free]
volatility = { bounds = [0.05, 5.0], start = 1.0 }
[experiments.first]
times = [1.0, 2.0, 3.0]
start = 0.0
data = { x = [2.1, 1.4, 1.2] }
"""
PARTICLES = """
[solve]
solver = "euler_maruyama"
step = 0.25
[filter]
method = "particles"
particles = 20
proposal = "guided"
"""
KALMAN = """
[filter]
method = "kalman"
start = { x = 0.5 }
rtol = 1e-6
"""
ITERATED = """
[fit]
method = "iterated_filtering"
starts = 2
iterations = 5
repeats = 3
"""
GROWTH = """
[system]
model = "logistic_growth"
[y0]
size = 0.5
[noise]
size = { model = "normal", scale = 0.1 }
[free]
growth = { prior = { log_normal = [0.0, 0.5] } }
[experiments.first]
times = [1.0, 2.0, 3.0]
start = 0.0
data = { size = [1.2, 2.6, 4.8] }
[fit]
method = "ensemble_inversion"
members = 20
"""


def test_filters_of_a_study():
    likelihood = study_from_text(WALK + PARTICLES).problem().likelihood
    assert isinstance(likelihood, ParticleFilter)
    assert (likelihood.particles, likelihood.proposal, likelihood.threshold) == (20, "guided", 0.5)
    again = study_from_text(WALK + PARTICLES, seed=4).problem().likelihood
    assert (jax.random.key_data(likelihood.key) != jax.random.key_data(again.key)).any()
    kalman = study_from_text(WALK + KALMAN).problem().likelihood
    assert isinstance(kalman, KalmanFilter)
    assert (float(kalman.start["x"]), kalman.rtol) == (0.5, 1e-6)


def test_a_study_by_iterated_filtering_goes_on_with_what_it_keeps(tmp_path):
    study = study_from_text(WALK + PARTICLES + ITERATED)
    found = compute(study, ("fit",), store=tmp_path / "parts")
    told = found.fit
    assert told is not None
    assert told.method == "iterated filtering"
    assert float(told.log_likelihood_error) > 0
    assert list((tmp_path / "parts" / "fit").glob("ends-*"))
    assert np.array_equal(compute(study, ("fit",), store=tmp_path / "parts").fit.objective, told.objective)
    problem, key = study.problem(), jax.random.fold_in(jax.random.key(3), 0)
    method = IteratedFiltering(5, repeats=3)
    assert fit(problem, starts=6, method=method, key=key, within=1e-3).cut
    with pytest.raises(Exception, match="before all profiles had values"):
        profile(problem, told, points=5, within=1e-3)


def test_a_report_tells_of_the_filter():
    told = lambda problem: _methods._followed(problem.likelihood, problem.method)
    particles, kalman = (study_from_text(text).problem() for text in (WALK + PARTICLES, WALK + KALMAN))
    assert told(particles).startswith("Equations are solved by EulerMaruyama")
    assert "20 particles guided by the next datum" in told(particles)
    assert "Kalman's filter, solved by Tsit5" in told(kalman)


def test_a_study_by_an_ensemble(tmp_path):
    study = study_from_text(GROWTH)
    found = run(study, tmp_path / "out", ("fit", "sample"))
    posterior = load(tmp_path / "out" / "result.h5").posterior
    assert found.fit is None
    ensemble = fit(study.problem(), method=EnsembleKalmanInversion(20), key=jax.random.fold_in(jax.random.key(0), 0))
    np.testing.assert_array_equal(posterior.draws[0], ensemble.members)
    assert "no diagnostic here tells" in posterior.warnings[0]
    density = members_as_draws(study.problem(), ensemble).log_density
    assert np.isfinite(density).all()
    # `sample` alone makes the same members, so that a result is reproduced by the phases that its file shows.
    np.testing.assert_array_equal(compute(study, ("sample",)).posterior.draws, posterior.draws)


REFUSED = {
    "other filter's key": (WALK + '[filter]\nmethod = "kalman"\nparticles = 3', 'goes with `method = "particles"`'),
    "iterated filtering without particles": (WALK + '[fit]\nmethod = "iterated_filtering"', "add \\[filter\\]"),
    "iterations of another method": (WALK + '[fit]\nmethod = "lbfgs"\niterations = 3', "the method is another"),
    "horizons": (WALK + PARTICLES + ITERATED + "horizons = [0.5, 1.0]", "takes all data at once"),
    "few points of a profile": (WALK + PARTICLES + "[profile]\npoints = 4", "must be at least 5 for a likelihood by"),
    "descent of particles": (WALK + PARTICLES + '[fit]\nmethod = "gauss_newton"', 'must be "iterated_filtering"'),
    "steps that are not given": (WALK + PARTICLES.replace("step = 0.25", ""), "must give `step` for a likelihood by"),
    "sampler of particles": (WALK + PARTICLES + '[sample]\nmethod = "nuts"', "must have `method` one of"),
    "sampler without particles": (WALK + '[sample]\nmethod = "particle_gibbs"', "is for a likelihood by particles"),
    "ensemble with starts": (GROWTH + "starts = 3", "does not go with"),
    "ensemble and sample": (GROWTH + "[sample]", "members are the draws"),
    "ensemble and profile": (GROWTH + "[profile]", "no optimum"),
    "perturbation too large": (WALK + PARTICLES + ITERATED + "perturbation = 2.0", "must lie above 0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    text, words = REFUSED[case]
    with pytest.raises(StudyError, match=words):
        study_from_text(text)


def test_an_unknown_filter_is_refused():
    with pytest.raises(UnknownNameError, match="there is no filter `kalmann`"):
        study_from_text(WALK + '[filter]\nmethod = "kalmann"')
