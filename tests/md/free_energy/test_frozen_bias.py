"""Free energies under a bias that metadynamics made and that stays, and variables that go around, against integrals."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import chi2

import simkit
from simkit import md

EDGES = np.linspace(-1.4, 1.4, 9)
SPACE = md.OpenSpace(2)


def energy(x):
    return 5.0 * (x**2 - 1.0) ** 2 + 0.5 * x


def place(atoms):
    return atoms.position[0, 0]


WELL = md.ExternalFunction(lambda position, species, charge: energy(position[:, 0]) + position[:, 1] ** 2)
START = md.Atoms(jnp.array([[1.0, 0.0]]), jnp.zeros((1, 2)))
READY = md.Particles(WELL, SPACE, dynamics=md.Langevin(1.0, 3.0)).prepared(START)
SETTINGS = {
    "lower": -1.9,
    "upper": 1.9,
    "points": 39,
    "width": 0.15,
    "height": 0.3,
    "bias_factor": 6.0,
    "duration": 0.4,
}


def exact(edges):
    return -np.log([quad(lambda x: np.exp(-energy(x)), a, b)[0] for a, b in itertools.pairwise(edges)])


@pytest.mark.parametrize("walkers", [1, 4])
def test_errors_of_a_frozen_bias_are_those_of_the_exact_profile(walkers):
    """The difference of the wells in 24 runs, in standard errors of each: the sum of squares is a chi-square number of 24 degrees,
    for errors that are up to 15 % too small, as those by blocks are (see test_mbar)."""
    starts = jax.tree.map(lambda x: jnp.broadcast_to(x, (walkers, *x.shape)), START)

    def run(key):
        found = md.metadynamics(
            READY, starts, cv=place, deposits=1000 // walkers, frozen=6000 // walkers, step=0.05, key=key, **SETTINGS
        )
        profile = found.profile(EDGES)
        return profile.difference(1, 6), profile.free_energy - profile.free_energy[1]

    keys = jax.random.split(jax.random.key(8), 24)
    difference, free = jax.jit(lambda keys: jax.lax.map(run, keys, batch_size=24))(keys)
    true = exact(EDGES)
    away = np.asarray((difference.value - (true[6] - true[1])) / difference.error)
    least, most = chi2.ppf([1e-4, 1 - 1e-4], 24)
    assert least < (away**2).sum() < most * 1.15**2
    assert float(difference.error.max()) < 0.35
    # The mean over the runs, bin by bin, within four of its own standard errors.
    error = np.std(np.asarray(free), axis=0, ddof=1) / np.sqrt(24)
    np.testing.assert_array_less(np.abs(np.mean(free, axis=0) - (true - true[1]))[error > 0], 4 * error[error > 0])


def test_a_variable_that_goes_around():
    """A bead on a ring with wells of two depths; the barrier lies where the angle jumps from pi to -pi."""
    hills = lambda angle: 2.0 * jnp.cos(2 * angle + 2 * jnp.pi / 2) + 0.7 * jnp.cos(angle - 0.4)

    def ring(position, species, charge):
        radius = jnp.sqrt(jnp.sum(position**2, axis=1))
        return 40.0 * (radius - 1.0) ** 2 + hills(jnp.arctan2(position[:, 1], position[:, 0]))

    bead = md.Particles(md.ExternalFunction(ring), SPACE, dynamics=md.Langevin(1.0, 2.0))
    found = md.metadynamics(
        bead,
        md.Atoms(jnp.array([[[0.0, 1.0]], [[0.0, -1.0]]]), jnp.zeros((2, 1, 2))),
        cv=lambda atoms: jnp.arctan2(atoms.position[0, 1], atoms.position[0, 0]),
        lower=-np.pi,
        upper=np.pi,
        points=36,
        width=0.35,
        height=0.2,
        bias_factor=5.0,
        deposits=1500,
        frozen=3000,
        duration=0.4,
        step=0.04,
        key=jax.random.key(0),
        periodic=True,
    )
    bias = found.bias
    assert bias.grid().shape == (36,)
    assert float(bias.grid()[-1]) == pytest.approx(np.pi - np.pi / 18)
    # The same value, slope and curvature on both sides of the cut, and once around.
    for derivative in (bias.value, jax.grad(bias.value), jax.hessian(bias.value)):
        left, right, around = (np.asarray(derivative(jnp.array([x]))) for x in (-np.pi, np.pi, 3 * np.pi))
        np.testing.assert_allclose(left, right, atol=1e-9)
        np.testing.assert_allclose(left, around, atol=1e-9)
    np.testing.assert_allclose(bias.values(), jax.vmap(bias.value)(bias.grid()[:, None]), atol=1e-12)
    # Bins of 30 degrees, of which the first and the last touch: the density holds the radius, which is the same at all angles.
    edges = np.linspace(-np.pi, np.pi, 13)
    profile = found.profile(edges)
    true = -np.log([quad(lambda a: np.exp(-hills(a)), a, b)[0] for a, b in itertools.pairwise(edges)])
    lowest = int(np.argmin(profile.free_energy))
    away = np.asarray(profile.free_energy) - (true - true[lowest])
    assert (np.abs(away) <= 4 * np.asarray(profile.error)).all()
    assert float(profile.error.max()) < 0.25
    # The bias itself lags behind, here by less than half of the thermal energy.
    lag = np.asarray(found.free_energy) - np.asarray(hills(bias.grid()))
    assert np.std(lag) < 0.5
    assert "3000 frames under the final bias" in repr(found)


def made_of(frames, values=None, periodic=False):
    """A result with these frames, (frozen, walkers), under no bias."""
    frames = jnp.asarray(frames, float)[:, :, None]
    values = frames if values is None else jnp.asarray(values, float)[:, :, None]
    bias = md.GridBias(place, jnp.zeros(39), jnp.array([-1.9]), jnp.array([1.9]), periodic=(periodic,))
    flat, heights = jnp.zeros(39), jnp.ones(values.shape[:2])
    final = jax.tree.map(lambda x: x[None], START)
    return simkit.md.free_energy._metadynamics.Metadynamics(
        bias, flat, flat, values, heights, frames, jnp.asarray(1.0), final
    )


def test_passages():
    """Counted by hand: from one outer third to the other, with stays in the middle; none for walkers that stay in one well."""
    one = [1.0, 0.9, 0.1, -1.0, 0.0, -0.9, 0.2, 1.0, 0.0, 0.95, -1.0, 1.0]
    still = [1.0] * len(one)
    assert int(made_of(np.array([one]).T).passages) == 4
    assert int(made_of(np.array([one, still]).T).passages) == 4
    # Both wells were seen by the deposits, one alone by the frames.
    inside = np.array([[0.8, 1.0] * 20]).T
    assert int(made_of(inside, np.array([one]).T).passages) == 0
    with pytest.warns(UserWarning, match="Only 0 passages"):
        made_of(inside, np.array([one]).T).free_energies()
    # Around a variable that goes around: to and fro over its seam, in one well; from one well to the other, not over the seam.
    seam = np.array([[1.7, -1.7, -1.6, 1.8] * 20]).T
    assert int(made_of(seam).passages) > 0
    assert int(made_of(seam, np.array([[1.2, 1.9, -1.9, -1.2, -1.5]]).T, periodic=True).passages) == 0
    wells = np.array([[1.0, 1.3, 0.2, -0.8, -1.2, -0.1] * 5]).T
    assert int(made_of(wells, periodic=True).passages) == 9
    made_of(np.array([[1.0, -1.0] * 20]).T).free_energies()  # 39 passages: no warning, which would be an error


def test_walkers_from_one_well_are_not_biased():
    """Four walkers, all from the higher well, 48 runs of some 27 passages: the mean difference within 4 of its own errors,
    and standard errors that are not more than 1.35 times too small (1.1 in 96 other runs, with an error of 0.1)."""
    starts = jax.tree.map(lambda x: jnp.broadcast_to(x, (4, *x.shape)), START)

    def run(key):
        found = md.metadynamics(READY, starts, cv=place, deposits=250, frozen=250, step=0.05, key=key, **SETTINGS)
        return found.profile(EDGES).difference(1, 6), found.passages

    difference, passages = jax.jit(lambda keys: jax.lax.map(run, keys, batch_size=48))(
        jax.random.split(jax.random.key(5), 48)
    )
    true = exact(EDGES)
    away = np.asarray(difference.value) - (true[6] - true[1])
    assert 20 < float(jnp.mean(passages)) < 40
    assert abs(away.mean()) < 4 * away.std(ddof=1) / np.sqrt(48)
    assert np.sqrt(np.mean((away / np.asarray(difference.error)) ** 2)) < 1.35


def test_what_is_refused():
    run = lambda **more: md.metadynamics(
        READY, START, cv=place, deposits=2, step=0.05, key=jax.random.key(0), **(SETTINGS | more)
    )
    found = run()
    assert found.frames.shape == (0, 1, 1)
    with pytest.raises(simkit.ArgumentError, match="`frozen=500`"):
        found.profile(EDGES)
    with pytest.raises(simkit.ArgumentError, match="`periodic` must be True or False"):
        run(periodic=[True, False])
    with pytest.raises(simkit.ArgumentError, match="`frozen` must be a whole number"):
        run(frozen=-1)
    both = md.metadynamics(
        READY,
        START,
        cv=lambda atoms: atoms.position[0],
        deposits=2,
        step=0.05,
        key=jax.random.key(0),
        frozen=16,
        **SETTINGS,
    )
    with pytest.raises(simkit.ArgumentError, match="along one variable"):
        both.profile(EDGES)
    left = both.free_energies(inefficiency=1.0).average((both.samples[:, 0] < 0).astype(float))
    assert 0 <= float(left.value) <= 1
