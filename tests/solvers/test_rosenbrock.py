"""Rodas5P: its coefficients, its linear algebra, and every transformation around it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from solvers.problems import ROBERTSON, Field, robertson

import simkit
from simkit import Adaptive, Fixed
from simkit.core import Setup
from simkit.engine import Method, integrate
from simkit.linear import back_substitute, factorise
from simkit.linear._dense import looped_inverse, unrolled_inverse
from simkit.solvers import Rodas5P
from simkit.solvers._rosenbrock import DENSE, GAMMA, NODES, TIME_WEIGHTS, A, C

STAGES = 8


def rooted_trees(order):
    """All rooted trees of an order, each the sorted tuple of its branches."""

    def forests(size):
        if size == 0:
            yield ()
        for first in range(1, size + 1):
            for tree in rooted_trees(first):
                yield from (tuple(sorted((tree, *rest))) for rest in forests(size - first))

    return sorted(set(forests(order - 1)))


def size(tree):
    return 1 + sum(map(size, tree))


def density(tree):
    return size(tree) * int(np.prod([density(branch) for branch in tree], dtype=int))


class Coefficients:
    """The method in the form of Hairer and Wanner II, section IV.7: alpha and Gamma with A = alpha Gamma^-1."""

    def __init__(self):
        square = lambda rows: np.array([[*row, *[0.0] * (STAGES - len(row))] for row in rows])
        self.transformed = square(A)
        self.gamma = np.linalg.inv(np.eye(STAGES) / GAMMA - square(C))
        self.alpha = self.transformed @ self.gamma
        self.embedded = self.transformed[7]
        self.main = self.embedded + np.eye(STAGES)[7]

    def weight(self, tree):
        """alpha below a vertex with several branches, alpha + Gamma below one with a single branch."""
        product = np.ones(STAGES)
        for branch in tree:
            product = product * ((self.alpha if len(tree) > 1 else self.alpha + self.gamma) @ self.weight(branch))
        return product

    def defect(self, weights, order, place=1.0):
        return max(abs(weights @ self.gamma @ self.weight(t) - place**order / density(t)) for t in rooted_trees(order))


def test_tree_counts():
    assert [len(rooted_trees(order)) for order in range(1, 7)] == [1, 1, 2, 4, 9, 20]


def test_order_conditions():
    """Each bound is sharp: met to round-off at the order claimed, missed by far at the next."""
    method = Coefficients()
    round_off = 1e-12  # sums of eight products of coefficients up to 150
    assert all(method.defect(method.main, order) < round_off for order in range(1, 6))
    assert method.defect(method.main, 6) > 1e-4
    assert all(method.defect(method.embedded, order) < round_off for order in range(1, 5))
    assert method.defect(method.embedded, 5) > 1e-4
    np.testing.assert_allclose(method.alpha.sum(1), NODES, atol=round_off)
    np.testing.assert_allclose(method.gamma.sum(1), TIME_WEIGHTS, atol=round_off)
    # Stiffly accurate: the last stage is the result, so that R(infinity) = 0.
    np.testing.assert_allclose((method.alpha + method.gamma)[7], method.main @ method.gamma, atol=round_off)


@pytest.mark.parametrize("place", [0.1, 0.37, 0.5, 0.9])
def test_dense_output_has_order_four_everywhere(place):
    method = Coefficients()
    dense = place * (method.main + (1 - place) * np.array([1.0, place, place**2]) @ np.array(DENSE))
    assert all(method.defect(dense, order, place) < 1e-12 for order in range(1, 5))


@pytest.mark.parametrize("n", [1, 3, 4, 8, 12, 20])
def test_linear_algebra(n):
    rng = np.random.default_rng(n)
    w, b = jnp.asarray(rng.normal(size=(n, n))), jnp.asarray(rng.normal(size=n))
    w = w.at[0, 0].set(0.0) if n > 1 else w  # needs pivoting
    factors = factorise(w)
    # The round-off of elimination: eps times the condition number, below 1e4 for these matrices.
    np.testing.assert_allclose(w @ back_substitute(factors, b), b, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(w.T @ back_substitute(factors, b, transpose=True), b, rtol=1e-9, atol=1e-10)
    if n <= 8:
        np.testing.assert_allclose(looped_inverse(w), np.linalg.inv(w), rtol=1e-8, atol=1e-9)
    if n <= 4:
        np.testing.assert_allclose(unrolled_inverse(w), np.linalg.inv(w), rtol=1e-8, atol=1e-9)


def test_a_batch_of_matrices_is_solved_like_each_of_them():
    """One matrix goes to LAPACK, a batch, also of batches, to code of our own."""
    w = jnp.asarray(np.random.default_rng(0).normal(size=(2, 3, 8, 8)))
    expected = np.linalg.inv(w)
    np.testing.assert_allclose(jax.vmap(jax.vmap(factorise))(w), expected, rtol=1e-8, atol=1e-9)  # as above
    np.testing.assert_allclose(jax.jit(jax.vmap(factorise))(w[0]), expected[0], rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(factorise(w[0, 0]), expected[0, 0], rtol=1e-8, atol=1e-9)


TIMES = (0.0, 1.0, 10.0, 40.0)


def last(k, step=None):
    # Written with `integrate`, the pure core, since transformations surround it.
    step = Adaptive(1e-8, 1e-12, max_steps=512) if step is None else step
    setup = Setup(Field(k, robertson), jnp.asarray([1.0, 0.0, 0.0], k.dtype))
    return integrate(setup, jnp.asarray(TIMES, k.dtype), Method(Rodas5P(), step)).ys[-1]


@pytest.mark.slow
def test_tangents_agree_with_reverse_mode_and_differences():
    k = jnp.asarray(ROBERTSON)
    forward = np.asarray(jax.jit(jax.jacfwd(last))(k))
    reverse = np.asarray(jax.jit(jax.jacrev(last))(k))
    # Rows nearly cancel (mass is conserved): round-off against the largest entry of each column.
    scale = np.abs(forward).max(0)
    np.testing.assert_allclose(forward / scale, reverse / scale, atol=1e-9)
    run = jax.jit(last)
    numeric = np.stack(
        [(run(k.at[i].multiply(1.001)) - run(k.at[i].multiply(0.999))) / (0.002 * k[i]) for i in range(3)], 1
    )
    # (1e-3)^2 of curvature and 1e-8 of tolerance over 2e-3.
    np.testing.assert_allclose(numeric / scale, forward / scale, atol=3e-5)


@pytest.mark.slow
def test_batches_and_shards():
    """Values and tangents, alone, under vmap and inside shard_map over two devices."""
    many = jnp.asarray(np.array(ROBERTSON) * np.array([[0.7], [1.0], [1.3], [1.1]]))
    push = lambda k: jax.jvp(last, (k,), (k,))
    loop = [jax.jit(push)(k) for k in many]
    batched = jax.vmap(push)
    mesh = jax.make_mesh((2,), ("lane",), axis_types=(jax.sharding.AxisType.Auto,))
    spread = jax.shard_map(batched, mesh=mesh, in_specs=jax.P("lane"), out_specs=jax.P("lane"), check_vma=False)
    for found in (jax.jit(batched)(many), jax.jit(spread)(many)):
        for values, expected in zip(found, zip(*loop, strict=True), strict=True):
            # The same arithmetic in another fusion; a step accepted at 1e-8 may change by its round-off only.
            np.testing.assert_allclose(values, np.stack(expected), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("n", [3, 10])
def test_second_derivatives(n):
    """Both ways of pushing tangents through a solve (a matrix, or products from nine states on) differentiate twice."""
    speed = jnp.arange(1.0, n + 1)
    rates = lambda t, y, k: -k[0] * speed * y * y

    def end(k):
        setup = Setup(Field(k[None], rates), jnp.ones(n))
        return integrate(setup, jnp.asarray([0.0, 1.0]), Method(Rodas5P(), Fixed(20))).ys[-1].sum()

    second = jax.jit(jax.jacfwd(jax.jacfwd(end)))(jnp.asarray(0.8))
    rate = np.arange(1, n + 1)
    # y = 1 / (1 + k r t), so its second derivative by k is 2 r^2 / (1 + k r)^3; h = 0.05 at order 5 leaves 1e-5 for the fastest.
    np.testing.assert_allclose(second, np.sum(2 * rate**2 / (1 + 0.8 * rate) ** 3), rtol=1e-4)


def test_stages_in_a_loop_are_the_stages_written_out():
    # A field that depends on time: every stage has a time of its own.
    def ends(rate, solver):
        driven = Field(rate[None], lambda t, y, k: jnp.stack([k[0] * (jnp.sin(t) - y[0]) * y[1], -(y[1] ** 2)]))
        setup = Setup(driven, jnp.array([1.0, 2.0]))
        return integrate(setup, jnp.array([0.0, 0.5, 3.0]), Method(solver, Adaptive(1e-6, 1e-9))).ys

    both = [
        jax.jit(lambda rate, solver=solver: (ends(rate, solver), jax.jacfwd(ends)(rate, solver)))(jnp.array(30.0))
        for solver in (Rodas5P(), Rodas5P(compact=True))
    ]
    # The same sums in another order, after some hundred steps.
    for written, looped in zip(*both, strict=True):
        np.testing.assert_allclose(looped, written, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("rate", [1e3, 1e7])
def test_states_between_long_steps_of_a_stiff_relaxation(rate):
    """x' = -k (x - cos t): the ends of steps are right whatever their length, and so must be what lies between.

    In the stiff limit neither the step nor its error estimate sees the curve between the ends. Prothero and Robinson (1974).
    """
    system = simkit.odes.from_function(lambda t, y, p: -p["rate"] * (y - jnp.cos(t)), {"rate": rate})
    times = np.concatenate([[0.0], np.linspace(1.0, 30.0, 59)])
    exact = (rate**2 * np.cos(times) + rate * np.sin(times)) / (rate**2 + 1)
    for tolerance in (1e-3, 1e-6):
        found = simkit.simulate(
            system, jnp.asarray(exact[0]), times, solver=Rodas5P(), step=simkit.Adaptive(tolerance, tolerance)
        )
        # The estimate is taken in the middle of a step; elsewhere the error is larger, and errors of steps add up.
        np.testing.assert_allclose(found.ys, exact, atol=20 * tolerance)
