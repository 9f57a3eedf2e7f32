"""What a stranger met with molecules, free energies and averages: numbers that were wrong or missing, messages that were raw."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import md

PAIR = md.Atoms(jnp.zeros((2, 3)), jnp.zeros((2, 3)))


def trap(dimensions=3):
    potential = md.HarmonicTrap(1.0, jnp.zeros(dimensions))
    return md.Particles(potential, md.OpenSpace(dimensions), dynamics=md.Langevin(1.0, 2.0))


def test_tail_of_a_formula_that_tables_over_species_enter():
    """The energy of CHARMM's water by `md.read` was an error of shapes: Lennard-Jones as a formula of tables, with its tail."""
    tables = {"a": np.array([[4.0, 2.0], [2.0, 3.0]]), "c": np.array([[4.0, 2.5], [2.5, 2.0]])}
    functions = {
        name: lambda i, j, t=table: jnp.asarray(t)[i.astype(int), j.astype(int)] for name, table in tables.items()
    }
    formula = md.FormulaPair(
        "a(kind1, kind2)/r^12 - c(kind1, kind2)/r^6",
        parameters={"kind": [0.0, 1.0]},
        cutoff=2.5,
        truncation=md.Truncated(tail=True),
        functions=functions,
    )
    known = md.LennardJones(
        (tables["a"] / tables["c"]) ** (1 / 6),
        tables["c"] ** 2 / tables["a"] / 4,
        cutoff=2.5,
        truncation=md.Truncated(tail=True),
    )
    start = md.crystal("fcc", 1.7, 4)
    species = jnp.arange(len(start.position)) % 2
    energies = []
    for potential in (formula, known):
        system = md.Particles(potential, start.space, species=species.astype(jnp.int32))
        atoms = md.Atoms(start.position, jnp.zeros_like(start.position))
        energies.append(float(system.prepared(atoms).energy(atoms)))
    np.testing.assert_allclose(energies[0], energies[1], rtol=1e-12)


def test_jarzynski_knows_no_error_where_one_work_makes_the_average():
    few = md.jarzynski(50 * jax.random.normal(jax.random.key(0), (100,)))
    assert np.isnan(float(few.error))
    many = md.jarzynski(jax.random.normal(jax.random.key(0), (400,)))
    assert abs(float(many.value) + 0.5) < 4 * float(many.error)


def test_metadynamics_begins_inside_its_grid():
    away = md.Atoms(jnp.full((2, 3), 20.0), jnp.zeros((2, 3)))
    grid = {"lower": -2.0, "upper": 2.0, "points": 41, "width": 0.2, "height": 0.3, "bias_factor": 5.0}
    run = {"deposits": 4, "duration": 0.5, "step": 0.05, "key": jax.random.key(0)}
    with pytest.raises(simkit.ArgumentError, match="begin inside the grid"):
        md.metadynamics(trap(), away, cv=lambda atoms: atoms.position[0, 0], **grid, **run)


def test_umbrellas_ask_for_variables_of_the_shape_of_their_centres():
    with pytest.raises(simkit.ArgumentError, match="shape of a centre"):
        md.umbrella_sampling(
            trap(),
            PAIR,
            [0.0, 1.0],
            cv=lambda atoms: atoms.position,
            centres=[0.0, 1.0],
            stiffness=1.0,
            step=0.1,
            key=jax.random.key(0),
        )


def test_no_system_of_openmm():
    with pytest.raises(simkit.ArgumentError, match=r"openmm\.System"):
        md.from_openmm(None, np.zeros((2, 3)))


@pytest.mark.parametrize(("ending", "text"), [("inpcrd", "cut\n   3\n  1.0  2.0\n"), ("gro", "cut\n 3\n"), ("pdb", "")])
def test_coordinates_that_are_cut_off_are_named(tmp_path, ending, text):
    pytest.importorskip("openmm")
    path = tmp_path / f"cut.{ending}"
    path.write_text(text)
    field = {"force_field": ["amber14-all.xml"]} if ending == "pdb" else {"coordinates": path}
    from pathlib import Path

    topology = Path(__file__).parents[2] / "data" / "md" / "alanine_dipeptide.prmtop"
    with pytest.raises(simkit.ArgumentError, match=rf"cut\.{ending}"):
        md.read(path if ending == "pdb" else topology, **field)


def test_observables_are_known_when_averages_are_made():
    with pytest.raises(simkit.ArgumentError, match="presure"):
        md.EquilibriumAverages(trap(), PAIR, {"p": "presure"}, times=[0.0, 1.0], step=0.1)
    averages = md.EquilibriumAverages(trap(), PAIR, {"u": "potential_energy"}, times=np.arange(50.0), step=0.1)
    assert len(repr(averages).splitlines()) < 20


def test_an_observable_that_is_no_number_is_named():
    broken = lambda system, atoms: jnp.where(atoms.position[0, 0] > 0, jnp.nan, atoms.position[0, 0])
    averages = md.EquilibriumAverages(trap(), PAIR, {"side": broken}, times=np.arange(30.0), step=0.2)
    data = simkit.Experiment("a", [0.0], {"side": [0.5]})
    free = {"particles.potential.stiffness": simkit.Free(bounds=(0.1, 10.0))}
    problem = simkit.Problem(averages, data, free=free, noise={"side": simkit.noise.Normal(0.1)})
    with pytest.raises(simkit.SimulationError, match="average `side` of `a`"):
        simkit.fit(problem, key=jax.random.key(0))
