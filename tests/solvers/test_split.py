"""Steppers of split systems: their functions and tableaus, their order, stiffness, gradients and weights."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit.core import SplitSystem, quantity
from simkit.solvers import CNRK3, ETDRK2, ETDRK4, KenCarp3, KenCarp4, choose
from simkit.solvers._phi import phi_functions


class Pair(SplitSystem):
    """Two complex numbers, damped and turned at their own rates, that drive each other; the encoded state is complex."""

    rate: jax.Array = quantity(1.0)
    drive: jax.Array = quantity(0.5)

    def linear(self):
        return jax.lax.complex(-self.rate * jnp.array([1.0, 30.0]), jnp.array([2.0, -1.0]))

    def nonlinear(self, t, state, inputs):
        other = state[::-1]
        return simkit.core.scaled(self.drive, other * jnp.conj(state)) + jax.lax.complex(
            jnp.cos(3 * t), jnp.zeros_like(t)
        )

    def encode(self, y):
        return jax.lax.complex(y[:2], y[2:])

    def decode(self, state):
        return jnp.concatenate([state.real, state.imag])

    outputs = invariants = example = lambda *_: {}


START = jnp.array([1.0, 0.5, -0.3, 0.8])
STEPPERS = {
    "ETDRK2": (ETDRK2(), 2),
    "ETDRK4": (ETDRK4(), 4),
    "CNRK3": (CNRK3(), 2),
    "KenCarp3": (KenCarp3(), 3),
    "KenCarp4": (KenCarp4(), 4),
}


def test_phi_functions_are_accurate_everywhere():
    """Against their integrals by quadrature, on both sides of the radius where the series ends, and their derivatives."""
    z = np.array([0.0, 1e-12, -1e-5, 0.3, -0.999, 1.001, -1.5, 4.0, -40.0, 1e-3j, 0.7 - 0.71j, 0.8 + 0.7j, -3 + 20j])
    nodes, w = np.polynomial.legendre.leggauss(16)  # on 16 panels
    s = ((np.arange(16)[:, None] + 0.5 * (nodes + 1)) / 16).reshape(-1)
    w = np.tile(0.5 * w / 16, 16)
    found, slopes = jax.jit(lambda z: jax.jvp(phi_functions, (z,), (jnp.ones_like(z),)))(jnp.asarray(z))
    for j in (1, 2, 3):
        kernel = w * s ** (j - 1) / math.factorial(j - 1)
        # Divisions by z**3 near |z| = 1 cost a digit, those of their derivatives two.
        np.testing.assert_allclose(found[j - 1], np.exp(z[:, None] * (1 - s)) @ kernel, rtol=3e-14)
        np.testing.assert_allclose(slopes[j - 1], np.exp(z[:, None] * (1 - s)) @ (kernel * (1 - s)), rtol=5e-13)
    real = jax.jit(phi_functions)(jnp.asarray(z[:9].real))
    np.testing.assert_allclose(real, [x[:9].real for x in found], rtol=3e-14)
    far = jax.jit(phi_functions)(jnp.array([-1e9]))
    np.testing.assert_allclose(jnp.concatenate(far), [1e-9, 1e-9 - 1e-18, 0.5e-9 - 1e-18], rtol=1e-15)


@pytest.mark.parametrize("stepper", [KenCarp3, KenCarp4])
def test_tableaus_meet_the_order_conditions(stepper):
    """Of additive methods: every tree, with either method at every node below the root."""
    explicit, implicit = stepper.tableau.tableaus
    stages, order = len(explicit.b_sol), stepper.order
    a = np.zeros((2, stages, stages))
    for i, (left, right) in enumerate(zip(explicit.a_lower, implicit.a_lower, strict=True), start=1):
        a[0, i, : len(left)], a[1, i, : len(right)] = left, right
    a[1] += np.diag(implicit.a_diagonal)
    b = np.asarray(explicit.b_sol)
    np.testing.assert_array_equal(b, implicit.b_sol)
    c = np.concatenate([[0.0], explicit.c])
    np.testing.assert_allclose(
        a.sum(axis=2), np.stack([c, c]), atol=1e-12
    )  # the published fractions are rounded to 25 digits

    def conditions(weights, order):
        yield weights.sum(), 1
        if order >= 2:
            yield weights @ c, 1 / 2
        if order >= 3:
            yield weights @ c**2, 1 / 3
            for m in (0, 1):
                yield weights @ a[m] @ c, 1 / 6
        if order >= 4:
            yield weights @ c**3, 1 / 4
            for m in (0, 1):
                yield weights @ (c * (a[m] @ c)), 1 / 8
                yield weights @ a[m] @ c**2, 1 / 12
                for n in (0, 1):
                    yield weights @ a[m] @ a[n] @ c, 1 / 24

    for found, expected in conditions(b, order):
        assert abs(found - expected) < 1e-12
    for found, expected in conditions(b - np.asarray(explicit.b_error), order - 1):
        assert abs(found - expected) < 1e-12
    assert max(abs(found - expected) for found, expected in conditions(b - np.asarray(explicit.b_error), order)) > 1e-3
    np.testing.assert_array_equal(a[1][-1], b)  # stiffly accurate
    np.testing.assert_allclose(stepper.dense.sum(axis=0), b, atol=1e-10)  # the polynomial ends where the step does


@pytest.fixture(scope="module")
def reference():
    """The state at time 1 by an explicit method of order 8 at its tightest."""
    found = simkit.simulate(Pair(), START, [0.0, 1.0], solver=simkit.solvers.Dopri8(), step=simkit.Fixed(800))
    return np.asarray(found.ys[-1])


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n[-1] == "4" else pytest.mark.slow) for n in STEPPERS])
def test_measured_order(name, reference):
    stepper, order = STEPPERS[name]
    counts = (40, 80)
    errors = [
        np.abs(
            simkit.simulate(Pair(), START, [0.0, 1.0], solver=stepper, step=simkit.Fixed(n)).ys[-1] - reference
        ).max()
        for n in counts
    ]
    # Halving the step: within half an order of what the method promises, and never much worse.
    assert order - 0.5 < math.log2(errors[0] / errors[1]) < order + 1.3, errors


@pytest.mark.parametrize("name", [pytest.param("KenCarp3", marks=pytest.mark.slow), "KenCarp4"])
def test_adaptive_steps_keep_the_tolerance_and_land_on_times(name, reference):
    times = jnp.array([0.0, 0.31, 0.77, 1.0])
    stepper = STEPPERS[name][0]
    found = simkit.simulate(Pair(), START, times, solver=stepper, step=simkit.Adaptive(1e-7, 1e-9))
    fine = simkit.simulate(Pair(), START, times, solver=simkit.solvers.ETDRK4(), step=1e-3)
    np.testing.assert_allclose(found.ys[-1], reference, atol=3e-6)  # some thirty tolerances
    np.testing.assert_allclose(found.ys, fine.ys, atol=3e-6)  # dense output in between
    assert int(found.rejected) < int(found.steps)


@pytest.mark.slow
def test_stiff_modes_cost_nothing():
    """A thousand times the rate of the fast mode, and the steps are as many; an explicit method would need thirty thousand."""
    counts = [
        int(simkit.simulate(Pair(rate=rate), START, [0.0, 1.0], step=simkit.Adaptive(1e-5, 1e-7)).steps)
        for rate in (10.0, 1e4)
    ]
    assert counts[1] < 3 * counts[0] < 1000


def test_choose():
    assert isinstance(choose(Pair(), fixed=True).solver, ETDRK4)
    assert isinstance(choose(Pair()).solver, KenCarp4)
    with pytest.raises(simkit.ArgumentError, match="needs a SplitSystem"):
        simkit.simulate(
            simkit.odes.Lorenz63(), simkit.odes.Lorenz63.example().y0, [0.0, 1.0], solver=ETDRK4(), step=0.1
        )


@pytest.mark.parametrize(
    "name", ["ETDRK4", *(pytest.param(n, marks=pytest.mark.slow) for n in STEPPERS if n != "ETDRK4")]
)
def test_gradients_of_fixed_steps(name):
    """By rates, states and what drives, against differences, whether the times are even (one set of weights) or not."""
    stepper = STEPPERS[name][0]

    def total(q, times):
        found = simkit.simulate(
            Pair(q[0], q[1]), START * q[2], times, solver=stepper, step=simkit.Fixed(3), on_failure="mark"
        )
        return jnp.sum(jnp.sin(found.ys[1:]))

    q, h = np.array([0.9, 0.7, 1.1]), 1e-5
    for times in (np.linspace(0.0, 0.6, 4), np.array([0.0, 0.1, 0.4, 0.6])):
        value = jax.jit(lambda q, times=times: total(q, times))
        found = jax.jit(jax.grad(lambda q, times=times: total(q, times)))(q)
        differences = [(value(q + h * e) - value(q - h * e)) / (2 * h) for e in np.eye(3)]
        np.testing.assert_allclose(found, differences, atol=1e-9)  # h**2 times third derivatives


@pytest.mark.slow
def test_even_times_give_the_states_of_uneven_ones():
    times = np.linspace(0.0, 1.0, 6)
    even = simkit.simulate(Pair(), START, times, step=0.05).ys
    traced = jax.jit(lambda times: simkit.simulate(Pair(), START, times, step=simkit.Fixed(4)).ys)(times)
    np.testing.assert_allclose(even, traced, rtol=1e-13)
