"""Matrices by their entries, and many leaves handled as one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit.core import SparseMatrix, alike_together, entries_at, full_matrix


def test_entries_and_full_matrix_agree():
    rng = np.random.default_rng(0)
    whole = np.where(rng.uniform(size=(7, 7)) < 0.4, rng.standard_normal((7, 7)), 0.0)
    rows, columns = np.nonzero(whole.T)[::-1]  # in another order than row by row
    matrix = SparseMatrix(jnp.asarray(whole[rows, columns]), rows, columns, 7)
    np.testing.assert_array_equal(full_matrix(matrix), whole)
    np.testing.assert_array_equal(full_matrix(-matrix), -whole)
    np.testing.assert_array_equal(full_matrix(jnp.asarray(2.0) * matrix), 2 * whole)
    np.testing.assert_array_equal(full_matrix(matrix.padded(2)), np.pad(whole, (0, 2)))
    some = rng.integers(0, 7, (2, 12))
    np.testing.assert_array_equal(entries_at(matrix, *some), whole[tuple(some)])
    np.testing.assert_array_equal(entries_at(jnp.asarray(whole), *some), whole[tuple(some)])


def test_a_matrix_without_entries_is_zero():
    none = np.zeros(0, np.int64)
    np.testing.assert_array_equal(full_matrix(SparseMatrix(jnp.zeros(0), none, none, 3)), np.zeros((3, 3)))


@pytest.mark.parametrize("count", [3, 300])
def test_leaves_come_back_as_they_were(count):
    tree = {f"s{i}": jnp.full(2, float(i)) for i in range(count)} | {"n": jnp.arange(3), "m": jnp.ones((2, 2))}
    packed, unpacked = alike_together(tree)
    assert len(packed) == (3 if count > 200 else count + 2)
    jax.tree.map(np.testing.assert_array_equal, unpacked(packed), tree)


def many(t, y, p):
    return {name: -p["rate"] * x * x for name, x in y.items()}


def test_many_named_states_are_marked_like_one(monkeypatch):
    """Derivatives of a member that fails are NaN, of the others exact, where states are joined."""
    monkeypatch.setattr("simkit.core._guard.MANY", 5)
    system = simkit.from_function(many, {"rate": 1.0})
    y0 = {f"s{i}": jnp.asarray(1.0 + 0.01 * i) for i in range(10)}

    @jax.jit
    def last(rate):
        run = simkit.simulate(
            simkit.from_function(many, {"rate": rate}), y0, [0.0, 1.0], solver="tsit5", on_failure="mark"
        )
        return run.final()["s7"]

    plain = simkit.simulate(system, y0, [0.0, 1.0], solver="tsit5").final()
    assert last(1.0) == pytest.approx(float(plain["s7"]), rel=1e-5)
    assert jax.grad(last)(1.0) == pytest.approx(-((1.07 / 2.07) ** 2), rel=1e-4)
    assert np.isnan(jax.grad(last)(-3.0))  # the state is infinite before the end
