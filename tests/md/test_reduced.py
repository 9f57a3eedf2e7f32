"""Observables inside a compiled run: what reducers make of it equals what its saved states give, derivatives too."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from md_runs import KEY, H, fluid

import simkit
from simkit import md
from simkit.reducers import Mean


def with_epsilon(system, epsilon):
    return eqx.tree_at(lambda s: s.potential.epsilon, system, epsilon)


TIMES = np.linspace(0.0, 0.1, 6)


def shells(system, t, y):
    return md.radial_distribution(system.space, y.position, cutoff=2.0, bins=8, smoothing=0.05).g


def kinetic(system, t, y):
    return md.kinetic_energy(y.momentum, system.masses(y.position)[:, 0])


REDUCE = {"g": Mean(shells), "kinetic": Mean(kinetic)}


@pytest.mark.slow
def test_means_inside_a_run_are_those_of_its_saved_states():
    system, y0 = fluid(dynamics=md.Langevin(1.0, 1.0))
    system = system.prepared(y0)
    options = {"step": H, "key": KEY}

    def inside(epsilon):
        found = simkit.simulate(with_epsilon(system, epsilon), y0, TIMES, reduce=REDUCE, **options)
        return found.reduced["g"], found.reduced["kinetic"], found.ys.position

    def saved(epsilon):
        ys = simkit.simulate(with_epsilon(system, epsilon), y0, TIMES, **options).ys
        means = [jax.vmap(lambda y, f=f: f(system, None, y))(ys).mean(0) for f in (shells, kinetic)]
        return *means, ys.position[jnp.array([0, -1])]

    def both(function):
        value, pull = jax.vjp(function, jnp.asarray(1.1))
        return value, pull(jax.tree.map(jnp.ones_like, value))[0]

    found, expected = jax.jit(lambda: both(inside))(), jax.jit(lambda: both(saved))()
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10), found, expected)
    assert abs(found[1]) > 1


def test_members_of_an_ensemble_are_reduced():
    system, y0 = fluid()
    over = {"potential.epsilon": jnp.array([0.9, 1.1])}
    found = simkit.ensemble(system, y0, TIMES, over=over, step=H, reduce={"kinetic": REDUCE["kinetic"]})
    for epsilon, mean in zip(over["potential.epsilon"], found.reduced["kinetic"], strict=True):
        one = with_epsilon(system, epsilon)
        run = simkit.simulate(one, y0, TIMES, step=H, reduce={"kinetic": REDUCE["kinetic"]})
        np.testing.assert_allclose(mean, run.reduced["kinetic"], rtol=1e-12)
