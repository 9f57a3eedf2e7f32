"""Pages of particles: numbers in the units of the study, measured g(r), and equations as pictures."""

import pathlib
import re

import numpy as np
import pytest
from matplotlib.mathtext import MathTextParser

import simkit
from simkit import study, viz
from simkit.report import _equation, _simulated, report
from simkit.study.runs import run_particles

CRYSTAL = """
[study]
title = "A crystal of argon"
time = "time"

[system]
model = "particles"
units = "metal"
mass = 39.95
potential = { model = "lennard_jones", sigma = 3.4, epsilon = 0.0104, cutoff = 5.0 }
dynamics = { model = "langevin", temperature = 40.0, friction = 2.0 }

[y0]
builder = "crystal"
lattice = "fcc"
constant = 5.3
repeats = 3

[solve]
step = 0.005

[simulate]
times = { from = 0.0, to = 0.09, count = 10 }
trajectory = false

[averages.radial_distribution]
cutoff = 6.0
bins = 20
measured = { file = "argon.csv", distance = "r [A]", label = "neutrons" }
"""


@pytest.fixture
def crystal(tmp_path):
    (tmp_path / "argon.csv").write_text("r [A],g\n3.0,0.1\n3.75,4.5\n5.3,1.8\n9.0,1.0\n", encoding="utf-8")
    (tmp_path / "crystal.toml").write_text(CRYSTAL, encoding="utf-8")
    return study.load_study(tmp_path / "crystal.toml")


def test_numbers_of_particles_stand_in_the_units_of_the_study(crystal):
    rows = {name: (value, unit) for name, value, unit in _simulated.system_rows(crystal)}
    assert rows["mass"] == ("39.95", "g mol-1")
    assert rows["potential.sigma"] == ("3.4", "Angstrom")
    assert rows["potential.epsilon"] == ("0.0104", "eV")
    assert rows["dynamics.temperature"] == ("40", "K")
    assert rows["dynamics.friction"] == ("2", "1/ps")
    assert rows["space.lengths"] == ("3 values, all 15.9", "Angstrom")


def test_measured_structure_stands_beside_the_simulated_one(crystal, tmp_path):
    run_particles(crystal, tmp_path / "out")
    results = simkit.load(tmp_path / "out" / "result.h5")
    page = report(results)
    assert "with a band of two standard errors; points are measured." in page
    assert "108 atoms are moved by Langevin in steps of 0.005 from 0 to 0.09, and saved at 10 times." in page
    label, distance, g = crystal.averages["measured"]
    figure = viz.plot_radial_distribution(results.averages, measured={label: (distance, g)})
    points = next(line for line in figure.axes[0].lines if line.get_label() == "neutrons")
    np.testing.assert_array_equal(np.transpose(points.get_data()), [[3.0, 0.1], [3.75, 4.5], [5.3, 1.8]])
    with pytest.raises(simkit.ArgumentError, match=r"as many distances as g\(r\) for 'neutrons'"):
        viz.plot_radial_distribution(results.averages, measured={"neutrons": (distance, g[:2])})


def test_a_measured_structure_without_its_columns_is_refused(tmp_path):
    (tmp_path / "argon.csv").write_text("r [A],h\n3.0,0.1\n", encoding="utf-8")
    (tmp_path / "crystal.toml").write_text(CRYSTAL, encoding="utf-8")
    with pytest.raises(simkit.SimkitError, match="`g`"):
        study.load_study(tmp_path / "crystal.toml")


def test_every_equation_of_the_package_is_drawn():
    """A text in place of a picture is what a reader sees of TeX that Matplotlib does not know."""
    source = pathlib.Path(simkit.__file__).parent
    models = [p for room in ("odes", "md", "fluids", "solvers") for p in (source / room).rglob("*.py")]
    formulas = [found for path in models for found in re.findall(r"\$\$(.+?)\$\$", path.read_text("utf-8"), re.DOTALL)]
    assert len(formulas) > 90
    parser = MathTextParser("path")
    for formula in formulas:
        for line in _equation._lines(" ".join(formula.split())):
            parser.parse(f"${line}$")  # raises
    assert _equation._known(r"\begin{pmatrix}a\\ b\end{pmatrix}") == r"(a,\,b)^T"
    assert _equation._known(r"\tfrac12 \big(x \le \sqrt\pi\big)") == r"\frac{1}{2} (x \leq \sqrt{\pi})"
