"""Thermostats: what each draws and conserves where all is known about it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from md_runs import KEY, H, fluid, ideal

import simkit
from simkit import md

THERMOSTATS = (md.Andersen(1.0, 20.0), md.Berendsen(1.0, 0.1), md.Brownian(1.0, 5.0))


@pytest.mark.parametrize("dynamics", THERMOSTATS, ids=lambda dynamics: type(dynamics).__name__)
def test_a_run_goes_on_from_a_save_time_bit_for_bit(dynamics):
    system, y0 = fluid(dynamics=dynamics)
    whole = simkit.simulate(system, y0, [0.0, 0.1, 0.2], step=H, key=KEY)
    middle = jax.tree.map(lambda x: x[1], whole.ys)
    rest = simkit.simulate(system, middle, [0.1, 0.2], step=H, key=KEY)
    jax.tree.map(np.testing.assert_array_equal, rest.final(), whole.final())


def test_noise_wants_a_key():
    """Without one all members of an ensemble would draw the same."""
    times, over = [0.0, 0.1], {"dynamics.temperature": np.array([1.0, 2.0])}
    for dynamics in (THERMOSTATS[0], THERMOSTATS[2], md.Langevin(1.0, 1.0), md.StochasticRescaling(1.0, 0.1)):
        system, y0 = fluid(dynamics=dynamics)
        with pytest.raises(simkit.ArgumentError, match="`key` must be a random key"):
            simkit.simulate(system, y0, times, step=H)
    with pytest.raises(simkit.ArgumentError, match="`key` must be a random key"):
        simkit.ensemble(system, y0, times, over=over, step=H)


def test_collisions_draw_the_canonical_kinetic_energy_and_account_for_their_heat():
    temperature = 1.5
    system, y0, mass = ideal(md.Andersen(temperature, 10.0), count=8)
    ys = simkit.simulate(system, y0, np.arange(0.0, 400.0, 1.0), step=0.1, key=KEY).ys  # ten collisions an atom apart
    doubled = (np.asarray(ys.momentum) ** 2 / np.asarray(mass)[:, None]).sum((1, 2)) / temperature
    freedom, drawn = 24, doubled[20:]
    n = drawn.size
    assert abs(drawn.mean() - freedom) < 4 * np.sqrt(2 * freedom / n)
    # The variance of a chi-squared number is 2 f, that of its estimate (8 f^2 + 48 f) / n.
    assert abs(drawn.var() - 2 * freedom) < 4 * np.sqrt((8 * freedom**2 + 48 * freedom) / n)
    total = 0.5 * doubled * temperature + np.asarray(ys.thermostat)
    np.testing.assert_allclose(total, total[0], rtol=1e-9)  # no forces: the heat accounts for all


def test_weak_coupling_relaxes_as_it_says_and_does_not_fluctuate():
    temperature, relaxation = 1.5, 0.7
    system, y0, _ = ideal(md.Berendsen(temperature, relaxation), count=8)
    times = np.linspace(0.0, 2.0, 5)
    found = jax.vmap(lambda y: system.prepared(y0).outputs(0.0, y, None)["temperature"])(
        simkit.simulate(system, y0, times, step=0.1).ys
    )
    expected = temperature + (found[0] - temperature) * np.exp(-times / relaxation)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_overdamped_atoms_diffuse():
    temperature, friction, h, steps = 1.5, 4.0, 0.1, 25
    system, y0, mass = ideal(md.Brownian(temperature, friction))
    x = simkit.simulate(system, y0, [0.0, steps * h, 2 * steps * h], step=h, key=KEY).ys.position
    # Of two steps that share a noise; the first of a run has none to share.
    for row, expected in ((0, 4 * steps - 3), (1, 4 * steps - 2)):
        scaled = (np.asarray(x[row + 1] - x[row]) ** 2) * 2 * np.asarray(mass)[:, None] * friction / (temperature * h)
        assert abs(scaled.mean() / expected - 1) < 4 * np.sqrt(2 / scaled.size)


def test_overdamped_oscillators_have_their_width_at_any_step():
    """A step of half the relaxation: Euler's would be a third too wide."""
    temperature, friction, stiffness = 0.7, 2.0, 3.0
    spring = md.PairFunction(lambda r: 0.5 * stiffness * r * r, cutoff=50.0)
    system = md.Particles(spring, md.OpenSpace(), dynamics=md.Brownian(temperature, friction))
    y0 = md.Atoms(jnp.array([[0.0, 0.0, 0.0], [0.1, 0.2, -0.1]]), jnp.zeros((2, 3)))
    h = 0.5 * friction / (2 * stiffness)
    x = simkit.simulate(system, y0, np.arange(4000) * 8 * h, step=h, key=KEY).ys.position[20:]
    apart = np.asarray(x[:, 0] - x[:, 1]).ravel()
    assert abs(apart.var() * stiffness / temperature - 1) < 4 * np.sqrt(2 / apart.size)
    prepared = system.prepared(y0)
    found = prepared.outputs(0.0, md.Atoms(x[-1], jnp.zeros((2, 3))), None)
    np.testing.assert_allclose(found["temperature"], temperature, rtol=1e-12)
