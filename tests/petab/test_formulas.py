"""Formulas: what they mean, and that equal parts are computed once."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from simkit import DataError
from simkit.networks._expression import Formulas, Graph
from simkit.networks._infix import Printer, shared
from simkit.networks._shapes import Shapes
from simkit.petab._closed import PROPORTIONAL, _order
from simkit.petab._lines import line
from simkit.petab._mathml import Reader, parsed

VALUES = {"x": 0.7, "y": 2.5, "n": -3.0}


def value(text, values=VALUES):
    graph = Graph()
    node = Reader(graph, graph.symbol).read(parsed(text, "The formula"), "The formula")
    formulas = Formulas(tuple(graph.nodes))
    return formulas.evaluate([node], lambda name: jnp.asarray(values[name]))[0], formulas, node


# The right-hand sides are Python's.
CASES = {
    "x + y * 2 - n / 4": 0.7 + 2.5 * 2 + 3.0 / 4,
    "x^y": 0.7**2.5,
    "x**3": 0.7**3,
    "-x^2": -(0.7**2),
    "sqrt(y) + exp(n) + ln(y) + log10(y) + log2(y)": math.sqrt(2.5)
    + math.exp(-3)
    + math.log(2.5)
    + math.log10(2.5)
    + math.log2(2.5),
    "log(y, 3)": math.log(2.5, 3),  # of PEtab; SBML has the base first
    "log(y)": math.log(2.5),
    "root(3, y)": 2.5 ** (1 / 3),
    "abs(n) + floor(y) + ceil(y)": 3 + 2 + 3,
    "min(x, y, n) + max(x, y, n)": -3 + 2.5,
    "sin(x) + cos(x) + tan(x) + sinh(x) + arctan(y) + arcsinh(y)": math.sin(0.7)
    + math.cos(0.7)
    + math.tan(0.7)
    + math.sinh(0.7)
    + math.atan(2.5)
    + math.asinh(2.5),
    "piecewise(1, x > y, 2, n < 0, 3)": 2.0,
    "piecewise(1, x > y && n < 0, 7)": 7.0,
    "piecewise(1, x < y || n > 0, 7)": 1.0,
    "piecewise(1, !(x < y), 7)": 7.0,
    "heaviside(x) + sign(n)": 0.0,
    "factorial(4) + pi": 24 + math.pi,
    "(x < y) + (n < 0) * 2 - !0": 2.0,  # truth values count as numbers
    "log(y) * log(100, 10)": 2 * math.log(2.5),
}


@pytest.mark.parametrize("text", CASES)
def test_formulas_mean_what_python_means(text):
    np.testing.assert_allclose(value(text)[0], CASES[text], rtol=1e-12)


def test_equal_parts_are_one_node():
    _, formulas, node = value("exp(x + y) / (1 + exp(y + x)) + exp(x + y)")
    assert sum(n[0] == "exp" for n in formulas.nodes) == 1
    assert sum(n[0] == "add" for n in formulas.nodes) == 3
    assert formulas.symbols([node]) == {"x", "y"}


def test_a_base_that_is_negative_by_rounding_counts_as_zero():
    # A Hill function at a concentration of -1e-20, as an adaptive solve may pass by; a whole exponent is taken as it is.
    assert value("x^y", {"x": -1e-20, "y": 1.5})[0] == 0
    assert value("x^y", {"x": -2.0, "y": 3.0})[0] == -8
    slope = jax.grad(lambda x: value("x^y", {"x": x, "y": 1.5})[0])(-1e-20)
    assert slope == 0


@pytest.mark.parametrize("text", ["x +", "unknown(x)", "__import__('os')", "x; y"])
def test_what_is_no_formula_is_refused(text):
    with pytest.raises(DataError, match="The formula"):
        value(text)


def read(text):
    graph = Graph()
    return Reader(graph, graph.symbol).read(parsed(text, "The formula"), "The formula"), graph


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("+".join(["x"] * 900), 900 * 0.7),
        ("+".join(["x"] * 5000), 5000 * 0.7),
        ("-".join(["x"] * 5000), -4998 * 0.7),
        ("/".join(["y", *["1.001"] * 1500]), 2.5 / 1.001**1500),
        ("-" * 1000 + "x", 0.7),
        ("^".join(["y"] * 1 + ["1"] * 1000), 2.5),
        ("abs(" * 190 + "n" + ")" * 190, 3.0),
    ],
    ids=["900 terms", "5000 terms", "5000 minus", "1500 over", "1000 signs", "1000 powers", "190 functions"],
)
def test_long_and_deep_formulas(text, expected):
    def value(node, graph):
        return float(Formulas(tuple(graph.nodes)).evaluate([node], lambda name: np.float64(VALUES[name]))[0])

    node, graph = read(text)
    # 5,000 additions round by some 5,000 units of 1e-16.
    assert value(node, graph) == pytest.approx(expected, rel=1e-12)
    # The same formula as text, which is how problems are written.
    again = Printer(Formulas(tuple(graph.nodes)), {}, str).text(node)
    assert value(*read(again)) == pytest.approx(expected, rel=1e-12)


def test_formulas_beyond_the_limits_are_refused():
    for text in ("+".join(["x"] * 30_000), "x" * 2_000_000, "(" * 300 + "x" + ")" * 300):
        with pytest.raises(DataError, match=r"The formula must (have|not be nested).*names of their own"):
            read(text)


def test_deep_formulas_in_lines_and_orders():
    node, graph = read("-".join(["x", *["y * x"] * 1000]))
    value, slope = line(graph, node, "x")
    assert graph.value(value) == 0
    assert _order(graph, node, frozenset(["x"])) == PROPORTIONAL
    formulas = Formulas(tuple(graph.nodes))
    # 1 - 1000 y at y = 0.001
    assert float(formulas.evaluate([slope], lambda name: np.float64(0.001))[0]) == pytest.approx(0.0, abs=1e-12)
    leaves = {i: ("c", 0) for i, word in enumerate(graph.nodes) if word[0] == "symbol"}
    batches = Shapes(graph.nodes, [node], leaves).ordered([("x", node)])
    assert batches


def test_source_of_deep_formulas_is_python():
    node, graph = read("sin(x + " * 150 + "y" + ")" * 150)
    formulas = Formulas(tuple(graph.nodes))
    names = {i: f"v{i}" for i in shared(formulas, [node])}
    printer = Printer(formulas, names, str, python=True)
    lines = [f"{names[i]} = {printer.text(i, whole=True)}" for i in sorted(names)]
    known = {"jnp": np, **VALUES}
    exec("\n".join([*lines, f"result = {printer.text(node)}"]), known)
    expected = VALUES["y"]
    for _ in range(150):
        expected = math.sin(VALUES["x"] + expected)
    assert known["result"] == pytest.approx(expected, rel=1e-12)
