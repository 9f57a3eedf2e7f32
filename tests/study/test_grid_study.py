"""Studies of fields on grids: what their tables give, and what is refused with which words."""

from pathlib import Path

import numpy as np
import pytest

import simkit
from simkit import StudyError, UnknownNameError, fluids
from simkit.study import load_study, study_from_text

STUDY = """
[study]
seed = 3
[system]
model = "spectral_flow_2d"
grid = { shape = [16, 12], lengths = [2.0, 1.5] }
force = { model = "kolmogorov", amplitude = 2.0, waves = 2 }
mean_flow = [0.5, 0.0]
[system.parameters]
viscosity = 0.02
force.amplitude = 3.0
[y0]
velocity = { builder = "taylor_green", amplitude = 0.3 }
[solve]
step = 0.01
[simulate]
times = { from = 0.0, to = 0.1, count = 2 }
"""


def test_a_flow():
    study = study_from_text(STUDY)
    flow = study.system
    assert isinstance(flow, fluids.SpectralFlow2D)
    assert flow.grid == fluids.Grid((16, 12), lengths=(2.0, 1.5))
    assert [float(x) for x in (flow.viscosity, flow.force.amplitude, *flow.mean_flow)] == [0.02, 3.0, 0.5, 0.0]
    expected = fluids.vorticity(flow.grid, fluids.taylor_green(flow.grid, 0.3))
    np.testing.assert_allclose(study.y0.vorticity, expected)


def test_scalars_and_spaces():
    text = """
[system]
model = "boussinesq"
grid = { shape = [8, 8, 8] }
[y0]
velocity = { builder = "rest" }
buoyancy = { builder = "gaussian", amplitude = 0.5, width = 0.8 }
"""
    study = study_from_text(text)
    assert isinstance(study.system.flow, fluids.SpectralFlow3D)
    assert study.y0.flow.velocity.shape == (3, 8, 8, 8)
    np.testing.assert_allclose(study.y0.buoyancy.max(), 0.5, rtol=0.5)
    waves = study_from_text("""
[system]
model = "gray_scott"
grid = { shape = [16] }
[y0]
food = { builder = "constant", value = 1.0 }
eater = { builder = "noise", amplitude = 0.1, background = 0.3 }
""")
    np.testing.assert_allclose(np.std(waves.y0.eater), 0.1, rtol=1e-12)
    assert np.asarray(waves.y0.food).tolist() == [1.0] * 16


@pytest.mark.parametrize(
    ("old", "new", "error", "message"),
    [
        ("shape = [16, 12]", "shape = [16.5, 12]", StudyError, "whole numbers of cells"),
        ("lengths = [2.0, 1.5]", "length = [2.0, 1.5]", UnknownNameError, "no key `length`. Close matches: `lengths`"),
        ("shape = [16, 12], lengths = [2.0, 1.5]", "shape = [16]", StudyError, "must have 2 dimensions"),
        (
            '"taylor_green"',
            '"taylor_gren"',
            UnknownNameError,
            "no builder `taylor_gren`. Close matches: `taylor_green`",
        ),
        ("velocity = {", "vorticity = {", StudyError, "must give `velocity`"),
        ("amplitude = 0.3", "amplitud = 0.3", UnknownNameError, "no key `amplitud`"),
        ("force = {", "forcing = {", UnknownNameError, "no key `forcing`"),
        ("viscosity = 0.02", "viscosty = 0.02", UnknownNameError, "no parameter of `spectral_flow_2d` `viscosty`"),
    ],
)
def test_what_does_not_fit_is_named(old, new, error, message):
    assert old in STUDY
    with pytest.raises(error, match=message):
        study_from_text(STUDY.replace(old, new))


CHANNEL = """
[system]
model = "incompressible_flow"
grid = { shape = [12, 8], lengths = [2.0, 1.0], clustering = [0, 1.5] }
diffusion = "implicit"
obstacle = { shape = "disk", centre = [0.6, 0.5], radius = 0.2 }
[system.boundaries]
x = { lower = { model = "inflow", velocity = 0.7 }, upper = { model = "outflow" } }
y = { lower = { model = "no_slip" }, upper = { model = "no_slip", velocity = [0.3, 0.0] } }
[system.scalar_boundaries]
x = { model = "neumann" }
y = { lower = { model = "dirichlet", value = 1.0 }, upper = { model = "dirichlet" } }
[system.parameters]
viscosity = 0.02
diffusivity = 0.05
buoyancy = [0.0, 2.0]
obstacle.distance.radius = 0.25
[y0]
velocity = { builder = "uniform", values = [0.7, 0.0] }
scalar = { builder = "linear", axis = "y", below = 1.0, above = 0.0 }
"""


def test_a_channel_with_walls_and_a_body():
    study = study_from_text(CHANNEL)
    flow = study.system
    assert isinstance(flow, fluids.IncompressibleFlow)
    assert flow.grid == fluids.Grid((12, 8), (2.0, 1.0), faces=(None, fluids.stretched_faces(8, 1.0, clustering=1.5)))
    assert (flow.stiff, flow.flux) == (True, "central")
    kinds = [[type(end).__name__ for end in pair] for pair in (*flow.boundaries, *flow.scalar_boundaries)]
    assert kinds == [["Inflow", "Outflow"], ["NoSlip", "NoSlip"], ["Neumann", "Neumann"], ["Dirichlet", "Dirichlet"]]
    assert float(flow.obstacle.distance.radius) == 0.25
    assert np.asarray(flow.buoyancy).tolist() == [0.0, 2.0]
    assert [x.shape for x in study.y0.velocity] == [(13, 8), (12, 9)]
    np.testing.assert_allclose(study.y0.scalar[0], 1 - flow.grid.centres(1))


def test_a_tube_and_a_dam():
    tube = study_from_text("""
[system]
model = "compressible_flow"
grid = { shape = [10], lengths = [1.0] }
boundaries = { model = "open" }
riemann = "roe"
parameters = { gravity = -0.5 }
[y0]
density = { builder = "jump", below = 1.0, above = 0.125 }
pressure = { builder = "jump", at = 0.5, below = 1.0, above = 0.1 }
velocity = { builder = "rest" }
""")
    assert np.asarray(tube.y0.density).tolist() == [1.0] * 5 + [0.125] * 5
    assert tube.system.riemann is fluids.CompressibleFlow(tube.system.grid, riemann="roe").riemann
    assert tube.system.heavy
    assert float(tube.system.gravity) == -0.5
    dam = study_from_text("""
[system]
model = "shallow_water"
grid = { shape = [8, 6], lengths = [4.0, 3.0] }
bed = { builder = "gaussian", amplitude = 0.5, width = 0.5 }
boundaries = { x = { lower = { model = "level", surface = 1.0 }, upper = { model = "open" } }, y = { model = "free_slip" } }
[system.parameters]
roughness = 0.03
[y0]
level = { builder = "jump", axis = "x", at = 2.0, below = 1.0, above = 0.2 }
velocity = { builder = "rest" }
""")
    surface = np.asarray(dam.y0.height + dam.system.bed)
    wet = np.asarray(dam.y0.height) > 0
    np.testing.assert_allclose(surface[:4], 1.0)
    np.testing.assert_allclose(surface[4:][wet[4:]], 0.2)
    assert not wet.all()
    assert float(dam.system.boundaries[0][0].surface) == 1.0


@pytest.mark.parametrize(
    ("old", "new", "error", "message"),
    [
        (
            '"no_slip" }, upper',
            '"noslip" }, upper',
            UnknownNameError,
            "no boundary condition `noslip`. Close matches: `no_slip`",
        ),
        ('"inflow", velocity', '"inflow", speed', StudyError, "must give `velocity`"),
        ('diffusion = "implicit"', 'diffusion = "both"', StudyError, '"explicit" or "implicit"'),
        ("x = { lower", "z = { lower", StudyError, "must give `x`"),
        ("clustering = [0, 1.5]", "clustering = [1.5]", StudyError, "one number for each of 2 axes"),
        ('x = { model = "neumann" }', 'x = { model = "open" }', UnknownNameError, "no boundary condition `open`"),
        ("values = [0.7, 0.0]", "values = [0.7]", StudyError, "one number for each of 2 axes"),
        ('axis = "y", below', 'axis = "z", below', UnknownNameError, "no axis `z`"),
        ('shape = "disk"', 'shape = "dsk"', UnknownNameError, "no shape `dsk`"),
        ("[y0]", "[y0]\nheight = 1.0", UnknownNameError, "no key `height`"),
        ('upper = { model = "outflow" }', 'upper = { model = "no_slip" }', StudyError, "cannot leave"),
    ],
)
def test_what_does_not_fit_a_channel_is_named(old, new, error, message):
    assert old in CHANNEL
    with pytest.raises(error, match=message):
        study_from_text(CHANNEL.replace(old, new))


@pytest.mark.slow
def test_the_cavity_runs_from_the_command_line(tmp_path):
    from simkit.cli import main

    example = Path(simkit.__file__).parents[1] / "examples" / "cavity.toml"
    text = example.read_text().replace("[48, 48]", "[12, 12]").replace("to = 15.0, count = 7", "to = 0.5, count = 3")
    (tmp_path / "small.toml").write_text(text)
    assert main(["run", str(tmp_path / "small.toml"), "--out", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "figures" / "fields.png").stat().st_size > 10_000
    assert load_study(example).system.stiff


@pytest.mark.slow
def test_the_example_runs_from_the_command_line(tmp_path):
    from simkit.cli import main

    example = Path(simkit.__file__).parents[1] / "examples" / "kolmogorov.toml"
    text = example.read_text().replace("[64, 64]", "[40, 40]").replace("to = 12.0, count = 13", "to = 1.0, count = 3")
    (tmp_path / "small.toml").write_text(text.replace("waves = 4", "waves = 2"))
    assert main(["run", str(tmp_path / "small.toml"), "--out", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "figures" / "fields.png").stat().st_size > 10_000
    assert load_study(example).title == "Kolmogorov's flow"
