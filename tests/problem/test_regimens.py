"""Infusions, resets and steady states beside exact solutions of linear compartments, with derivatives by all their numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.linalg import expm

import simkit
from simkit.odes import from_function
from simkit.problem import Dose, Doses, dose_event

TIGHT = simkit.Adaptive(1e-9, 1e-12)
TRUTH = {"ka": 1.2, "ke": 0.15, "lag": 0.75, "share": 0.8}
START = {"gut": 0.0, "blood": 0.0}
SEEN = np.array([0.0, 0.7, 1.9, 3.4, 6.2, 7.7, 13.0])
LAG, SHARE = {"gut": "lag", "blood": 0.5}, {"gut": "share", "blood": "share"}


def absorbed(t, y, p):
    return {"gut": -p["ka"] * y["gut"], "blood": p["ka"] * y["gut"] - p["ke"] * y["blood"]}


def simulated(doses, p=TRUTH, times=SEEN, y0=START, lag=LAG, share=SHARE, changed=lambda event: event, **options):
    event = changed(dose_event(doses, y0, lag=lag, bioavailability=share))
    options = {"step": TIGHT} | options
    return simkit.simulate(from_function(absorbed, p), y0, times, events={"dose": event}, **options)


def rows(found):
    return jnp.stack([found.ys["gut"], found.ys["blood"]], axis=1)


def matrix(p):
    return jnp.array([[-p["ka"], 0.0 * p["ka"]], [p["ka"], -p["ke"]]])


def bolus(p, times, at, amount, place):
    """The response to an amount that is given at once: exp(A (t - at)) e amount."""
    since = jnp.asarray(times) - at
    one = lambda s: jnp.where(s >= 0, expm(matrix(p) * jnp.maximum(s, 0.0))[:, place], 0.0)
    return amount * jax.vmap(one)(since)


def infusion(p, times, begin, length, rate, place):
    """The response to a rate: the integral of that to amounts, A^-1 (exp(A (t - begin)) - exp(A (t - end))) e rate."""

    def one(t):
        grown = lambda s: expm(matrix(p) * jnp.maximum(s, 0.0))
        return jnp.linalg.solve(matrix(p), (grown(t - begin) - grown(t - begin - length))[:, place])

    return rate * jax.vmap(one)(jnp.asarray(times))


# One that was given with its rate, one with its duration, both at once in one compartment, and one that begins where another ends.
INFUSED = Doses(
    [
        Dose(50.0, 0.5, "blood", rate=20.0),
        Dose(30.0, 1.0, "blood", duration=3.0),
        Dose(40.0, 1.0, "gut", duration=2.0),
        Dose(10.0, 3.0, "gut", rate=4.0),
        Dose(25.0, 4.0, "gut"),
    ]
)


def exact_infusions(p, at, amount, rate, duration):
    f, lag = p["share"], p["lag"]
    own = lambda i, late, place, by_rate: infusion(
        p,
        SEEN,
        at[i] + late,
        f * amount[i] / rate[i] if by_rate else duration[i],
        rate[i] if by_rate else f * amount[i] / duration[i],
        place,
    )
    return (
        own(0, 0.5, 1, True)
        + own(1, 0.5, 1, False)
        + own(2, lag, 0, False)
        + own(3, lag, 0, True)
        + bolus(p, SEEN, at[4] + lag, f * amount[4], 0)
    )


def numbers(event):
    return {"at": event.at} | {key: event.values[key] for key in ("amount", "rate", "duration")}


EVENT = dose_event(INFUSED, START, lag=LAG, bioavailability=SHARE)
P = {key: jnp.asarray(value) for key, value in TRUTH.items()}


def given(p, own):
    values = EVENT.values | {key: own[key] for key in ("amount", "rate", "duration")}
    event = simkit.Event(at=own["at"], values=values, change=EVENT.change)
    return rows(simkit.simulate(from_function(absorbed, p), START, SEEN, events={"dose": event}, step=TIGHT))


def test_infusions_add_and_their_derivatives_are_exact():
    own = numbers(EVENT)
    exact = lambda p, own: exact_infusions(p, own["at"], own["amount"], own["rate"], own["duration"])
    np.testing.assert_allclose(given(P, own), exact(P, own), atol=1e-6)
    # A number that is not given, the rate of an infusion with a duration, is zero and has no derivative.
    expected = jax.jit(jax.jacfwd(exact, (0, 1)))(P, own)
    found = jax.jit(jax.jacrev(given, (0, 1)))(P, own)
    told = {"at": jnp.ones(5), "amount": jnp.ones(5), "rate": own["rate"] > 0, "duration": own["duration"] > 0}
    for key, known in told.items():
        pick = np.flatnonzero(known)
        np.testing.assert_allclose(found[1][key][..., pick], expected[1][key][..., pick], atol=1e-5, err_msg=key)
    for key in TRUTH:
        np.testing.assert_allclose(found[0][key], expected[0][key], atol=1e-4, err_msg=key)


@pytest.mark.slow
def test_infusions_have_second_derivatives():
    own = numbers(EVENT)
    exact = lambda p: exact_infusions(p, own["at"], own["amount"], own["rate"], own["duration"])[-2]
    expected = jax.jit(jax.jacfwd(jax.jacfwd(exact)))(P)
    for found in (jax.jit(jax.jacfwd(jax.jacrev(lambda p: given(p, own)[-2])))(P),):
        for first in TRUTH:
            for second in TRUTH:
                np.testing.assert_allclose(found[first][second], expected[first][second], atol=2e-3)


def test_a_reset_cuts_infusions_and_lagging_doses():
    """A patient with a start of his own: after a reset the state is that start, and nothing of before it comes any more."""
    y0 = {"gut": 5.0, "blood": 2.0}
    doses = Doses(
        [Dose(50.0, 0.0, "blood", duration=5.0), Dose(40.0, 3.0, "gut"), Dose(20.0, 6.0, "gut", resets=True)],
        resets=[3.5],
    )
    found = rows(simulated(doses, y0=y0))
    begin = jnp.array([y0["gut"], y0["blood"]])
    free = lambda t: sum(bolus(TRUTH, [t], 0.0, begin[i], i)[0] for i in range(2))
    exact = [free(t) + infusion(TRUTH, [t], 0.5, 5.0, 8.0, 1)[0] for t in SEEN[:4]]
    exact += [
        free(0.2),
        free(1.7) + bolus(TRUTH, [7.7], 6.75, 16.0, 0)[0],
        free(7.0) + bolus(TRUTH, [13.0], 6.75, 16.0, 0)[0],
    ]
    np.testing.assert_allclose(found, jnp.stack(exact), atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bolus", "infusion", "over the end"])
def test_a_steady_state_is_that_of_many_doses_before(kind):
    length, lag = {"bolus": (None, 0.75), "infusion": (2.0, 0.75), "over the end": (5.0, 2.5)}[kind]
    p = P | {"lag": jnp.asarray(lag)}
    dose = Dose(60.0, 70.0, "gut", duration=length, every=7.0, additional=1, steady=True)
    before = Dose(60.0, 0.0, "gut", duration=length, every=7.0, additional=11)
    times = np.concatenate([[0.0], 70.0 + SEEN[1:]])
    state = lambda p, dose: rows(simulated(Doses([dose]), p, times, lag={"gut": "lag"}))[2:]
    many = lambda p, dose: rows(simulated(Doses([before]), p, times, lag={"gut": "lag"}))[2:]
    np.testing.assert_allclose(state(p, dose), many(p, dose), rtol=1e-3)  # exp(-0.15 * 70) of it is missing

    # Superposition without end: what one dose leaves after 7 k is a geometric series of matrices.
    def exact(p):
        end = jnp.asarray(times[2:])
        answer = lambda t: (
            bolus(p, t, p["lag"], p["share"] * 60.0, 0)
            if length is None
            else infusion(p, t, p["lag"], length, p["share"] * 60.0 / length, 0)
        )
        late = answer(jnp.array([14.0]))[0]  # all of one dose is in after two intervals
        series = jnp.linalg.solve(jnp.eye(2) - expm(7.0 * matrix(p)), late)
        past = jax.vmap(lambda t: expm(matrix(p) * t) @ series)(end - 70.0)  # of doses at 56 and before
        return past + answer(end - 63.0) + answer(end - 70.0) + answer(end - 77.0)

    np.testing.assert_allclose(state(p, dose), exact(p), atol=1e-6)
    slopes, expected = jax.jit(jax.jacrev(lambda p: state(p, dose)))(p), jax.jit(jax.jacfwd(exact))(p)
    for key in TRUTH:
        np.testing.assert_allclose(slopes[key], expected[key], atol=1e-4, err_msg=key)


@pytest.mark.slow
def test_a_steady_state_is_added_or_clears():
    """SS 1 takes away what is there, an infusion that runs included, and SS 2 adds to it."""
    first = Dose(50.0, 0.0, "blood", duration=10.0)
    found = {}
    for steady in (True, "added"):
        doses = Doses([first, Dose(60.0, 3.0, "gut", every=7.0, steady=steady)])
        found[steady] = rows(simulated(doses, lag=None, share=None))[3:]
    alone = infusion(TRUTH, SEEN[3:], 0.0, 10.0, 5.0, 1)
    np.testing.assert_allclose(found["added"] - found[True], alone, atol=1e-6)
    trough = 60.0 * np.exp(-1.2 * 7.0) / (1 - np.exp(-1.2 * 7.0))
    np.testing.assert_allclose(found[True][0][0], (trough + 60.0) * np.exp(-1.2 * 0.4), rtol=1e-7)


def eliminated(t, y, p):
    return {"blood": -p["most"] * y["blood"] / (p["half"] + y["blood"])}


@pytest.mark.slow
def test_a_steady_state_of_saturable_elimination():
    """Michaelis-Menten elimination: with u before and u + D after a dose, most T = half ln((u + D) / u) + D."""
    p = {"most": jnp.asarray(12.0), "half": jnp.asarray(4.0)}
    event = dose_event(Doses(Dose(60.0, 0.0, "blood", every=6.0, steady=True)), {"blood": 0.0})

    def trough(p):
        system = from_function(eliminated, p)
        return simkit.simulate(system, {"blood": 0.0}, [0.0, 6.0], events={"dose": event}, step=TIGHT).ys["blood"][-1]

    exact = lambda p: 60.0 / jnp.expm1((p["most"] * 6.0 - 60.0) / p["half"])
    np.testing.assert_allclose(trough(p), exact(p), rtol=1e-7)
    for mode in (jax.grad, jax.jacfwd):
        for got, wanted in zip(mode(trough)(p).values(), jax.grad(exact)(p).values(), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_without_a_steady_state_the_states_are_nan():
    event = dose_event(Doses(Dose(60.0, 1.0, "blood", every=6.0, steady=True)), {"blood": 0.0})
    for most in (0.0, 9.0):  # nothing leaves, and less than is given
        system = from_function(eliminated, {"most": most, "half": 4.0})
        found = simkit.simulate(
            system, {"blood": 0.0}, [0.0, 0.5, 6.0], events={"dose": event}, step=TIGHT, on_failure="mark"
        )
        assert found.status != 0
        assert np.isfinite(found.ys["blood"][1])
        assert np.isnan(found.ys["blood"][2])
    with pytest.raises(simkit.SimulationError, match="steady state"):
        simkit.simulate(system, {"blood": 0.0}, [0.0, 6.0], events={"dose": event}, step=TIGHT)
