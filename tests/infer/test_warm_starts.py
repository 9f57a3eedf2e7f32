"""A second data set of another length, with other words and numbers, compiles nothing at all."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import simkit
from simkit import Experiment, Fixed, Free, Problem, count_compilations
from simkit.noise import Normal
from simkit.odes import from_function, from_response

GROWTH = from_function(lambda t, y, p: {"a": p["rate"] * y["a"] * (1 - y["a"] / p["room"])}, {"rate": 1.0, "room": 5.0})
LINE = from_response(lambda x, p: p["rate"] * x + p["room"], {"rate": 1.0, "room": 5.0})


def study(system, rows, name, seed, center):
    """Data of the truth with other numbers everywhere: times, values, initial state, bounds, priors, starts, scale."""
    times = np.linspace(0.5, 4.0 + 0.1 * seed, rows)
    truth = 5.0 / (1 + 9 * np.exp(-times)) if system is GROWTH else times + 5.0
    values = truth + 0.1 * np.random.default_rng(seed).normal(size=rows)
    free = {
        "rate": Free(dist.Normal(center, 0.5), bounds=(0.01, 10.0 + seed), start=0.9 + 0.01 * seed),
        "room": Free(bounds=(1.0, 9.0 + seed)),
    }
    options = {"y0": {"a": 0.5 + 1e-4 * seed}, "step": Fixed(4)} if system is GROWTH else {}
    start = 0.0 if system is GROWTH else None
    data = Experiment(name, times, {"a" if system is GROWTH else "y": values}, start=start)
    noise = {"a" if system is GROWTH else "y": Normal(0.1 + 0.01 * seed)}
    return Problem(system, data, free=free, noise=noise, **options)


def everything(problem, horizon):
    fit = simkit.fit(problem, starts=3)
    posterior = simkit.sample(problem, start=fit, chains=2, draws=60, warmup=60, key=jax.random.key(1))
    profiles = simkit.profile(problem, fit, names=["rate"], points=3)
    at_data = simkit.predict(problem, posterior, count=20)
    later = simkit.predict(problem, posterior, np.linspace(0.5, horizon, at_data.times.shape[1] + 20), count=20)
    return fit, posterior, profiles, at_data, later


@pytest.mark.slow
def test_a_second_data_set_compiles_nothing():
    first, second = (
        study(GROWTH, rows, name, seed, center)
        for rows, name, seed, center in ((17, "one", 0, 1.0), (18, "another", 1, 1.2))
    )
    everything(first, 5.0)
    with count_compilations() as counter:
        fit, posterior, profiles, at_data, later = everything(second, 6.0)
    assert counter.traces == counter.compilations == counter.from_disk == 0, counter
    # And it is the second that was computed: three standard errors, and the errors of a hundred dependent draws.
    error = 3 * np.asarray(fit.standard_error)
    assert np.all(np.abs(np.asarray(fit.estimate) - [1.0, 5.0]) < error)
    assert np.all(np.abs(np.mean(posterior.flat(), axis=0) - np.asarray(fit.estimate)) < error)
    assert profiles.interval("rate")[0] < float(fit.estimate[0]) < profiles.interval("rate")[1]
    assert at_data.times.shape == (1, 18)
    assert later.times.shape == (1, 38)


@pytest.mark.slow
def test_a_longer_data_set_is_blamed_for_its_compilation():
    lengths = ((21, "one", 0, 1.0), (23, "another", 1, 1.2), (33, "one", 0, 1.0))
    first, second, longer = (study(LINE, *case) for case in lengths)
    simkit.fit(first, starts=3)
    with count_compilations() as counter:
        simkit.fit(second, starts=3)
        assert counter.traces == counter.compilations == 0, counter
        simkit.fit(longer, starts=3)
    (reason,) = [reason for reason in counter.reasons if reason.startswith("fit: ")]
    assert "`data.y`: shape (1, 24) -> (1, 40)" in reason
    assert "solver" not in reason


def test_a_new_observable_is_blamed_for_its_compilation():
    def seen(function):
        times = np.array([1.0, 2.0, 3.0])
        data = Experiment("one", times, {"double": 2 * times})
        return Problem(
            LINE,
            data,
            free={"rate": Free(bounds=(0.1, 9.0))},
            noise={"double": Normal(0.1)},
            observables={"double": function},
        )

    theta = np.array([[1.0]])
    function = lambda system, trajectory: system.parameters["rate"] * trajectory.times
    simkit.predict(seen(function), theta)
    with count_compilations() as counter:
        simkit.predict(seen(function), theta)
        assert counter.traces == 0, counter
        simkit.predict(seen(lambda system, trajectory: system.parameters["rate"] * trajectory.times), theta)
    (reason,) = counter.reasons
    assert reason.startswith("predict: static field `observables.double`: new function object")
