"""The choice of a solver for systems of hundreds of states and more, by their sparse Jacobians."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from solvers.problems import Field

from simkit.linear import Pattern
from simkit.solvers import BDF, Rodas5P, Tsit5, choose
from simkit.solvers._sparse_probe import SparseAlgebra, krylov_rates


def picked(rates, start, end, **values):
    return choose(Field(jnp.asarray([1.0]), rates), start, [0.0, end], **values)


def beside(y):
    """The second difference of a row that is zero at both ends."""
    zero = jnp.zeros(1, y.dtype)
    return jnp.concatenate([y[1:], zero]) - 2 * y + jnp.concatenate([zero, y[:-1]])


def heat(t, y, k):
    return k[0] * (y.size + 1) ** 2 * beside(y)


def swinging(t, y, k):
    """Oscillators of their own frequencies, 1 to 10, which are not linear."""
    position, speed = jnp.split(y, 2)
    return jnp.concatenate([speed, -(jnp.linspace(1.0, 10.0, speed.size) ** 2) * position - 0.1 * position**3])


@pytest.mark.parametrize("points", [300, 1000])
def test_a_heat_equation_is_stiff(points):
    along = jnp.arange(1, points + 1) / (points + 1)
    solver, reason = picked(heat, jnp.sin(jnp.pi * along) + 0.3 * jnp.sin(9 * jnp.pi * along), 0.1)
    assert isinstance(solver, Rodas5P)
    assert reason.startswith("stiff: stability would cost an explicit method some ")
    # The fastest of the rates is 4 n^2, and 3.3 of a rate are one explicit step.
    steps = float(reason.split("some ")[1].split(" steps")[0])
    assert steps == pytest.approx(0.1 * 4 * points**2 / 3.3, rel=0.15)  # of 20 Arnoldi vectors; 0.01 was seen


@pytest.mark.parametrize("end", [10.0, 1000.0])
def test_oscillators_are_not(end):
    solver, reason = picked(swinging, jnp.ones(2000), end)
    assert isinstance(solver, Tsit5)
    assert reason.startswith("not stiff: ")


def test_what_becomes_stiff_on_the_way_is_seen():
    """Nothing couples the states before t = 1: neither the pattern nor the rates of the start tell of it."""
    later = lambda t, y, k: jnp.where(t < 1.0, -y, heat(t, y, k))
    assert isinstance(picked(later, jnp.ones(400), 3.0).solver, Rodas5P)
    assert isinstance(picked(lambda t, y, k: -y, jnp.ones(400), 3.0).solver, Tsit5)


def grid(spread, side=48):
    """Two fields on a square, a Brusselator; its band is too wide for a walk."""

    def rates(t, y, k):
        u, v = y.reshape(2, side, side)
        around = lambda a: sum(jnp.roll(a, shift, axis) for shift in (1, -1) for axis in (0, 1)) - 4 * a
        made = 1 + u * u * v - 4.4 * u + spread * around(u), 3.4 * u - u * u * v + spread * around(v)
        return jnp.stack(made).ravel()

    return rates, jnp.asarray(np.random.default_rng(0).uniform(0.5, 3.0, 2 * side * side))


@pytest.mark.parametrize(("spread", "end", "kind"), [(1.0, 10.0, Tsit5), (1e4, 1e3, BDF)])
def test_grids_in_two_dimensions_are_judged_by_their_start(spread, end, kind):
    rates, start = grid(spread, 80)
    solver, reason = picked(rates, start, end)
    assert isinstance(solver, kind)
    assert "stiff at its start, all that was looked at" in reason


def test_an_implicit_step_of_a_wide_band_costs_many_explicit_ones():
    chain = SparseAlgebra(Pattern.of(np.arange(999), np.arange(1, 1000), 1000))
    side = np.arange(6400).reshape(80, 80)
    pairs = np.concatenate(
        [np.stack([side[1:], side[:-1]]).reshape(2, -1), np.stack([side[:, 1:], side[:, :-1]]).reshape(2, -1)], 1
    )
    square = SparseAlgebra(Pattern.of(np.concatenate([pairs[0], pairs[1]]), np.concatenate([pairs[1], pairs[0]]), 6400))
    assert chain.direct
    assert chain.factorised
    assert not square.factorised
    assert chain.ratio < square.ratio
    assert square.budget <= chain.budget <= 150


@pytest.mark.parametrize(("count", "kind"), [(300, Rodas5P), (600, BDF)])
def test_many_states_that_all_see_each_other_are_judged_by_their_start(count, kind):
    """They were not looked at: each call used up the steps of `Tsit5` first, and inside `jit` the result was NaN."""
    pulled = lambda t, y, k: -1e5 * (y - jnp.mean(y)) - y
    solver, reason = picked(pulled, jnp.linspace(0.5, 1.5, count), 10.0)
    assert isinstance(solver, kind)
    assert "stiff at its start, all that was looked at" in reason
    assert isinstance(picked(lambda t, y, k: -y * jnp.sum(y), jnp.ones(count), 1.0).solver, Tsit5)


def test_few_vectors_give_the_fastest_rates():
    size = 500
    matrix = np.diag(np.full(size, -2.0)) + np.diag(np.ones(size - 1), 1) + np.diag(np.ones(size - 1), -1)
    assert -np.min(krylov_rates(lambda v: matrix @ v, size).real) == pytest.approx(4.0, rel=0.03)  # 0.003 was seen
    # Four different rates span a space of four vectors.
    rates = np.repeat([-1.0, -2.0, -5.0, -100.0], 100)
    found = krylov_rates(lambda v: rates * v, 400).real
    np.testing.assert_allclose([found.min(), found.max()], [-100, -1], rtol=1e-6)
    assert len(found) < 15


def test_complex_and_broken_fields_fall_back_to_tsit5():
    for start in (jnp.ones(300, complex), jnp.full(300, jnp.nan)):
        solver, reason = picked(heat, start, 1.0)
        assert isinstance(solver, Tsit5)
        assert reason


def test_a_repeated_question_is_answered_from_memory():
    calls = []

    def counted(t, y, k):
        jax.debug.callback(lambda: calls.append(1))
        return heat(t, y, k)

    first = picked(counted, jnp.ones(250), 0.2)
    jax.effects_barrier()
    asked = len(calls)
    second = picked(counted, jnp.ones(250), 0.2)
    jax.effects_barrier()
    assert 0 < asked == len(calls)
    assert first.reason == second.reason
