"""Methods that study files name: samplers without a likelihood, and multiple shooting."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from simkit import NeuralLikelihood, StudyError, UnknownNameError
from simkit.study import study_from_text
from simkit.study.language._asked import (
    FIT_METHODS,
    NETWORK,
    NEURAL,
    SAMPLE_METHODS,
    SAMPLER_KEYS,
    sample_arguments,
    sample_method,
)
from simkit.study.runs import compute

DECAY = """
[system]
model = "exponential_decay"
[y0]
amount = 10.0
[noise]
amount = {{ model = "normal", scale = 0.2 }}
[free]
rate = {{ prior = {{ log_normal = [-0.7, 0.5] }} }}
[experiments.cup]
start = 0.0
times = [0.5, 1.0, 2.0, 3.0, 4.0]
data.amount = [7.7, 6.1, 3.6, 2.3, 1.4]
[fit]
starts = 2
{more}
"""


@pytest.mark.parametrize("method", ["abc", "neural_posterior"])
def test_methods_without_a_likelihood(method):
    study = study_from_text(DECAY.format(more=f'[sample]\nmethod = "{method}"\nchains = 2\ndraws = 200\n'))
    found = compute(study, phases=("fit", "sample"))
    # A learned posterior is off by some tenths of its width; that of ABC is wider than the exact one.
    off = abs(float(np.mean(np.asarray(found.posterior.draws))) - float(found.fit.estimate[0]))
    assert off < (0.5 if method == "neural_posterior" else 4.0) * float(found.fit.standard_error[0])


def test_settings_of_learned_methods():
    settings = "simulations = 2000\nrounds = 2\nsteps = 500\nmembers = 3\ndraws = 100\n"
    asked = study_from_text(DECAY.format(more=f'[sample]\nmethod = "neural_likelihood"\n{settings}')).sample
    method = sample_method(asked)
    assert (method.simulations, method.rounds, method.network.steps, method.network.members) == (2000, 2, 500, 3)
    assert sample_arguments(asked) == {"draws": 100}
    for more, words in (
        ("rounds = 2", "`rounds` .*goes with `method = .neural_posterior.`"),
        ('method = "neural_posterior"\nsimulations = 150\nrounds = 2', "at least 100 a round"),
    ):
        with pytest.raises(StudyError, match=words):
            study_from_text(DECAY.format(more=f"[sample]\n{more}\n"))


def test_settings_of_samplers():
    """Each key of each sampler reaches its argument, and no argument of the kind is left out."""
    chosen = {"kernel": "random_walk", "adjust": True, "ess": 0.25, "simulations": 4000, "live": 40, "length": 2.5}
    chosen |= {"stretch": 2.5, "learning_rate": 0.02, "particles": 50}
    left = {"summary", "block", "sampler", "network"}  # functions, tables, and how long one may wait for Ctrl-C
    for name, keys in SAMPLER_KEYS.items():
        default = SAMPLE_METHODS[name]()
        if name not in NEURAL:
            assert {field.name for field in dataclasses.fields(default)} - left == set(keys), name
        for key in keys:
            value = chosen.get(key, 0.75 if isinstance(getattr(default, key, None), float) else 7)
            value = 600 if (name, key) == ("neural_posterior", "steps") else value
            value = 600 if (name, key) == ("neural_likelihood", "steps") else value
            written = f'"{value}"' if isinstance(value, str) else str(value).lower()
            more = '[filter]\nmethod = "particles"\n' if name.startswith("particle_") else ""
            more += f'[sample]\nmethod = "{name}"\n{key} = {written}\n'
            asked = study_from_text(DECAY.format(more=more)).sample
            made = sample_method(asked)
            assert getattr(made.network if key in NETWORK and name in NEURAL else made, key) == value, (name, key)
            assert sample_arguments(asked) == {}
    assert sample_method({"method": "neural_likelihood", "steps": 600}).network.bins == NeuralLikelihood().network.bins


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("paths = 4", "`paths` .*goes with `method = .pathfinder.`"),
        ('method = "tempered"\nkernel = "hmcc"', "no kernel"),
        ('method = "tempered"\ness = 2.0', "`ess` must lie between 0 and 1"),
        ('method = "mclmc"\nmax_depth = 4', "`max_depth` .*goes with `method = .nuts.`"),
    ],
)
def test_settings_of_other_samplers_are_refused(more, words):
    with pytest.raises((StudyError, UnknownNameError), match=words):
        study_from_text(DECAY.format(more=f"[sample]\n{more}\n"))


def test_windows_of_a_fit():
    study = study_from_text(DECAY.format(more="windows = 2\nhorizons = [1.0]\n"))
    found = compute(study, phases=("fit",))
    plain = compute(study_from_text(DECAY.format(more="")), phases=("fit",))
    np.testing.assert_allclose(found.fit.estimate, plain.fit.estimate, rtol=1e-6)
    assert jnp.isfinite(found.fit.log_likelihood)


def test_all_methods_have_defaults():
    for name, kind in (*FIT_METHODS.items(), *SAMPLE_METHODS.items()):
        kind(*([["a"]] if name == "sparse" else []))  # whose names have no default
