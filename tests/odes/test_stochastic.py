"""Stochastic models: moments against the exact ones, with a threshold from the number of samples."""

import jax
import jax.numpy as jnp
import numpy as np
from helpers import mean_within

import simkit
from simkit import odes

MEMBERS = 4096


def final_values(system, y0, time, substeps):
    """The final state of many independent paths."""
    keys, times = jax.random.split(jax.random.key(7), MEMBERS), jnp.array([0.0, time])
    step = simkit.Fixed(substeps)
    run = jax.jit(jax.vmap(lambda key: simkit.simulate(system, y0, times, step=step, key=key).final()))
    return jax.tree.map(np.asarray, run(keys))


def test_ornstein_uhlenbeck_moments():
    x = final_values(odes.OrnsteinUhlenbeck(mean=0.3), odes.OrnsteinUhlenbeck.State(x=1.0), 1.5, 100).x
    mean, variance = 0.3 + 0.7 * np.exp(-1.5), 0.25 * (1 - np.exp(-3.0)) / 2
    # The method is of order 1.5 for additive noise, so with steps of 0.015 its bias is far below the standard error of 0.005.
    assert mean_within(x, mean)
    assert mean_within((x - mean) ** 2, variance)


def test_geometric_brownian_motion_moments():
    x = final_values(
        odes.GeometricBrownianMotion(volatility=0.4), odes.GeometricBrownianMotion.State(x=2.0), 1.0, 100
    ).x
    # log x is normal with exactly these moments; Ito and Stratonovich would differ by 0.08 in the first, 10 standard errors.
    assert mean_within(np.log(x), np.log(2.0) + 0.1 - 0.08)
    assert mean_within((np.log(x) - np.log(2.0) - 0.02) ** 2, 0.16)
    assert mean_within(x, 2 * np.exp(0.1))


def test_stochastic_lotka_volterra_noise_has_the_covariance_of_its_reactions():
    """Births and deaths are independent, a predation moves one hare and one lynx together: B B^T."""
    system, y0, times, _ = odes.StochasticLotkaVolterra.example()
    factors = system.diffusion(times[0], y0, None)
    matrix = np.stack([factors.hare, factors.lynx])
    birth, predation, death = 50.0, 0.005 * 50 * 100, 0.6 * 100
    expected = [[birth + predation, -predation], [-predation, predation + death]]
    np.testing.assert_allclose(matrix @ matrix.T, expected, rtol=1e-12)


def test_stochastic_lotka_volterra_survives_extinction():
    """At and below 0 the rates are 0, and so is the slope of their square roots."""
    system, _, times, _ = odes.StochasticLotkaVolterra.example()
    for number in (0.0, -0.5):
        extinct = odes.StochasticLotkaVolterra.State(hare=number, lynx=0.0)
        slopes = jax.jacfwd(lambda y: system.diffusion(times[0], y, None))(extinct)
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slopes))
        assert all(float(leaf) == 0 for leaf in jax.tree.leaves(system.drift(times[0], extinct, None)))


def test_stochastic_lotka_volterra_mean_of_the_first_instant():
    """Over a short time the means move with the drift, (a1 - a2, a2 - a3), and the covariance grows as B B^T."""
    system, y0, _, _ = odes.StochasticLotkaVolterra.example()
    time = 0.01
    final = final_values(system, y0, time, 4)
    # The second-order term of the mean, some 20 animals times 0.01^2, lies far below the standard error of 0.013.
    assert mean_within(final.hare - 50.0, (50.0 - 25.0) * time)
    assert mean_within(final.lynx - 100.0, (25.0 - 60.0) * time)
    assert mean_within((final.hare - 50.25) * (final.lynx - 99.65), -25.0 * time)
