"""Models with a solution on paper: the state and its gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ellipk

import simkit
from simkit import odes
from simkit.core import Setup

TIGHT = simkit.Adaptive(1e-10, 1e-12)
# A local error of 1e-10 a step adds up to some 1e-9 over the hundred to a thousand steps of these runs.
RTOL, ATOL = 1e-7, 1e-9


def solve(system, y0, times, **options):
    return simkit.simulate(system, y0, times, solver=simkit.solvers.Tsit5(), step=TIGHT, **options)


def check_state_and_gradient(system, y0, times, observe, exact):
    """Compare `observe(ys)` and its derivative by all quantities with `exact(values, times)`, where `values` go by path."""
    setup, times = Setup(system, y0), jnp.asarray(times)
    values = {path: jnp.asarray(value) for path, value in setup.leaves().items()}

    def simulated(values):
        moved = setup.put(values)
        return observe(solve(moved.system, moved.y0, times).ys)

    found, slopes = jax.jit(lambda v: (simulated(v), jax.jacfwd(simulated)(v)))(values)
    expected, expected_slopes = exact(values, times), jax.jacfwd(lambda v: exact(v, times))(values)
    np.testing.assert_allclose(found, expected, rtol=RTOL, atol=ATOL)
    for path in values:
        scale = float(jnp.max(jnp.abs(expected_slopes[path]))) or 1.0
        np.testing.assert_allclose(slopes[path] / scale, expected_slopes[path] / scale, atol=RTOL, err_msg=path)


def test_exponential_decay():
    system, y0, _, _ = odes.ExponentialDecay.example()
    check_state_and_gradient(
        system, y0, np.linspace(0, 10, 6), lambda y: y.amount, lambda v, t: v["y0.amount"] * jnp.exp(-v["rate"] * t)
    )


def test_logistic_growth():
    def exact(v, t):
        return v["capacity"] / (1 + (v["capacity"] / v["y0.size"] - 1) * jnp.exp(-v["growth"] * t))

    system, y0, _, _ = odes.LogisticGrowth.example()
    check_state_and_gradient(system, y0, np.linspace(0, 12, 6), lambda y: y.size, exact)


def test_one_compartment_follows_bateman():
    def exact(v, t):
        ka, ke = v["absorption"], v["clearance"] / v["volume"]
        passed = ka / (ka - ke) * (jnp.exp(-ke * t) - jnp.exp(-ka * t))
        return v["y0.depot"] * passed + v["y0.central"] * jnp.exp(-ke * t)

    system, y0, _, _ = odes.OneCompartment.example()
    check_state_and_gradient(system, y0, np.linspace(0, 25, 6), lambda y: y.central, exact)


def test_one_compartment_output_is_a_concentration():
    system = odes.OneCompartment(volume=20.0)
    state = odes.OneCompartment.State(depot=1.0, central=50.0)
    assert float(system.outputs(jnp.zeros(()), state, None).concentration) == 2.5


def test_one_compartment_infusion():
    """A constant infusion u into the depot ends at u / ka there and u / ke in the body."""
    system = odes.OneCompartment()
    y0 = odes.OneCompartment.State(depot=0.0, central=0.0)
    final = solve(system, y0, [0.0, 400.0], inputs={"dose": 14.0}).final()
    np.testing.assert_allclose(final.depot, 14.0 / 1.5, rtol=RTOL)
    np.testing.assert_allclose(final.central, 14.0 / (2.8 / 32.0), rtol=RTOL)


def test_two_compartment_infusion():
    """A constant infusion u ends where the enzyme takes u: C = Km u / (Vm - u), in both compartments."""
    system = odes.TwoCompartment()
    y0 = odes.TwoCompartment.State(central=0.0, peripheral=0.0)
    final = solve(system, y0, [0.0, 3000.0], inputs={"dose": 12.5}).final()
    steady = 5.0 * 12.5 / (21.0 - 12.5)
    np.testing.assert_allclose([final.central / 25, final.peripheral / 25], [steady, steady], rtol=RTOL)


def test_two_compartment_without_elimination_keeps_every_dose():
    # An enzyme that takes 1e-12 mg/h loses 1e-10 mg of 900 in the time of the run.
    system = odes.TwoCompartment(max_elimination=1e-12)
    dose = simkit.Pulses(times=[1.0, 25.0], amounts=[300.0, 300.0], duration=1.0)
    y0 = odes.TwoCompartment.State(central=300.0, peripheral=0.0)
    final = solve(system, y0, [0.0, 100.0], inputs={"dose": dose}).final()
    np.testing.assert_allclose(final.central + final.peripheral, 900.0, rtol=1e-9)
    np.testing.assert_allclose(final.central, final.peripheral, rtol=RTOL)


def test_harmonic_oscillator():
    def exact(v, t):
        omega = jnp.sqrt(v["stiffness"] / v["mass"])
        return v["y0.position"] * jnp.cos(omega * t) + v["y0.momentum"] / (v["mass"] * omega) * jnp.sin(omega * t)

    y0 = simkit.SeparableSystem.State(position=1.0, momentum=0.5)
    system = odes.HarmonicOscillator(mass=2.0, stiffness=3.0)
    check_state_and_gradient(system, y0, np.linspace(0, 10, 6), lambda y: y.position, exact)


def test_kepler_follows_its_equation():
    """Positions over a third of an orbit, and further, against Kepler's equation; the gradient through its solution."""
    eccentricity = 0.5

    def exact(v, t):
        mean = t * jnp.sqrt(v["attraction"])
        angle = mean + eccentricity * jnp.sin(mean)
        for _ in range(8):  # Newton's method doubles the right digits in each turn
            angle -= (angle - eccentricity * jnp.sin(angle) - mean) / (1 - eccentricity * jnp.cos(angle))
        return jnp.stack([jnp.cos(angle) - eccentricity, jnp.sqrt(1 - eccentricity**2) * jnp.sin(angle)], axis=-1)

    times = jnp.linspace(0.0, 1.0, 7)
    values = {"attraction": jnp.asarray(4 * np.pi**2)}
    axis = jnp.array([0.0, np.sqrt(3.0)])  # the speed at the near end is sqrt(mu (1 + e) / (1 - e))

    def simulated(v):
        y0 = simkit.SeparableSystem.State(position=jnp.array([0.5, 0.0]), momentum=axis * jnp.sqrt(v["attraction"]))
        return solve(odes.Kepler(attraction=v["attraction"]), y0, times).ys.position

    found, slope = jax.jit(lambda v: (simulated(v), jax.jacfwd(simulated)(v)))(values)
    np.testing.assert_allclose(found, exact(values, times), atol=1e-7)
    np.testing.assert_allclose(
        slope["attraction"], jax.jacfwd(lambda v: exact(v, times))(values)["attraction"], atol=1e-7
    )
    np.testing.assert_allclose(found[-1], found[0], atol=1e-7)  # one orbit a year


@pytest.mark.parametrize("angle", [0.01, 1.0, 3.0])
def test_pendulum_period(angle):
    """After one period 4 sqrt(l / g) K(sin^2(angle / 2)) the pendulum is back; after half of it on the other side."""
    system = odes.Pendulum(length=2.0)
    period = 4 * np.sqrt(2.0 / 9.81) * ellipk(np.sin(angle / 2) ** 2)
    ys = solve(
        system, simkit.SeparableSystem.State(position=angle, momentum=0.0), [0.0, period / 4, period / 2, period]
    ).ys
    np.testing.assert_allclose(ys.position, [angle, 0.0, -angle, angle], atol=1e-6 * angle)


def test_pendulum_torque_shifts_its_rest():
    """Torque m g l sin(theta) holds the pendulum at theta."""
    held = simkit.SeparableSystem.State(position=0.3, momentum=0.0)
    torque = 9.81 * np.sin(0.3)
    final = solve(odes.Pendulum(), held, [0.0, 0.5], inputs={"torque": torque}).final()
    np.testing.assert_allclose(final.position, 0.3, atol=1e-9)


def test_figure_of_eight_closes():
    system, y0, _, _ = odes.NBody.example()
    system = odes.NBody(softening=0.0)
    final = solve(system, y0, [0.0, 6.32591398]).final()
    # The published start has eight digits, and an error grows a hundredfold over the period.
    np.testing.assert_allclose(final.position, y0.position, atol=2e-6)


def test_two_bodies_equal_kepler():
    """The separation of two bodies follows Kepler's problem with the attraction G (m1 + m2)."""
    system = odes.NBody(masses=[1.0, 3.0], gravity=2.0, softening=0.0)
    apart, rate = jnp.array([0.6, 0.0]), jnp.array([0.0, 4.0])
    reduced = 3.0 / 4.0
    y0 = simkit.SeparableSystem.State(
        position=jnp.stack([apart * 0.75, -apart * 0.25]), momentum=jnp.stack([rate, -rate]) * reduced
    )
    times = jnp.linspace(0.0, 1.5, 5)
    bodies = solve(system, y0, times).ys.position
    single = solve(
        odes.Kepler(attraction=8.0), simkit.SeparableSystem.State(position=apart, momentum=rate), times
    ).ys.position
    np.testing.assert_allclose(bodies[:, 0] - bodies[:, 1], single, atol=1e-7)
