"""Formulas: what they mean, and that equal parts are computed once."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from simkit import DataError
from simkit.petab._expression import Formulas, Graph
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
