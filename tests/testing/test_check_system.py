"""check_system passes good systems and names what is wrong with bad ones."""

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import simkit
from simkit import odes
from simkit.testing import check_system

TIMES = jnp.linspace(0.0, 1.0, 11)


def oscillator(**options):
    """A harmonic oscillator from a plain function, with what a test spoils."""
    f = options.pop("f", lambda t, y, p: {"q": y["p"], "p": -p["k"] * y["q"]})
    return odes.from_function(f, {"k": 2.0}, **options)


def check(system, **options):
    return check_system(system, {"q": jnp.array(1.0), "p": jnp.array(0.0)}, TIMES, **options)


def test_report_prints():
    report = check(oscillator(invariants=lambda t, y, p: {"energy": y["p"] ** 2 + p["k"] * y["q"] ** 2}))
    assert report.names == ("k", "y0.p", "y0.q")
    assert 0 < report.drift["energy"] < 1e-8
    text = str(report)
    assert text.startswith("FunctionSystem passed")
    assert "by 3 quantities: k, y0.p, y0.q" in text


def test_wrong_invariant():
    wrong = oscillator(invariants=lambda t, y, p: {"energy": y["p"] ** 2 + y["q"] ** 2})
    with pytest.raises(AssertionError, match="invariant `energy` of FunctionSystem changes by"):
        check(wrong)


def test_nan_slope():
    trap = lambda t, y, p: {"q": y["p"], "p": jnp.where(p["k"] > 5, jnp.sqrt(p["k"] - 5), -p["k"] * y["q"])}
    with pytest.raises(AssertionError, match=r"in reverse mode along `k` is not finite, though the value is"):
        check(oscillator(f=trap))


def test_wrong_gradient():
    @jax.custom_jvp
    def spring(k, q):
        return -k * q

    spring.defjvp(lambda x, dx: (-x[0] * x[1], -x[0] * dx[1]))  # forgets the slope in k
    with pytest.raises(AssertionError, match=r"gradient of a simulation .* along `k` is 0"):
        check(oscillator(f=lambda t, y, p: {"q": y["p"], "p": spring(p["k"], y["q"])}))


def test_wrong_shape_and_structure():
    with pytest.raises(AssertionError, match=r"must keep the shape of component `q`"):
        check(oscillator(f=lambda t, y, p: {"q": jnp.stack([y["p"], y["p"]]), "p": y["q"]}))
    with pytest.raises(AssertionError, match="must return the structure of the state"):
        check(oscillator(f=lambda t, y, p: {"q": y["p"]}))


def test_a_constant_of_float64_fails_in_float32():
    constant = jnp.array(2.0, jnp.float64)
    with pytest.raises(AssertionError, match="does not run in float32"):
        check(oscillator(f=lambda t, y, p: {"q": y["p"], "p": -constant * p["k"] * y["q"]}))


def test_mixed_float_types():
    system = simkit.cast(oscillator(), jnp.float32)
    with pytest.raises(AssertionError, match=r"share one float type.*k float32"):
        check(system)


class Plain(simkit.PlainSystem):
    """A system whose parameter is a plain number."""

    rate: float = 1.0

    def vector_field(self, t, y, inputs):
        return jax.tree.map(lambda leaf: -self.rate * leaf, y)

    @classmethod
    def example(cls):
        return simkit.Example(cls(), {"x": 1.0}, TIMES)


def test_plain_number():
    with pytest.raises(AssertionError, match="`rate` of Plain is a plain float; declare it with `quantity`"):
        check_system(Plain)


class NoNoise(simkit.StochasticSystem):
    """A stochastic system that forgot its noise."""

    rate: simkit.Scalar = simkit.quantity(1.0)
    interpretation = "ito"
    noise_kind = "additive"

    def drift(self, t, y, inputs):
        return {"x": -self.rate * y["x"]}

    def diffusion(self, t, y, inputs):
        return {"x": jnp.zeros_like(y["x"])}

    @classmethod
    def example(cls):
        return simkit.Example(cls(), {"x": 1.0}, TIMES)


def test_no_noise():
    with pytest.raises(AssertionError, match="does not depend on its key"):
        check_system(NoNoise)


def test_blow_up_is_reported():
    with pytest.raises(AssertionError, match="does not run to its end"):
        check(oscillator(f=lambda t, y, p: {"q": 10 * y["q"] ** 2, "p": p["k"] * y["p"]}))


def test_response():
    response = odes.from_response(lambda x, p: p["a"] * (1 - jnp.exp(-p["b"] * x)), {"a": 2.0, "b": 0.5})
    report = check_system(response, None, jnp.linspace(0.1, 3.0, 7))
    assert report.names == ("a", "b")


def test_arguments():
    with pytest.raises(simkit.ArgumentError, match="`times` must be given with a system"):
        check_system(oscillator())
    with pytest.raises(simkit.ArgumentError, match="not a class"):
        check_system(odes.SIR, times=TIMES)


def test_eqx_module_state_and_vector():
    """A state of arrays, with element names."""
    system = odes.Lorenz96()
    y0 = odes.Lorenz96.State(x=jnp.array([1.0, 2.0, 0.5, -1.0, 0.2]))
    report = check_system(system, y0, jnp.linspace(0.0, 0.5, 5))
    assert report.names == ("forcing", *(f"y0.x.{i}" for i in range(5)))
    assert eqx.is_array(y0.x)
