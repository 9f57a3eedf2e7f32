"""Studies of fields on grids: what their tables give, and what is refused with which words."""

from pathlib import Path

import numpy as np
import pytest

import simkit
from simkit import StudyError, UnknownNameError, fluids
from simkit.io import load_study, study_from_text

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


@pytest.mark.slow
def test_the_example_runs_from_the_command_line(tmp_path):
    from simkit.cli import main

    example = Path(simkit.__file__).parents[1] / "examples" / "kolmogorov.toml"
    text = example.read_text().replace("[64, 64]", "[40, 40]").replace("to = 12.0, count = 13", "to = 1.0, count = 3")
    (tmp_path / "small.toml").write_text(text.replace("waves = 4", "waves = 2"))
    assert main(["run", str(tmp_path / "small.toml"), "--out", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "figures" / "fields.png").stat().st_size > 10_000
    assert load_study(example).title == "Kolmogorov's flow"
