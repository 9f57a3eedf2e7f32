"""Every public verb, called twice with the same arguments, traces and compiles once."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import Experiment, Free, Problem, count_compilations, md
from simkit.noise import Normal

TIMES = np.linspace(0.0, 2.0, 6)
KEY = jax.random.key(0)


def decay():
    """Made anew at every call, as scripts do."""
    return simkit.odes.ExponentialDecay(0.7), simkit.odes.ExponentialDecay.example().y0


def problem():
    system, y0 = decay()
    data = {"amount": np.asarray(9.0 * np.exp(-0.7 * TIMES) + 0.1 * np.cos(5 * TIMES))}
    free = {"rate": Free(bounds=(0.1, 3.0))}
    return Problem(system, Experiment("one", TIMES, data), y0=y0, free=free, noise={"amount": Normal(0.2)}, step=0.5)


def atoms():
    position = jnp.asarray(np.stack(np.meshgrid(*[1.2 * np.arange(3)] * 3), axis=-1).reshape(-1, 3))
    space = md.Orthorhombic(jnp.full(3, 3.6))
    return md.Particles(md.LennardJones(1.0, 1.0, cutoff=1.5), space), md.Atoms(position, jnp.zeros_like(position))


@functools.cache
def fitted():
    return simkit.fit(problem(), starts=2)


VERBS = {
    "simulate": lambda folder: simkit.simulate(*decay(), TIMES),
    "ensemble": lambda folder: simkit.ensemble(*decay(), TIMES, over={"rate": np.linspace(0.1, 1.0, 5)}),
    "sweep": lambda folder: simkit.sweep(
        *decay(), TIMES, over={"rate": np.linspace(0.1, 1.0, 6)}, store=folder, chunk=3
    ),
    "fit": lambda folder: simkit.fit(problem(), starts=2),
    "profile": lambda folder: simkit.profile(problem(), fitted()),
    "predict": lambda folder: simkit.predict(problem(), np.array([[0.5], [0.7]]), TIMES),
    "prior_draws": lambda folder: simkit.prior_draws(problem(), key=KEY, count=5),
    "profile_prediction": lambda folder: simkit.profile_prediction(problem(), fitted(), "amount", [3.0]),
    "plan": lambda folder: simkit.plan(problem(), fitted(), np.linspace(0.5, 4.0, 6)),
    "compare": lambda folder: simkit.compare({"one": [fitted()], "other": [fitted()]}),
    "simulate atoms": lambda folder: simkit.simulate(*atoms(), [0.0, 0.01], step=0.002),
    "minimise atoms": lambda folder: md.minimise(*atoms()),
    "check_gradient": lambda folder: simkit.testing.check_gradient(problem()),
    "locate": lambda folder: simkit.inspect.locate(*decay(), TIMES),
    "watch": lambda folder: list(simkit.inspect.watch(*decay(), TIMES, [0, 2])),
}
SLOW = {
    "averages of atoms": lambda folder: md.averages(
        atoms()[0],
        simkit.simulate(*atoms(), np.linspace(0.0, 0.2, 11), step=0.01),
        cutoff=1.5,
        bins=8,
        between=(0.02, 0.1),
    ),
    "sample by NUTS": lambda folder: simkit.sample(problem(), key=KEY, draws=10, start=fitted()),
    "sample by an ensemble": lambda folder: simkit.sample(
        problem(), method=simkit.EnsembleSampler(), key=KEY, draws=10, start=fitted()
    ),
    "sample by a normal approximation": lambda folder: simkit.sample(
        problem(), method=simkit.LaplaceApproximation(), key=KEY, draws=10, start=fitted()
    ),
    "sample by variation": lambda folder: simkit.sample(
        problem(), method=simkit.Variational(), key=KEY, draws=10, start=fitted()
    ),
    "sample by tempering": lambda folder: simkit.sample(
        problem(), method=simkit.TemperedSMC(), key=KEY, chains=2, draws=16
    ),
    "perturbation_growth": lambda folder: simkit.testing.perturbation_growth(*decay(), TIMES),
    "calibrate": lambda folder: simkit.calibrate(problem(), key=KEY, simulations=20, draws=9, warmup=50),
}


@pytest.mark.parametrize("name", [*VERBS, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_twice_is_compiled_once(name, tmp_path):
    verb = (VERBS | SLOW)[name]
    verb(tmp_path / "first")
    with count_compilations() as counter:
        verb(tmp_path / "second")
    assert counter.traces == counter.compilations == counter.from_disk == 0, counter
