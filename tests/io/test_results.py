"""Result files: what is written comes back, opens in xarray, and is whole or refused."""

import dataclasses

import h5py
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import synthetic
import xarray
from helpers import resealed, tree_bitwise_equal

import simkit
from simkit import ArgumentError, ResultFileError
from simkit.io import load, load_provenance, provenance, save, to_xarray
from simkit.study import study_from_provenance, study_from_text

STUDY = """
[system]
model = "lotka_volterra"
[y0]
hare = 30.0
lynx = 4.0
[solve]
step = 0.5
[noise]
hare = { model = "normal", scale = 2 }
[free]
growth = { prior = { normal = [1.0, 0.5] } }
[experiments.first]
times = [0, 1, 2]
data = { hare = [30.0, nan, 50.0] }
"""


@pytest.fixture(scope="module")
def study():
    return study_from_text(STUDY, name="study.toml")


@pytest.fixture
def file(tmp_path, study):
    return save(
        tmp_path / "new" / "result.h5",
        fit=synthetic.fit_result(),
        posterior=synthetic.posterior(),
        prediction=synthetic.prediction(),
        problem=study.problem(),
        made=provenance(study, command="simkit run study.toml", seconds={"fit": 1.5}),
    )


def test_round_trip_is_bitwise(file):
    results = load(file)
    assert tree_bitwise_equal(results.fit, synthetic.fit_result())
    assert tree_bitwise_equal(results.posterior, synthetic.posterior())
    assert tree_bitwise_equal(results.prediction, synthetic.prediction())
    assert results.observed.labels == ("first",)
    assert results.observed.units == {"hare": "thousand"}
    np.testing.assert_array_equal(results.observed.data["hare"], [[30.0, np.nan, 50.0]])
    assert "fit, posterior, prediction" in repr(results)


def test_float32_stays_float32(tmp_path):
    single = simkit.core.cast(synthetic.posterior(), jnp.float32)
    path = save(tmp_path / "single.h5", posterior=single)
    assert tree_bitwise_equal(load(path).posterior, single)


def test_trajectories(tmp_path):
    system, y0, times, _ = simkit.odes.LotkaVolterra.example()
    trajectory = simkit.simulate(system, y0, times[:5], step=0.25)
    again = load(save(tmp_path / "t.h5", trajectory=trajectory)).trajectory
    np.testing.assert_array_equal(again.ys["lynx"], trajectory.ys.lynx)
    assert (again.solver, int(again.steps)) == (trajectory.solver, int(trajectory.steps))
    with xarray.open_dataset(tmp_path / "t.h5", group="trajectory") as data:
        assert data["hare"].dims == ("time",)
        assert data["hare"].attrs["units"] == "thousand"


def test_provenance(file, study):
    made = load_provenance(file)
    assert made == load(file).provenance
    assert made.versions["jax"] == jax.__version__
    assert (made.float_type, made.devices) == ("float64", jax.device_count())
    assert (made.study, made.study_sha256, made.seed) == (study.text, study.sha256, study.seed)
    assert study_from_provenance(made).problem().names == ("growth",)
    assert made.seconds == {"fit": 1.5}


def test_opens_in_xarray(file):
    posterior = synthetic.posterior()
    with xarray.open_dataset(file, group="posterior") as data:
        assert dict(data.sizes) == {"chain": 4, "draw": 100}
        assert set(data.data_vars) == set(posterior.names)
        np.testing.assert_array_equal(data["y0.hare"], posterior.draws[..., 1])
        assert data["y0.hare"].attrs["units"] == "thousand"
        assert to_xarray(posterior).equals(data)
    with xarray.open_dataset(file, group="sample_stats") as data:
        assert set(data.data_vars) == {"lp", "diverging", "n_steps", "acceptance_rate"}
        assert data["diverging"].dtype == bool
    with xarray.open_dataset(file, group="fit") as data:
        assert data["estimate"].sel(parameter="growth") == 0.5
        assert data["covariance"].dims == ("parameter", "other_parameter")
    for group in ("prediction", "posterior_predictive"):
        with xarray.open_dataset(file, group=group) as data:
            assert data["prey"].dims == ("draw", "experiment", "point")
    with xarray.open_dataset(file, group="observed_data") as data:
        assert data["hare"].attrs["units"] == "thousand"


def test_names_that_dimensions_have_already(tmp_path):
    posterior = synthetic.posterior(names=("chain", "draw", "growth"))
    path = save(tmp_path / "r.h5", posterior=posterior)
    assert tree_bitwise_equal(load(path).posterior, posterior)
    with pytest.raises(ArgumentError, match="slash"):
        save(tmp_path / "s.h5", posterior=synthetic.posterior(names=("a/b", "c", "d")))
    assert [p.name for p in tmp_path.iterdir()] == ["r.h5"]


def test_an_existing_file_is_kept(file):
    before = file.read_bytes()
    with pytest.raises(ResultFileError, match="exists already"):
        save(file, posterior=synthetic.posterior())
    assert file.read_bytes() == before
    save(file, posterior=synthetic.posterior(), overwrite=True)
    assert load(file).fit is None
    with pytest.raises(ArgumentError, match="at least one result"):
        save(file, overwrite=True)


def test_a_crash_leaves_the_old_file(file, monkeypatch):
    before = file.read_bytes()

    def crash(*arguments):
        raise RuntimeError("power cut")

    monkeypatch.setattr("simkit.io._results.write_posterior", crash)
    with pytest.raises(RuntimeError, match="power cut"):
        save(file, fit=synthetic.fit_result(), posterior=synthetic.posterior(), overwrite=True)
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize("share", [0.0, 1e-4, 0.01, 0.1, 0.5, 0.9, 0.999])
def test_truncated_files(file, share):
    content = file.read_bytes()
    file.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ResultFileError, match=r"cut short|no HDF5|is empty"):
        load(file)


def test_files_that_are_not_ours(tmp_path, file):
    with pytest.raises(ResultFileError, match="There is no result file"):
        load(tmp_path / "nothing.h5")
    with pytest.raises(ResultFileError, match="must be a result file, but it is a folder"):
        load(tmp_path)
    text = tmp_path / "text.h5"
    text.write_text("year,hare\n")
    with pytest.raises(ResultFileError, match="no HDF5 file"):
        load(text)
    with h5py.File(tmp_path / "other.h5", "w") as other:
        other["x"] = 1
    with pytest.raises(ResultFileError, match="another kind"):
        load(tmp_path / "other.h5")
    with resealed(file) as mine:
        mine.attrs["format_version"] = 99
    with pytest.raises(ResultFileError, match=r"version 99.*newer simkit"):
        load(file)


def test_damaged_numbers_are_found(file):
    with h5py.File(file, "r") as mine:
        place = mine["posterior/growth"].id.get_chunk_info(0).byte_offset
    content = bytearray(file.read_bytes())
    content[place + 8] ^= 0xFF
    file.write_bytes(content)
    with pytest.raises(ResultFileError, match="not as it was written"):
        load(file)


def test_missing_parts_are_found(file):
    with resealed(file) as mine:
        del mine["posterior/growth"]
    with pytest.raises(ResultFileError, match="damaged"):
        load(file)


def test_provenance_without_a_study(tmp_path):
    made = load(save(tmp_path / "r.h5", posterior=synthetic.posterior())).provenance
    assert made.study == ""
    with pytest.raises(simkit.StudyError):
        study_from_provenance(made)
    assert dataclasses.replace(made, seed=4).seed == 4


def test_an_ensemble_comes_back_with_its_members(tmp_path):
    system, y0, times, _ = simkit.odes.LotkaVolterra.example()
    growth = np.array([0.4, np.nan, 0.6])
    members = simkit.ensemble(system, y0, times, over={"growth": growth}, solver=simkit.solvers.Tsit5())
    simkit.save(tmp_path / "members.h5", trajectory=members)
    found = simkit.load(tmp_path / "members.h5").trajectory
    np.testing.assert_array_equal(found.ys["hare"], members.ys.hare)
    np.testing.assert_array_equal(found.times, members.times)
    np.testing.assert_array_equal(found.over["growth"], growth)
    assert found.failures() == members.failures()
    with xarray.open_dataset(tmp_path / "members.h5", group="trajectory", engine="h5netcdf") as stored:
        assert stored["hare"].dims == ("member", "time")


def test_results_of_reducers_are_refused_rather_than_lost(tmp_path):
    system, y0, times, _ = simkit.odes.ExponentialDecay.example()
    found = simkit.simulate(system, y0, times, step=simkit.Fixed(1), reduce={"mean": simkit.reducers.Mean()})
    with pytest.raises(simkit.ArgumentError, match=r"reducers cannot be saved yet"):
        simkit.save(tmp_path / "reduced.h5", trajectory=found)
    assert not list(tmp_path.iterdir())


def falling(t, y, p):
    return {"height": y["speed"], "speed": -9.81 + 0.0 * y["speed"]}


def bounced(system, t, y, inputs):
    return {"height": y["height"], "speed": -system.parameters["kept"] * y["speed"]}


@pytest.mark.parametrize("members", [pytest.param(None, marks=pytest.mark.slow), 3])
def test_events_come_back_bit_by_bit(tmp_path, members):
    ball = simkit.odes.from_function(falling, {"kept": 0.8})
    events = {
        "bounce": simkit.Event(lambda system, t, y, inputs: y["height"], "down", bounced),
        "kick": simkit.Event(at=[0.3, 2.9], change=lambda system, t, y, inputs: y),
    }
    start, times = {"height": 2.0, "speed": 0.0}, np.linspace(0.0, 3.0, 7)
    if members:
        found = simkit.ensemble(ball, start, times, over={"y0.height": np.array([0.5, 20.0, 60.0])}, events=events)
    else:
        found = simkit.simulate(ball, start, times, events=events)
    save(tmp_path / "events.h5", found)
    with h5py.File(tmp_path / "events.h5") as file:
        assert file.attrs["format_version"] == 3
    again = load(tmp_path / "events.h5").trajectory
    assert again.events.names == ("bounce", "kick")
    assert int(np.max(again.events.count)) > 2
    assert tree_bitwise_equal(again.events, found.events)
    assert tree_bitwise_equal(again.event_time, found.event_time)
    assert repr(again.events) == repr(found.events)
    if members is None:
        assert [row["event"] for row in again.events.table()] == [row["event"] for row in found.events.table()]
    with xarray.open_dataset(tmp_path / "events.h5", group="events_after", engine="h5netcdf") as stored:
        assert stored["speed"].dims == ("member", "event")[members is None :]


def test_a_file_without_events_is_one_that_earlier_versions_read(tmp_path):
    system, y0, times, _ = simkit.odes.ExponentialDecay.example()
    save(tmp_path / "plain.h5", simkit.simulate(system, y0, times))
    with h5py.File(tmp_path / "plain.h5") as file:
        assert file.attrs["format_version"] == 2
    assert load(tmp_path / "plain.h5").trajectory.events is None


@pytest.mark.parametrize(
    ("place", "values", "said"),
    [
        ("which", np.full(16, 7), "count 1 names"),
        ("times", np.zeros(3), "shape|Type-check"),
        ("count", np.zeros(2, int), "shape|Type-check"),
    ],
)
def test_events_of_a_wrong_form_are_refused(tmp_path, place, values, said):
    system, y0, times, _ = simkit.odes.ExponentialDecay.example()
    event = simkit.Event(lambda system, t, y, inputs: y.amount - 0.5)
    path = save(tmp_path / "events.h5", simkit.simulate(system, y0, times, events=event))
    with resealed(path) as file:
        del file["events"][place]
        file["events"][place] = values
    with pytest.raises(ResultFileError, match=said):
        load(path)
