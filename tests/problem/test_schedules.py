"""Events of experiments: doses beside their closed form, lags and shares as parameters, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit.odes import from_function
from simkit.problem import Dose, Doses, dose_event

TRUTH = {"ka": 1.2, "ke": 0.15, "lag": 0.5, "share": 0.8, "volume": 10.0}
START = {"depot": 0.0, "central": 0.0}
DAILY = Doses([Dose(100.0, 0.0, "depot", every=12.0, additional=2)])
TWICE = Doses([Dose(80.0, 0.0, "depot"), Dose(50.0, 9.0, 1)], compartments=("depot", "central"))
LONG = np.array([0.0, 0.25, 1.0, 2.0, 4.0, 8.0, 12.0, 13.0, 18.0, 24.0, 26.0, 36.0])
SHORT = np.array([0.6, 1.0, 3.0, 9.0, 9.75, 12.0, 20.0])
FREE = {
    "ka": simkit.Free(bounds=(0.1, 10.0)),
    "ke": simkit.Free(bounds=(0.01, 1.0)),
    "lag": simkit.Free(bounds=(0.05, 2.0)),
}
THETA = jnp.array([1.2, 0.15, 0.5])


def absorbed(t, y, p):
    return {"depot": -p["ka"] * y["depot"], "central": p["ka"] * y["depot"] - p["ke"] * y["central"]}


SYSTEM = from_function(absorbed, TRUTH, outputs=lambda t, y, p: {"c": y["central"] / p["volume"]})


def closed(times, doses, ka=1.2, ke=0.15, lag=0.5, share=0.8, volume=10.0):
    """One compartment with first-order absorption, each dose by itself (Bateman's function)."""
    since = np.asarray(times)[:, None] - doses.times[None] - lag
    late = np.maximum(since, 0)
    one = share * doses.amounts / volume * ka / (ka - ke) * (np.exp(-ke * late) - np.exp(-ka * late))
    return np.sum(np.where(since >= 0, one, 0.0), axis=1)


def experiments(seed=0, **options):
    rng, found = np.random.default_rng(seed), []
    for name, times, doses in (("long", LONG, DAILY), ("short", SHORT, TWICE)):
        event = dose_event(doses, START, lag={"depot": "lag"}, bioavailability={"depot": "share"})
        data = closed(times, doses) + 0.05 * rng.normal(size=times.size)
        found.append(simkit.Experiment(name, times, {"c": data}, start=0.0, events={"dose": event}, **options))
    return found


def problem(given=None, **options):
    noise = {"c": simkit.noise.Normal(0.05)}
    return simkit.Problem(SYSTEM, given or experiments(), free=FREE, noise=noise, y0=START, **options)


def test_schedules_of_different_length_are_one_problem_with_right_gradients():
    p = problem()
    predicted = p.predict(THETA)["c"]
    for row, times, doses in zip(predicted, (LONG, SHORT), (DAILY, TWICE), strict=True):
        np.testing.assert_allclose(row[: times.size], closed(times, doses), atol=1e-5)
    density = jax.jit(lambda theta: p.log_likelihood(theta)[0])
    slopes = jax.jit(jax.grad(lambda theta: p.log_likelihood(theta)[0]))(THETA)
    for i, step in enumerate((1e-5, 1e-6, 1e-5)):
        change = density(THETA.at[i].add(step)) - density(THETA.at[i].add(-step))
        np.testing.assert_allclose(slopes[i], change / (2 * step), rtol=3e-5)  # differences also see the steps change


@pytest.mark.slow
def test_a_fit_finds_the_lag():
    found = simkit.fit(problem(), starts=3)
    assert np.all(np.abs(found.estimate - THETA) < 4 * found.standard_error)
    assert np.all(found.standard_error < 0.05 * THETA)


@pytest.mark.slow
def test_doses_alone_times_as_unknowns_and_tiny_units():
    unit = 1e-12
    small = Doses([Dose(100.0 * unit, 0.0, "depot"), Dose(50.0 * unit, 9.0, "depot")])
    data = {"c": closed(SHORT, small, lag=0.0, share=1.0)}
    given = simkit.Experiment("one", SHORT, data, start=0.0, doses=small)
    noise = {"c": simkit.noise.Normal(1e-14)}
    free = {"events.dose.at.1": simkit.Free(bounds=(8.0, 10.0))}
    p = simkit.Problem(SYSTEM, given, free=free, noise=noise, y0=START)
    np.testing.assert_allclose(p.predict(jnp.array([9.0]))["c"][0], data["c"], rtol=1e-4)
    found = simkit.fit(p, starts=2)
    np.testing.assert_allclose(found.estimate, [9.0], atol=1e-3)


def test_members_may_differ_in_their_times():
    event = dose_event(Doses([Dose(1.0, 0.0, "depot", every=12.0, additional=1)]), START)
    at = np.array([[0.0, 12.0], [1.0, 5.0]])
    found = simkit.ensemble(SYSTEM, START, [0.0, 20.0], over={"events.dose.at": at}, events={"dose": event})
    np.testing.assert_array_equal(found.events.times, at)


def thrice(**options):
    return simkit.Experiment("e", SHORT, {"c": SHORT}, start=0.0, **options)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: problem(thrice(doses=Dose(1.0, 0.0, "gut"))), "`gut`"),
        (lambda: problem(thrice(doses=Dose(1.0))), "Compartment 1 of .* has no meaning"),
        (lambda: problem(thrice(doses=Dose(1.0, -1.0, "depot"))), "before the start, 0, but one is given at -1"),
        (
            lambda: problem(thrice(doses=Dose(1.0, 0.0, "depot", duration=2.0))),
            "infusions among the doses of experiment `e`",
        ),
        (lambda: problem(thrice(doses=Doses(resets=[3.0]))), "resets among the doses"),
        (lambda: problem([*experiments()[:1], thrice(doses=TWICE)]), "same kinds with the same functions.*`e`"),
        (lambda: problem(step=0.01), "Fixed steps serve one event"),
        (lambda: problem(thrice(events=simkit.Event(at=2.0, ends=True))), "must not end its simulations"),
        (lambda: simkit.fit(problem(), windows=2), "the problem has events"),
    ],
)
def test_what_is_wrong_is_a_sentence(make, text):
    with pytest.raises((simkit.ArgumentError, simkit.DataError, simkit.UnknownNameError), match=text):
        make()
