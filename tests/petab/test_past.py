"""Values of earlier times in SBML formulas, against exact solutions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from petab_models import sbml, write_problem

import simkit

TIMES = np.array([0.0, 0.5, 1.0, 1.5, 2.5, 3.5])


def loaded(folder, model, names, observable):
    rows = "\n".join(f"o | c0 | {t} | 1" for t in TIMES)
    parameters = "\n".join(f"{name} | lin | -50 | 50 | {value} | 1" for name, value in names.items())
    path = write_problem(
        folder,
        model,
        f"parameterId | parameterScale | lowerBound | upperBound | nominalValue | estimate\n{parameters}",
        f"observableId | observableFormula | noiseFormula\no | {observable} | 0.1",
        f"observableId | simulationConditionId | time | measurement\n{rows}",
    )
    return simkit.petab.load(path)


def test_rates_and_rules_of_earlier_times(tmp_path):
    # dA/dt = -k A(t - tau) from 2, which was 2 before: by steps, a line and then a parabola until 2 tau. Rules see what was
    # a lag ago, of time itself also before the start.
    model = sbml(
        {"A": 2.0},
        {"k": 1.0, "tau": 1.0, "lag": 1.0, "P": 0.0, "Q": 0.0},
        {"r": ("A", "", "cell * k * delay(A, tau)")},
        rules={"P": "delay(A, lag)", "Q": "delay(time, lag)"},
    )
    read = loaded(tmp_path, model, {"k": 0.4, "tau": 1.8, "lag": 0.7}, "A + 10 * P + 100 * Q")

    def exact(theta):
        k, tau, lag = theta
        at = lambda t: 2 - 2 * k * jnp.maximum(t, 0) + k**2 * jnp.maximum(t - tau, 0) ** 2
        return at(TIMES) + 10 * at(TIMES - lag) + 100 * (TIMES - lag)

    def ours(theta):
        heads, status = read.problem.heads(theta)
        return heads["o"][0][0], (heads["o"][0][0], status)

    slopes, (values, status) = jax.jit(jax.jacfwd(ours, has_aux=True))(read.nominal)
    assert int(status[0]) == 0
    np.testing.assert_allclose(values, exact(read.nominal), rtol=1e-6)
    np.testing.assert_allclose(slopes, jax.jacfwd(exact)(read.nominal), atol=1e-4)
    backwards = jax.jit(jax.jacrev(lambda theta: ours(theta)[0]))(read.nominal)
    np.testing.assert_allclose(backwards, slopes, atol=1e-6)


def test_a_start_of_an_earlier_time(tmp_path):
    # Before the start a rule of time is what it is at that time.
    model = sbml(
        {"A": 2.0}, {"k": 1.0, "s": 0.0}, {"r": ("A", "", "cell * k * A")}, rules={"s": "3 * time"}, initial={"A": "delay(s + 5, 1)"}
    )
    read = loaded(tmp_path, model, {"k": 0.4}, "A")
    heads, _ = jax.jit(lambda theta: read.problem.heads(theta))(read.nominal)
    np.testing.assert_allclose(heads["o"][0][0], 2 * np.exp(-0.4 * TIMES), rtol=1e-6)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"events": {"e": ("time > 1", {"x": "1"})}}, "stand beside the event `e`"),
        ({"rates": {"x": "delay(delay(x, 1), 1)"}}, "must not hold a `delay` in a `delay`"),
        ({"rates": {"x": "delay(x, x)"}}, "a lag that depends on `x`"),
    ],
)
def test_what_a_delay_cannot_stand_beside(tmp_path, changed, message):
    model = sbml({"A": 2.0}, {"x": 1.0, "k": 1.0}, {"r": ("A", "", "cell * k * delay(A, 1)")}, **changed)
    with pytest.raises(simkit.DataError, match=message):
        loaded(tmp_path, model, {"k": 0.4}, "A")
