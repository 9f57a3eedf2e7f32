"""Problems whose data are all of steady states, of which nothing is simulated in time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from petab_models import sbml, write_problem

import simkit

PARAMETERS = """parameterId | parameterScale | lowerBound | upperBound | nominalValue | estimate
k | log10 | 0.01 | 100 | 0.5 | 1
back | log10 | 0.01 | 100 | 2.0 | 1"""


def _read(folder, times):
    model = sbml(
        {"A": 3.0, "B": 0.0},
        {"k": 1.0, "back": 1.0},
        {"there": ("A", "B", "cell * k * A"), "here": ("B", "A", "cell * back * B")},
    )
    rows = [f"o | c0 | {t} | 1.0" for t in times]
    head = "observableId | simulationConditionId | time | measurement\n"
    observables = "observableId | observableFormula | noiseFormula\no | B | 0.1"
    return simkit.petab.load(write_problem(folder, model, PARAMETERS, observables, head + "\n".join(rows)))


@pytest.mark.slow
def test_data_of_steady_states_alone_need_no_run(tmp_path):
    read = _read(tmp_path, ["inf", "inf"])
    problem = read.problem
    assert problem.protocol.timeless
    value = lambda theta: problem.heads(theta)[0]["o"][0][0, -1]
    exact = lambda theta: 3 * theta[problem.names.index("k")] / jnp.sum(theta)
    theta = jnp.asarray(read.nominal)
    found, slope = jax.jit(jax.value_and_grad(value))(theta)
    # The steady state is that of Newton's method, to rounding.
    np.testing.assert_allclose(found, exact(theta), rtol=1e-10)
    np.testing.assert_allclose(slope, jax.grad(exact)(theta), rtol=1e-8)
    # Asked at other times the same problem runs; B(t) = B* (1 - exp(-(k + back) t)) within tolerances of 5e-7.
    later = problem.predict(theta, [0.5, 1.0])["o"][0]
    np.testing.assert_allclose(later, exact(theta) * (1 - np.exp(-2.5 * np.array([0.5, 1.0]))), rtol=1e-5)


@pytest.mark.slow
def test_one_datum_in_time_makes_it_run(tmp_path):
    read = _read(tmp_path, [1.0, "inf"])
    assert not read.problem.protocol.timeless
    found = read.problem.heads(jnp.asarray(read.nominal))[0]["o"][0][0]
    steady = 3 * 0.5 / 2.5
    np.testing.assert_allclose(found, [steady * (1 - np.exp(-2.5)), steady], rtol=1e-5)
