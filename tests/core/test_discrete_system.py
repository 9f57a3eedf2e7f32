"""Systems that bring their own step."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import DiscreteSystem


class Growth(DiscreteSystem):
    """Numbers that a step multiplies, and to which it adds the time."""

    factor: simkit.Scalar = simkit.quantity(1.5)
    step: float = eqx.field(static=True, default=0.1)

    def advance(self, t, y, inputs):
        return {"x": self.factor * y["x"] + t}

    @classmethod
    def example(cls):
        return simkit.Example(cls(), {"x": 1.0}, jnp.linspace(0.0, 1.0, 6))


def expected(factor, steps, step=0.1):
    x = 1.0
    for i in range(steps):
        x = factor * x + i * step
    return x


def test_steps_are_its_own():
    run = simkit.simulate(*Growth.example()[:3])
    assert int(run.steps) == 10
    np.testing.assert_allclose(run.ys["x"], [expected(1.5, n) for n in (0, 2, 4, 6, 8, 10)], rtol=1e-14)
    mean = simkit.simulate(Growth(), {"x": 1.0}, [0.0, 0.1, 0.2], reduce={"x": simkit.reducers.Mean()})
    np.testing.assert_allclose(mean.final()["x"], expected(1.5, 2), rtol=1e-14)


def test_derivatives_and_batches():
    value = lambda a: simkit.simulate(Growth(a), {"x": 1.0}, np.array([0.0, 1.0]), on_failure="mark").final()["x"]
    slope = (expected(1.5 + 1e-6, 10) - expected(1.5 - 1e-6, 10)) / 2e-6
    np.testing.assert_allclose(jax.grad(value)(1.5), slope, rtol=1e-8)
    np.testing.assert_allclose(jax.vmap(value)(jnp.array([1.5, 2.0])), [expected(a, 10) for a in (1.5, 2.0)])


@pytest.mark.parametrize(
    ("times", "options", "text"),
    [
        ([0.0, 0.25], {}, "whole numbers of steps of `Growth` apart"),
        ([0.0, 0.05], {}, "whole numbers of steps"),
        ([0.0, 1.0], {"step": 0.05}, "`step` must be left out for `Growth`, whose own step is 0.1"),
        ([0.0, 1.0], {"step": simkit.Fixed(5)}, "must be left out"),
        ([0.0, 1.0], {"solver": "tsit5"}, "a map with a step of its own"),
        ([1.0, 0.0], {}, "`times`"),
    ],
)
def test_refusals(times, options, text):
    with pytest.raises(simkit.ArgumentError, match=text):
        simkit.simulate(Growth(), {"x": 1.0}, times, **options)


def test_steps_that_agree_are_taken():
    for step in (0.1, simkit.Fixed(10)):
        assert int(simkit.simulate(Growth(), {"x": 1.0}, [3.0, 4.0], step=step).steps) == 10
    traced = jax.jit(lambda t: simkit.simulate(Growth(), {"x": 1.0}, t, step=simkit.Fixed(10)).final()["x"])
    np.testing.assert_allclose(traced(jnp.array([0.0, 1.0])), expected(1.5, 10))
    np.testing.assert_allclose(traced(jnp.array([0.0, 0.4])), expected(1.5, 4))
    assert np.isnan(traced(jnp.array([0.0, 1.1])))  # more than ten steps
    with pytest.raises(simkit.ArgumentError, match="`times` is traced"):
        jax.jit(lambda t: simkit.simulate(Growth(), {"x": 1.0}, t).final()["x"])(jnp.array([0.0, 1.0]))
