"""A derivative that is not finite is found by the line of the model that it belongs to, where all states are finite."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import quantity
from simkit.inspect import locate

TIMES = np.linspace(0.0, 3.0, 7)


class Masked(simkit.PlainSystem):
    """The root of a level that is used above 0 only; from time 2 on nothing is left of the second tank."""

    rate: Any = quantity()

    def vector_field(self, t, y, inputs):
        left = jnp.where(t < 1.9, y[1], 0.0 * y[1])
        outflow = jnp.where(left > 0, jnp.sqrt(left), 0.0)
        return jnp.stack([-self.rate * y[0] + outflow, -0.1 * outflow])

    outputs = invariants = example = lambda *_: {}


@pytest.mark.parametrize("step", [None, 0.05])
def test_the_line_is_named(step):
    found = locate(Masked(1.0), jnp.array([1.0, 1.0]), TIMES, solver=simkit.solvers.Tsit5(), step=step)
    assert found.derivative
    assert found.status == 0
    assert found.component in ("rate", "y0.0", "y0.1")
    assert found.time + found.step > 1.9
    assert "sqrt" in source(found.culprit.place.line)
    assert "derivatives" in repr(found)


def source(line):
    with open(__file__, encoding="utf-8") as file:
        return file.readlines()[line - 1]


def test_derivatives_that_are_finite_are_none():
    system, y0, _, _ = simkit.odes.LotkaVolterra.example()
    assert locate(system, y0, TIMES) is None
