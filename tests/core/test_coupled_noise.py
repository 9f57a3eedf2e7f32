"""Coupled systems with stochastic parts: the joint process, which noise it has, which solver steps it, and what is refused."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

import simkit
from simkit.core import Setup, as_inputs, as_state, at_time, noise_kind_of
from simkit.odes import GeometricBrownianMotion, OrnsteinUhlenbeck, StochasticLotkaVolterra
from simkit.solvers import SRA1, EulerMaruyama, Milstein, choose

simkit.enable_x64()

RELAX = simkit.from_function(
    lambda t, y, p, u: {"z": p["rate"] * (u["goal"] - y["z"])}, {"rate": 2.0}, inputs={"goal": simkit.Input()}
)
DRIVEN = simkit.Coupled({"ou": OrnsteinUhlenbeck(1.0, 0.3, 0.5), "relax": RELAX}, {"relax.goal": "ou.x"})
Y0 = {"ou": {"x": 1.0}, "relax": {"z": 0.0}}
START = {"ou": {"x": 1.0}, "p": {"p": 0.0}}


class Hand(simkit.StochasticSystem):
    """The process of `DRIVEN`, written by hand."""

    interpretation: ClassVar = "ito"
    noise_kind: ClassVar = "additive"

    def drift(self, t, y, inputs):
        x, z = y["ou"]["x"], y["relax"]["z"]
        return {"ou": {"x": 0.3 - x}, "relax": {"z": 2.0 * (x - z)}}

    def diffusion(self, t, y, inputs):
        return {"ou": {"x": jnp.full_like(y["ou"]["x"], 0.5)}, "relax": {"z": jnp.zeros_like(y["relax"]["z"])}}

    example = classmethod(lambda cls: None)


class Pushed(simkit.StochasticSystem):
    """dp = (force - p) dt + volatility dW: additive noise whose strength is an input."""

    interpretation: ClassVar = "ito"
    noise_kind: ClassVar = "additive"

    def drift(self, t, y, inputs):
        return {"p": inputs["force"] - y["p"]}

    def diffusion(self, t, y, inputs):
        return {"p": inputs["volatility"]}

    example = classmethod(lambda cls: None)


class Turned(Pushed):
    """The same with a noise in Stratonovich's sense that depends on the state."""

    interpretation: ClassVar = "stratonovich"
    noise_kind: ClassVar = "diagonal"


class Moody(Pushed):
    """Noise with a default that the class declares."""

    def reads(self):
        return {"force": simkit.Input("1", default=0.5), "volatility": simkit.Input("1", default=2.0)}


def test_parts_without_wires_have_the_defaults_that_they_declare():
    pair, y0 = simkit.Coupled({"a": Moody(), "b": Moody()}, {}), {"a": {"p": 1.0}, "b": {"p": 1.0}}
    state = as_state(pair, y0)
    given = at_time(as_inputs(pair, None, state), 0.0)
    for found, slope in ((pair.drift(0.0, state, given), -0.5), (pair.diffusion(0.0, state, given), 2.0)):
        assert {name: float(part["p"]) for name, part in found.items()} == {"a": slope, "b": slope}
    # Alone it has them, too, in the float type of its state: p(1) = 0.5 (1 - exp(-1)) + exp(-1) without its noise.
    single = {"p": jnp.asarray(1.0, jnp.float32)}
    alone = simkit.simulate(Moody(), single, [0.0, 1.0], step=0.01, key=jax.random.key(0), inputs={"volatility": 0.0})
    assert alone.final()["p"].dtype == jnp.float32
    np.testing.assert_allclose(alone.final()["p"], 0.5 + 0.5 * np.exp(-1.0), rtol=1e-4)
    assert "inputs.force.value" in Setup(Moody(), single, as_inputs(Moody(), None, single)).names()


def test_the_joint_process_is_the_one_written_by_hand_and_has_its_moments():
    times, key = [0.0, 1.0], jax.random.key(3)
    run, hand = (simkit.simulate(system, Y0, times, step=0.02, key=key) for system in (DRIVEN, Hand()))
    assert run.solver.startswith("SRA1")
    np.testing.assert_allclose(run.ys["relax"]["z"], hand.ys["relax"]["z"], rtol=1e-13)
    many = simkit.ensemble(DRIVEN, Y0, times, over={"relax.rate": np.full(4000, 2.0)}, step=0.02, key=key)
    ends = np.stack([many.ys["ou"].x[:, -1], many.ys["relax"]["z"][:, -1]])
    # Van Loan (1978), IEEE Trans. Autom. Control 23:395: the covariance of a linear process by one matrix exponential.
    slope, power = np.array([[-1.0, 0.0], [2.0, -2.0]]), np.diag([0.25, 0.0])
    both = scipy.linalg.expm(np.block([[-slope, power], [np.zeros((2, 2)), slope.T]]))
    grown = both[2:, 2:].T
    mean, covariance = 0.3 + grown @ [0.7, -0.3], grown @ both[:2, 2:]
    # Four standard errors of 4,000 paths: 6 % of a standard deviation, 9 % of a variance.
    sizes = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose((ends.mean(axis=1) - mean) / sizes, 0.0, atol=0.063)
    np.testing.assert_allclose(np.cov(ends) / np.outer(sizes, sizes), covariance / np.outer(sizes, sizes), atol=0.09)


def test_a_derivative_through_noise_and_wire_is_that_of_differences():
    def last(rate):
        setup = Setup(DRIVEN, as_state(DRIVEN, Y0)).put({"relax.rate": rate})
        return simkit.simulate(setup.system, setup.y0, [0.0, 1.0], step=0.1, key=jax.random.key(0)).final()["relax"][
            "z"
        ]

    expected = (last(2.0 + 1e-5) - last(2.0 - 1e-5)) / 2e-5
    np.testing.assert_allclose(jax.grad(last)(2.0), expected, rtol=1e-8)
    single = simkit.cast((DRIVEN, as_state(DRIVEN, Y0)), jnp.float32)
    found = jax.eval_shape(lambda: simkit.simulate(*single, [0.0, 1.0], step=0.1, key=jax.random.key(0)))
    assert found.ys["relax"]["z"].dtype == found.ys["ou"].x.dtype == jnp.float32


WIRED = {
    "into the drift": ({"p.force": "ou.x"}, "additive", SRA1),
    "into the noise": ({"p.volatility": "ou.x"}, "general", EulerMaruyama),
    "of the time alone": ({"p.volatility": lambda system, t, y, outputs: 1.0 + t}, "additive", SRA1),
}


@pytest.mark.parametrize("name", WIRED)
def test_the_kind_of_noise_follows_from_what_the_noise_depends_on(name):
    wires, kind, solver = WIRED[name]
    inputs = {"p": {key: 0.1 for key in ("force", "volatility") if f"p.{key}" not in wires}}
    whole = simkit.Coupled({"ou": OrnsteinUhlenbeck(), "p": Pushed()}, wires)
    y0 = as_state(whole, START)
    assert noise_kind_of(whole, y0, inputs) == kind
    assert isinstance(choose(whole, y0, inputs=inputs).solver, solver)
    nested = simkit.Coupled({"inner": whole, "relax": RELAX}, {"relax.goal": lambda s, t, y, o: y["inner"]["p"]["p"]})
    assert noise_kind_of(nested, {"inner": y0, "relax": {"z": jnp.zeros(())}}, {"inner": inputs}) == kind
    assert jax.jit(lambda y0: jnp.asarray(noise_kind_of(whole, y0, inputs) == kind))(y0)  # traced values have shapes
    if kind == "general":
        with pytest.raises(
            simkit.ArgumentError, match=r"`SRA1` serves additive noise.*is general. `EulerMaruyama` fits"
        ):
            simkit.simulate(whole, START, [0.0, 1.0], inputs=inputs, solver=SRA1(), key=jax.random.key(0))


def test_processes_of_a_part_in_common_stay_apart_from_those_of_others():
    hares = StochasticLotkaVolterra()
    whole = simkit.Coupled({"ou": OrnsteinUhlenbeck(), "hares": hares, "relax": RELAX})
    y0 = as_state(whole, {"ou": {"x": 1.0}, "hares": {"hare": 50.0, "lynx": 100.0}, "relax": {"z": 0.0}})
    found = whole.diffusion(jnp.zeros(()), y0, None)
    own = hares.diffusion(jnp.zeros(()), y0["hares"], None)
    np.testing.assert_array_equal(found["ou"].x, [0.5, 0, 0, 0])
    np.testing.assert_array_equal(found["hares"].lynx, [0, *own.lynx])
    np.testing.assert_array_equal(found["relax"]["z"], np.zeros(4))
    assert isinstance(choose(whole, y0).solver, EulerMaruyama)
    grown = simkit.Coupled({"a": GeometricBrownianMotion(), "ou": OrnsteinUhlenbeck()})
    assert isinstance(choose(grown, as_state(grown, {"a": {"x": 1.0}, "ou": {"x": 1.0}})).solver, Milstein)


class Births(simkit.JumpSystem):
    """Births alone."""

    def propensities(self, t, y, inputs):
        return {"birth": 2.0}

    def jumps(self):
        return {"birth": {"n": 1}}

    example = classmethod(lambda cls: None)


class Node(simkit.ConstrainedSystem):
    """0 = 3 - v."""

    def mass(self, t):
        return {"v": 0.0}

    def vector_field(self, t, y, inputs):
        return {"v": 3.0 - y["v"]}

    example = classmethod(lambda cls: None)


REFUSED = {
    "jumps": ({"a": Births()}, "`Births` jumps at random times.*`ChemicalLangevin"),
    "two readings": ({"a": GeometricBrownianMotion(), "b": Turned()}, "`a` is meant as Ito .* `b` as Stratonovich"),
    "noise and constraints": ({"a": OrnsteinUhlenbeck(), "b": Node()}, "has algebraic equations"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_parts_that_no_solver_steps_together_are_named(name):
    parts, text = REFUSED[name]
    with pytest.raises(simkit.ArgumentError, match=text):
        simkit.Coupled(parts)
