"""What is known of the models: fixed points, bifurcations, periods, final sizes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.optimize import brentq

import simkit
from simkit import odes
from simkit.odes._hodgkin_huxley import expm1_ratio

ZERO = jnp.zeros(())


def field(system):
    """The vector field as a compiled function of a flat state."""
    _, restore = ravel_pytree(type(system).example().y0)
    return jax.jit(lambda y: ravel_pytree(system.vector_field(ZERO, restore(y), None))[0])


def eigenvalues(system, state):
    return np.linalg.eigvals(jax.jacfwd(field(system))(ravel_pytree(state)[0]))


def steady(system, start):
    """The steady state near `start`, by Newton's method."""
    slope = field(system)
    y, restore = ravel_pytree(start)
    for _ in range(20):
        y = y - np.linalg.solve(jax.jacfwd(slope)(y), slope(y))
    # The terms that cancel are up to a hundred in size.
    np.testing.assert_allclose(slope(y), 0, atol=1e-12)
    return restore(y)


def assert_steady(system, state, scale=1.0):
    np.testing.assert_allclose(field(system)(ravel_pytree(state)[0]), 0, atol=1e-12 * scale)


def solve(system, y0, times):
    return simkit.simulate(system, y0, times, step=simkit.Adaptive(1e-9, 1e-11))


def crossings(times, x):
    """Times of upward zero crossings of densely sampled values, by linear interpolation."""
    up = np.flatnonzero((x[:-1] < 0) & (x[1:] >= 0))
    return times[up] - x[up] * (times[up + 1] - times[up]) / (x[up + 1] - x[up])


def test_van_der_pol_period():
    times = np.linspace(0.0, 60.0, 60001)
    position = np.asarray(solve(odes.VanDerPol(), odes.VanDerPol.State(2.0, velocity=0.0), times).ys.position)
    found = np.diff(crossings(times, position))[3:]
    # 6.6632868593 is the period of the limit cycle at damping 1. Linear interpolation between samples 1e-3 apart is good to 1e-7.
    np.testing.assert_allclose(found, 6.6632868593, atol=1e-6)


def test_lorenz63_fixed_points():
    system, side = odes.Lorenz63(), np.sqrt(72.0)
    for sign in (-1, 1):
        assert_steady(system, odes.Lorenz63.State(sign * side, sign * side, z=27.0), 100)
    # The characteristic polynomial at the rolls is l^3 + (s + b + 1) l^2 + b (s + r) l + 2 s b (r - 1).
    roots = np.roots([1, 10 + 8 / 3 + 1, 8 / 3 * 38, 2 * 10 * 8 / 3 * 27])
    found = eigenvalues(system, odes.Lorenz63.State(side, side, z=27.0))
    np.testing.assert_allclose(np.sort_complex(found), np.sort_complex(roots), atol=1e-10)
    at_rest = np.sort(eigenvalues(system, odes.Lorenz63.State(0.0, 0.0, z=0.0)).real)
    np.testing.assert_allclose(at_rest, np.sort([-8 / 3, -5.5 + np.sqrt(1201) / 2, -5.5 - np.sqrt(1201) / 2]))


def test_lorenz96_equilibrium_and_its_loss_of_stability():
    rest = lambda forcing: odes.Lorenz96.State(x=jnp.full(40, forcing))
    assert_steady(odes.Lorenz96(forcing=8.0), rest(8.0))
    # A wave with the phase k from place to place grows where F (cos k - cos 2k) > 1; of those that fit, eight on the circle
    # come first, close to 8/9.
    waves = 2 * np.pi * np.arange(1, 20) / 40
    critical = 1 / np.max(np.cos(waves) - np.cos(2 * waves))
    assert eigenvalues(odes.Lorenz96(forcing=0.99 * critical), rest(0.99 * critical)).real.max() < 0
    assert eigenvalues(odes.Lorenz96(forcing=1.01 * critical), rest(1.01 * critical)).real.max() > 0


def test_lorenz96_advection_conserves_energy():
    x = jnp.asarray(np.random.default_rng(0).standard_normal(40))
    slope = odes.Lorenz96(forcing=0.0).vector_field(ZERO, odes.Lorenz96.State(x=x), None).x + x
    np.testing.assert_allclose(jnp.sum(x * slope), 0, atol=1e-12)


def test_rossler_fixed_points():
    a, b, c = 0.2, 0.2, 5.7
    for sign in (-1, 1):
        zeta = (c + sign * np.sqrt(c * c - 4 * a * b)) / (2 * a)
        assert_steady(odes.Rossler(), odes.Rossler.State(a * zeta, -zeta, z=zeta), 100)


@pytest.mark.parametrize("feed", [0.5, 1.0, 2.0])
def test_brusselator_hopf(feed):
    """At B = 1 + A^2 the eigenvalues are +- i A."""
    critical = 1 + feed**2
    state = odes.Brusselator.State(feed, y=critical / feed)
    found = eigenvalues(odes.Brusselator(feed=feed, conversion=critical), state)
    np.testing.assert_allclose(np.sort_complex(found), [-1j * feed, 1j * feed], atol=1e-12)


def test_glycolysis_hopf():
    leak = 0.08
    for sign in (-1, 1):
        supply = np.sqrt((1 - 2 * leak + sign * np.sqrt(1 - 8 * leak)) / 2)
        state = odes.Glycolysis.State(supply, f6p=supply / (leak + supply**2))
        system = odes.Glycolysis(leak=leak, supply=supply)
        assert_steady(system, state)
        np.testing.assert_allclose(eigenvalues(system, state).real, 0, atol=1e-12)


def test_rosenzweig_macarthur_hopf():
    """Coexistence at N* loses stability where K = 2 N* + 1 / (a h)."""
    prey = 0.4 / (1.5 * (0.5 - 0.4 * 0.5))
    capacity = 2 * prey + 1 / (1.5 * 0.5)
    system = odes.RosenzweigMacArthur(capacity=capacity)
    predator = 1.0 * (1 - prey / capacity) * (1 + 1.5 * 0.5 * prey) / 1.5
    state = odes.RosenzweigMacArthur.State(prey, predator=predator)
    assert_steady(system, state)
    np.testing.assert_allclose(eigenvalues(system, state).real, 0, atol=1e-12)


def test_sir_final_size():
    """The share z of all that fall ill solves 1 - z = s exp(-R0 z), with the share s that can fall ill at first."""
    final = solve(odes.SIR(), odes.SIR.example().y0, [0.0, 200.0]).final()
    share = brentq(lambda z: 1 - z - 762 / 763 * np.exp(-1.66 / 0.4545 * z), 0.1, 1.0, xtol=1e-14)
    np.testing.assert_allclose(final.recovered / 763, share, rtol=1e-7)


def test_goodwin_needs_cooperativity_above_eight():
    """With equal decay the steady state is unstable exactly where n (K-saturation) exceeds 8 (Griffith 1968)."""
    for cooperativity, oscillates in ((8.0, False), (12.0, True)):
        balance = lambda z, n=cooperativity: 1 / (1 + z**n) - 1e-3 * z
        z = brentq(balance, 0.1, 10.0, xtol=1e-14)
        state = odes.Goodwin.State(0.01 * z, protein=0.1 * z, repressor=z)
        system = odes.Goodwin(cooperativity=cooperativity)
        assert_steady(system, state)
        assert (eigenvalues(system, state).real.max() > 0) == oscillates


def test_fitzhugh_nagumo_rest():
    """Without current the rest solves v - v^3 / 3 = (v + 0.7) / 0.8; it is stable, and no longer with a current of 0.5."""
    for current, stable in ((0.0, True), (0.5, False)):
        rest = brentq(lambda v, i=current: v - v**3 / 3 - (v + 0.7) / 0.8 + i, -3.0, 0.0, xtol=1e-14)
        state = odes.FitzHughNagumo.State(rest, recovery=(rest + 0.7) / 0.8)
        system = odes.FitzHughNagumo(current=current)
        assert_steady(system, state)
        assert (eigenvalues(system, state).real.max() < 0) == stable


def test_an_input_adds_to_the_constant():
    state = odes.FitzHughNagumo.State(0.3, recovery=0.1)
    both = odes.FitzHughNagumo(current=0.2).vector_field(ZERO, state, {"current": jnp.asarray(0.3)})
    alone = odes.FitzHughNagumo(current=0.5).vector_field(ZERO, state, None)
    np.testing.assert_allclose(both.voltage, alone.voltage, rtol=1e-15)


def test_an_unknown_input_is_named():
    state = odes.FitzHughNagumo.State(0.3, recovery=0.1)
    with pytest.raises(simkit.UnknownNameError, match=r"no input of this system `current`.*`curent`"):
        odes.FitzHughNagumo().vector_field(ZERO, state, {"curent": jnp.asarray(0.3)})


def test_hodgkin_huxley_rest():
    """Without current the membrane rests at -65 mV with the textbook values of its gates, and stably."""
    state = steady(odes.HodgkinHuxley(current=0.0), odes.HodgkinHuxley.example().y0)
    np.testing.assert_allclose(state.voltage, -65.0, atol=0.01)
    gates = [state.sodium_activation, state.sodium_inactivation, state.potassium_activation]
    np.testing.assert_allclose(gates, [0.0529, 0.5961, 0.3177], atol=2e-4)
    assert eigenvalues(odes.HodgkinHuxley(current=0.0), state).real.max() < 0


@pytest.mark.parametrize("voltage", [-40.0, -55.0, -40.0 + 1e-9, -55.0 - 0.49, -55.0 + 0.51])
def test_hodgkin_huxley_is_smooth_at_the_removable_singularities(voltage):
    state = ravel_pytree(odes.HodgkinHuxley.State(voltage, 0.1, 0.5, potassium_activation=0.4))[0]
    slope = field(odes.HodgkinHuxley())
    jacobian, near = jax.jacfwd(slope)(state), 1e-4 * jnp.eye(4)[0]
    assert np.isfinite(jax.jit(jax.hessian(lambda y: slope(y).sum()))(state)).all()
    # Central differences 1e-4 mV apart are good to some 1e-9.
    np.testing.assert_allclose(jacobian[:, 0], (slope(state + near) - slope(state - near)) / 2e-4, atol=1e-7)


def test_expm1_ratio_derivatives_at_zero():
    """x / (exp(x) - 1) = 1 - x / 2 + x^2 / 12 + 0 x^3 - ..., and both branches meet."""
    first = jax.jit(jax.grad(expm1_ratio))
    second, third = jax.jit(jax.grad(first)), jax.jit(jax.grad(jax.grad(first)))
    np.testing.assert_allclose(
        [expm1_ratio(ZERO), first(ZERO), second(ZERO), third(ZERO)], [1, -0.5, 1 / 6, 0], atol=1e-15
    )
    for x in (0.05, -0.05):
        below, above = jnp.asarray(x * (1 - 1e-12)), jnp.asarray(x * (1 + 1e-12))
        np.testing.assert_allclose(expm1_ratio(below), expm1_ratio(above), rtol=1e-12)
        np.testing.assert_allclose(first(below), first(above), rtol=1e-10)


def test_morris_lecar_hopf():
    """The rest of the Hopf set loses stability near 94 uA/cm^2 (Rinzel & Ermentrout 1998, section 7.3)."""
    largest = {}
    for current in (92.0, 96.0):
        system = odes.MorrisLecar(current=current)
        state = steady(system, odes.MorrisLecar.State(-27.0, potassium_activation=0.13))
        largest[current] = eigenvalues(system, state).real.max()
    assert largest[92.0] < 0 < largest[96.0]


def test_cstr_steady_state():
    """0.5 mol/L and 350 K balance for coolant at 300 K, to the digits of the published constants."""
    state = odes.CSTR.State(0.5, temperature=350.0)
    slope = odes.CSTR(coolant=300.0).vector_field(ZERO, state, None)
    np.testing.assert_allclose([slope.concentration, slope.temperature], 0, atol=0.1)
    assert eigenvalues(odes.CSTR(coolant=300.0), state).real.max() > 0


def test_cart_pole_small_motions_and_energy():
    system = odes.CartPole()
    # Over m l: a pole that hangs swings, one that stands falls, at the rate of the docstring.
    rate = 9.81 / (0.5 * (4 / 3 - 0.1 / 1.1))
    for angle, sign in ((0.0, 1.0), (np.pi, -1.0)):
        found = eigenvalues(system, odes.CartPole.State(position=0.0, velocity=0.0, angle=angle, spin=0.0))
        np.testing.assert_allclose(np.max(np.real(found**2) * sign), rate, rtol=1e-12)
    y0 = odes.CartPole.State(position=0.0, velocity=0.3, angle=2.0, spin=-4.0)
    run = solve(system, y0, np.linspace(0.0, 10.0, 21))
    energy = jax.vmap(lambda y: system.invariants(ZERO, y)["energy"])(run.ys)
    np.testing.assert_allclose(energy, energy[0], atol=1e-8)
    # With equal work done: a force through the way of the cart.
    pushed = simkit.simulate(
        system, y0, [0.0, 1.0], inputs={"force": simkit.Constant(2.0)}, step=simkit.Adaptive(1e-9, 1e-11)
    )
    gained = system.invariants(ZERO, pushed.final())["energy"] - energy[0]
    np.testing.assert_allclose(gained, 2.0 * pushed.final().position, rtol=1e-7)


def test_energy_balance_of_one_albedo_is_a_sum_of_legendre_polynomials():
    system = odes.EnergyBalance(warm_albedo=0.3, ice_albedo=0.3)
    found = solve(system, odes.EnergyBalance.State(temperature=jnp.zeros(24)), [0.0, 150.0]).final().temperature
    edge = np.linspace(-1.0, 1.0, 25)
    legendre = np.diff((edge**3 - edge) / 2) * 12  # the second one, in the mean over each band
    mean, slope = (340.0 * 0.7 - 203.3) / 2.09, -0.482 * 340.0 * 0.7 / (2.09 + 6 * 0.649)
    np.testing.assert_allclose(found, mean + slope * legendre, atol=1e-6)


def test_energy_balance_has_two_climates_under_one_sun():
    system, warm, _, _ = odes.EnergyBalance.example()
    years = np.linspace(0.0, 200.0, 3)
    today = system.outputs(ZERO, solve(system, warm, years).final(), None)
    frozen = system.outputs(
        ZERO, solve(system, odes.EnergyBalance.State(temperature=jnp.full(40, -40.0)), years).final(), None
    )
    assert 13.0 < float(today.mean) < 16.0  # some 15 degC
    assert 0.0 < float(today.ice) < 0.1
    assert float(frozen.ice) > 0.99
    assert float(frozen.mean) < -30.0
