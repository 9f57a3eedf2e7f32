"""Values of earlier times in SBML formulas, against exact solutions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from petab_models import load_observed, sbml

import simkit

TIMES = np.array([0.0, 0.5, 1.0, 1.5, 2.5, 3.5])


def loaded(folder, model, names, observable):
    return load_observed(folder, model, names, observable, TIMES)


def lagging(folder):
    """dA/dt = -k A(t - tau) from 2, which was 2 before, with rules that see what was a lag ago; and the exact solution.

    By steps that is a line, and then a parabola until 2 tau.
    """
    model = sbml(
        {"A": 2.0},
        {"k": 1.0, "tau": 1.0, "lag": 1.0, "P": 0.0, "Q": 0.0},
        {"r": ("A", "", "cell * k * delay(A, tau)")},
        rules={"P": "delay(A, lag)", "Q": "delay(time, lag)"},
    )

    def exact(theta):
        k, tau, lag = theta
        at = lambda t: 2 - 2 * k * jnp.maximum(t, 0) + k**2 * jnp.maximum(t - tau, 0) ** 2
        return at(TIMES) + 10 * at(TIMES - lag) + 100 * (TIMES - lag)

    return loaded(folder, model, {"k": 0.4, "tau": 1.8, "lag": 0.7}, "A + 10 * P + 100 * Q"), exact


def test_rates_and_rules_of_earlier_times(tmp_path):
    read, exact = lagging(tmp_path)
    heads, status = jax.jit(lambda theta: read.problem.heads(theta))(read.nominal)
    assert int(status[0]) == 0
    np.testing.assert_allclose(heads["o"][0][0], exact(read.nominal), rtol=1e-6)


@pytest.mark.slow
def test_derivatives_of_rates_and_rules_of_earlier_times(tmp_path):
    read, exact = lagging(tmp_path)
    slopes = jax.jit(jax.jacfwd(lambda theta: read.problem.heads(theta)[0]["o"][0][0]))(read.nominal)
    np.testing.assert_allclose(slopes, jax.jacfwd(exact)(read.nominal), atol=1e-4)


def test_what_was_before_the_start(tmp_path):
    # Rules of time are what they are at that time, initial assignments too; all else stands still there.
    model = sbml(
        {"A": 2.0, "B": 0.0},
        {"k": 1.0, "s": 0.0, "P": 0.0, "Q": 0.0},
        {"r": ("A", "", "cell * k * A")},
        rules={"s": "3 * time", "P": "delay(B, 1)", "Q": "delay(rateOf(A), 1)"},
        initial={"A": "delay(s + 5, 1)", "B": "4 * time"},
    )
    read = loaded(tmp_path, model, {"k": 0.4}, "A + 10 * P + 100 * Q")
    heads, _ = jax.jit(lambda theta: read.problem.heads(theta))(read.nominal)
    rate = np.where(TIMES < 1, 0.0, -0.8 * np.exp(-0.4 * (TIMES - 1)))
    expected = 2 * np.exp(-0.4 * TIMES) + 40 * np.minimum(TIMES - 1, 0) + 100 * rate
    np.testing.assert_allclose(heads["o"][0][0], expected, rtol=1e-5)


def test_rules_of_earlier_times_beside_events(tmp_path):
    # x grows at the rate k, from 1, and falls to 0 when 3 * time passes 3; `early` is a delay of time alone, in a trigger.
    model = sbml(
        {"A": 2.0},
        {"k": 1.0, "lag": 1.0, "x": 1.0, "seen": 0.0, "s": 0.0, "P": 0.0, "Q": 0.0, "wait": 0.5},
        {"r": ("A", "", "cell * k * A")},
        rules={"s": "3 * time", "P": "delay(x, lag)", "Q": "delay(time, wait) + delay(k * time, wait)"},
        rates={"x": "k", "wait": "0.1"},
        events={"fall": ("s > 3", {"x": "0"}), "early": ("delay(s, 0.6) > 3", {"seen": "1"})},
    )
    read = loaded(tmp_path, model, {"k": 0.4, "lag": 0.7}, "P + 10 * seen + 100 * Q")
    heads = lambda theta: read.problem.heads(theta)[0]["o"][0][0]
    then = TIMES - 0.7
    grown = np.where(then < 1, 1 + 0.4 * np.maximum(then, 0), 0.4 * (then - 1))
    late = 1.4 * (TIMES - (0.5 + 0.1 * TIMES))  # the lag of Q grows with time
    np.testing.assert_allclose(heads(read.nominal), grown + 10 * (TIMES > 1.6) + 100 * late, rtol=1e-6)
    status = jax.jit(lambda theta: read.problem.heads(theta)[1])(read.nominal.at[1].set(-0.5))
    assert int(status[0]) == simkit.Status.BAD_LAG
    by_lag = jax.jit(jax.jacfwd(heads))(read.nominal)[:, 1]
    np.testing.assert_allclose(by_lag, np.where(then < 0, 0.0, -0.4), atol=1e-6)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"events": {"e": ("time > 1", {"x": "1"})}}, "stand beside the event `e`"),
        ({"rates": {"x": "delay(delay(x, 1), 1)"}}, "must not hold a `delay` in a `delay`"),
        ({"rates": {"x": "delay(x, x)"}}, "a lag that depends on `x`"),
        ({"initial": {"x": "time"}}, "the initial assignment of `x` by time"),
    ],
)
def test_what_a_delay_cannot_stand_beside(tmp_path, changed, message):
    model = sbml({"A": 2.0}, {"x": 1.0, "k": 1.0}, {"r": ("A", "", "cell * k * delay(A, 1)")}, **changed)
    with pytest.raises(simkit.DataError, match=message):
        loaded(tmp_path, model, {"k": 0.4}, "A")
