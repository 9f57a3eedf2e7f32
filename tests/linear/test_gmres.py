"""GMRES, alone and in batches, and block Jacobi, against NumPy's solutions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from simkit.linear import BlockJacobi, Pattern, gmres

SIZE = 60
MATRIX = 3 * np.eye(SIZE) + np.random.default_rng(0).normal(size=(SIZE, SIZE)) / 4
RIGHT = np.random.default_rng(1).normal(size=SIZE)


def solved(b, *, vectors=25, rounds=20, tolerance=1e-10):
    """The solution with a matrix of the type of b, with its diagonal as a preconditioner."""
    matrix = jnp.asarray(MATRIX, b.dtype)
    inverse = 1 / jnp.diagonal(matrix)
    return gmres(lambda v: matrix @ v, b, lambda v: inverse * v, tolerance, vectors=vectors, rounds=rounds)


@pytest.mark.parametrize(("dtype", "tolerance"), [(jnp.float64, 1e-10), (jnp.float32, 1e-5)])
def test_gmres_solves_to_its_tolerance(dtype, tolerance):
    x, found = jax.jit(lambda b: solved(b, tolerance=tolerance))(jnp.asarray(RIGHT, dtype))
    assert found
    assert x.dtype == dtype
    # The residual bounds the error by the norm of the inverse, 1.2 here.
    assert np.linalg.norm(np.asarray(x, float) - np.linalg.solve(MATRIX, RIGHT)) < 5 * tolerance


def test_members_of_a_batch_end_each_for_itself():
    """One with a right side of 0 takes no turn; one with a size of 1e-9 meets the tolerance from the start."""
    members = jnp.stack([jnp.asarray(RIGHT), jnp.zeros(SIZE), 1e-12 * jnp.asarray(RIGHT)])
    x, found = jax.jit(jax.vmap(solved))(members)
    assert found.all()
    np.testing.assert_allclose(x[0], np.linalg.solve(MATRIX, RIGHT), rtol=1e-8)
    np.testing.assert_array_equal(x[1:], 0)


def test_a_space_that_is_too_small_says_so():
    _, found = jax.jit(lambda b: solved(b, vectors=2, rounds=2))(jnp.asarray(RIGHT))
    assert not found


def test_an_exact_solution_in_a_small_space_ends_it():
    """A matrix with two eigenvalues: the space is invariant after two vectors (happy breakdown)."""
    diagonal = jnp.where(jnp.arange(SIZE) < 20, 2.0, 5.0)
    x, _ = jax.jit(lambda b: gmres(lambda v: diagonal * v, b, lambda v: v, 0.0, vectors=10, rounds=3))(
        jnp.asarray(RIGHT)
    )
    np.testing.assert_allclose(x, RIGHT / diagonal, rtol=1e-13)


@pytest.mark.parametrize("transpose", [False, True])
def test_block_jacobi_solves_the_blocks_on_the_diagonal(transpose):
    """Of a matrix with places beside the blocks, which must not enter them: two groups, of two states and of one."""
    rng = np.random.default_rng(2)
    count, alone = 7, 3
    size = 2 * count + alone
    jacobian = np.where(rng.random((size, size)) < 0.4, rng.normal(size=(size, size)), 0)
    np.fill_diagonal(jacobian, 0.1)
    pattern = Pattern.of(*np.nonzero(jacobian), size)
    structure = BlockJacobi(pattern, [(2, count), (1, alone)])
    b = rng.normal(size=size)
    mass = np.where(np.arange(size) % 3 == 0, 0.0, 1.0)
    blocks = np.zeros((size, size), bool)
    for i in range(count):
        blocks[np.ix_([i, count + i], [i, count + i])] = True
    blocks |= np.eye(size, dtype=bool)
    for m in (None, mass):
        full = np.where(blocks, np.diag(np.ones(size) if m is None else m) - 0.3 * jacobian, 0)
        given = None if m is None else jnp.asarray(m)
        w = structure.shifted(lambda v: jnp.asarray(jacobian) @ v, 0.3, jnp.asarray(b), given)
        found = structure.solve(structure.factors(w), jnp.asarray(b), transpose)
        np.testing.assert_allclose(found, np.linalg.solve(full.T if transpose else full, b), rtol=1e-10)
    assert structure.described().endswith("GMRES preconditioned by 7 blocks of 2 and 3 blocks of 1 states")
