"""Registries: every public class of a family has a name in study files, or stands here with the reason why not."""

import inspect

import numpy as np
import pytest

import simkit
from simkit import io, md, problem, solvers, study
from simkit.cli import main
from simkit.petab import _noises
from simkit.solvers._named import as_solver
from simkit.stores import READERS
from simkit.study import study_from_text

ROOMS = (simkit, simkit.odes, simkit.fluids, md, solvers, problem)
# What takes a function, or other objects that no table holds.
NAMELESS = {
    "SYSTEMS": {simkit.odes.FunctionSystem, simkit.odes.FunctionResponse, simkit.odes.DelayedFunctionSystem}
    | {simkit.ChemicalLangevin}  # it takes a jump process
    | {simkit.fluids.MovingBody}  # it takes another system and a function
    | {md.EquilibriumAverages, md.EnergiesAndForces, md.RelativeEntropy},  # they take particles and frames
    "SOLVERS": {
        solvers.ParticleStepper,  # particles bring it
        solvers.DiscreteStepper,  # so do discrete systems
        solvers.HalfSteps,  # what adaptive steps make of a stochastic solver
        solvers.WithJumps,  # what runs of systems with random jumps make of a stochastic solver
        solvers.FromDiffrax,  # it takes a solver of Diffrax
        solvers.Strang,  # it takes solvers of parts
    },
    "POTENTIALS": {
        md.ExternalFunction,
        md.ManyBodyFunction,
        md.PairFunction,
        md.Bias,  # of a function of the atoms, as the next two
        md.UmbrellaBias,
        md.GridBias,
        md.FormulaField,  # of text and numbers by name, as the next three
        md.FormulaPair,
        md.FormulaTerms,
        md.FormulaThroughAtoms,
        md.TabulatedPairs,  # of arrays, as the next one
        md.TabulatedTerms,
        md.Sum,  # an array of tables
        md.BehlerParrinello,  # by a folder of files
        md.SNAP,  # by two files
        md.OnSpecies,  # of a potential and numbers of species
        md.EAM,  # by its files, as the next five
        md.StillingerWeber,
        md.Tersoff,
        md.ModifiedTersoff,
        md.TersoffZBL,
        md.Vashishta,
        md.ChargesOnSites,  # of a potential and atoms
    },
    "NOISES": set(),
    "DYNAMICS": set(),
    "TRUNCATIONS": set(),
    "SPACES": {md.Boxes},  # of several systems at once
}
BASES = {
    "SYSTEMS": simkit.System,
    "SOLVERS": solvers.Stepper,
    "POTENTIALS": md.Potential,
    "NOISES": simkit.noise.AbstractNoise,
    "DYNAMICS": md.Dynamics,
    "TRUNCATIONS": md.Truncation,
    "SPACES": md.Space,
}


def concrete(base):
    """The public concrete classes of a family."""
    names = {(room, name) for room in ROOMS for name in dir(room) if not name.startswith("_")}
    found = {getattr(room, name) for room, name in names if inspect.isclass(getattr(room, name))}
    unset = lambda kind: getattr(kind, "__abstractclassvars__", ()) or getattr(kind, "__abstractvars__", ())
    return {
        kind
        for kind in found
        if issubclass(kind, base)
        and not (inspect.isabstract(kind) or unset(kind) or kind.__name__.startswith("Abstract"))
    }


@pytest.mark.parametrize("family", BASES)
def test_every_public_class_has_a_name(family):
    registry, classes = getattr(study, family), concrete(BASES[family])
    assert len(classes) >= 3
    assert classes - set(registry.own.values()) == NAMELESS[family] & classes
    assert NAMELESS[family] <= classes
    assert set(registry.own.values()) <= classes


def test_every_reader_of_texts_has_a_name():
    functions = {f for room in (io, md) for name, f in vars(room).items() if name.startswith("read_")}
    # HDF5 and trajectories of other programs are no texts, those of a study's files are kept with its results, and study files
    # state no dosing tables; `simkit new` reads the columns of a table, and code alone reads molecules of LAMMPS,
    # folders of n2p2 and the two files of SNAP.
    named = {reader.read for reader in READERS.own.values()}
    source = "".join(inspect.getsource(inspect.unwrap(f)) for f in named - functions)
    missing = {f.__name__ for f in functions - named if f"{f.__name__}(" not in source}
    assert missing == {
        "read_columns_of",
        "read_doses",
        "read_h5md",
        "read_lammps",
        "read_mliap",
        "read_n2p2",
        "read_snap",
        "read_text",
        "read_trajectory",
    }


def test_a_potential_with_files_is_reached_by_a_reader():
    made = {reader.make.__self__ for reader in READERS.own.values() if reader.gives == "potential"}
    assert made == {md.EAM, md.StillingerWeber, md.Tersoff, md.ModifiedTersoff, md.TersoffZBL, md.Vashishta}


def test_the_same_names_everywhere(tmp_path, capsys):
    for room in ("simkit.odes", "simkit.fluids"):
        assert len(of_room := study.REGISTRIES["systems"].of(room)) > 15
        assert set(of_room.items()) < set(study.SYSTEMS.own.items())
    assert all(isinstance(as_solver(name), kind) for name, kind in study.SOLVERS.own.items())
    assert problem.NOISES is study.NOISES
    written = {_noises.WRITTEN[kind] for kind in _noises.BY_NAME.values()}
    assert written == {("normal", "lin"), ("normal", "log"), ("laplace", "lin"), ("laplace", "log")}
    path = tmp_path / "study.toml"
    assert main(["new", str(path)]) == 0
    assert ", ".join(study.NOISES.own) in path.read_text()
    assert main(["models"]) == 0
    listed = capsys.readouterr().out
    assert all(f"  {name} " in listed for name in study.SYSTEMS.own)


@pytest.mark.parametrize("name", sorted(study.SOLVERS.own))
def test_a_study_names_every_solver(name):
    found = study_from_text(f'[system]\nmodel = "sir"\n[solve]\nsolver = "{name}"\n')
    assert isinstance(found.solve["solver"], study.SOLVERS[name])


@pytest.mark.parametrize("name", sorted(study.NOISES.own))
def test_a_study_names_every_noise_model(name):
    found = study_from_text(f'[system]\nmodel = "sir"\n[noise]\ninfected = {{ model = "{name}" }}\n')
    assert isinstance(found.noise["infected"], study.NOISES[name])


class Slanted(simkit.noise.AbstractNoise):
    """A noise model with numbers of other supports than the positive ones."""

    shift: simkit.Scalar = simkit.quantity()
    share: simkit.Scalar = simkit.quantity(0.5, support=simkit.UNIT_INTERVAL)
    domain = "real"

    def log_prob(self, value, location):
        return -((value - location - self.shift) ** 2) * self.share

    def sample(self, key, location):
        return location


def test_numbers_of_noise_models_lie_in_their_supports(monkeypatch):
    monkeypatch.setitem(study.NOISES._own, "slanted", Slanted)
    read = lambda numbers: study_from_text(
        f'[system]\nmodel = "sir"\n[noise]\ninfected = {{ model = "slanted", {numbers} }}\n'
    )
    assert float(read("shift = -2.0, share = 0.0").noise["infected"].shift) == -2
    with pytest.raises(
        simkit.StudyError, match=r"`share` in \[noise.infected\] .* must be between 0 and 1, but it is 1.5"
    ):
        read("shift = 0.0, share = 1.5")
    with pytest.raises(simkit.StudyError, match=r"\[noise.infected\] .* must give `shift`"):
        read("share = 0.5")


PARTICLES = """
[system]
model = "particles"
potential = [{ model = "lennard_jones", cutoff = 1.6 }, %s]
charge = [%s]
%s
[y0]
builder = "crystal"
lattice = "fcc"
density = 0.8
repeats = 2
temperature = 1.0
[solve]
step = 0.001
"""
TERMS = {
    "periodic_dihedral": (
        "atoms = [[0, 1, 2, 3], [1, 2, 3, 4]], stiffness = 0.5, multiplicity = [2, 3], phase = 0.1",
        lambda: md.PeriodicDihedral([[0, 1, 2, 3], [1, 2, 3, 4]], 0.5, (2, 3), 0.1),
    ),
    "ryckaert_bellemans": (
        "atoms = [[0, 1, 2, 3]], coefficients = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]",
        lambda: md.RyckaertBellemans([[0, 1, 2, 3]], [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]),
    ),
    "harmonic_improper": (
        "atoms = [[0, 1, 2, 3]], stiffness = 2.0, angle = 0.3",
        lambda: md.HarmonicImproper([[0, 1, 2, 3]], 2.0, 0.3),
    ),
    "listed_pairs": (
        'potential = { model = "morse", depth = 0.2, cutoff = 2.0 }, atoms = [[0, 3]], scale = 0.5',
        lambda: md.ListedPairs(md.Morse(depth=0.2, cutoff=2.0), [[0, 3]], 0.5),
    ),
    "electric_field": ("field = [0.1, 0.0, 0.0]", lambda: md.ElectricField([0.1, 0.0, 0.0])),
    "coulomb_screened": ("damping = 1.1, cutoff = 1.5", lambda: md.CoulombScreened(damping=1.1, cutoff=1.5)),
    "ewald": (
        "damping = 1.1, waves_along = [4, 4, 4], excluded = [[0, 1]]",
        lambda: md.Ewald(1.0, 1.1, (4, 4, 4), [[0, 1]]),
    ),
    "particle_mesh_ewald": (
        "damping = 1.1, mesh = [12, 12, 12], order = 4",
        lambda: md.ParticleMeshEwald(1.0, 1.1, (12, 12, 12), 4),
    ),
}


@pytest.mark.parametrize("name", TERMS)
def test_a_study_gives_the_potential_that_code_gives(name):
    arguments, make = TERMS[name]
    charges = ", ".join(["0.5, -0.5"] * 16)
    found = study_from_text(PARTICLES % (f'{{ model = "{name}", {arguments} }}', charges, "")).system.potential.terms[1]
    expected = make()
    assert type(found) is type(expected)
    for field in ("multiplicity", "waves_along", "mesh", "order", "cutoff"):
        assert getattr(found, field, None) == getattr(expected, field, None)
    leaves, others = simkit.core.named_leaves(found), simkit.core.named_leaves(expected)
    assert leaves.keys() == others.keys()
    for path, leaf in leaves.items():
        np.testing.assert_array_equal(leaf, others[path])


def test_multiple_time_steps_in_a_study():
    charges = ", ".join(["0.5, -0.5"] * 16)
    inner = '{ model = "langevin", temperature = 1.0, friction = 2.0 }'
    more = f'dynamics = {{ model = "respa", slow = [1], steps = 4, inner = {inner} }}'
    system = study_from_text(PARTICLES % ('{ model = "coulomb_dsf", cutoff = 1.6 }', charges, more)).system
    assert isinstance(system.dynamics, md.RESPA)
    assert (system.dynamics.slow, system.dynamics.steps) == ((1,), 4)
    assert float(system.dynamics.inner.friction) == 2.0


@pytest.mark.parametrize(
    ("name", "old", "new", "words"),
    [
        (
            "ewald",
            "[4, 4, 4]",
            "[4, 4]",
            r"`waves_along` in \[system.potential.1\] .* must be an array of 3 whole numbers",
        ),
        ("ewald", "[4, 4, 4]", "[4, 4, 4.5]", r"must be an array of 3 whole numbers, but it is `\[4, 4, 4.5\]`"),
        ("ewald", "[4, 4, 4]", "4", r"`waves_along` .* must be an array"),
        ("periodic_dihedral", "[2, 3]", "2.5", r"`multiplicity` .* must be a whole number of at least 0"),
        (
            "listed_pairs",
            '{ model = "morse", depth = 0.2, cutoff = 2.0 }',
            "1.0",
            r"`potential` .* must be a table such as",
        ),
        ("listed_pairs", '"morse"', '"mrse"', r"there is no potential `mrse`. Close matches: `morse`"),
    ],
)
def test_bad_arguments_of_potentials_are_named(name, old, new, words):
    charges, arguments = ", ".join(["0.5, -0.5"] * 16), TERMS[name][0]
    assert old in arguments
    with pytest.raises((simkit.StudyError, simkit.UnknownNameError), match=words):
        study_from_text(PARTICLES % (f'{{ model = "{name}", {arguments.replace(old, new)} }}', charges, ""))
