"""Parameters in closed form: each start begins at the best scales, offsets and sizes of scatter of its other parameters."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from petab_models import sbml, write_problem

import simkit
from simkit.fitting._local_model import best_model
from simkit.networks._expression import Graph
from simkit.petab._closed import AFFINE, FREE, PROPORTIONAL, _order
from simkit.petab._mathml import Reader, parsed
from simkit.problem import solved

PARAMETERS = """parameterId | parameterScale | lowerBound | upperBound | nominalValue | estimate
k | log10 | 0.01 | 10 | 0.5 | 1
scale | log10 | 0.01 | 100 | 30.0 | 1
offset | lin | -1 | 5 | 3.0 | 1
sd | log | 0.001 | 100 | 7.0 | 1
factor | log10 | 0.01 | 100 | 20.0 | 1
width | log10 | 0.001 | 100 | 9.0 | 1
flat | log10 | 0.001 | 100 | 9.0 | 1"""
OBSERVABLES = """observableId | observableFormula | noiseFormula | observableTransformation | noiseDistribution
o | observableParameter1_o * A + observableParameter2_o | 2 * noiseParameter1_o | lin | normal
p | factor * A^2 | width | log10 | normal
q | A | flat | lin | laplace"""
DATA = {
    "o": [(0.0, 5.3), (1.0, 4.1), (2.0, 3.4), (4.0, 2.2)],
    "p": [(1.0, 8.0), (2.0, 2.0), (3.0, 1.5)],
    "q": [(1.0, 1.0), (2.0, 0.9), (3.0, 0.2)],
}


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    rows = [
        f"{name} | c0 | {t} | {value} | {'scale; offset' if name == 'o' else ''} | {'sd' if name == 'o' else ''}"
        for name, data in DATA.items()
        for t, value in data
    ]
    head = "observableId | simulationConditionId | time | measurement | observableParameters | noiseParameters\n"
    model = sbml({"A": 2.0}, {"k": 1.0}, {"r": ("A", "", "cell * k * A")})
    folder = tmp_path_factory.mktemp("closed")
    return simkit.petab.load(write_problem(folder, model, PARAMETERS, OBSERVABLES, head + "\n".join(rows)))


def test_what_has_a_closed_form_is_found(read):
    found = {(c.linear, c.scatter) for c in read.problem.closed}
    assert found == {(("offset", "scale"), "sd"), (("factor",), "width"), ((), "flat")}


def test_the_closed_forms_are_optima(read):
    names, theta = read.problem.names, read.nominal
    best, model = jax.jit(_solved)(theta, read.problem)
    inner = np.array([i for i, name in enumerate(names) if name != "k"])
    # The gradient of the whole likelihood, of residuals up to some tens, and none of the five moves by itself.
    np.testing.assert_allclose(model.gradient[inner], 0, atol=1e-9)
    likelihood = jax.jit(lambda theta: read.problem.log_likelihood(theta)[0])
    np.testing.assert_allclose(model.value, -likelihood(best), rtol=1e-12)
    for i in inner:
        for factor in (0.9, 1.1):
            assert likelihood(best.at[i].multiply(factor)) < likelihood(best)
    # `scale * A + offset` by NumPy.
    x = 2 * np.exp(-0.5 * np.array([t for t, _ in DATA["o"]]))
    slope, intercept = np.polyfit(x, [y for _, y in DATA["o"]], 1)
    assert -1 < intercept < 5
    np.testing.assert_allclose([best[names.index("scale")], best[names.index("offset")]], [slope, intercept], rtol=1e-5)


def _solved(theta, problem):
    z = problem.coordinates(theta)
    model, place = best_model(problem, z, jnp.zeros(z.shape, bool))
    return problem.natural(place), model


def test_bounds_hold(read):
    # A scale of at most 1: the offset takes what is left.
    tight = read.problem.bounds.at[read.problem.names.index("scale")].set(jnp.array([0.01, 1.0]))
    problem = read.problem
    copied = eqx.tree_at(lambda p: p.unknowns.bounds, problem, tight)
    best = jax.jit(lambda theta: solved(copied, theta, *copied.model.solve(theta, copied.times)))(read.nominal)
    x, y = 2 * np.exp(-0.5 * np.array([t for t, _ in DATA["o"]])), np.array([y for _, y in DATA["o"]])
    np.testing.assert_allclose(best[problem.names.index("scale")], 1.0, rtol=1e-6)
    np.testing.assert_allclose(best[problem.names.index("offset")], np.mean(y - x), rtol=1e-5)
    np.testing.assert_allclose(best[problem.names.index("sd")], np.std(y - x) / 2, rtol=1e-5)


@pytest.mark.slow
def test_factors_of_location_and_scatter_are_at_their_best(tmp_path):
    # Two blots, each with a factor of the values and of their scatter, and one size of scatter for both.
    table = """parameterId | parameterScale | lowerBound | upperBound | nominalValue | estimate
k | log10 | 0.01 | 10 | 0.5 | 1
one | log10 | 0.001 | 1000 | 30.0 | 1
two | log10 | 0.001 | 1000 | 0.1 | 1
sd | log10 | 0.001 | 100 | 7.0 | 1"""
    heads = """observableId | observableFormula | noiseFormula | noiseDistribution
o | observableParameter1_o * A | noiseParameter1_o * noiseParameter2_o | normal"""
    rows = [
        f"o | c0 | {t} | {value} | {name} | {name}; sd"
        for name, values in (("one", (4.1, 2.6, 1.3)), ("two", (31.0, 17.0, 12.0)))
        for t, value in zip((0.0, 1.0, 2.0), values, strict=True)
    ]
    head = "observableId | simulationConditionId | time | measurement | observableParameters | noiseParameters\n"
    model = sbml({"A": 2.0}, {"k": 1.0}, {"r": ("A", "", "cell * k * A")})
    read = simkit.petab.load(write_problem(tmp_path, model, table, heads, head + "\n".join(rows)))
    problem = read.problem
    assert [(c.factors, c.scatter) for c in problem.closed] == [(("one", "two"), "sd")]
    best = jax.jit(lambda theta: solved(problem, theta, *problem.model.solve(theta, problem.times)))(read.nominal)
    # SciPy, on the textbook's density of normal data.
    x = 2 * np.exp(-0.5 * np.arange(3))
    y = np.array([[4.1, 2.6, 1.3], [31.0, 17.0, 12.0]])

    def cost(logs):
        factor, sd = np.exp(logs[:2])[:, None], np.exp(logs[2])
        return np.sum(0.5 * ((y - factor * x) / (factor * sd)) ** 2 + np.log(factor * sd))

    found = scipy.optimize.minimize(cost, np.log([2.0, 15.0, 0.1]), tol=1e-12)
    own = np.array([best[problem.names.index(name)] for name in ("one", "two", "sd")])
    # SciPy's quasi-Newton method leaves 1e-6 of the sizes.
    np.testing.assert_allclose(own, np.exp(found.x), rtol=1e-5)


@pytest.mark.slow
def test_a_fit_ends_where_it_ends_without():
    times = np.linspace(0.1, 3.0, 12)
    line = simkit.odes.from_response(lambda x, params: params["slope"] * jnp.exp(-x), {"slope": 1.0})
    data = simkit.Experiment("line", times, {"y": 2 * np.exp(-times) + 0.1 * np.sin(40 * times)})
    free = {"slope": simkit.Free(bounds=(0.1, 10.0)), "noise.y.scale": simkit.Free(bounds=(1e-4, 1e4))}
    problem = simkit.Problem(line, data, free=free, noise={"y": simkit.noise.Normal(1.0)})
    assert [c.scatter for c in problem.closed] == ["noise.y.scale"]
    starts = np.array([[0.3, 1e-4], [5.0, 1e3]])
    ours = simkit.fit(problem, starts=starts)
    plain = simkit.fit(problem, starts=starts, method=simkit.GaussNewton(closed_forms=False))
    np.testing.assert_allclose(ours.estimate, plain.estimate, rtol=1e-7)
    # From sizes of scatter that are wrong by decades the search for them alone takes several steps.
    assert int(ours.iterations.sum()) < int(plain.iterations.sum())


@pytest.mark.parametrize(
    ("text", "names", "order"),
    [
        ("a * x + y", "a", AFFINE),
        ("a * x / (x + y)", "a", PROPORTIONAL),
        ("a * x / (x + b)", "ab", None),
        ("a * (x + b)", "ab", None),
        ("x + y", "ab", FREE),
        ("-(a * x - b)", "ab", PROPORTIONAL),
        ("a * x + exp(b)", "b", None),
    ],
)
def test_in_which_names_a_formula_is_linear(text, names, order):
    graph = Graph()
    node = Reader(graph, graph.symbol).read(parsed(text, "The formula"), "The formula")
    assert _order(graph, node, frozenset(names)) == order
