"""Solves by structure against NumPy's dense ones, and solutions of systems of which the answer is known otherwise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.integrate import solve_ivp
from scipy.sparse import csgraph

import simkit
from simkit import odes
from simkit.linear import Pattern, structure_of
from simkit.linear._band import Band
from simkit.linear._chosen import chosen, half_width
from simkit.linear._dependence import jacobian_pattern
from simkit.solvers import JacobianPattern

RNG = np.random.default_rng(1)


def robertson(count):
    def field(y):
        a, b, c = y.reshape(3, count)
        slow, fast, back = 0.04 * a, 3e7 * b**2, 1e4 * b * c
        return jnp.concatenate([back - slow, slow - back - fast, fast])

    return field


def of_each(count):
    """The same, the species of a copy side by side."""
    return lambda y: robertson(count)(y.reshape(count, 3).T.ravel()).reshape(3, count).T.ravel()


def mixed(y):
    a, b, c = y[:12].reshape(4, 3), y[12:24].reshape(2, 6), y[24:]
    return jnp.concatenate(
        [(jnp.sin(a.sum(1, keepdims=True)) * a).ravel(), (b * (b**2).sum(1, keepdims=True)).ravel(), jnp.cos(c)]
    )


def twenties(y):
    y = y.reshape(-1, 20)
    return (jnp.sin(y).sum(1, keepdims=True) * y).ravel()


def star(y):
    """A hub that meets all others, in both directions."""
    rate = y[0] * y[1:] * jnp.asarray(np.arange(1, y.size) / y.size)
    return jnp.concatenate([-rate.sum(keepdims=True), rate - 0.3 * y[1:] * jnp.roll(y[1:], 1)])


def chain(y):
    wide = jnp.pad(y, 2)
    return 0.3 * wide[4:] - 2 * y + 0.7 * wide[:-4] + jnp.sin(wide[1:-3] * y)


SHUFFLE = RNG.permutation(60)
LONG = RNG.permutation(240)
ONES, TWOS = (jnp.asarray(RNG.integers(0, 300, 300)) for _ in range(2))


def network(y):
    """Reactions of random pairs, one a state."""
    rate = y[ONES] * y[TWOS]
    return jnp.zeros_like(y).at[ONES].add(-rate).at[TWOS].add(-rate).at[jnp.roll(ONES, 1)].add(rate)


CASES = {
    "blocks in order": (robertson(20), 60, "blocks"),
    "blocks one by one": (of_each(20), 60, "blocks"),
    "blocks shuffled": (lambda y: robertson(20)(y[SHUFFLE])[np.argsort(SHUFFLE)], 60, "blocks"),
    "many blocks": (robertson(2100), 6300, "blocks"),
    "blocks of several sizes": (mixed, 40, "blocks"),
    "large blocks": (twenties, 100, "blocks"),
    "band": (chain, 241, "band"),
    "band shuffled": (lambda y: chain(y[LONG])[np.argsort(LONG)], 240, "band"),
    "short band": (chain, 61, "dense"),
    "long chain": (chain, 301, "elimination"),
    "star": (star, 200, "elimination"),
    "network": (network, 300, "elimination"),
    "network and full rows": (lambda y: network(y) + jnp.zeros_like(y).at[:3].set(y.sum() ** 2), 300, "elimination"),
    "full": (lambda y: y * y.sum(), 20, "dense"),
    "sparse": (lambda y: y[SHUFFLE] * y[SHUFFLE[::-1]] * y + y[0], 60, "dense"),
}


def narrow(function, y):
    """The band of a function's Jacobian, which is chosen where it is wide alone."""
    pattern = jacobian_pattern(function, y)
    order = csgraph.reverse_cuthill_mckee(sp.csr_array(pattern.matrix()), symmetric_mode=True)
    return Band(pattern, order, half_width(pattern, order))


@pytest.mark.parametrize("name", CASES)
def test_solutions_are_those_of_the_full_matrix(name):
    function, n, kind = CASES[name]
    y, b = jnp.asarray(RNG.uniform(0.1, 0.3, n)), jnp.asarray(RNG.normal(size=n))
    structure = narrow(function, y) if kind == "band" else structure_of(function, y)
    assert structure.name == kind

    @jax.jit
    def solve(y, b):
        factors = structure.factors(structure.shifted(lambda v: jax.jvp(function, (y,), (v,))[1], 0.01, y))
        return structure.solve(factors, b, False), structure.solve(factors, b, True)

    if n > 1000:  # one block stands for all
        (found, transposed), few = solve(y, b), slice(7, None, n // 3)
        w = np.eye(3) - 0.01 * np.asarray(jax.jacfwd(robertson(1))(y[few]))
        np.testing.assert_allclose(found[few], np.linalg.solve(w, b[few]), rtol=1e-9)
        np.testing.assert_allclose(transposed[few], np.linalg.solve(w.T, b[few]), rtol=1e-9)
        return
    ys, bs = jnp.stack([y, 1.1 * y]), jnp.stack([b, b**2])
    single, batch = solve(y, b), jax.jit(jax.vmap(solve))(ys, bs)
    for k in range(2):
        w = np.eye(n) - 0.01 * np.asarray(jax.jacfwd(function)(ys[k]))
        for transpose, matrix in enumerate((w, w.T)):
            expected = np.linalg.solve(matrix, bs[k])
            scale = np.abs(expected).max()
            np.testing.assert_allclose(batch[transpose][k], expected, rtol=1e-9, atol=1e-11 * scale)
            if k == 0:
                np.testing.assert_allclose(single[transpose], expected, rtol=1e-9, atol=1e-11 * scale)


def test_structures_are_made_once():
    first = jacobian_pattern(chain, jnp.ones(61))
    second = jacobian_pattern(lambda y: 2 * chain(y), jnp.ones(61))
    assert first == second
    assert chosen(first) is chosen(second)


def test_narrow_patterns_are_eliminated_in_rounds_in_any_number():
    places = JacobianPattern.banded(25_000, 1)
    assert chosen(Pattern.of(places.rows, places.columns, places.size)).name == "elimination"


def final(field, y0, end, **settings):
    system = odes.from_function(lambda t, y, p: p["k"] * field(y), {"k": 1.0})
    settings = {"step": simkit.Adaptive(1e-8, 1e-12), **settings}

    def run(k, y0):
        changed = jax.tree.map(lambda _: k, system)
        return simkit.simulate(changed, y0, jnp.array([0.0, end]), solver=simkit.solvers.Rodas5P(), **settings).final()

    return run


@pytest.mark.parametrize(("layout", "count"), [(robertson, 10), (of_each, 10)])
def test_copies_of_a_stiff_system_give_what_one_gives(layout, count):
    one = jnp.array([1.0, 0.0, 0.0])
    many = jnp.repeat(one, count) if layout is robertson else jnp.tile(one, count)
    found = jax.jit(final(layout(count), many, 1e3))(1.0, many)
    alone = jax.jit(final(robertson(1), one, 1e3))(1.0, one)
    np.testing.assert_allclose(
        found.reshape(3, count).T if layout is robertson else found.reshape(count, 3),
        jnp.tile(alone, (count, 1)),
        rtol=1e-6,
    )


def heat(size):
    def field(y):
        u = jnp.pad(y.reshape(size, size), 1)
        return (size + 1.0) ** 2 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]).ravel()

    return field


def test_heat_on_a_square_decays_as_its_mode_does():
    """The lowest mode of the discrete Laplacian decays with its own eigenvalue: an exact solution of the equations solved."""
    size = 16
    x = np.sin(np.pi * np.arange(1, size + 1) / (size + 1))
    mode = jnp.asarray(np.outer(x, x).ravel())
    assert structure_of(heat(size), mode).name == "band"
    rate = 8 * (size + 1) ** 2 * np.sin(np.pi / (2 * (size + 1))) ** 2
    found = jax.jit(final(heat(size), mode, 0.1))(1.0, mode)
    np.testing.assert_allclose(found, np.exp(-0.1 * rate) * mode, rtol=1e-6)


@pytest.mark.parametrize(
    ("field", "y0"),
    [
        (of_each(6), jnp.tile(jnp.array([1.0, 0.1, 0.2]), 6)),
        (heat(6), jnp.linspace(0.1, 1, 36)),
        (star, jnp.linspace(0.1, 1, 40)),
        (network, jnp.linspace(0.1, 1, 300)),
    ],
)
def test_derivatives_agree_in_both_modes_and_with_differences(field, y0):
    run = final(field, y0, 0.05, step=simkit.Adaptive(1e-9, 1e-12))
    weights = jnp.asarray(RNG.normal(size=len(y0)))
    scalar = jax.jit(lambda k, y0: run(k, y0) @ weights)
    reverse = jax.jit(jax.grad(scalar, argnums=(0, 1)))(1.0, y0)
    forward = jax.jit(lambda v: jax.jvp(scalar, (1.0, y0), (1.0, v))[1])(y0)
    np.testing.assert_allclose(reverse[0] + reverse[1] @ y0, forward, rtol=1e-9)
    h = 1e-5
    difference = (scalar(1.0 + h, y0 * (1 + h)) - scalar(1.0 - h, y0 * (1 - h))) / (2 * h)
    np.testing.assert_allclose(forward, difference, rtol=1e-5)


def test_an_ensemble_in_float32_and_a_peer():
    """A medium of diffusing reactants beside SciPy's BDF."""

    def field(y):
        u, v = y.reshape(2, 15)
        around = lambda a: jnp.pad(a[1:], (0, 1), mode="edge") + jnp.pad(a[:-1], (1, 0), mode="edge") - 2 * a
        return jnp.concatenate([1 + u**2 * v - 4 * u + 50 * around(u), 3 * u - u**2 * v + 50 * around(v)])

    y0 = jnp.concatenate([1 + jnp.sin(jnp.linspace(0, 6.0, 15)), 3 * jnp.ones(15)])
    assert structure_of(field, jnp.ones(30)).name == "band" or structure_of(field, jnp.ones(30)).name == "dense"
    expected = [
        solve_ivp(lambda t, y, k=k: k * np.asarray(field(y)), (0, 2), y0, method="BDF", rtol=1e-8, atol=1e-10).y[:, -1]
        for k in (1.0, 1.5)
    ]
    found = jax.jit(jax.vmap(final(field, y0, 2.0), (0, None)))(jnp.array([1.0, 1.5]), y0)
    np.testing.assert_allclose(found, expected, rtol=2e-6)
    single = final(field, y0, 2.0, step=simkit.Adaptive(1e-4, 1e-6))
    short = jax.jit(jax.vmap(single, (0, None)))(jnp.array([1.0, 1.5], jnp.float32), y0.astype(jnp.float32))
    assert short.dtype == jnp.float32
    np.testing.assert_allclose(short, expected, rtol=2e-3)


def test_an_unstable_elimination_is_not_silent():
    """Pivots of 1e-14 on the diagonal, in a matrix that is well conditioned: NaN, not a wrong solution."""
    swap = lambda y: network(y) * 1e-3 + 50 * y[np.arange(300) ^ 1] + 100 * (1 - 1e-14) * y
    structure = structure_of(swap, jnp.full(300, 0.1))
    assert structure.name == "elimination"

    @jax.jit
    def solve(a):
        y = jnp.full(300, 0.1)
        factors = structure.factors(structure.shifted(lambda v: jax.jvp(swap, (y,), (v,))[1], a, y))
        return structure.solve(factors, y, False)

    assert np.isnan(solve(0.01)).any()
    assert np.isfinite(solve(1e-3)).all()


def test_a_row_that_all_columns_share_is_one_derivative_backwards():
    function, y = star, jnp.asarray(RNG.uniform(0.1, 0.3, 200))
    compression = structure_of(function, y).compression
    assert compression.rows.tolist() == [0]
    assert compression.count <= 6
    entries = jax.jit(lambda y: compression(lambda v: jax.jvp(function, (y,), (v,))[1], y))(y)
    pattern, expected = compression.pattern, np.asarray(jax.jacfwd(function)(y))
    np.testing.assert_allclose(entries, expected[pattern.rows, pattern.columns], rtol=1e-12, atol=1e-14)
    # A field with a loop of unknown length has no derivative backwards: every column that the row holds is one forwards.
    looped = lambda y: jax.lax.while_loop(
        lambda c: c[0] < 2, lambda c: (c[0] + 1, c[1] + star(y)), (0, jnp.zeros_like(y))
    )[1]
    found = jax.jit(lambda y: compression(lambda v: jax.jvp(looped, (y,), (v,))[1], y))(y)
    np.testing.assert_allclose(found, 2 * entries, rtol=1e-12, atol=1e-14)
