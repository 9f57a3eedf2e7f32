"""Sparsity patterns: no place of a Jacobian may be missing, and of common fields none may be too many."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from simkit.linear._colours import column_colours
from simkit.linear._dependence import jacobian_pattern
from simkit.linear._pattern import Pattern

RNG = np.random.default_rng(0)
TABLE = RNG.integers(0, 24, (2, 40))
MASK = RNG.random(24) > 0.5
STOICHIOMETRY = np.zeros((24, 40))
STOICHIOMETRY[RNG.integers(0, 24, 40), np.arange(40)] = 1.0


def laplacian(y):
    u = jnp.pad(y.reshape(4, 6), 1)
    return (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]).ravel()


def periodic(y):
    u, v = y.reshape(2, 3, 4)
    around = lambda a: jnp.roll(a, 1, 0) + jnp.roll(a, -1, 1)
    return jnp.stack([u**2 * v + around(u), u - v * u + around(v)]).ravel()


def turned(y):
    return jax.lax.fori_loop(0, 3, lambda i, c: jnp.roll(c, 1) * jnp.cos(y), y)


def until(y):
    return jax.lax.while_loop(lambda c: c[0][0] < 100.0, lambda c: (c[0] + 1.0 + c[1], c[1]), (y, y * y))[0]


@jax.custom_jvp
def ruled(y):
    return jnp.sin(y)


ruled.defjvp(lambda primals, tangents: (jnp.sin(*primals), jnp.cos(*primals) * tangents[0]))


@jax.custom_jvp
def root(y):
    """The solution of x + x^3 = y by bisection, which sees y in comparisons alone."""

    def halve(_, ends):
        low, high = ends
        middle = (low + high) / 2
        below = middle + middle**3 < y
        return jnp.where(below, middle, low), jnp.where(below, high, middle)

    return jax.lax.fori_loop(0, 60, halve, (jnp.full_like(y, -10.0), jnp.full_like(y, 10.0)))[0]


@root.defjvp
def _(primals, tangents):
    x = root(*primals)
    return x, tangents[0] / (1 + 3 * x**2)


EXACT = {
    "a root": lambda y: root(y) - 0.5 * jnp.roll(root(y), 1),
    "taken away": lambda y: jnp.zeros(24).at[TABLE[0]].subtract(jnp.sin(y[TABLE[1]])),
    "rounded": lambda y: jnp.floor(y.sum()) * y,
    "laplacian": laplacian,
    "periodic": periodic,
    "rates": lambda y: jnp.asarray(STOICHIOMETRY) @ (y[TABLE[0]] * y[TABLE[1]]),
    "rates-transposed": lambda y: (y[TABLE[0]] * y[TABLE[1]]) @ jnp.asarray(STOICHIOMETRY.T),
    "scattered": lambda y: jnp.zeros(24).at[TABLE[0]].add(jnp.sin(y[TABLE[1]])),
    "set": lambda y: y.at[jnp.array([1, 5])].set(y[jnp.array([7, 8])]),
    "masked": lambda y: jnp.where(jnp.asarray(MASK), y * y, y[::-1]),
    "multiplied by zeros": lambda y: jnp.asarray(MASK * 1.0) * jnp.roll(y, 3),
    "differences": lambda y: jnp.diff(jnp.append(y, 1.0)) + jnp.gradient(y),
    "rows": lambda y: jnp.repeat(y.reshape(4, 6).sum(1), 6) * y,
    "mapped": lambda y: jax.vmap(lambda a, b: jnp.tanh(a) * b)(y, y[::-1]),
    "sequence": lambda y: jax.lax.map(lambda x: x**2, y),
    "turned": turned,
    "until": until,
    "with a rule": ruled,
    "under jit": lambda y: jax.jit(jnp.cos)(y) + jax.checkpoint(jnp.exp)(y),
    "barrier": lambda y: jnp.concatenate(jax.lax.optimization_barrier((y[:4] ** 2, y[4:] * 3))),
    "held": lambda y: jax.lax.stop_gradient(y.sum()) * y,
    "table": lambda y: jnp.interp(y, jnp.linspace(0, 3, 5), jnp.arange(5.0) ** 2),
    "products": lambda y: jnp.einsum("bij,bj->bi", y.reshape(2, 3, 4), jnp.arange(8.0).reshape(2, 4) + 1).ravel().repeat(4),
    "batches": lambda y: jnp.matmul(y.reshape(2, 3, 4), y.reshape(2, 4, 3)).ravel()[:1].repeat(24),
    "constant": lambda y: jnp.ones_like(y),
}  # fmt: skip
LARGER = {  # what the detection takes for more than it is
    "sorted": jnp.sort,
    "sums so far": jnp.cumsum,
    "transform": lambda y: jnp.fft.irfft(jnp.fft.rfft(y)),
    "solved": lambda y: jnp.linalg.solve(jnp.eye(24) + jnp.diag(y), y),
    "either": lambda y: jax.lax.cond(y[0] > 0, lambda a: a * 2, lambda a: a[::-1], y),
    "unknown places": lambda y: y[(y * 10).astype(int) % 24],
    "long loop": lambda y: jax.lax.scan(lambda c, i: (jnp.roll(c, 1) * c, None), y, jnp.arange(40))[0],
}


@pytest.mark.parametrize("name", [*EXACT, *LARGER])
def test_no_place_is_missing(name):
    function, y = (EXACT | LARGER)[name], jnp.asarray(RNG.uniform(0.2, 1.0, 24))
    found = jacobian_pattern(function, y).matrix()
    seen = np.any([np.asarray(jax.jacfwd(function)(k * y)) != 0 for k in (1.0, 1.3, 2.1)], axis=0)
    assert not (seen & ~found).any()
    if name in EXACT:
        assert not (found & ~seen & ~np.eye(24, dtype=bool)).any()


def test_under_transformations_with_traced_parameters():
    """What is traced outside is a number of unknown value here."""

    def places(table, k):
        return jacobian_pattern(lambda y: k * y[table], jnp.ones(24)).places

    assert jax.jit(lambda k: places(np.arange(24)[::-1], k))(2.0) == 48
    assert jax.jit(places)(jnp.arange(24)[::-1], 2.0) == 24 * 24  # the table is traced, too


def test_a_large_full_matrix_is_given_up():
    assert jacobian_pattern(lambda y: y * y.sum(), jnp.ones(30_000)) is None


def test_columns_of_a_colour_share_no_row():
    n = 60
    pattern = Pattern.of(RNG.integers(0, n, 200), RNG.integers(0, n, 200), n)
    colours, full = column_colours(pattern), pattern.matrix()
    for colour in range(colours.max() + 1):
        assert full[:, colours == colour].sum(1).max() <= 1
    three = jacobian_pattern(lambda y: jnp.roll(y, 1) + jnp.roll(y, -1) - 2 * y, jnp.ones(30))
    assert column_colours(three).max() + 1 == 3
