"""Ways to compute the same members: which bits depend on them."""

import jax.numpy as jnp
import numpy as np

import simkit
from simkit.testing import reproducibility


class Uneven(simkit.PlainSystem):
    """What depends on nothing but its own member."""

    rate: simkit.Scalar = simkit.quantity()

    def vector_field(self, t, y, inputs):
        return -self.rate * y

    outputs = invariants = example = lambda *_: {}


def test_ways_of_computing():
    found = reproducibility(
        Uneven(1.0), jnp.ones(1), np.linspace(0, 1, 5), over={"rate": np.linspace(0.5, 1.5, 5)}, step=simkit.Fixed(3)
    )
    assert found.rows["again"] == ("bitwise equal", 0.0)
    assert set(found.rows) >= {"one by one", "over two devices", "in single precision", "in two halves"}
    for name, (verdict, difference) in found.rows.items():
        if name == "in single precision":  # three products of numbers with 24 bits a step, twelve steps
            assert 1e-9 < difference < 1e-5
        else:  # the order of arithmetic may differ, nothing else
            assert verdict != "different"
            assert difference < 1e-14
    assert "bitwise equal" in repr(found)
