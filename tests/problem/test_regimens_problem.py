"""Problems whose subjects have schedules of different kinds: boluses, infusions, resets, steady states, and none."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit.odes import from_function
from simkit.problem import Dose, Doses, dose_event

START = {"gut": 0.0, "blood": 0.0}
SEEN = np.array([0.5, 2.0, 5.0, 9.0])
SCHEDULES = {
    "bolus": Doses([Dose(50.0, 0.0, "gut")]),
    "infusion": Doses([Dose(40.0, 0.0, "blood", rate=16.0), Dose(40.0, 3.0, "blood", duration=4.0)]),
    "steady": Doses([Dose(30.0, 0.0, "gut", every=8.0, additional=1, steady=True)]),
    "reset": Doses([Dose(40.0, 0.0, "blood", duration=4.0), Dose(20.0, 3.0, "gut", resets=True)]),
    "placebo": None,
}
THETA = jnp.array([1.1, 0.17])
TIGHT = simkit.Adaptive(1e-8, 1e-10)


def absorbed(t, y, p):
    return {"gut": -p["ka"] * y["gut"], "blood": p["ka"] * y["gut"] - p["ke"] * y["blood"]}


SYSTEM = from_function(absorbed, {"ka": 1.2, "ke": 0.15})


def problem(names=tuple(SCHEDULES), **options):
    data = {"blood": np.ones(4)}
    made = [simkit.Experiment(name, SEEN, data, start=0.0, doses=SCHEDULES[name]) for name in names]
    free = {"ka": simkit.Free(bounds=(0.1, 10.0)), "ke": simkit.Free(bounds=(0.01, 1.0))}
    noise = {"blood": simkit.noise.Normal(1.0)}
    return simkit.Problem(SYSTEM, made, free=free, noise=noise, y0=START, step=TIGHT, **options)


def exact(theta):
    """The amounts in the blood by superposition."""
    ka, ke = theta
    oral = lambda t, amount: amount * ka / (ka - ke) * (jnp.exp(-ke * t) - jnp.exp(-ka * t))
    flow = lambda t, rate, length: rate / ke * (jnp.exp(-ke * jnp.maximum(t - length, 0.0)) - jnp.exp(-ke * t))
    after = lambda f, t: jnp.where(t > 0, f(jnp.maximum(t, 0.0)), 0.0)
    often = lambda t: (
        30.0
        * ka
        / (ka - ke)
        * (jnp.exp(-ke * t) / (1 - jnp.exp(-8.0 * ke)) - jnp.exp(-ka * t) / (1 - jnp.exp(-8.0 * ka)))
    )
    return jnp.stack(
        [
            oral(SEEN, 50.0),
            flow(SEEN, 16.0, 2.5) + after(lambda t: flow(t, 10.0, 4.0), SEEN - 3.0),
            often(SEEN % 8.0),
            jnp.where(SEEN < 3.0, flow(SEEN, 10.0, 4.0), after(lambda t: oral(t, 20.0), SEEN - 3.0)),
            0.0 * SEEN * ka,
        ]
    )


def test_subjects_of_all_kinds_are_one_solve():
    np.testing.assert_allclose(problem().predict(THETA)["blood"], exact(THETA), atol=1e-5)


@pytest.mark.slow
def test_subjects_of_all_kinds_have_right_gradients():
    density = lambda theta: -0.5 * jnp.sum((exact(theta) - 1.0) ** 2)
    p = problem()
    found = jax.jit(jax.grad(lambda theta: p.log_likelihood(theta)[0]))(THETA)
    np.testing.assert_allclose(found, jax.grad(density)(THETA), rtol=1e-5)


@pytest.mark.slow
def test_a_fit_with_infusions_and_steady_states():
    data = exact(jnp.array([1.2, 0.15]))
    p = problem(("bolus", "infusion", "steady", "reset"))
    p = p.with_data({"blood": data[:4]})
    found = simkit.fit(p, starts=2)
    np.testing.assert_allclose(found.estimate, [1.2, 0.15], rtol=1e-4)


def test_members_of_an_ensemble_and_amounts_of_their_own():
    event = dose_event(SCHEDULES["infusion"], START)
    over = {"ke": np.array([0.1, 0.2, 0.3]), "events.dose.values.duration.1": np.array([1.0, 2.0, 5.0])}
    found = simkit.ensemble(SYSTEM, START, [0.0, 9.0], over=over, events={"dose": event}, step=TIGHT)
    for i in range(3):
        ke, length = over["ke"][i], over["events.dose.values.duration.1"][i]
        flow = lambda t, rate, length: rate / ke * (np.exp(-ke * (t - length)) - np.exp(-ke * t))  # noqa: B023
        np.testing.assert_allclose(
            found.ys["blood"][i, -1], flow(9.0, 16.0, 2.5) + flow(6.0, 40.0 / length, length), rtol=1e-6
        )


def test_what_cannot_be_is_a_sentence():
    event = dose_event(SCHEDULES["infusion"], START)
    with pytest.raises(simkit.ArgumentError, match="must increase where doses are given"):
        simkit.simulate(SYSTEM, START, [9.0, 0.0], events={"dose": dose_event(Doses(Dose(1.0, 2.0, "gut")), START)})
    early = dose_event(SCHEDULES["bolus"], START, lag={"gut": "late"})
    lagged = from_function(absorbed, {"ka": 1.2, "ke": 0.15, "late": -1.0})
    assert simkit.simulate(lagged, START, [0.0, 9.0], events={"dose": early}, on_failure="mark").status != 0
    with pytest.raises(
        simkit.SimulationError, match=r"The lag, `late`, of doses of the event `dose` must not be negative.* -1"
    ):
        simkit.simulate(lagged, START, [0.0, 9.0], events={"dose": early})
    share = dose_event(SCHEDULES["bolus"], START, bioavailability={"gut": "late"})
    with pytest.raises(simkit.SimulationError, match=r"The bioavailability, `late`, of doses .* must not be negative"):
        simkit.simulate(lagged, START, [0.0, 9.0], events={"dose": share})
    for what in ("lag", "bioavailability"):
        with pytest.raises(
            simkit.ArgumentError, match=f"The {what} of compartment `gut` must not be negative, but it is -1"
        ):
            dose_event(SCHEDULES["bolus"], START, **{what: {"gut": -1.0}})
    with pytest.raises(simkit.DataError, match=r"`compartments=\('c',\)` in their order"):
        dose_event(Doses(Dose(100.0, 0.0, 5)), {"c": 0.0})
    steady = dose_event(SCHEDULES["steady"], START)
    other = simkit.Event(lambda system, t, y, inputs: y["blood"] - 20.0, "up")
    with pytest.raises(simkit.ArgumentError, match="must be the only event of a simulation"):
        simkit.simulate(SYSTEM, START, [0.0, 9.0], events={"dose": steady, "high": other})
    found = simkit.simulate(SYSTEM, START, [0.0, 9.0], events={"dose": event, "high": other}, step=TIGHT)
    np.testing.assert_allclose(found.events["high"].before["blood"][0], 20.0)


def test_infusions_at_steady_state_with_fixed_steps_where_a_compartment_stays_empty():
    """Nothing goes into the gut, which stays exactly zero."""
    every = Dose(100.0, 0.0, "blood", every=8.0, duration=6.0, steady=True, additional=1)
    event = dose_event(Doses(every), START)
    found = simkit.simulate(SYSTEM, START, [0.0, 5.0, 10.0], events={"dose": event}, solver="rk4", step=0.1)
    ke, rate = 0.15, 100.0 / 6.0
    low = rate / ke * (1 - np.exp(-6 * ke)) * np.exp(-2 * ke) / (1 - np.exp(-8 * ke))
    exact = lambda t: low * np.exp(-ke * t) + rate / ke * (1 - np.exp(-ke * t))
    np.testing.assert_allclose(found.ys["blood"][1:], [exact(5.0), exact(2.0)], rtol=1e-5)


def test_the_first_of_the_doses_without_a_steady_state_is_named():
    event = dose_event(Doses(Dose(100.0, 1.0, "blood", every=4.0, steady=True, additional=1)), START)
    kept = from_function(absorbed, {"ka": 1.2, "ke": 0.0})  # nothing leaves
    with pytest.raises(simkit.SimulationError, match=r"No steady state .* for the event `dose` at time 1"):
        simkit.simulate(kept, START, [0.0, 9.0], events={"dose": event}, solver="rk4", step=0.1)
