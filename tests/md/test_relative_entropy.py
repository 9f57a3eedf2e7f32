"""Coarse-graining by relative entropy: closed forms of wells, and the Lennard-Jones liquid that finds its own numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import md

STIFFNESS = "particles.potential.stiffness"
TEMPERATURE = "particles.dynamics.temperature"
FRAMES, ATOMS = 60, 8
RANDOM = jax.random.normal(jax.random.key(7), (2 * FRAMES, ATOMS, 3))
POSITION = 0.5 * RANDOM * jnp.repeat(jnp.array([1.0, 1.5**0.5]), FRAMES)[:, None, None]
"""Atoms in a well of k = 4 at the temperatures 1 and 1.5, drawn from its normal distribution."""


def trap(stiffness):
    return md.Particles(md.HarmonicTrap(stiffness, jnp.zeros(3)), md.OpenSpace(), dynamics=md.Langevin(1.0, 2.0))


def model(stiffness=3.0, **options):
    arguments = {"times": np.arange(405) * 2.0, "step": 0.2, "discard": 5} | options
    return md.RelativeEntropy(trap(stiffness), md.Atoms(POSITION, 0 * POSITION), **arguments)


def problem_of(weight=1.0):
    """Two states; frames of the second at the temperature of 1.5."""
    data = [
        simkit.Experiment("cold", np.arange(FRAMES), {"log_density": np.full(FRAMES, weight)}),
        simkit.Experiment(
            "hot", FRAMES + np.arange(FRAMES), {"log_density": np.full(FRAMES, weight)}, set={TEMPERATURE: 1.5}
        ),
    ]
    return simkit.Problem(model(), data, free={STIFFNESS: simkit.Free(bounds=(0.2, 20.0), start=3.0)})


@pytest.fixture(scope="module")
def fitted():
    problem = problem_of()
    return problem, simkit.fit(problem, key=jax.random.key(1))


def exact():
    """The likelihood of n normal numbers of variance T / k is largest at k = n / sum(x^2 / T)."""
    scaled = np.asarray(POSITION) ** 2 / np.repeat([1.0, 1.5], FRAMES)[:, None, None]
    return scaled.size / scaled.sum(), scaled.size


def test_fit_finds_the_largest_likelihood(fitted):
    """Within four errors of the draws, 2 * 400 * 24 squares; the standard error is that of n squares, k sqrt(2 / n)."""
    problem, fit = fitted
    best, count = exact()
    own = best * np.sqrt(2 / (2 * 400 * 24))
    assert abs(float(fit.estimate[0]) - best) < 4 * own
    # The covariance of energies is known as well as a variance from 400 frames, in two states.
    np.testing.assert_allclose(float(fit.standard_error[0]), best * np.sqrt(2 / count), rtol=4 * np.sqrt(2 / 800))
    assert "DensityOfStates" in repr(problem)
    said = [text for text in fit.misfit if "finite number of draws" in text]
    assert len(said) == 1
    assert f"{own:.1g}"[:3] in said[0]


def test_density_and_gradient_are_those_of_normal_distributions(fitted):
    """ln p = n/2 ln k - k sum(x^2/T)/2 but for a constant; its slope at k0 from draws of another k."""
    problem, _ = fitted
    drawn = simkit.refresh(problem, jnp.array([4.0]), key=jax.random.key(3))
    scaled = float(np.sum(np.asarray(POSITION) ** 2 / np.repeat([1.0, 1.5], FRAMES)[:, None, None]))
    count = POSITION.size
    told = lambda k: 0.5 * count * np.log(k) - 0.5 * k * scaled
    values = [float(drawn.log_likelihood(jnp.array([k]))[0]) for k in (3.6, 4.0, 4.4)]
    # Each log of a normalisation errs by 60 frames times that of 400 weights, of variance n (dk/k)^2 / 2 with n = 24.
    within = 4 * FRAMES * np.sqrt(2 * 24 * 0.1**2 / 2 / 400)
    for k, value in ((3.6, values[0]), (4.4, values[2])):
        assert abs(value - values[1] - (told(k) - told(4.0))) < within
    slope = float(jax.grad(lambda k: drawn.log_likelihood(k)[0])(jnp.array([4.0]))[0])
    expected = 0.5 * count / 4.0 - 0.5 * scaled
    assert abs(slope - expected) < 4 * FRAMES * np.sqrt(2) * np.sqrt(24 / 2) / 4.0 / np.sqrt(400)


def test_weights_scale_the_information(fitted):
    problem, fit = fitted
    lighter = simkit.refresh(problem_of(0.25), fit.estimate, key=jax.random.key(4))
    heavy = simkit.refresh(problem, fit.estimate, key=jax.random.key(4))
    np.testing.assert_allclose(
        4 * np.asarray(lighter.information(fit.estimate)), np.asarray(heavy.information(fit.estimate)), rtol=1e-10
    )


def test_densities_are_not_a_number_where_draws_do_not_count(fitted):
    problem, fit = fitted
    drawn = simkit.refresh(problem, fit.estimate, key=jax.random.key(5))
    assert not np.isfinite(float(drawn.log_likelihood(jnp.array([12.0]))[0]))
    assert not np.isfinite(float(problem.log_likelihood(fit.estimate)[0]))  # nothing was drawn


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (
            lambda: md.RelativeEntropy(trap(1.0), md.Atoms(POSITION[0], POSITION[0]), times=[0.0, 1.0], step=0.1),
            "shape",
        ),
        (lambda: model(share=1.0), "share"),
        (lambda: model(discard=500), "discard"),
        (
            lambda: simkit.Problem(
                model(),
                simkit.Experiment("a", [0.0], {"forces": [1.0]}),
                free={STIFFNESS: simkit.Free(bounds=(0.2, 20.0))},
            ),
            "log_density",
        ),
        (
            lambda: simkit.Problem(
                model(),
                simkit.Experiment("a", [0.0], {"log_density": [-1.0]}),
                free={STIFFNESS: simkit.Free(bounds=(0.2, 20.0))},
            ),
            "negative",
        ),
    ],
)
def test_wrong_arguments(call, match):
    with pytest.raises(simkit.ArgumentError, match=match):
        call()


def test_a_liquid_finds_its_own_numbers():
    """Frames of a Lennard-Jones liquid give back epsilon = sigma = 1, from 0.9 and 1.02, within four standard errors."""
    start = md.crystal("fcc", 1.75, 2)
    atoms = md.Atoms(start.position, md.maxwell_boltzmann(jax.random.key(0), jnp.ones(32), 1.2))

    def liquid(epsilon, sigma):
        potential = md.LennardJones(epsilon=epsilon, sigma=sigma, cutoff=1.74, truncation=md.ForceShifted())
        return md.Particles(potential, start.space, dynamics=md.Langevin(1.2, 2.0))

    run = {"times": np.arange(260) * 0.3, "step": 0.01, "discard": 60}
    reference = md.sample_ensemble(liquid(1.0, 1.0), atoms, key=jax.random.key(1), **run)
    worth = 1 / float(md.block_average(reference.reduced).inefficiency)
    entropy = md.RelativeEntropy(liquid(0.9, 1.02), reference.frames, atoms, **run)
    frames = simkit.Experiment("liquid", np.arange(200), {"log_density": np.full(200, worth)})
    free = {
        "particles.potential.epsilon": simkit.Free(bounds=(0.5, 2.0), start=0.9),
        "particles.potential.sigma": simkit.Free(bounds=(0.8, 1.2), start=1.02),
    }
    fit = simkit.fit(simkit.Problem(entropy, frames, free=free), key=jax.random.key(2))
    error = np.sqrt(2) * np.asarray(fit.standard_error)  # frames of the reference, and as many of the model
    assert (np.abs(np.asarray(fit.estimate) - 1) < 4 * error).all()
    assert (error < 0.1).all()
