"""The deterministic steppers: order, dense output, float types, derivatives, batches."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tree_allclose
from solvers.problems import Curved, Field, Halves, Swing, lotka_volterra

import simkit
from simkit import Adaptive, Fixed
from simkit.core import SystemTerm
from simkit.odes import from_function
from simkit.solvers import RK4, Dopri8, Euler, Heun, Rodas5P, Stepper, Tsit5, VelocityVerlet
from simkit.testing import order_of_convergence

TIMES = (0.0, 0.5, 1.0)
# Substeps at which the error is small against the solution and, but for the method of order 8, far from round-off.
ORDERS = [
    (Euler(), 1, 1.0, (64, 128, 256)),
    (Heun(), 2, 1.0, (16, 32, 64)),
    (RK4(), 4, 1.0, (8, 16, 32)),
    (Tsit5(), 5, 1.0, (4, 8, 16, 32, 64)),  # its leading error is so small that the slope swings between 6 and 4
    (Dopri8(), 8, 1.5, (6, 8, 12)),
    (Rodas5P(), 5, 1.0, (8, 16, 32)),
]
EXPLICIT = [solver for solver, *_ in ORDERS]
ADAPTIVE = [solver for solver in EXPLICIT if solver.adaptive]


def label(value):
    return type(value).__name__ if isinstance(value, Stepper) else None


@pytest.mark.parametrize(("solver", "order", "end", "substeps"), ORDERS, ids=label)
def test_measured_order(solver, order, end, substeps):
    times = (0.0, end / 2, end)
    measured = order_of_convergence(solver, Curved(), Curved.start(), times, exact=Curved.exact, substeps=substeps)
    # At these step lengths the slope lies within 0.35 of the order; a wrong coefficient costs a whole order or more.
    assert abs(measured - order) < 0.35


def test_measured_order_of_verlet():
    measured = order_of_convergence(VelocityVerlet(), Swing(), Swing.start(), (0.0, 1.0, 3.0), substeps=(16, 32, 64))
    assert 1.9 < measured < 2.1  # errors in h^2 and h^4 only, so the slope is clean


# The interpolant's global order: the smaller of the method's and one more than the degree it follows exactly in a step.
DENSE = [(Euler(), 1, 32), (Heun(), 2, 16), (RK4(), 4, 32), (Tsit5(), 5, 16), (Dopri8(), 6, 4), (Rodas5P(), 5, 16)]


def dense_output(solver, system, start, end, steps, times):
    """The states at `times`, each from the polynomial of its step, of equal steps from 0 to `end`."""
    term, h = SystemTerm(system, None), end / steps

    @jax.jit
    def solve(y, times):
        def one(carry, i):
            y, memory = carry
            step = solver.advance(term, i * h, (i + 1) * h, jnp.asarray(h), y, memory)
            return (step.state, step.memory), (y, solver.polynomial(step.dense))

        _, (starts, increments) = jax.lax.scan(one, (y, solver.init(term, 0.0, y)), jnp.arange(float(steps)))
        row = jnp.minimum((times / h).astype(int), steps - 1)
        theta = times / h - row.astype(times.dtype)
        one_time = lambda y, theta, *qs: y + sum(theta ** (j + 1) * q for j, q in enumerate(qs))
        return jax.tree.map(
            lambda y, *qs: jax.vmap(one_time)(y[row], theta, *(q[row] for q in qs)), starts, *increments
        )

    return solve(start, times)


@pytest.mark.parametrize(("solver", "order", "steps"), DENSE, ids=label)
def test_dense_output_order(solver, order, steps):
    # Seven places inside each of the coarsest steps, so that every refinement is looked at between its own steps too.
    times = jnp.linspace(0.0, 1.0, 7 * steps + 1)

    exact, errors = Curved.exact(np.asarray(times)), []
    for factor in (1, 2, 4):
        found = dense_output(solver, Curved(), Curved.start(), 1.0, steps * factor, times)
        errors.append(
            max(np.max(np.abs(a - b)) for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(exact), strict=True))
        )
    slopes = np.log2(np.array(errors[:-1]) / errors[1:])
    assert slopes.mean() > order - 0.4


def test_dense_output_of_verlet():
    """Between its steps the Hermite polynomial must not be worse than the method at them."""
    times = jnp.linspace(0.0, 3.0, 101)
    truth = simkit.simulate(Swing(), Swing.start(), times, solver=Dopri8(), step=Adaptive(1e-12, 1e-12)).ys

    def error(steps):
        found = dense_output(VelocityVerlet(), Swing(), Swing.start(), 3.0, steps, times)
        return max(np.max(np.abs(a - b)) for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(truth), strict=True))

    assert 1.85 < np.log2(error(32) / error(64)) < 2.15


@pytest.mark.parametrize("solver", ADAPTIVE, ids=label)
def test_adaptive_accuracy_at_save_times(solver):
    times = jnp.linspace(0.0, 1.0, 23)
    tolerance = 1e-4 if isinstance(solver, Heun) else 1e-7
    result = simkit.simulate(Curved(), Curved.start(), times, solver=solver, step=Adaptive(tolerance, tolerance))
    # Error grows along the solution by its sensitivity (components reach 70): 100 tolerances relative.
    assert tree_allclose(result.ys, Curved.exact(np.asarray(times)), rtol=100 * tolerance)


@pytest.mark.parametrize("solver", [*EXPLICIT, VelocityVerlet()], ids=label)
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64], ids=["float32", "float64"])
def test_float_types(solver, dtype):
    system, start = (
        (Swing(), Swing.start(dtype)) if isinstance(solver, VelocityVerlet) else (Curved(), Curved.start(dtype))
    )
    system = simkit.cast(system, dtype)
    rough = isinstance(solver, Euler | Heun | VelocityVerlet)
    result = simkit.simulate(system, start, jnp.asarray(TIMES, dtype), solver=solver, step=Fixed(128))
    assert all(leaf.dtype == dtype for leaf in jax.tree.leaves(result.ys))
    if isinstance(solver, VelocityVerlet):
        exact = simkit.simulate(Swing(), Swing.start(), jnp.asarray(TIMES), solver=Dopri8(), step=Fixed(32)).ys
    else:
        exact = Curved.exact(np.asarray(TIMES))
    # 256 steps: some 256 roundings of 6e-8 in float32; Euler is off by its own first-order error of 4 per cent at the end.
    tolerance = 0.2 if isinstance(solver, Euler) else 5e-3 if rough else 1e-4 if dtype == jnp.float32 else 1e-7
    assert tree_allclose(result.ys, exact, rtol=tolerance, atol=tolerance)


def final_sum(solver, step):
    def value(rate):
        if isinstance(solver, VelocityVerlet):
            system, start = Swing(rate), Swing.start()
        else:
            system, start = Field(jnp.stack([rate, *RATES]), lotka_volterra), jnp.asarray([1.0, 0.5])
        result = simkit.simulate(system, start, jnp.asarray((0.0, 0.3, 0.6)), solver=solver, step=step)
        return sum(jnp.sum(leaf * leaf) for leaf in jax.tree.leaves(result.ys))

    return value


RATES = jnp.asarray([0.9, 0.8, 1.2])
CASES = [(solver, Fixed(4)) for solver in [*EXPLICIT, VelocityVerlet()]] + [(Rodas5P(), Adaptive(1e-9, 1e-9))]


@pytest.mark.parametrize(("solver", "step"), CASES, ids=lambda v: type(v).__name__)
def test_gradients_agree(solver, step):
    value = final_sum(solver, step)
    rate, width = jnp.asarray(1.1), 1e-4
    _, reverse = jax.jit(jax.value_and_grad(value))(rate)
    # One program gives the tangent and the values beside it.
    push = jax.jit(lambda rate: jax.jvp(final_sum(solver, step), (rate,), (jnp.ones(()),)))
    forward = push(rate)[1]
    numeric = (push(rate + width)[0] - push(rate - width)[0]) / (2 * width)
    np.testing.assert_allclose(reverse, forward, rtol=1e-11)  # the same discrete map, summed in another order
    # Central differences: h^2 f'''/6 is 1e-7 relative, round-off 1e-12; an adaptive solve adds the change of its steps,
    # 1e-9 of tolerance over 2e-4.
    np.testing.assert_allclose(forward, numeric, rtol=1e-6 if isinstance(step, Fixed) else 1e-4)


@pytest.mark.parametrize("solver", [Tsit5(), Rodas5P()], ids=label)
def test_vmap_equals_loop(solver):
    run = jax.jit(final_sum(solver, Adaptive(1e-7, 1e-7)))
    rates = jnp.asarray([0.7, 1.0, 1.2])
    np.testing.assert_allclose(jax.jit(jax.vmap(run))(rates), [run(rate) for rate in rates], rtol=1e-12)


def test_large_states_take_barriers_and_agree():
    """Beyond the size at which barriers set in the numbers must not change."""

    @jax.jit
    def solve(start):
        return simkit.simulate(Curved(), start, jnp.asarray(TIMES), solver=Tsit5(), step=Fixed(16)).ys

    small = solve(Curved.start())
    many = solve(Halves(jnp.ones((2, 50)), jnp.ones((2, 50))))
    assert many.a.shape == (3, 2, 50)
    # The same operations in another fusion: round-off alone.
    assert tree_allclose(jax.tree.map(lambda leaf: leaf[:, :, 7], many), small, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("solver", [Tsit5(), RK4()], ids=["Tsit5", "RK4"])
def test_gradients_of_large_states_in_both_modes(solver):
    """What keeps the stages of a large state apart must differentiate, batch, and take a time that is not a number."""
    coupled = lambda t, y, p: p["k"] * (jnp.roll(y, 1) - 2 * y + jnp.roll(y, -1))
    start = jnp.asarray(np.cos(2 * np.pi * np.arange(100) / 100))
    rate = 4 * np.sin(np.pi / 100) ** 2  # a cosine is an eigenvector of the second difference

    def first(k, end=5.0):
        system = from_function(coupled, {"k": k})
        return simkit.simulate(
            system, start, jnp.stack([0.0, end]), solver=solver, step=Fixed(20), on_failure="mark"
        ).ys[-1, 0]

    exact = lambda k: np.exp(-5 * rate * k)
    k = jnp.asarray(0.8)
    # The mode decays by a thousandth a step, so that a method of order 4 is exact to round-off.
    np.testing.assert_allclose(first(k), exact(0.8), rtol=1e-12)
    np.testing.assert_allclose(jax.jit(jax.grad(first))(k), -5 * rate * exact(0.8), rtol=1e-10)
    np.testing.assert_allclose(
        jax.jit(jax.jvp, static_argnums=0)(first, (k,), (1.0,))[1], -5 * rate * exact(0.8), rtol=1e-10
    )
    np.testing.assert_allclose(jax.vmap(first)(jnp.array([0.8, 0.4])), [exact(0.8), exact(0.4)], rtol=1e-12)
    assert jnp.isnan(jax.jit(first)(k, jnp.nan))


def test_order_needs_errors_above_round_off():
    with pytest.raises(simkit.ArgumentError, match="round-off"):
        order_of_convergence(Dopri8(), Curved(), Curved.start(), TIMES, exact=Curved.exact, substeps=(64, 128))
    with pytest.raises(simkit.ArgumentError, match="two or more"):
        order_of_convergence(RK4(), Curved(), Curved.start(), TIMES, substeps=(8, 8))
