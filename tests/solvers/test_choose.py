"""The choice of a solver: stiff or not, by structure, from memory, never an exception."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from solvers.problems import (
    HIRES_START,
    ROBERTSON,
    Field,
    Swing,
    brusselator,
    fitzhugh_nagumo,
    hires,
    lorenz,
    lotka_volterra,
    oregonator,
    robertson,
    van_der_pol,
)

import simkit
from simkit.solvers import choose

STIFF = {
    "robertson 1e4": (robertson, ROBERTSON, (1.0, 0.0, 0.0), 1e4),
    "robertson 1e11": (robertson, ROBERTSON, (1.0, 0.0, 0.0), 1e11),
    "van der pol 1000": (van_der_pol, (1000.0,), (2.0, 0.0), 2000.0),
    "hires": (hires, (280.0,), HIRES_START, 321.8122),
    "oregonator": (oregonator, (77.27, 8.375e-6, 0.161), (1.0, 2.0, 3.0), 360.0),
}
MILD = {
    "lotka-volterra": (lotka_volterra, (0.55, 0.028, 0.024, 0.8), (30.0, 4.0), 20.0),
    "lorenz": (lorenz, (10.0, 28.0, 8 / 3), (1.0, 1.0, 1.0), 20.0),
    "lorenz, long": (lorenz, (10.0, 28.0, 8 / 3), (1.0, 1.0, 1.0), 200.0),
    "van der pol 1": (van_der_pol, (1.0,), (2.0, 0.0), 20.0),
    "fitzhugh-nagumo": (fitzhugh_nagumo, (0.5, 0.08), (-1.0, 1.0), 200.0),
    "brusselator": (brusselator, (1.0, 3.0), (1.5, 3.0), 20.0),
}


def pick(case, **options):
    rates, parameters, start, end = case
    return choose(Field(jnp.asarray(parameters), rates), jnp.asarray(start), jnp.linspace(0.0, end, 5), **options)


@pytest.mark.parametrize("name", STIFF)
def test_stiff_problems_take_rodas(name):
    solver, reason = pick(STIFF[name])
    assert type(solver).__name__ == "Rodas5P"
    assert reason.startswith("stiff: stability would cost an explicit method some ")


@pytest.mark.parametrize("name", MILD)
def test_other_problems_take_tsit5(name):
    solver, reason = pick(MILD[name])
    assert type(solver).__name__ == "Tsit5"
    assert reason.startswith("not stiff: ")


def test_float32_is_judged_alike():
    rates, parameters, start, end = STIFF["robertson 1e4"]
    system = simkit.cast(Field(jnp.asarray(parameters), rates), jnp.float32)
    times = jnp.linspace(0.0, end, 5, dtype=jnp.float32)
    assert type(choose(system, jnp.asarray(start, jnp.float32), times).solver).__name__ == "Rodas5P"


def test_structure_decides_with_fixed_steps():
    start, times = Swing.start(), jnp.linspace(0.0, 5.0, 5)
    assert type(choose(Swing(), start, times, fixed=True).solver).__name__ == "VelocityVerlet"
    assert type(choose(Swing(), start, times).solver).__name__ == "Tsit5"
    assert type(pick(STIFF["hires"], fixed=True).solver).__name__ == "Tsit5"


def test_a_repeated_question_evaluates_nothing():
    calls = []

    def counted(t, y, k):
        jax.debug.callback(lambda: calls.append(1))
        return [-k[0] * y[0]]

    case = (counted, (2.0,), (1.0,), 3.0)
    first = pick(case)
    jax.effects_barrier()
    asked = len(calls)
    second = pick(case)
    jax.effects_barrier()
    assert asked > 0
    assert len(calls) == asked
    assert first.reason == second.reason


def test_memory_is_bounded():
    from simkit.solvers import _stiffness

    before = _stiffness.REMEMBERED
    _stiffness.REMEMBERED = 3
    try:
        for end in (1.0, 1.1, 1.2, 1.3, 1.4):
            pick((*MILD["lotka-volterra"][:3], end))
        assert len(_stiffness._memory) <= 3
    finally:
        _stiffness.REMEMBERED = before


def test_tracers_large_states_and_missing_values_are_said():
    system = Field(jnp.asarray([1.0]), lambda t, y, k: -k[0] * y * jnp.sum(y))
    assert "not stiff at its start" in choose(system, jnp.ones(201), jnp.asarray([0.0, 1.0])).reason
    assert "no values" in choose(Swing()).reason
    reasons = []

    @jax.jit
    def traced(end):
        reasons.append(pick((*MILD["lotka-volterra"][:3], end)).reason)
        return end

    traced(1.0)
    assert "traced" in reasons[0]


def test_known_values_are_judged_inside_jit_too():
    system, start = Field(jnp.asarray([1000.0]), van_der_pol), jnp.asarray([2.0, 0.0])
    times = np.asarray([0.0, 2345.0])  # of no other test, since a remembered answer needs no evaluation
    chosen = []

    @jax.jit
    def other(x):
        chosen.append(choose(system, start, times))
        return x

    other(1.0)
    assert chosen[0].solver.stiff


@pytest.mark.parametrize(
    "rates",
    [
        lambda t, y, k: [jnp.log(-y[0])],  # NaN at the start
        lambda t, y, k: [1 / (y[0] - 1.0)],  # infinite at the start
        lambda t, y, k: [y[0] ** 2 * 1e3],  # blows up on the way
        lambda t, y, k: [jnp.sqrt(y[0] - 1.0)],  # infinite Jacobian
    ],
)
def test_non_finite_fields_fall_back_to_tsit5(rates):
    solver, reason = pick((rates, (1.0,), (1.0,), 10.0))
    assert type(solver).__name__ == "Tsit5"
    assert reason


def test_other_values_do_not_compile_the_simulation_again():
    """The reason holds numbers, but the compiled function must not see them."""
    rates, parameters, start, end = MILD["lotka-volterra"]
    traces = []

    def counted(t, y, k):
        traces.append(1)
        return rates(t, y, k)

    system, times = Field(jnp.asarray(parameters), counted), jnp.linspace(0.0, end, 5)
    one = simkit.simulate(system, jnp.asarray(start), times)
    count = len(traces)
    two = simkit.simulate(system, 3.0 * jnp.asarray(start), times)
    assert len(traces) == count
    assert "chosen: not stiff" in one.solver
    assert "chosen: not stiff" in two.solver
    assert not np.allclose(one.ys, two.ys)


@pytest.mark.parametrize("y0", [1.0, {"x": 1.0}])
def test_states_of_plain_numbers(y0):
    system = simkit.from_function(lambda t, y, p: jax.tree.map(lambda x: -p["k"] * x, y), {"k": 0.7})
    assert type(simkit.solvers.choose(system, y0, [0.0, 5.0]).solver).__name__ == "Tsit5"
