"""H5MD: round trips, processes that are killed, files of others, and MDAnalysis."""

import contextlib
import dataclasses
import pathlib
import random
import subprocess
import sys
import time

import h5md_writer
import h5py
import numpy as np
import pytest

import simkit
from simkit.io import H5MDWriter, read_h5md
from simkit.io._hdf5_recovery import is_marked, lookup3
from simkit.md import METAL, REAL, REDUCED, SI, Frame, OpenSpace, Orthorhombic, Triclinic, reduced

WRITER = pathlib.Path(h5md_writer.__file__)
RNG = np.random.default_rng(0)
SPACES = {
    "box": lambda k: Orthorhombic([4.0 + k, 5.0, 6.5]),
    "skewed": lambda k: Triclinic([[4.0, 0.0, 0.0], [1.0 + k, 5.0, 0.0], [0.5, -0.5, 6.0]]),
    "open": lambda k: OpenSpace(),
    "plane": lambda k: Orthorhombic([4.0, 5.0 + k]),
}


def frames(space="box", units=METAL, count=4, atoms=5):
    mass, charge = RNG.uniform(1, 2, atoms), RNG.normal(size=atoms)
    found = []
    for k in range(count):
        here = SPACES[space](k)
        vectors = RNG.normal(size=(3, atoms, here.dimensions))
        found.append(
            Frame(
                here,
                vectors[0],
                units=units,
                symbols=("O", "H", "H", "O", "H")[:atoms],
                mass=mass,
                charge=charge,
                momentum=vectors[1],
                force=vectors[2],
                energy=-1.5 * k,
                time=0.25 * k,
                step=10 * k,
            )
        )
    return found


def write(path, series, **options):
    with H5MDWriter(path, series[0], **options) as file:
        for frame in series:
            file.write(frame, **dict.fromkeys(options.get("observables") or {}, 0.5 * frame.step))
    return path


def assert_same(found, expected, rtol):
    for name in ("position", "mass", "charge", "momentum", "force", "energy", "time"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=rtol, atol=0, err_msg=name)
    assert (found.step, found.symbols, found.units) == (expected.step, expected.symbols, expected.units)
    assert found.space.dimensions == expected.space.dimensions
    if expected.space.periodic:
        np.testing.assert_allclose(found.space.vectors(), expected.space.vectors(), rtol=rtol)
    else:
        assert isinstance(found.space, OpenSpace)


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize(
    "units", [REDUCED, METAL, REAL, SI, reduced(3.4, 0.01, 40.0)], ids=["lj", "metal", "real", "si", "argon"]
)
def test_round_trip(tmp_path, space, units):
    series = frames(space, units)
    path = write(tmp_path / "a" / "t.h5md", series, observables={"pressure": "pressure", "order": None})
    found = read_h5md(path)
    assert len(found) == 4
    for k, frame in enumerate(series):
        assert_same(found[k], frame, rtol=1e-14)  # velocities over masses and units: a few roundings
    np.testing.assert_allclose(found.observables["pressure"], [0.0, 5.0, 10.0, 15.0], rtol=1e-14)
    np.testing.assert_array_equal(found.observables["order"], [0.0, 5.0, 10.0, 15.0])
    some = read_h5md(path, frames=slice(-1, 0, -2))
    assert some.step.tolist() == [30, 10]
    assert_same(some[1], series[1], rtol=1e-14)
    assert len(read_h5md(path, frames=slice(2, 2))) == 0


def test_units_are_converted_at_the_edge(tmp_path):
    series = frames(units=METAL)
    path = write(tmp_path / "t.h5md", series, observables={"area": "area", "pressure": "pressure"})
    with h5py.File(path) as file:
        group = file["particles/trajectory"]
        assert [group[name].attrs["unit"] for name in ("position/value", "position/time")] == ["Angstrom", "ps"]
        assert group["force/value"].attrs["unit"] == "kJ mol-1 Angstrom-1"
        # 96.485 kJ/mol an electron volt
        np.testing.assert_allclose(group["force/value"][0], 96.48533212331 * series[0].force, rtol=1e-12)
        np.testing.assert_allclose(group["mass"][()], METAL.outside(series[0].mass, "mass"), rtol=1e-14)
        np.testing.assert_allclose(file["observables/pressure/value"][1], METAL.outside(5.0, "pressure"), rtol=1e-14)
    real = read_h5md(path, REAL)
    assert_same(real[1], series[1].converted(REAL), rtol=1e-12)
    np.testing.assert_allclose(real.observables["area"], [0, 5, 10, 15], rtol=1e-14)
    np.testing.assert_allclose(read_h5md(path, SI).position, 1e-10 * read_h5md(path).position, rtol=1e-14)


def test_append(tmp_path):
    series = frames(count=4)
    path = write(tmp_path / "t.h5md", series[:2])
    with H5MDWriter(path, series[0], append=True) as file:
        assert file.frames == 2
        with pytest.raises(simkit.ArgumentError, match=r"step above 10"):
            file.write(series[1])
        for frame in series[2:]:
            file.write(frame)
        assert len(read_h5md(path)) == 4  # while it is written
    for k, frame in enumerate(series):
        assert_same(read_h5md(path)[k], frame, rtol=1e-14)
    other = frames(count=1, atoms=4)[0]
    for like, message in (
        (other, r"trajectory like the one to append.*shape \(5, 3\)"),
        (dataclasses.replace(series[0], units=REDUCED), "units are metal"),
    ):
        with pytest.raises(simkit.ResultFileError, match=message):
            H5MDWriter(path, like, append=True)
    with pytest.raises(simkit.ResultFileError, match=r"exists already"):
        H5MDWriter(path, series[0])
    assert len(read_h5md(write(path, series[:1], overwrite=True))) == 1


def test_float32(tmp_path):
    series = frames()
    found = read_h5md(write(tmp_path / "t.h5md", series, float_type="float32"))
    assert_same(found[1], series[1], rtol=3e-7)


@contextlib.contextmanager
def writing(path):
    """A process that writes, killed in the end whatever happens."""
    with subprocess.Popen([sys.executable, WRITER, path], stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def test_kill_loses_no_acknowledged_frame(tmp_path):
    """Three times a process is killed at a random moment, and the next one goes on in what it left."""
    path, random_time = tmp_path / "t.h5md", random.Random(0)
    told = -1
    for _ in range(3):
        with writing(path) as process:
            lines = [process.stdout.readline() for _ in range(20)]  # it has begun
            assert int(lines[0]) > told
            time.sleep(random_time.uniform(0.0, 0.3))
            process.kill()
            lines += process.stdout.read().splitlines()
        told = max(int(line) for line in lines)
        with path.open("rb") as handle:
            assert is_marked(handle)
        found = read_h5md(path)
        n = len(found)
        # What it told is there, and at most one frame that it had no time to tell of.
        assert n in (told + 1, told + 2)
        assert found.step.tolist() == list(range(n))
        np.testing.assert_array_equal(found.position, np.broadcast_to(np.arange(n)[:, None, None], (n, 40, 3)))
        np.testing.assert_allclose(found.velocity, 2 * found.position, rtol=1e-14)
        np.testing.assert_array_equal(found.vectors[:, 1, 1], 10.0 + np.arange(n))
        np.testing.assert_array_equal(found.observables["potential_energy"], -np.arange(n))
    with H5MDWriter(path, h5md_writer.frame(0), append=True) as file:
        assert file.frames == n
    with path.open("rb") as handle:
        assert not is_marked(handle)
    with h5py.File(path) as file:  # as every other program opens it
        assert len(file["particles/trajectory/position/value"]) == n


def test_two_writers(tmp_path):
    path = tmp_path / "t.h5md"
    with writing(path) as process:
        process.stdout.readline()
        like = h5md_writer.frame(0)
        with pytest.raises(simkit.ResultFileError, match=r"being written by another process"):
            H5MDWriter(path, like, append=True)


def test_the_checksum_is_that_of_its_author():
    # from the comments of Jenkins' own lookup3.c
    assert lookup3(b"Four score and seven years ago") == 0x17770551


def others(path, **changes):
    """A file as another program may write it: fixed cell, increments, single precision, nanometres."""
    with h5py.File(path, "w") as file:
        file.create_group("h5md").attrs["version"] = [1, 1]
        group = file.create_group("particles/all")
        box = group.create_group("box")
        box.attrs["dimension"], box.attrs["boundary"] = 3, np.array([b"periodic"] * 3)
        box.create_dataset("edges", data=np.array([1.0, 2.0, 3.0]), dtype="f8").attrs["unit"] = np.bytes_("nm")
        position = group.create_group("position")
        value = position.create_dataset("value", data=np.arange(24.0).reshape(2, 4, 3), dtype="f4")
        value.attrs["unit"] = np.bytes_("nm")
        position.create_dataset("step", data=100, dtype="i8").attrs["offset"] = 50
        time = position.create_dataset("time", data=0.2, dtype="f8")
        time.attrs["unit"], time.attrs["offset"] = "ps", 0.1
        for name, change in changes.items():
            change(file, group, name)
    return path


def test_a_file_of_another_program(tmp_path):
    path = others(tmp_path / "t.h5")
    with pytest.raises(simkit.ArgumentError, match=r"`units` must name the unit system.*another program"):
        read_h5md(path)
    found = read_h5md(path, METAL)
    np.testing.assert_allclose(found.position, 10 * np.arange(24.0).reshape(2, 4, 3), rtol=1e-14)
    np.testing.assert_allclose(found.vectors, np.broadcast_to(np.diag([10.0, 20.0, 30.0]), (2, 3, 3)), rtol=1e-14)
    assert found.step.tolist() == [50, 150]
    np.testing.assert_allclose(found.time, [0.1, 0.3], rtol=1e-14)
    assert found.mass is None
    assert found[1].momentum is None
    assert read_h5md(path, METAL, frames=slice(1, None)).step.tolist() == [150]
    with pytest.raises(simkit.ArgumentError, match=r"a system with scales .*its length is in `nm`, but it is reduced"):
        read_h5md(path, REDUCED)
    bare = others(tmp_path / "b.h5", bare=lambda file, group, _: group["position/value"].attrs.__delitem__("unit"))
    with pytest.raises(simkit.ArgumentError, match=r"`units` must be `REDUCED` .*its length has no unit"):
        read_h5md(bare, METAL)


def test_bad_files(tmp_path):
    text = tmp_path / "text"
    text.write_text("no HDF5")
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = 1.0
    cut = write(tmp_path / "cut.h5md", frames(count=20, atoms=5))
    cut.write_bytes(cut.read_bytes()[:2000])
    no_position = lambda file, group, _: group.__delitem__("position")
    flat = lambda file, group, _: (
        group.__delitem__("position"),
        group.create_dataset("position/value", data=np.ones(3)),
    )
    link = lambda file, group, _: (
        group["position"].__delitem__("value"),
        group["position"].__setitem__("value", h5py.ExternalLink("/etc/secret.h5", "/x")),
    )
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["x"] = np.ones((2, 3, 3))
    by_way = lambda file, group, _: (
        file.__setitem__("hidden", h5py.ExternalLink(str(tmp_path / "secret.h5"), "/")),
        group["position"].__delitem__("value"),
        group["position"].__setitem__("value", h5py.SoftLink("/hidden/x")),
    )
    empty = lambda file, group, _: (
        group["position"].__delitem__("value"),
        group.create_dataset("position/value", (2**20, 2**10, 3), "f8"),
    )
    two = lambda file, group, _: file.create_group("particles/more")
    slab = lambda file, group, _: group["box"].attrs.__setitem__("boundary", ["periodic", "periodic", "none"])
    for path, message in (
        (tmp_path / "none.h5", "There is no file"),
        (text, "no HDF5 file"),
        (tmp_path / "other.h5", "an HDF5 file of another kind: it has no group `h5md`"),
        (cut, "no HDF5 file, or is cut short"),
        (others(tmp_path / "1.h5", change=no_position), "must hold positions"),
        (others(tmp_path / "2.h5", change=flat), r"shape \(frames, atoms, 3\)"),
        (others(tmp_path / "3.h5", change=link), "must lie in this file, but it is a link to `/etc/secret.h5`"),
        (others(tmp_path / "6.h5", change=by_way), "must hold its own numbers, but they lie in other files"),
        (others(tmp_path / "7.h5", change=empty), "takes 25769803776 bytes, but 0 were written"),
        (others(tmp_path / "4.h5", change=two), r"`group` must name a group of particles .*'all', 'more'"),
        (others(tmp_path / "5.h5", change=slab), "periodic along all axes or none"),
    ):
        with pytest.raises(simkit.SimkitError, match=message):
            read_h5md(path, METAL)
    with pytest.raises(simkit.ResultFileError, match=r"it is no HDF5 file"):
        H5MDWriter(text, frames()[0], append=True)
    with pytest.raises(simkit.ResultFileError, match=r"lacks what frames like this one have"):
        H5MDWriter(tmp_path / "other.h5", frames()[0], append=True)
    lj = write(tmp_path / "lj.h5md", frames(units=REDUCED))
    with pytest.raises(simkit.ArgumentError, match=r"numbers are in reduced units and metal ones are asked for"):
        read_h5md(lj, METAL)


def test_frames_that_do_not_fit(tmp_path):
    first, second = frames(count=2)
    with H5MDWriter(tmp_path / "t.h5md", first, observables={"pressure": "pressure"}) as file:
        for frame, given, message in (
            (dataclasses.replace(first, force=None), {"pressure": 1.0}, "`force` if and only if"),
            (dataclasses.replace(first, symbols=("H",) * 5), {"pressure": 1.0}, "the `symbols` of the first"),
            (dataclasses.replace(first, space=OpenSpace()), {"pressure": 1.0}, "5 atoms in a cell, like the first"),
            (first.converted(REAL), {"pressure": 1.0}, "the `units` of the first"),
            (first, {}, r"`observables` must be \['pressure'\], but it is \[\]"),
        ):
            with pytest.raises(simkit.ArgumentError, match=message):
                file.write(frame, **given)
        file.write(first, pressure=1.0)
        file.write(second, pressure=2.0)
    assert read_h5md(tmp_path / "t.h5md").observables["pressure"].tolist() == pytest.approx([1.0, 2.0])
    for like, options, message in (
        (dataclasses.replace(first, mass=None), {}, "masses where it has momenta"),
        (first, {"observables": {"a/b": None}}, "names without slashes"),
        (first, {"observables": {"p": "presure"}}, "dimension `presure`"),
        (first, {"float_type": "float16"}, "`float_type` must be"),
    ):
        with pytest.raises(simkit.SimkitError, match=message):
            H5MDWriter(tmp_path / "new.h5md", like, **options)
    assert not (tmp_path / "new.h5md").exists()


@pytest.mark.filterwarnings("ignore")  # it warns that it takes dt to be 1 ps
@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("units", [METAL, REAL, SI, reduced(3.4, 0.01, 40.0)], ids=["metal", "real", "si", "argon"])
def test_mdanalysis_opens_it(tmp_path, space, units):
    mda = pytest.importorskip("MDAnalysis")
    series = frames(space, units)
    path = write(tmp_path / "t.h5md", series, observables={"pressure": "pressure"})
    universe = mda.Universe(str(path))
    assert len(universe.trajectory) == 4
    for k, step in enumerate(universe.trajectory):
        frame = series[k].converted(METAL)
        d = frame.space.dimensions
        scale = np.abs(frame.position).max()
        np.testing.assert_allclose(step.positions[:, :d], frame.position, atol=3e-7 * scale)  # float32
        velocity = frame.momentum / frame.mass[:, None]
        np.testing.assert_allclose(step.velocities[:, :d], velocity, atol=3e-7 * np.abs(velocity).max())
        force = 96.48533212331 * frame.force
        np.testing.assert_allclose(step.forces[:, :d], force, atol=1e-6 * np.abs(force).max())
        np.testing.assert_allclose(step.time, frame.time, rtol=1e-6)
        assert step.data["step"] == frame.step
        if d == 3 and frame.space.periodic:
            volume = np.asarray(frame.space.volume())
            np.testing.assert_allclose(step.volume, volume, rtol=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_mdanalysis_opens_reduced_units(tmp_path):
    mda = pytest.importorskip("MDAnalysis")
    series = frames(units=REDUCED)
    path = write(tmp_path / "t.h5md", series)
    universe = mda.Universe.empty(5, trajectory=True)
    universe.load_new(str(path), format="H5MD", convert_units=False)
    np.testing.assert_allclose(universe.trajectory[2].positions, series[2].position, rtol=1e-6)
