"""Monte Carlo moves of particles: swaps of species beside all arrangements counted, volumes beside those of ideal gases."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import simkit
from simkit import md

THERMAL = 1.5


def arranged(scale: float = 1.0) -> tuple[md.Particles, md.Atoms, np.ndarray]:
    """Six atoms of two species that stand still, three of each, in units of length of some size."""
    rng = np.random.default_rng(3)
    position = scale * (np.asarray(md.crystal("sc", 1.1, 2).position)[:6] + 0.15 * rng.normal(size=(6, 3)))
    mixture = md.LennardJones(scale * np.array([1.0, 0.9]), [1.0, 0.4], cutoff=2.5 * scale)
    space = md.Orthorhombic(np.full(3, 6.0 * scale))
    species = jnp.array([0, 0, 0, 1, 1, 1])
    skin = 0.3 * scale
    system = md.Particles(mixture, space, dynamics=md.Langevin(THERMAL, 1.0), species=species, skin=skin)
    atoms = md.Atoms(jnp.asarray(position), jnp.zeros((6, 3)))
    system = system.prepared(atoms)
    return system, system.encode(atoms), position


@pytest.mark.parametrize("scale", [1.0, 1e-12])
def test_swaps_visit_every_arrangement_as_often_as_its_energy_says(scale):
    system, atoms, position = arranged(scale)
    ways = list(itertools.combinations(range(6), 3))
    orders = np.array([[*way, *(i for i in range(6) if i not in way)] for way in ways])
    energies = jax.jit(jax.vmap(lambda x: system.energy(md.Atoms(x, atoms.momentum))))(jnp.asarray(position[orders]))
    exact = np.asarray(jax.nn.softmax(-energies / THERMAL))
    move = md.SwapMoves(0, 1, attempts=24)

    @jax.jit
    def chain(key):
        def one(atoms, key):
            moved = move(system, atoms, key)
            return moved.atoms, (moved.atoms.position[:3], moved.acceptance)

        return jax.lax.scan(one, atoms, jax.random.split(key, 4000))[1]

    places, acceptance = chain(jax.random.key(0))
    assert 0.1 < float(jnp.mean(acceptance)) < 0.9
    nearest = np.argmin(np.linalg.norm(np.asarray(places)[:, :, None] - position, axis=-1), axis=-1)
    found = [ways.index(tuple(row)) for row in np.sort(nearest, axis=1)]
    seen = np.bincount(found, minlength=len(ways))
    likely = exact * len(found) > 5
    expected = np.append(exact[likely], exact[~likely].sum()) * len(found)
    counted = np.append(seen[likely], seen[~likely].sum())
    # Twenty-four attempts leave states that are nearly independent: at half as many the sum of squares is the same.
    assert np.sum((counted - expected) ** 2 / expected) < 1.5 * stats.chi2.ppf(0.999, len(expected) - 1)


@pytest.mark.parametrize("held", [False, True])
def test_volumes_of_ideal_gases_are_those_of_a_gamma_distribution(held):
    # P(V) ~ V^N exp(-P V / k_B T) has the mean (N + 1) k_B T / P; N counts molecules whose shapes are held.
    count, pressure = 8, 0.2
    space = md.Orthorhombic(np.full(3, 5.0))
    position = np.random.default_rng(1).uniform(0, 5, (count, 3))
    constraints = None
    if held:
        pairs = np.arange(count).reshape(-1, 2)
        position[1::2] = position[::2]
        position[1::2, 0] += 0.5
        constraints = md.Constraints(pairs, 0.5)
    bath = md.StochasticCellRescaling(THERMAL, pressure, 0.5, 1.0, 0.1)
    nothing = md.LennardJones(1e-3, 1e-9, cutoff=0.01)
    system = md.Particles(nothing, space, dynamics=bath, skin=0.01, constraints=constraints)
    atoms = md.Atoms(jnp.asarray(position), jnp.zeros((count, 3)))
    system = system.prepared(atoms)
    move = md.VolumeMoves(0.7, attempts=20)

    @jax.jit
    def chain(key):
        def one(atoms, key):
            moved = move(system, atoms, key)
            return moved.atoms, moved.atoms

        return jax.lax.scan(one, system.encode(atoms), jax.random.split(key, 4000))[1]

    states = chain(jax.random.key(0))
    volumes = np.asarray(jnp.linalg.det(states.cell))
    molecules = count // 2 if held else count
    shape, size = molecules + 1, THERMAL / pressure
    error = float(md.block_average(jnp.asarray(volumes)).error)
    assert abs(volumes.mean() - shape * size) < 4 * error
    # The variance of the variance of n independent draws from a gamma distribution is (2 + 6 / shape) / n of its square.
    worth = volumes.var() / (error**2)
    assert abs(volumes.var() / (shape * size**2) - 1) < 4 * np.sqrt((2 + 6 / shape) / worth)
    if held:
        apart = np.linalg.norm(np.asarray(states.position[-1, 1::2] - states.position[-1, ::2]), axis=-1)
        np.testing.assert_allclose(apart, 0.5, rtol=1e-9)


def test_frames_with_swaps_weigh_as_others_and_their_ensemble_refreshes():
    start = md.crystal("fcc", 1.68, 2)
    mixture = md.LennardJones([1.0, 0.9], [1.0, 0.6], cutoff=1.5)
    system = md.Particles(
        mixture, start.space, dynamics=md.Langevin(1.2, 1.0), species=jnp.arange(32) % 2, precision="float32"
    )
    atoms = md.Atoms(start.position, md.maxwell_boltzmann(jax.random.key(0), jnp.ones(32), 1.2))
    moves = [md.SwapMoves(0, 1, attempts=8)]
    times = np.arange(61) * 0.1
    frames = md.sample_ensemble(system, atoms, times, step=0.01, key=jax.random.key(1), discard=21, moves=moves)
    assert frames.frames.position.shape == (40, 32, 3)
    assert 0 < float(frames.acceptance[0]) < 1
    average = frames.average("potential_energy", frames.system)
    assert np.isfinite(float(average.value))
    assert float(frames.effective_size(frames.system)) == pytest.approx(40)
    colder = eqx.tree_at(lambda s: s.dynamics.temperature, frames.system, jnp.asarray(0.9))
    assert frames.refreshed(colder, key=jax.random.key(2)).moves == tuple(moves)
    averages = md.EquilibriumAverages(
        system, atoms, {"energy": "potential_energy"}, times=times, step=0.01, discard=21, moves=moves
    )
    drawn, y = averages.drawn(averages.blank(), [averages], jax.random.key(1))
    assert np.isfinite(float(drawn.outputs(0.0, y, None)["energy"]))


def test_volumes_of_a_dense_fluid_are_those_of_cell_rescaling():
    start = md.liquid(jax.random.key(5), 32, 0.6)
    bath = md.StochasticCellRescaling(1.5, 1.0, 0.3, 0.5, 0.3)
    fluid = md.LennardJones(cutoff=1.6, truncation=md.ForceShifted())
    system = md.Particles(fluid, start.space, dynamics=bath)
    momentum = md.maxwell_boltzmann(jax.random.key(0), jnp.ones(32), 1.5)
    atoms = md.Atoms(start.position, momentum)
    given = {"times": np.arange(401) * 0.25, "step": 0.005, "discard": 41}
    plain = md.sample_ensemble(system, atoms, key=jax.random.key(1), **given)
    still = eqx.tree_at(
        lambda s: s.dynamics.cell_relaxation, system, jnp.asarray(1e6)
    )  # the moves alone change the volume
    moves = [md.VolumeMoves(0.1, attempts=8)]
    moved = md.sample_ensemble(still, atoms, key=jax.random.key(2), moves=moves, **given)
    one, other = plain.average("volume", plain.system), moved.average("volume", moved.system)
    assert abs(float(one.value - other.value)) < 4 * float(np.hypot(one.error, other.error))
    assert 0.2 < float(moved.acceptance[0]) < 0.8


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: md.SwapMoves(1, 1), "must be two species, but both are 1"),
        (lambda: md.SwapMoves(0, 1, attempts=0), "`attempts` must be a whole number of at least 1"),
        (lambda: md.VolumeMoves(1.5), "`size` must lie between 0 and 1"),
        (lambda: md.SwapMoves(0, 4)(*arranged()[:2], jax.random.key(0)), r"one of \[0, 1\], but is 4"),
        (lambda: md.VolumeMoves()(*arranged()[:2], jax.random.key(0)), "must have a pressure for moves of the volume"),
        (lambda: sampled(moves=[md.SwapMoves()], times=[0.0, 0.1, 0.5]), "`times` must be equally far apart"),
        (
            lambda: sampled(moves=[md.SwapMoves()], times=[0.0, 1e-12, 5e-12, 6e-12]),
            "`times` must be equally far apart",
        ),
        (lambda: sampled(moves=[md.SwapMoves()], times=[0.0]), "`times` must hold at least two times"),
        (lambda: sampled(moves=[md.SwapMoves()], key=None), "`key` must be a random key"),
    ],
)
def test_moves_that_cannot_be_are_refused(call, says):
    with pytest.raises(simkit.ArgumentError, match=says):
        call()


def test_a_state_without_an_energy_is_marked_and_one_that_was_not_encoded_is_taken():
    system, atoms, position = arranged()
    move = md.SwapMoves(0, 1, attempts=2)
    broken = eqx.tree_at(lambda a: a.position, atoms, atoms.position.at[0, 0].set(jnp.nan))
    assert np.isnan(np.asarray(move(system, broken, jax.random.key(0)).atoms.position)).all()
    plain = md.Atoms(jnp.asarray(position), jnp.zeros((6, 3)))
    same = move(system, plain, jax.random.key(0)).atoms.position
    np.testing.assert_array_equal(same, move(system, atoms, jax.random.key(0)).atoms.position)


def sampled(*, moves, times=(0.0, 0.1, 0.2), key=0):
    system, atoms, _ = arranged()
    own = None if key is None else jax.random.key(key)
    return md.sample_ensemble(system, atoms, times, step=0.01, key=own, moves=moves)
