"""Decompositions alone, in batches and differentiated, beside NumPy's; none is a batched call of LAPACK on CPUs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from simkit import linear

RNG = np.random.default_rng(0)


def matrices(n, *, positive=False, dtype=float):
    a = RNG.normal(size=(2, 3, n, n))
    a = a @ a.swapaxes(-1, -2) + n * np.eye(n) if positive else a + n**0.5 * np.eye(n)
    return jnp.asarray(a, dtype)


@pytest.mark.parametrize(("n", "dtype"), [(3, np.float64), (8, np.float32), (14, np.float64)])
def test_solutions_and_inverses(n, dtype):
    """Up to 4 rows scalars, up to 12 loops, beyond LAPACK; in batches of batches."""
    a, b = matrices(n, dtype=dtype), jnp.asarray(RNG.normal(size=(2, 3, n)), dtype)
    twice = lambda f: jax.jit(jax.vmap(jax.vmap(f)))
    tolerance = 1e4 * np.finfo(dtype).eps  # eps times the condition number, some hundreds here
    expected = np.linalg.solve(np.asarray(a, float), np.asarray(b, float)[..., None])[..., 0]
    np.testing.assert_allclose(twice(linear.solve)(a, b), expected, atol=tolerance)
    np.testing.assert_allclose(linear.solve(a[0, 0], b[0, 0]), expected[0, 0], atol=tolerance)
    np.testing.assert_allclose(twice(linear.inverse)(a), np.linalg.inv(np.asarray(a, float)), atol=tolerance)
    expected = np.linalg.slogdet(np.asarray(a, float))[1]
    np.testing.assert_allclose(twice(linear.log_determinant)(a), expected, atol=tolerance)


def test_decompositions():
    a, tall = matrices(7, positive=True), jnp.asarray(RNG.normal(size=(2, 3, 9, 4)))
    twice = lambda f: jax.jit(jax.vmap(jax.vmap(f)))
    lower = twice(linear.cholesky)(a)
    np.testing.assert_allclose(lower @ lower.swapaxes(-1, -2), a, atol=1e-12)  # rounding of numbers up to 30
    r = twice(linear.triangle)(tall)
    np.testing.assert_allclose(r.swapaxes(-1, -2) @ r, tall.swapaxes(-1, -2) @ tall, atol=1e-12)
    left, values, basis = twice(linear.singular_values)(tall)
    np.testing.assert_allclose((left * values[..., None, :]) @ basis, tall, atol=1e-12)
    values, vectors = twice(linear.eigenvalues)(a)
    np.testing.assert_allclose((vectors * values[..., None, :]) @ vectors.swapaxes(-1, -2), a, atol=1e-12)


@pytest.mark.parametrize("n", [3, 14])
def test_derivatives_of_both_orders_in_both_modes(n):
    a, b = matrices(n, positive=True)[0, 0], jnp.asarray(RNG.normal(size=n))
    turn = jnp.asarray(RNG.normal(size=(n, n)))

    def ours(s):
        return jnp.sum(linear.solve(a + s * turn, b) ** 2) + linear.log_determinant(a + s * turn)

    def theirs(s):
        return jnp.sum(jnp.linalg.solve(a + s * turn, b) ** 2) + jnp.linalg.slogdet(a + s * turn)[1]

    # Rounding, through second derivatives of numbers of order 10.
    expected = jax.jacfwd(jax.jacfwd(theirs))(0.1)
    for derivative in (jax.jacfwd(jax.jacfwd(ours)), jax.jacfwd(jax.grad(ours)), jax.grad(jax.grad(ours))):
        np.testing.assert_allclose(jax.jit(derivative)(0.1), expected, rtol=1e-9)
    np.testing.assert_allclose(jax.vmap(jax.grad(ours))(jnp.array([0.1]))[0], jax.grad(theirs)(0.1), rtol=1e-10)


def test_a_held_solver_is_linear_in_both_modes():
    a, b = matrices(14)[0, 0], jnp.asarray(RNG.normal(size=14))
    f = lambda b: linear.held_solver(a)(b)
    expected = np.linalg.inv(a)
    np.testing.assert_allclose(jax.jit(jax.jacfwd(f))(b), expected, atol=1e-12)
    np.testing.assert_allclose(jax.jit(jax.jacrev(f))(b), expected, atol=1e-12)


def test_factors_that_all_share_take_right_sides_as_columns():
    a, b = matrices(14)[0, 0], jnp.asarray(RNG.normal(size=(5, 14)))
    factors = linear.factorise(a)
    program = jax.jit(jax.vmap(lambda b: linear.back_substitute(factors, b)))
    np.testing.assert_allclose(program(b), np.linalg.solve(a, b.T).T, atol=1e-12)
    assert "while" not in program.lower(b).as_text()  # one call for all of them, no loop


def test_openblas_keeps_to_its_thread():
    """SciPy's wheels carry OpenBLAS; with another LAPACK there is nothing to limit."""
    if linear.one_thread():
        import ctypes

        import scipy.linalg.cython_lapack as lapack

        library = ctypes.CDLL(lapack.__file__)
        names = ("scipy_openblas_get_num_threads", "scipy_openblas_get_num_threads64_", "openblas_get_num_threads")
        assert next(f() for name in names if (f := getattr(library, name, None))) == 1
