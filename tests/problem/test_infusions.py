"""Infusions into constrained, separable and encoded systems, and with reducers, beside exact solutions."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit.core import ConstrainedSystem
from simkit.problem import Dose, Doses, dose_event
from simkit.reducers import Mean

TIGHT = simkit.Adaptive(1e-10, 1e-12)
TIMES = np.array([0.0, 0.5, 1.0, 2.0, 3.0, 5.0])
RATE, BEGIN, END = 4.0, 1.0, 3.0


class Levelled(ConstrainedSystem):
    """2 da/dt = -2 k a with the algebraic 0 = level - 3 a."""

    k: simkit.Scalar = simkit.quantity(0.5)
    whole: bool = eqx.field(static=True, default=False)

    def mass(self, t):
        return np.diag([2.0, 0.0]) if self.whole else {"amount": 2.0, "level": 0.0}

    def vector_field(self, t, y, inputs):
        return {"amount": -2.0 * self.k * y["amount"], "level": y["level"] - 3.0 * y["amount"]}

    @classmethod
    def example(cls):
        return simkit.Example(cls(), {"amount": jnp.asarray(1.0), "level": jnp.asarray(3.0)}, jnp.linspace(0.0, 5.0, 6))


class Logged(simkit.PlainSystem):
    """da/dt = -k a, whose solver steps the logarithm."""

    k: simkit.Scalar = simkit.quantity(0.5)

    def encode(self, y):
        return {"amount": jnp.log(y["amount"])}

    def decode(self, state):
        return {"amount": jnp.exp(state["amount"])}

    def vector_field(self, t, y, inputs):
        return {"amount": -self.k + 0.0 * y["amount"]}

    @classmethod
    def example(cls):
        return simkit.Example(cls(), {"amount": jnp.asarray(1.0)}, jnp.linspace(0.0, 5.0, 6))


def event(y0, **more):
    return {"dose": dose_event(Doses(Dose(RATE * (END - BEGIN), BEGIN, "amount", duration=END - BEGIN, **more)), y0)}


def infused(t, k, start=1.0):
    """The amount: what was there decays, and the rate flows in from BEGIN to END."""
    grown = lambda s: np.exp(-k * np.maximum(t - s, 0.0))
    return start * np.exp(-k * t) + RATE / k * (grown(END) - grown(BEGIN))


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_constrained_system(whole):
    system, y0 = Levelled(whole=whole), {"amount": 1.0, "level": 3.0}
    found = simkit.simulate(system, y0, TIMES, events=event(y0), step=TIGHT)
    np.testing.assert_allclose(found.ys["amount"], infused(TIMES, 0.5), rtol=1e-7)
    np.testing.assert_allclose(found.ys["level"], 3.0 * infused(TIMES, 0.5), rtol=1e-7)
    assert set(found.events.before) == {"amount", "level"}


def test_an_algebraic_number_takes_no_infusion():
    y0 = {"amount": 1.0, "level": 3.0}
    own = {"dose": dose_event(Doses(Dose(1.0, 0.0, "level", rate=1.0)), y0)}
    with pytest.raises(simkit.ArgumentError, match="number 2 of the state of `Levelled` is algebraic"):
        simkit.simulate(Levelled(), y0, TIMES, events=own, step=TIGHT)


def logged(k):
    return simkit.simulate(Logged(k), {"amount": 1.0}, TIMES, events=event({"amount": 1.0}), step=TIGHT).ys["amount"]


def test_an_encoded_system():
    np.testing.assert_allclose(logged(0.5), infused(TIMES, 0.5), rtol=1e-8)


@pytest.mark.slow
def test_derivatives_of_an_encoded_system():
    slope = jax.jacrev(logged)(jnp.asarray(0.5))
    np.testing.assert_allclose(slope, (infused(TIMES, 0.50001) - infused(TIMES, 0.49999)) / 2e-5, rtol=1e-6, atol=1e-9)


@pytest.mark.slow
def test_a_reset_of_an_encoded_system():
    found = simkit.simulate(Logged(), {"amount": 2.0}, TIMES, events=event({"amount": 2.0}, resets=True), step=TIGHT)
    since = TIMES[TIMES >= BEGIN]
    expected = infused(since, 0.5, start=0.0) + 2.0 * np.exp(-0.5 * (since - BEGIN))
    np.testing.assert_allclose(found.ys["amount"][TIMES >= BEGIN], expected, rtol=1e-8)
    with pytest.raises(
        simkit.ArgumentError, match="Steady states of doses need a system whose solver steps the state itself"
    ):
        simkit.simulate(
            Logged(), {"amount": 2.0}, TIMES, events=event({"amount": 2.0}, steady=True, every=4.0), step=TIGHT
        )


def test_a_separable_system():
    """A constant force F on an oscillator at rest: x = F / k (1 - cos(w t)) while it lasts."""
    oscillator, _, _, _ = simkit.odes.HarmonicOscillator.example()
    y0 = type(oscillator).State(position=jnp.zeros(()), momentum=jnp.zeros(()))
    own = {"dose": dose_event(Doses(Dose(2.0, 0.0, "momentum", duration=10.0)), y0)}
    times = np.linspace(0.0, 9.0, 10)
    found = simkit.simulate(oscillator, y0, times, events=own, step=TIGHT, solver="tsit5")
    m, k = float(oscillator.mass), float(oscillator.stiffness)
    np.testing.assert_allclose(found.ys.position, 0.2 / k * (1 - np.cos(np.sqrt(k / m) * times)), atol=1e-8)
    with pytest.raises(simkit.ArgumentError, match='Take `solver="tsit5"`'):
        simkit.simulate(oscillator, y0, times, events=own, step=0.1)


@pytest.mark.parametrize("step", [TIGHT, pytest.param(0.01, marks=pytest.mark.slow)])
def test_a_reducer(step):
    y0 = {"amount": 1.0}
    system = simkit.odes.from_function(lambda t, y, p: {"amount": -p["k"] * y["amount"]}, {"k": 0.5})
    mean = Mean(lambda system, t, y: system.parameters["k"] * y["amount"])
    reduced = simkit.simulate(system, y0, TIMES, events=event(y0), step=step, reduce={"loss": mean})
    saved = np.asarray(simkit.simulate(system, y0, TIMES, events=event(y0), step=step).ys["amount"])
    np.testing.assert_allclose(reduced.reduced["loss"], np.mean(0.5 * saved), rtol=1e-8)
    np.testing.assert_allclose(reduced.ys["amount"], saved[[0, -1]], rtol=1e-10)


def test_a_system_with_a_structure_of_its_own_takes_none():
    system, y0, times, _ = simkit.odes.OrnsteinUhlenbeck.example()
    own = {"dose": dose_event(Doses(Dose(1.0, 0.0, 1, rate=1.0)), y0)}
    with pytest.raises(simkit.ArgumentError, match="Infusions need a system whose derivative they can be added to"):
        simkit.simulate(system, y0, times, events=own, key=jax.random.key(0))
