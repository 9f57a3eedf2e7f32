"""Systems, solvers, potentials, noise models and readers of other packages, found by their entry points."""

import importlib
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import simkit
from simkit import md
from simkit.cli import main
from simkit.study import study_from_text

MODULE = '''
import jax.numpy as jnp
import simkit


class Cooling(simkit.PlainSystem):
    """Newton's law of cooling."""

    rate: simkit.Scalar = simkit.quantity(0.1, support=simkit.POSITIVE)

    def vector_field(self, t, y, inputs):
        return {"temperature": -self.rate * y["temperature"]}

    @classmethod
    def example(cls):
        return simkit.Example(cls(), {"temperature": jnp.asarray(1.0)}, jnp.linspace(0.0, 30.0, 31))


class Wide(simkit.noise.AbstractNoise):
    scale: simkit.Scalar = simkit.quantity(1.0, support=simkit.POSITIVE)
    domain = "real"

    def log_prob(self, value, location):
        return -jnp.log1p(((value - location) / self.scale) ** 2)

    def sample(self, key, location):
        return location


class Shell(simkit.md.ExternalField):
    depth: simkit.Scalar = simkit.quantity(1.0, unit="energy")

    def each(self, view):
        return self.depth * jnp.sum(view.position**2, axis=1)


def read_words(path, columns):
    lines = [line.split() for line in path.read_text().splitlines()]
    return {name: [float(row[lines[0].index(header)]) for row in lines[1:]] for name, header in columns.items()}


def read_points(path, units):
    position = [[float(word) for word in line.split()] for line in path.read_text().splitlines()]
    return [simkit.md.Frame(simkit.md.Orthorhombic([9.0, 9.0, 9.0]), position, units=units)]


WORDS = simkit.io.Reader("table", read_words)
POINTS = simkit.io.Reader("frames", read_points)
UNTRUE = simkit.io.Reader("table", lambda path, columns: {"time": [0.0, 1.0], "temperature": [1.0]})
number = 3
'''
ENTRY_POINTS = """
[simkit.systems]
cooling = tiny_models:Cooling
absent = tiny_models.nowhere:Cooling
number = tiny_models:number
[simkit.solvers]
midpoint = tiny_solvers:Midpoint
needy = tiny_solvers:Needy
[simkit.noises]
wide = tiny_models:Wide
[simkit.potentials]
shell = tiny_models:Shell
[simkit.readers]
words = tiny_models:WORDS
points = tiny_models:POINTS
untrue = tiny_models:UNTRUE
"""
SOLVERS = """
import simkit


class Midpoint(simkit.solvers.AbstractExplicitRungeKutta):
    family, adaptive, stiff, evaluations = simkit.System, False, False, 2
    tableau = simkit.solvers.Heun.tableau
    order = 2

    def polynomial(self, dense):
        return simkit.solvers.Heun().polynomial(dense)


class Needy(Midpoint.__bases__[0]):
    family, adaptive, stiff, evaluations = simkit.System, False, False, 2
    tableau = simkit.solvers.Heun.tableau
    order = 2
    number: int

    def polynomial(self, dense):
        return simkit.solvers.Heun().polynomial(dense)
"""


def install(folder: pathlib.Path, package: str, entry_points: str, **modules: str) -> None:
    """Put a package as an installer leaves it into a folder."""
    about = folder / f"{package.replace('-', '_')}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(entry_points)
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)


@pytest.fixture(autouse=True)
def installed(tmp_path, monkeypatch):
    """The packages of a test; what registries have loaded of them is forgotten afterwards."""
    folder = tmp_path / "site"
    install(folder, "tiny-models", ENTRY_POINTS, tiny_models=MODULE, tiny_solvers=SOLVERS)
    monkeypatch.syspath_prepend(str(folder))
    importlib.invalidate_caches()
    for registry in (simkit.study.SYSTEMS, simkit.study.SOLVERS, simkit.study.NOISES, simkit.study.POTENTIALS):
        monkeypatch.setattr(registry, "_loaded", {})
    monkeypatch.setattr(simkit.study.READERS, "_loaded", {})
    yield folder
    for name in ("tiny_models", "tiny_solvers"):
        sys.modules.pop(name, None)


STUDY = """
[system]
model = "cooling"
[y0]
temperature = 90.0
[solve]
solver = "midpoint"
step = 0.5
[noise]
temperature = { model = "wide", scale = 2.0 }
[free]
rate = { bounds = [0.01, 1.0] }
[experiments.tea]
file = "tea.txt"
reader = "words"
columns = { time = "minute", temperature = "celsius" }
"""
DATA = "minute celsius\n0 90\n5 60\n10 40\n"


def test_a_study_of_parts_from_another_package(tmp_path, capsys):
    (tmp_path / "study.toml").write_text(STUDY)
    (tmp_path / "tea.txt").write_text(DATA)
    study = simkit.load_study(tmp_path / "study.toml")
    models = sys.modules["tiny_models"]
    assert isinstance(study.system, models.Cooling)
    assert isinstance(study.noise["temperature"], models.Wide)
    assert type(study.solve["solver"]).__name__ == "Midpoint"
    np.testing.assert_array_equal(study.experiments[0].data["temperature"], [90.0, 60.0, 40.0])
    assert study.files == {"tea.txt": DATA}
    assert study.problem().names == ("rate",)
    # A result file holds the study and its data, and finds the package again.
    again = simkit.study.study_from_provenance(simkit.io.provenance(study))
    assert isinstance(again.system, models.Cooling)
    assert main(["models"]) == 0
    listed = capsys.readouterr().out
    assert "  cooling " in listed
    assert "Newton's law of cooling." in listed
    assert main(["models", "shell"]) == 0
    assert capsys.readouterr().out.startswith("shell (Shell)")


def test_simulate_takes_a_solver_of_another_package_by_its_name():
    system, y0, _, _ = simkit.odes.LotkaVolterra.example()
    times = np.linspace(0.0, 2.0, 5)
    found = simkit.simulate(system, y0, times, solver="midpoint", step=0.1)
    expected = simkit.simulate(system, y0, times, solver="heun", step=0.1)  # whose numbers it has
    np.testing.assert_array_equal(found.ys.hare, expected.ys.hare)
    with pytest.raises(simkit.ArgumentError, match=r"The solver `needy` must be made without arguments"):
        simkit.simulate(system, y0, times, solver="needy")


PARTICLES = """
[system]
model = "particles"
potential = [{ model = "lennard_jones", cutoff = 2.0 }, { model = "shell", depth = 0.5 }]
[y0]
file = "points.txt"
reader = "points"
temperature = 1.0
[solve]
step = 0.001
"""


def test_particles_of_parts_from_another_package():
    study = study_from_text(PARTICLES, read={"points.txt": "1 1 1\n2 2 2\n5 5 5\n"})
    assert float(study.system.potential.terms[1].depth) == 0.5
    assert isinstance(study.y0, md.Atoms)
    np.testing.assert_array_equal(study.y0.position, [[1, 1, 1], [2, 2, 2], [5, 5, 5]])


@pytest.mark.parametrize(
    ("old", "new", "kind", "words"),
    [
        ('"cooling"', '"absent"', simkit.StudyError, r"`model` in \[system\] of `study.toml`: The model `absent` of the package "
         r"`tiny-models`, which is `tiny_models.nowhere:Cooling`, cannot be loaded: ModuleNotFoundError: No module named"),
        ('"cooling"', '"number"', simkit.StudyError, r"`tiny-models`.* must be a subclass of `System` of simkit, but it is 3"),
        ('"cooling"', '"colling"', simkit.UnknownNameError, r"there is no model `colling`. Close matches: `cooling`"),
        ('"midpoint"', '"needy"', simkit.StudyError, r"`solver` in \[solve\] .* must be made without arguments"),
        ('"words"', '"untrue"', simkit.DataError, r"The reader of `tea.txt` must return columns of one length, but"),
        ('"words"', '"points"', simkit.StudyError, r"`reader` in \[experiments.tea\] .* must read a table, but `points` reads "
         r"frames of atoms"),
        ('"words"', '"wrds"', simkit.UnknownNameError, r"there is no reader `wrds`. Close matches: `words`"),
        ('"words"', '"csv"', simkit.DataError, r"`tea.txt` has no column `minute`"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_named(old, new, kind, words):
    assert old in STUDY
    with pytest.raises(kind, match=words):
        study_from_text(STUDY.replace(old, new, 1), read={"tea.txt": DATA})


def test_one_name_in_two_packages_is_refused(installed):
    install(installed, "other-models", "[simkit.systems]\ncooling = other:Cooling\n", other=MODULE)
    with pytest.raises(simkit.PluginError, match=r"`cooling` is in more than one package: `\w+-models`, `\w+-models`"):
        simkit.study.SYSTEMS["cooling"]


def test_names_of_simkit_come_first_and_other_packages_cost_nothing(installed):
    """Neither the import of simkit nor a study of simkit's own names looks for packages; a package cannot replace a name."""
    install(installed, "bold-models", "[simkit.systems]\nsir = other:Cooling\n[simkit.solvers]\ntsit5 = other:Tsit5\n")
    source = """
import importlib.metadata, sys, simkit
asked, find = [], importlib.metadata.entry_points
importlib.metadata.entry_points = lambda **options: asked.append(options.get("group")) or find(**options)
from simkit.study import study_from_text
study = study_from_text('[system]\\nmodel = "sir"\\n[solve]\\nsolver = "tsit5"\\n[noise]\\ninfected = { model = "normal" }\\n')
assert type(study.system) is simkit.odes.SIR
assert type(study.solve["solver"]) is simkit.solvers.Tsit5
assert not [group for group in asked if group.startswith("simkit")], asked
assert "tiny_models" not in sys.modules
study_from_text('[system]\\nmodel = "cooling"\\n')
assert "tiny_models" in sys.modules
assert "simkit.systems" in asked
"""
    root = str(pathlib.Path(simkit.__file__).parents[1])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([root, str(installed)])}
    subprocess.run([sys.executable, "-c", source], check=True, env=environment)
