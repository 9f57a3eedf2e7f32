"""Averages of an ensemble and forces of frames as data of a problem, against exact results and LAMMPS."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import md

DATA = Path(__file__).parents[2] / "data"
T, K = 1.0, 2.0
STIFFNESS = "particles.potential.stiffness"
TEMPERATURE = "particles.dynamics.temperature"


def size(system, atoms):
    return jnp.mean(atoms.position**2)


def averages(stiffness=1.0, frames=400, atoms=16, **options):
    """Atoms in a trap, each direction for itself: <x^2> = T / k. BAOAB draws positions of a harmonic well without error."""
    trap = md.Particles(md.HarmonicTrap(stiffness, jnp.zeros(3)), md.OpenSpace(3), dynamics=md.Langevin(T, 2.0))
    start = md.Atoms(jnp.zeros((atoms, 3)), jnp.zeros((atoms, 3)))
    arguments = {"times": np.arange(frames + 5) * 2.0, "step": 0.2, "discard": 5} | options
    return md.EquilibriumAverages(trap, start, {"size": size}, **arguments)


def problem_of(system, scatter=0.02, **free):
    data = [
        simkit.Experiment("cold", [0.0], {"size": [T / K]}),
        simkit.Experiment("hot", [0.0], {"size": [1.5 * T / K]}, set={TEMPERATURE: 1.5 * T}),
    ]
    unknown = {STIFFNESS: simkit.Free(bounds=(0.2, 10.0), **free)}
    return simkit.Problem(system, data, free=unknown, noise={"size": simkit.noise.Normal(scatter)})


@pytest.fixture(scope="module")
def fitted():
    problem = problem_of(averages())
    return problem, simkit.fit(problem, key=jax.random.key(0))


def test_fit_draws_frames_until_they_are_those_of_the_optimum(fitted):
    """k = 2 from 1: where half of the frames count frames are drawn anew. Both data say k with the relative error 0.02 k / T."""
    _, fit = fitted
    assert "draws made" in fit.method
    exact = 1 / np.sqrt((T / K**2 / 0.02) ** 2 + (1.5 * T / K**2 / 0.02) ** 2)
    np.testing.assert_allclose(float(fit.standard_error[0]), exact, rtol=0.1)
    # Each average is of 400 * 48 independent squares, whose relative error is sqrt(2 / count); both have it.
    own = K * np.sqrt(2 / (400 * 48))
    assert abs(float(fit.estimate[0]) - K) < 4 * own
    said = [text for text in fit.misfit if "finite number of draws" in text]
    assert len(said) == 1
    assert STIFFNESS in said[0]


def test_error_of_the_draws_is_that_of_repeated_draws(fitted):
    """Estimates from 40 sets of frames at the optimum scatter as `errors_of_draws` says, within what 40 of them tell (4 sigma)."""
    problem, _ = fitted
    theta = jnp.array([K])
    outs, said = [], []
    for i in range(40):
        again = simkit.refresh(problem, theta, key=jax.random.key(100 + i))
        outs.append(float(again.predict(theta)["size"][0, 0]))
        setup = again.setup(theta, 0)
        said.append(float(setup.system.errors(setup.y0, {"size": jnp.ones(1)})[0]))
    ratio = np.std(outs, ddof=1) / np.sqrt(np.mean(np.square(said)))
    assert abs(ratio - 1) < 4 * np.sqrt(1 / (2 * 39)) + 0.1  # errors by blocks are known to some per cent
    assert abs(np.mean(outs) - T / K) < 4 * np.std(outs, ddof=1) / np.sqrt(40)


def test_posterior_of_averages_is_the_exact_one(fitted):
    """Mean and spread of k under both data, by quadrature; frames of one mixture cover it."""
    problem, fit = fitted
    posterior = simkit.sample(problem, start=fit, key=jax.random.key(2), chains=2, draws=400, warmup=200)
    k = np.linspace(1.2, 3.0, 4001)
    density = np.exp(-0.5 * ((T / k - T / K) ** 2 + (1.5 * T / k - 1.5 * T / K) ** 2) / 0.02**2)
    mean = np.sum(k * density) / np.sum(density)
    spread = np.sqrt(np.sum((k - mean) ** 2 * density) / np.sum(density))
    row = posterior.table()[0]
    own = K * np.sqrt(2 / (400 * 48 * 3))  # 5 references of which the frames of some three count
    assert abs(row["mean"] - mean) < 4 * np.hypot(own, spread / np.sqrt(row["ess"]))
    assert abs(row["sd"] / spread - 1) < 0.2
    assert not any("frames count" in text for text in posterior.warnings)


def test_gradient_is_that_of_the_exact_average(fitted):
    problem, _ = fitted
    theta = jnp.array([K])
    problem = simkit.refresh(problem, theta, key=jax.random.key(5))
    slope = jax.jacfwd(lambda theta: problem.predict(theta)["size"][:, 0])(theta)[:, 0]
    # It is the variance of the sum of squares, nearly normal, from 400 frames: a relative error of sqrt(2 / 400).
    within = 4 * np.sqrt(2 / 400)
    np.testing.assert_allclose(slope, [-T / K**2, -1.5 * T / K**2], rtol=within)


def test_averages_are_refused_where_nothing_was_drawn(fitted):
    problem, fit = fitted
    for call in (
        lambda: simkit.profile(problem, fit),
        lambda: simkit.check(problem, fit, key=jax.random.key(0)),
        lambda: simkit.predict(problem, fit.estimate[None], [0.0]),
    ):
        with pytest.raises(simkit.ArgumentError, match="refresh"):
            call()
    assert not np.isfinite(float(problem.log_likelihood(jnp.array([K]))[0]))
    profile = simkit.profile(simkit.refresh(problem, fit.estimate), fit, points=5)
    lower, upper = profile.interval(STIFFNESS)
    assert lower < float(fit.estimate[0]) < upper


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda p: simkit.fit(p, starts=[[1.0], [2.0]]), "one start"),
        (lambda p: simkit.fit(p, horizons=(0.5, 1.0)), "horizons"),
        (lambda p: simkit.fit(p, windows=3), "windows"),
        (lambda p: simkit.refresh(p, [1.0, 2.0]), "shape"),
        (lambda p: simkit.refresh(p, np.array([[0.01], [50.0]]), key=jax.random.key(0)), "2 places .* make no mixture"),
    ],
)
def test_what_averages_do_not_take(fitted, call, match):
    with pytest.raises(simkit.ArgumentError, match=match):
        call(fitted[0])


def test_arguments_of_averages_are_checked():
    with pytest.raises(simkit.ArgumentError, match="share"):
        averages(share=1.0)
    with pytest.raises(simkit.ArgumentError, match="discard"):
        averages(discard=1000)
    start = md.Atoms(jnp.zeros((2, 3)), jnp.zeros((2, 3)))
    trap = md.Particles(md.HarmonicTrap(1.0, jnp.zeros(3)), md.OpenSpace(3))
    with pytest.raises(simkit.ArgumentError, match="canonical"):
        md.EquilibriumAverages(trap, start, {"size": size}, times=[0.0, 1.0], step=0.1)


def test_noisy_particles_point_to_averages():
    trap = averages().particles
    start = md.Atoms(jnp.zeros((2, 3)), jnp.zeros((2, 3)))
    data = simkit.Experiment("a", [1.0], {"temperature": [1.0]})
    with pytest.raises(simkit.ArgumentError, match="EquilibriumAverages"):
        simkit.Problem(trap, data, free={}, noise={"temperature": simkit.noise.Normal(0.1)}, y0=start)


def test_pressure_of_an_ideal_gas_from_its_volume():
    """<V> = (N + 1) T / P at constant pressure, so that a datum of the volume tells the pressure."""
    count, pressure = 64, 0.5
    start = md.crystal("sc", 6.0, 4)
    dynamics = md.StochasticCellRescaling(1.0, 0.6, relaxation=0.5, cell_relaxation=2.0, compressibility=1.0)
    gas = md.Particles(md.LennardJones(epsilon=1e-9, sigma=0.01, cutoff=2.5), start.space, dynamics=dynamics)
    atoms = md.Atoms(start.position, md.maxwell_boltzmann(jax.random.key(0), jnp.ones(count), 1.0))
    system = md.EquilibriumAverages(gas, atoms, {"volume": "volume"}, times=np.arange(420) * 2.0, step=0.1, discard=20)
    data = simkit.Experiment("gas", [0.0], {"volume": [(count + 1) / pressure]})
    free = {"particles.dynamics.pressure": simkit.Free(bounds=(0.1, 2.0))}
    problem = simkit.Problem(system, data, free=free, noise={"volume": simkit.noise.Normal(1.0)})
    fit = simkit.fit(problem, key=jax.random.key(1))
    own = [float(text.split("an error of ")[1].split()[0]) for text in fit.misfit if "adds an error" in text]
    assert len(own) == 1
    assert own[0] < 0.05 * pressure
    assert abs(float(fit.estimate[0]) - pressure) < 4 * own[0]


def test_forces_of_lammps_tell_the_parameters_of_their_potential():
    """Eight atoms of 216, the others not measured, and the energy: sigma and epsilon of two species, mixed as LAMMPS does."""
    known = json.loads((DATA / "md" / "lammps_pairs.json").read_text())
    style = known["styles"]["lj/cut"]
    position = jnp.asarray(known["position"])[None]
    species = jnp.asarray(known["species"])
    potential = md.LennardJones([1.02, 1.06], [0.9, 0.8], cutoff=2.5)
    liquid = md.Particles(potential, md.Triclinic(known["cell"]), species=species)
    system = md.EnergiesAndForces(liquid, md.Atoms(position, 0 * position))
    forces = np.full(position.shape, np.nan)
    forces[0, ::27] = style["forces"]
    data = simkit.Experiment("lammps", [0.0], {"forces": forces, "energy": [style["energy"]]})
    free = {f"particles.potential.{name}": simkit.Free(bounds=(0.5, 1.5)) for name in ("sigma", "epsilon")}
    noise = {"forces": simkit.noise.Normal(0.01), "energy": simkit.noise.Normal(0.01)}
    problem = simkit.Problem(system, data, free=free, noise=noise)
    fit = simkit.fit(problem, starts=np.array([[1.02, 1.06, 0.9, 0.8]]))
    found = dict(zip(fit.names, np.asarray(fit.estimate), strict=True))
    exact = {"sigma.0": 1.0, "sigma.1": 1.08, "epsilon.0": 1.0, "epsilon.1": 0.7}
    for name, value in exact.items():
        assert abs(found[f"particles.potential.{name}"] - value) < 1e-7, (name, found)


def test_frames_that_are_not_there_are_nan():
    trap = md.Particles(md.HarmonicTrap(1.0, jnp.zeros(3)), md.OpenSpace(3))
    position = jnp.ones((2, 4, 3))
    system = md.EnergiesAndForces(trap, md.Atoms(position, 0 * position))
    assert np.isfinite(float(system.outputs(1.0, None, None)["energy"]))
    assert np.isnan(float(system.outputs(2.0, None, None)["energy"]))
    with pytest.raises(simkit.ArgumentError, match="frames"):
        md.EnergiesAndForces(trap, md.Atoms(position[0], position[0]))


def test_memory_of_force_matching_is_that_of_few_frames():
    """32 more frames of 128 atoms, with a matrix of pairs each, take what their own data take."""

    def taken(count: int) -> tuple[int, np.ndarray]:
        position = 3.0 * jax.random.uniform(jax.random.key(0), (count, 128, 3))
        frames = md.Atoms(position, 0 * position)
        cloud = md.Particles(md.LennardJones(cutoff=10.0), md.OpenSpace(3))
        data = simkit.Experiment("frames", np.arange(count), {"forces": np.zeros(position.shape)})
        free = {"particles.potential.sigma": simkit.Free(bounds=(0.1, 1.0))}
        noise = {"forces": simkit.noise.Normal(1.0)}
        problem = simkit.Problem(md.EnergiesAndForces(cloud, frames), data, free=free, noise=noise)
        program = jax.jit(jax.grad(lambda theta: problem.log_likelihood(theta)[0])).lower(jnp.array([0.3])).compile()
        memory = program.memory_analysis()
        assert memory is not None
        return memory.temp_size_in_bytes, np.asarray(program(jnp.array([0.3])))

    few, _ = taken(16)
    many, slope = taken(48)
    assert np.all(np.isfinite(slope))
    pairs, own = 128 * 128 * 8, 128 * 3 * 8
    assert many - few < 32 * 8 * own < 32 * pairs, (few, many)


def test_a_fit_whose_draws_scatter_as_far_as_they_count_ends():
    # The size of a quarter of 64 atoms, from 16 frames: its error moves the stiffness by 5 %, and at 12 % half of the frames count.
    part = {"size": lambda system, atoms: jnp.mean(atoms.position[:16] ** 2)}
    trap = md.Particles(md.HarmonicTrap(K, jnp.zeros(3)), md.OpenSpace(3), dynamics=md.Langevin(T, 2.0))
    start = md.Atoms(jnp.zeros((64, 3)), jnp.zeros((64, 3)))
    system = md.EquilibriumAverages(trap, start, part, times=np.arange(21) * 2.0, step=0.2, discard=5)
    data = simkit.Experiment("trap", [0.0], {"size": [T / K]})
    free = {STIFFNESS: simkit.Free(bounds=(0.5, 8.0))}
    problem = simkit.Problem(system, data, free=free, noise={"size": simkit.noise.Normal(0.005)})
    rounds, estimates = [], []
    for seed in range(12):
        found = simkit.fit(problem, key=jax.random.key(seed))
        said = found.method.partition("draws made ")[2].partition(" ")[0]
        rounds.append(int(said or 1))
        estimates.append(float(found.estimate[0]))
        assert any("finite number of draws adds an error" in words for words in found.misfit)
    print(rounds)
    assert sum(rounds) < 24
    assert abs(np.mean(estimates) - K) < 4 * np.std(estimates) / np.sqrt(len(estimates))


def test_a_fit_begins_where_the_element_of_an_array_stands():
    pair = md.Particles(
        md.LennardJones([1.0, 0.9], [1.0, 1.0], cutoff=2.5) + md.HarmonicTrap(20.0, jnp.zeros(3)),
        md.OpenSpace(3),
        dynamics=md.Langevin(T, 2.0),
        species=jnp.array([0, 1]),
    )
    start = md.Atoms(jnp.array([[-0.55, 0.0, 0.0], [0.55, 0.0, 0.0]]), jnp.zeros((2, 3)))
    system = md.EquilibriumAverages(pair, start, {"size": size}, times=np.arange(41) * 0.5, step=0.02, discard=1)
    drawn, y = system.drawn(system.blank(), [system], jax.random.key(1))
    seen = float(drawn.outputs(0.0, y, None)["size"])
    data = simkit.Experiment("pair", [0.0], {"size": [seen]})
    free = {"particles.potential.terms.0.sigma.1": simkit.Free(bounds=(0.1, 50.0))}
    problem = simkit.Problem(system, data, free=free, noise={"size": simkit.noise.Normal(0.01 * seen)})
    # From a draw between the bounds the pair would be far away.
    assert float(simkit.fit(problem, key=jax.random.key(0)).estimate[0]) == pytest.approx(0.9, rel=0.1)
