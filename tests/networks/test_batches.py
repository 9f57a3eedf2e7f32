"""Rates of large models in batches: the same numbers and derivatives as formula by formula."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from simkit.core import full_matrix
from simkit.networks._expression import TIME, Formulas, Graph
from simkit.networks._large import LargeSystem, Rates
from simkit.petab._mathml import Reader, parsed

CHAIN = 12


def texts():
    """A chain with saturated steps beside mass action, whose first rate waits for a total that two further rules are made of."""
    flows = [f"k{i % 3} * x{i}" if i % 4 else f"v * x{i} / (w + x{i})" for i in range(CHAIN)]
    total = " + ".join(f"x{i}" for i in range(CHAIN))
    slopes = {f"x{i}": f"({flows[i - 1]}) - ({flows[i]})" for i in range(1, CHAIN)}
    slopes["x0"] = f"piecewise(exp(-k0 * k1), ({total}) > 5, 2 * (k0 + 1)^2) * switch - {flows[0]} + sin(time)"
    slopes["z"] = f"-2 * z^3 + v * ({total}) / (1 + ({total})^n) - 0.5"
    slopes["still"] = "0"
    slopes["even"] = "k2"
    return slopes


@pytest.fixture(scope="module")
def model():
    graph = Graph()
    symbol = lambda name: graph.symbol(TIME if name == "time" else name)
    reader = Reader(graph, symbol)
    roots = tuple((name, reader.read(parsed(text, "A rate"), "A rate")) for name, text in texts().items())
    return Rates(Formulas(tuple(graph.nodes)), roots, ("switch",), frozenset({"v"}))


PARAMETERS = {"k0": 0.3, "k1": 1.7, "k2": 0.9, "v": 2.0, "w": 0.6, "n": 1.5}


def given(model, parameters=None, y=None):
    parameters = {name: jnp.asarray(x) for name, x in PARAMETERS.items()} if parameters is None else parameters
    y = jnp.asarray(np.random.default_rng(1).uniform(0.2, 1.5, len(model.states))) if y is None else y
    return parameters, y


def batched(model, parameters, y, switch=1.0):
    return LargeSystem.of(model, parameters, y).vector_field(0.4, y, {"switch": switch})


def one_by_one(model, parameters, y, switch=1.0):
    names = dict(zip(model.states, y, strict=True)) | parameters | {TIME: 0.4, "switch": switch}
    found = model.formulas.evaluate([dict(model.rates)[name] for name in model.states], lambda name: names[name])
    return jnp.stack([jnp.asarray(x, y.dtype) for x in found])


def test_same_rates_in_few_batches(model):
    parameters, y = given(model)
    # Only the order of sums and products differs.
    np.testing.assert_allclose(batched(model, parameters, y), one_by_one(model, parameters, y), rtol=1e-13, atol=1e-14)
    low = 0.1 * y  # the other branch of the choice
    np.testing.assert_allclose(
        batched(model, parameters, low, 0.0), one_by_one(model, parameters, low, 0.0), rtol=1e-13, atol=1e-14
    )
    steps = sum(map(len, model.moving.levels))
    assert steps < CHAIN
    assert len(model.moving.levels) > 2
    # Nine flows of mass action in one batch.
    assert max(len(step.nodes) for step in model.moving.levels[0]) == 9


def test_same_derivatives(model):
    """First ones by parameters and states, in forward and reverse mode, and second ones, along one direction."""
    parameters, y = given(model)
    ways = jax.tree.map(lambda x: jnp.cos(x + jnp.arange(x.size, dtype=x.dtype).reshape(x.shape)), (parameters, y))

    @functools.partial(jax.jit, static_argnums=0)
    def slopes(rates, parameters, y):
        first = lambda *point: jax.jvp(functools.partial(rates, model), point, ways)[1]
        back = jax.grad(lambda *point: jnp.sum(jnp.sin(rates(model, *point))), (0, 1))(parameters, y)
        return jax.jvp(first, (parameters, y), ways), back

    found, expected = (slopes(rates, parameters, y) for rates in (batched, one_by_one))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12), found, expected)


def test_the_jacobian_is_that_of_the_rates(model):
    parameters, y = given(model)
    many = jnp.stack([y, 0.1 * y])

    def matrices(y):
        system = LargeSystem.of(model, parameters, y)
        return full_matrix(system.jacobian(0.4, y, {"switch": 1.0})), jax.jacfwd(
            lambda y: one_by_one(model, parameters, y)
        )(y)

    known, expected = jax.jit(jax.vmap(matrices))(many)
    np.testing.assert_allclose(known, expected, rtol=1e-12, atol=1e-14)
    assert model.slope.count < 0.5 * expected[0].size  # zeros are not computed
