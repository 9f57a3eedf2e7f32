"""Studies of particles on the command line: one small fluid is run once, and looked at from all sides."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray

import simkit
from simkit import load, load_study, md, viz
from simkit.cli import main
from simkit.io import read_h5md
from simkit.md.averages._run_averages import from_outputs
from simkit.study.runs import _particles

STUDY = """
[study]
title = "A small fluid"
question = "How much does it press?"
seed = 2
[system]
model = "particles"
potential = { model = "lennard_jones", cutoff = 1.6, truncation = { model = "force_shifted" } }
dynamics = { model = "langevin", temperature = 1.5, friction = 1.0 }
[y0]
builder = "crystal"
lattice = "fcc"
density = 0.8
repeats = 2
[solve]
step = 0.01
[simulate]
times = { from = 0.0, to = 6.0, count = 61 }
[averages]
after = 1.0
radial_distribution = { cutoff = 1.7, bins = 34 }
diffusion = { between = [0.2, 0.6] }
"""


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    path = tmp_path_factory.mktemp("study") / "fluid.toml"
    path.write_text(STUDY)
    return path


@pytest.fixture(scope="module")
def finished(study, tmp_path_factory):
    """The output folder of one whole run; tests must not change it."""
    folder = tmp_path_factory.mktemp("out") / "run"
    assert main(["run", str(study), "--out", str(folder), "--no-cache"]) == 0
    return folder


def test_averages_are_those_of_the_trajectory(study, finished):
    """What the result file says is what a block average of the frames in the trajectory gives."""
    averages = load(finished / "result.h5").averages
    trajectory = read_h5md(finished / "trajectory.h5md")
    assert isinstance(averages, md.Averages)
    assert len(trajectory) == 61
    np.testing.assert_array_equal(trajectory.step, np.arange(61) * 10)
    np.testing.assert_allclose(trajectory.time, np.linspace(0, 6, 61), rtol=1e-12)
    np.testing.assert_array_equal(averages.series["pressure"], trajectory.observables["pressure"])
    assert int(averages.kept.sum()) == 51
    expected = md.block_average(averages.series["pressure"][10:])
    assert averages.table()[2]["name"] == "pressure"
    assert averages.table()[2]["mean"] == float(expected.mean)
    assert averages.table()[2]["error"] == float(expected.error)
    radial = md.radial_distribution(
        load_study(study).system.space, jnp.asarray(trajectory.position[10:]), cutoff=1.7, bins=34
    )
    np.testing.assert_allclose(averages.g, radial.g, rtol=1e-12)
    # Positions are unwrapped; atoms under Langevin dynamics take their centre of mass along.
    away = trajectory.position[10:] - trajectory.position[10:].mean(axis=1, keepdims=True)
    np.testing.assert_allclose(
        averages.displacement, md.mean_squared_displacement(jnp.asarray(away)), rtol=1e-9, atol=1e-12
    )


@pytest.mark.slow
def test_a_run_in_parts_is_the_run_in_one_piece(study, finished):
    """Random numbers belong to times, and all pairs of 32 atoms are computed: not a bit differs."""
    read = load_study(study)
    averages = load(finished / "result.h5").averages
    whole = simkit.simulate(read.system, read.y0, read.simulation_times, step=read.solve["step"], key=jax.random.key(2))
    found = md.averages(read.system, whole, **read.averages)
    np.testing.assert_array_equal(found.series["potential_energy"], averages.series["potential_energy"])
    np.testing.assert_array_equal(found.g, averages.g)


def test_the_report_has_tables_and_figures(finished):
    page = (finished / "report.html").read_text()
    for text in (
        "A small fluid",
        "How much does it press?",
        "pressure",
        "Averages",
        "LennardJones",
        "Langevin",
        "Over time",
    ):
        assert text in page
    names = sorted(path.name for path in (finished / "figures").iterdir())
    assert names == ["displacement.svg", "outputs.svg", "radial_distribution.svg"]


def test_other_tools_read_the_averages(finished):
    with xarray.open_dataset(finished / "result.h5", group="averages", engine="h5netcdf") as data:
        assert data["pressure"].dims == ("time",)
        assert data["g"].dims == ("distance",)
        assert data["displacement"].dims == ("lag",)


def test_reproduce_finds_the_same_numbers(finished, capsys):
    assert main(["reproduce", str(finished / "result.h5"), "--no-cache"]) == 0
    assert "averages    bitwise equal" in capsys.readouterr().out


def test_an_interrupt_keeps_the_frames_that_are_done(study, tmp_path):
    def interrupted(line):
        if "time 1.5" in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _particles.run_particles(load_study(study), tmp_path, say=interrupted)
    trajectory = read_h5md(tmp_path / "trajectory.h5md")
    assert len(trajectory) == 16
    assert trajectory.time[-1] == pytest.approx(1.5)


def test_parts_are_alike_and_not_too_many():
    for windows in (1, 10, 60, 61, 97, 600, 601, 1009):
        size = _particles.part_size(windows)
        assert -(-windows // size) <= 20
        assert windows < 40 or windows // size >= 4
    assert _particles.part_size(600) == 30


def test_a_study_without_a_step_and_a_fit_without_data_are_refused(tmp_path, capsys):
    path = tmp_path / "fluid.toml"
    path.write_text(STUDY.replace("step = 0.01", ""))
    assert main(["run", str(path), "--out", str(tmp_path / "a"), "--no-cache"]) == 2
    assert "[solve] of `fluid.toml` must give `step`" in capsys.readouterr().err
    path.write_text(STUDY)
    assert main(["fit", str(path), "--out", str(tmp_path / "b"), "--no-cache"]) == 2
    assert "must hold at least one experiment" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["particles", "second_virial", "langevin", "lennard_jones", "switched"])
def test_models_and_their_parts_are_described(name, capsys):
    assert main(["models", name]) == 0
    out = capsys.readouterr().out
    assert out.startswith(name)
    assert "stillinger_weber" in out or name not in ("particles", "second_virial")


def test_figures_of_a_run(finished):
    averages = load(finished / "result.h5").averages
    labels = [panel.get_ylabel() for panel in viz.plot_outputs(averages).axes]
    assert labels == ["energy about its mean", "pressure", "temperature"]
    assert viz.plot_radial_distribution({"a": averages, "b": averages}).axes[0].get_legend() is not None
    assert "D = " in viz.plot_displacement(averages).axes[0].get_title(loc="left")
    with pytest.raises(simkit.ArgumentError, match="must hold g"):
        viz.plot_radial_distribution(md.Averages(averages.times, averages.series))
    with pytest.raises(simkit.ArgumentError, match=r"must hold a mean squared displacement"):
        viz.plot_displacement(md.Averages(averages.times, averages.series))


def test_averages_of_too_short_a_run_are_refused_or_marked(study, finished):
    system, averages = load_study(study).system, load(finished / "result.h5").averages
    atoms = md.Atoms(jnp.zeros((8, 32, 3)), jnp.zeros((8, 32, 3)))
    zero = jnp.zeros((), int)
    run = simkit.Trajectory(averages.times[:8], atoms, zero, zero, zero, zero)
    series = {name: values[:8] for name, values in averages.series.items()}
    with pytest.raises(simkit.ArgumentError, match=r"at least 8 times from 0.3 on, but it has 5"):
        md.averages(system, run, after=0.3)
    found = from_outputs(system, run, series)
    assert not found.table()[0]["converged"]
    assert "too short" in found.warnings()[0]
    assert "too short" in repr(found)
    uneven = dataclasses.replace(run, times=run.times**2)
    with pytest.raises(simkit.ArgumentError, match="must have equally spaced times"):
        from_outputs(system, uneven, series, between=(0.1, 0.2))


@pytest.mark.slow
def test_a_sweep_over_temperatures(tmp_path):
    """A small grid keeps the averages of every member, with keys of their own, and goes on where it was."""
    text = STUDY.replace("count = 61", "count = 41").replace("to = 6.0", "to = 4.0")
    path = tmp_path / "grid.toml"
    path.write_text(
        f'{text}[sweep]\nmethod = "grid"\nchunk = 2\n[sweep.over]\ndynamics.temperature = [1.0, 1.5, 2.0]\n'
    )
    store = tmp_path / "store"
    assert main(["sweep", str(path), "--store", str(store), "--no-cache"]) == 0
    found = simkit.sweeps.open(store)
    temperature, error = found["temperature"][:], found["temperature_error"][:]
    assert found.finished == found.members == 3
    assert (error > 0).all()
    # Momenta start at 1.5 and friction is one, so that a part of it is left where averages begin.
    assert (np.abs(temperature - [1.0, 1.5, 2.0]) < 5 * error + 0.1).all()
    assert (np.diff(found["pressure"][:]) > 0).all()
    assert found["g"][:].shape == (3, 34)
    study = load_study(path)
    key = jax.random.fold_in(jax.random.key(2), 2)
    system = dataclasses.replace(study.system, dynamics=md.Langevin(2.0, 1.0))
    run = simkit.simulate(system, study.y0, study.simulation_times, step=0.01, key=key)
    alone = md.averages(system, run, after=1.0, cutoff=1.7, bins=34)
    np.testing.assert_allclose(found["pressure"][2], alone.average("pressure").mean, rtol=1e-6)
    np.testing.assert_allclose(found["pressure_error"][2], alone.average("pressure").error, rtol=1e-5)
    np.testing.assert_allclose(found["g"][2], alone.g, atol=1e-5)


def test_an_interrupted_run_goes_on(study, finished, tmp_path, capsys):
    """What was finished is kept and not computed again; the averages and the frames are those of a run at one go."""
    stop = {"after": 4}

    def say(line):
        if "of 6" in line:
            stop["after"] -= 1
        if stop["after"] == 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _particles.run_particles(load_study(study), tmp_path / "run", say=say)
    (parts,) = (tmp_path / "run" / "unfinished").iterdir()
    assert len(list(parts.glob("part-*.h5"))) == 4
    assert main(["run", str(study), "--out", str(tmp_path / "run"), "--no-cache"]) == 0
    assert "goes on with what is kept" in capsys.readouterr().out
    assert not (tmp_path / "run" / "unfinished").exists()
    again, whole = (load(folder / "result.h5").averages for folder in (tmp_path / "run", finished))
    for name in whole.series:
        np.testing.assert_array_equal(again.series[name], whole.series[name])
    frames = [
        [frame.position for frame in read_h5md(folder / "trajectory.h5md")] for folder in (tmp_path / "run", finished)
    ]
    np.testing.assert_array_equal(*frames)


def test_a_simulation_refuses_the_time_that_it_would_ignore(tmp_path, capsys):
    (tmp_path / "decay.toml").write_text(
        '[system]\nmodel = "exponential_decay"\n[y0]\namount = 1.0\n[simulate]\ntimes = [0.0, 1.0]\n', encoding="utf-8"
    )
    assert main(["run", str(tmp_path / "decay.toml"), "--within", "1 h"]) == 2
    assert "`--within` goes with fits, samples and sweeps, but" in capsys.readouterr().err
