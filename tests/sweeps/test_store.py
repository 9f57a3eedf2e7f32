"""Stores: interrupted, killed, cut short, full, and shared."""

import errno
import json
import os
import pathlib
import resource
import signal
import socket
import struct
import subprocess
import sys
import time

import numpy as np
import pytest
import sweep_models
from sweep_models import COUNT, setup

import simkit
from simkit import ResultFileError, StoreError
from simkit.stores import _lock

TESTS = pathlib.Path(sweep_models.__file__).parent


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The names of the chunk files of a sweep that nothing disturbed; they are hashes of the content."""
    return chunk_names(simkit.sweep(**setup(store=tmp_path_factory.mktemp("store") / "whole")).store)


def chunk_names(store):
    return sorted(path.name for path in store.glob("chunk-*"))


def other_files(store):
    """What a finished store holds beside chunks."""
    return {path.name for path in store.iterdir() if not path.name.startswith("chunk-")}


def start(store, pause):
    """The same sweep in another process, which waits after every chunk."""
    return subprocess.Popen(
        [sys.executable, sweep_models.__file__, str(store), str(pause)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
    )


def test_kill_loses_at_most_the_chunk_in_flight(tmp_path, whole):
    store = tmp_path / "s"
    process = start(store, 60)
    assert process.stdout.readline().startswith("4 of 22 members")
    before = chunk_names(store)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert before == whole[:1]
    lines = []
    found = simkit.sweep(**setup(store=store, progress=lines.append))
    assert len(lines) == len(whole) - 1  # what was finished is not done again
    assert found.finished == COUNT
    assert chunk_names(store) == whole
    assert other_files(store) == {"manifest.json", "points.h5", "view.h5"}


def test_two_processes_do_not_share_a_store(tmp_path):
    store = tmp_path / "s"
    process = start(store, 1)
    try:
        assert process.stdout.readline().startswith("4 of 22 members")
        with pytest.raises(
            StoreError, match=rf"is in use by process {process.pid} on {socket.gethostname()}, since 20"
        ):
            simkit.sweep(**setup(store=store))
        # Reading needs no lock.
        assert simkit.sweeps.open(store).finished >= 4
    finally:
        text, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert text.splitlines()[-1] == str(COUNT)
    assert simkit.sweep(**setup(store=store)).finished == COUNT


def hold(store, **held):
    """A lock file of someone else."""
    store.mkdir(exist_ok=True)
    text = {"pid": 1, "machine": "elsewhere", "host": "elsewhere", "since": "2026-01-01", "token": "theirs", **held}
    (store / _lock.NAME).write_text(json.dumps(text))


def test_locks_without_signs_of_life_are_taken_over(tmp_path):
    store = tmp_path / "s"
    hold(store)
    with pytest.raises(StoreError, match="in use by process 1 on elsewhere, since 2026-01-01"):
        simkit.sweep(**setup(store=store))
    long_ago = time.time() - 2 * _lock.STALE
    os.utime(store / _lock.NAME, (long_ago, long_ago))
    assert simkit.sweep(**setup(store=store)).finished == COUNT
    assert other_files(store) == {"manifest.json", "points.h5", "view.h5"}


def test_locks_of_ended_processes_are_taken_over_at_once(tmp_path):
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    hold(tmp_path / "s", pid=int(ended.stdout), machine=_lock.machine())
    assert simkit.sweep(**setup(store=tmp_path / "s")).finished == COUNT


def test_a_holder_shows_signs_of_life(tmp_path, monkeypatch):
    monkeypatch.setattr(_lock, "BEAT", 0.01)
    with _lock.Lock(tmp_path).hold():
        os.utime(tmp_path / _lock.NAME, (1.0, 1.0))
        until(lambda: (tmp_path / _lock.NAME).stat().st_mtime > 1.0)
    assert not list(tmp_path.iterdir())


def test_a_holder_that_was_taken_for_dead_stops(tmp_path, monkeypatch):
    monkeypatch.setattr(_lock, "BEAT", 0.01)
    store = tmp_path / "s"

    def say(line):
        hold(store)
        time.sleep(0.1)

    with pytest.raises(StoreError, match="was taken over by process 1 on elsewhere"):
        simkit.sweep(**setup(store=store, progress=say))
    assert json.loads((store / _lock.NAME).read_text())["token"] == "theirs"  # not ours to remove


def until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def store(tmp_path):
    return simkit.sweep(**setup(store=tmp_path / "s")).store


@pytest.mark.parametrize("damage", ["cut", "empty", "flipped", "foreign"])
def test_damaged_chunks_are_found_and_done_again(damage, store, whole):
    path = sorted(store.glob("chunk-*"))[2]
    content = path.read_bytes()
    assert not simkit.sweeps.open(store).damaged()
    if damage == "foreign":  # the chunk of another sweep, whole as it is
        other = simkit.sweep(**setup(store=store.parent / "other", step=simkit.Fixed(5))).store
        path.unlink()
        path = store / chunk_names(other)[2]
        path.write_bytes((other / path.name).read_bytes())
    else:
        flipped = content[:3000] + bytes([content[3000] ^ 1]) + content[3001:]
        path.write_bytes({"cut": content[: len(content) // 2], "empty": b"", "flipped": flipped}[damage])
    assert simkit.sweeps.open(store).damaged() == [path]
    opened = simkit.sweeps.open(store)
    with pytest.raises(ResultFileError, match="is gone, cut short or damaged"):
        opened["status"][:]
    lines = []
    found = simkit.sweep(**setup(store=store, progress=lines.append))
    assert len(lines) == 1
    assert chunk_names(store) == whole
    assert not found.damaged()


@pytest.mark.parametrize("name", ["manifest.json", "points.h5", "view.h5"])
@pytest.mark.parametrize("damage", ["gone", "cut"])
def test_what_lies_beside_the_chunks_is_written_again(name, damage, store, whole):
    path = store / name
    content = path.read_bytes()
    path.unlink()
    if damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    if name == "manifest.json":
        with pytest.raises(ResultFileError, match="must be the store of a sweep" if damage == "gone" else "is damaged"):
            simkit.sweeps.open(store)
        if damage == "cut":
            with pytest.raises(ResultFileError, match="remove it and call `sweep` again"):
                simkit.sweep(**setup(store=store))
            path.unlink()
    if name == "points.h5":
        with pytest.raises(ResultFileError, match="it writes it anew"):
            _ = simkit.sweeps.open(store).values
    lines = []
    simkit.sweep(**setup(store=store, progress=lines.append))
    assert lines == []
    assert chunk_names(store) == whole
    assert path.stat().st_size == len(content)


def test_chunks_of_another_sweep_without_a_manifest_are_left_alone(store, whole):
    (store / "manifest.json").unlink()
    with pytest.raises(StoreError, match="holds chunk files of another sweep and no manifest"):
        simkit.sweep(**setup(store=store, step=simkit.Fixed(5)))
    assert chunk_names(store) == whole
    assert simkit.sweep(**setup(store=store)).finished == COUNT


def test_a_newer_format_is_refused(store):
    held = json.loads((store / "manifest.json").read_text())
    (store / "manifest.json").write_text(json.dumps({**held, "format_version": 99}))
    with pytest.raises(ResultFileError, match="format version 99"):
        simkit.sweeps.open(store)
    (store / "manifest.json").write_text(json.dumps({"format": "else"}))
    with pytest.raises(ResultFileError, match="must be the manifest of a sweep"):
        simkit.sweeps.open(store)


def test_a_full_disk_is_one_sentence_and_no_half_file(tmp_path, whole, monkeypatch):
    store = tmp_path / "s"
    write, written = pathlib.Path.write_bytes, []

    def full(path, content):
        if "chunk-" in path.name:
            written.append(path)
            if len(written) == 3:
                write(path, content[:100])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(path, content)

    monkeypatch.setattr(pathlib.Path, "write_bytes", full)
    with pytest.raises(StoreError, match=r"There is no space left for the store .* chunks that are finished are kept"):
        simkit.sweep(**setup(store=store))
    assert chunk_names(store) == whole[:2]
    assert not list(store.glob(".*"))
    monkeypatch.undo()
    assert simkit.sweep(**setup(store=store)).finished == COUNT
    assert chunk_names(store) == whole


def test_a_view_that_finds_no_space_is_told(store, monkeypatch):
    def full(path, content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (store / "view.h5").unlink()
    monkeypatch.setattr(pathlib.Path, "write_bytes", full)
    with pytest.raises(StoreError, match="There is no space left"):
        simkit.sweep(**setup(store=store))
    monkeypatch.undo()
    assert simkit.sweep(**setup(store=store)).view.exists()


def test_a_limit_on_file_size_is_met_the_same_way(tmp_path, whole):
    store = tmp_path / "s"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    lines = []

    def say(line):  # after the first chunk, files cannot grow beyond a kilobyte
        lines.append(line)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024, limits[1]))

    try:
        with pytest.raises(StoreError, match="no space left"):
            simkit.sweep(**setup(store=store, progress=say))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert len(lines) == 1
    assert chunk_names(store) == whole[:1]
    assert not list(store.glob(".*"))
    assert simkit.sweep(**setup(store=store)).finished == COUNT


def test_an_interrupt_keeps_what_is_finished(tmp_path, whole):
    store, lines = tmp_path / "s", []

    def say(line):
        lines.append(line)
        if len(lines) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simkit.sweep(**setup(store=store, progress=say))
    opened = simkit.sweeps.open(store)
    assert opened.finished == 8
    assert "8 of 22" in repr(opened)
    assert np.isnan(opened[opened.names[0]][8:]).all()
    assert (opened.status[8:] == -1).all()
    with pytest.raises(simkit.ArgumentError, match="Member 8 is not computed yet"):
        opened.trajectory([3, 8])
    import h5py

    with h5py.File(opened.view) as file:  # the view is there, with gaps
        assert np.isnan(file[opened.names[0]][8:]).all()
        assert (file["status"][8:] == -1).all()
    assert simkit.sweep(**setup(store=store)).finished == COUNT
    assert chunk_names(store) == whole


def test_what_is_no_store_is_refused(tmp_path):
    with pytest.raises(ResultFileError, match="must be the store of a sweep"):
        simkit.sweeps.open(tmp_path / "nothing")
    with pytest.raises(
        ResultFileError, match=r"it is a folder. The store of a sweep is opened by `simkit.sweeps.open`"
    ):
        simkit.load(tmp_path)


def test_changed_values_of_members_are_found(store):
    path = store / "points.h5"
    content = bytearray(path.read_bytes())
    place = content.find(struct.pack("<d", float(simkit.sweeps.open(store).values["rate"][1])))
    content[place + 6] ^= 4
    path.write_bytes(content)
    with pytest.raises(ResultFileError, match=r"points.h5` is gone, cut short or damaged"):
        simkit.sweeps.open(store).values  # noqa: B018
    assert np.isfinite(simkit.sweep(**setup(store=store)).values["rate"]).all()
