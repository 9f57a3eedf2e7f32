"""Stores that workers do not see, and stores in object storage."""

import io
import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor

import fsspec
import h5py
import jax
import numpy as np
import pytest
import stored_runs
import sweep_models
from sweep_models import COUNT, setup

import simkit
from simkit import ArgumentError, MissingPackageError, StoreError
from simkit.stores import place

TESTS = pathlib.Path(sweep_models.__file__).parent
SPAWN = multiprocessing.get_context("spawn")


def chunk_names(found):
    return sorted(path.name for path in found.store.glob("chunk-*"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A sweep in a folder of this machine."""
    return simkit.sweep(**setup(store=tmp_path_factory.mktemp("remote") / "whole"))


@pytest.fixture
def memory():
    """An object store in the memory of this process, which no other process sees."""
    yield "memory://bucket/sweep"
    fsspec.filesystem("memory").store.clear()


class Blind(ProcessPoolExecutor):
    """Processes that look for the store when its mark is gone, as if they stood on another machine."""

    def __init__(self, folder):
        super().__init__(2, mp_context=SPAWN)
        self.folder, self.sent = folder, []

    def submit(self, fn, /, *args, **kwargs):
        for mark in self.folder.glob(".seen-*"):
            mark.unlink()
        future = super().submit(fn, *args, **kwargs)
        future.add_done_callback(lambda done: self.sent.append(len(done.result().content or b"")))
        return future


def test_workers_that_do_not_see_the_folder_send_their_chunks(tmp_path, whole):
    with Blind(tmp_path / "s") as executor:
        found = simkit.sweep(**setup(store=tmp_path / "s", executor=executor))
    assert len(executor.sent) == 6
    assert min(executor.sent) > 1000
    assert chunk_names(found) == chunk_names(whole)
    assert not found.damaged()


@pytest.mark.slow
def test_processes_without_a_memory_in_common_fill_an_object_store(memory, whole):
    with ProcessPoolExecutor(2, mp_context=SPAWN) as executor:
        found = simkit.sweep(**setup(store=memory, executor=executor))
    assert chunk_names(found) == chunk_names(whole)
    np.testing.assert_array_equal(found["amount"][:], whole["amount"][:])


def test_an_object_store_holds_what_a_folder_does(memory, whole, tmp_path):
    found = simkit.sweep(**setup(store=memory))
    assert chunk_names(found) == chunk_names(whole)
    again = simkit.sweeps.open(memory)
    assert again.finished == COUNT
    for name in ("status", "amount", "rate"):
        np.testing.assert_array_equal(again[name][:], whole[name][:])
    assert "memory://bucket/sweep" in repr(again)
    # Downloaded it is the store of a folder, view and all.
    fsspec.filesystem("memory").get(memory, str(tmp_path / "down"), recursive=True)
    with h5py.File(tmp_path / "down" / "view.h5") as view:
        np.testing.assert_array_equal(view["amount"][:], whole["amount"][:])
    assert simkit.sweep(**setup(store=tmp_path / "down")).rate is None  # nothing was left to do


def test_an_object_store_goes_on(memory, whole):
    found = simkit.sweep(**setup(store=memory))
    paths = sorted(found.store.glob("chunk-*"))
    paths[1].unlink()
    paths[3].write_bytes(paths[3].read_bytes()[:-7])
    lines = []
    found = simkit.sweep(**setup(store=memory, progress=lines.append))
    assert len(lines) == 2
    assert chunk_names(found) == chunk_names(whole)
    with pytest.raises(StoreError, match="belongs to another sweep: `step"):
        simkit.sweep(**setup(store=memory, step=simkit.Fixed(5)))


@pytest.mark.slow
def test_kill_in_the_middle_of_an_object_store(tmp_path, whole):
    url = f"file://{tmp_path}/s"
    process = subprocess.Popen(
        [sys.executable, sweep_models.__file__, url, "60"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])},
    )
    assert process.stdout.readline().startswith("4 of 22 members")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    lines = []
    found = simkit.sweep(**setup(store=url, progress=lines.append))
    assert len(lines) == 5
    assert chunk_names(found) == chunk_names(whole)


def test_fits_keep_their_starts_in_an_object_store(memory):
    lines = []
    first = stored_runs.run_fit(memory, starts=6)
    kept = {path.name for path in place(memory).iterdir()}
    assert sum(name.endswith(".h5") for name in kept) == 3  # the starts and two blocks of four
    again = stored_runs.run_fit(memory, starts=6, progress=lines.append)
    assert jax.tree.all(jax.tree.map(lambda a, b: bool((np.asarray(a) == np.asarray(b)).all()), first.z, again.z))
    assert {path.name for path in place(memory).iterdir()} == kept
    with pytest.raises(StoreError, match="belongs to another fit"):
        stored_runs.run_fit(memory, starts=6, problem=stored_runs.problem(0.06))


@pytest.mark.parametrize(
    ("store", "words"),
    [
        ("nowhere://x", "fsspec knows no `nowhere://`"),
        ("gs://bucket/x", "`gs://`: .*gcsfs"),
        ("memory://", "must name a folder of `memory`, such as `memory://bucket/sweep`"),
        ("s3:/bucket/x", "Write `s3://bucket/x` for the store, or `./s3:/bucket/x` for a folder"),
        ("memory:x", "Write `memory://x` for the store"),
    ],
)
def test_what_no_client_knows_is_refused(store, words):
    with pytest.raises((ArgumentError, MissingPackageError), match=words):
        simkit.sweep(**setup(store=store))


def test_without_fsspec_the_extra_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(MissingPackageError, match=r'pip install "simkit\[cloud\]"'):
        simkit.sweeps.open("never://bucket/x")


def test_clients_that_fail_are_told_as_a_store_that_cannot_be_written(memory, monkeypatch):
    def refuse(self, path, value, **options):
        raise RuntimeError("the credentials have expired")

    monkeypatch.setattr(type(fsspec.filesystem("memory")), "pipe_file", refuse)
    with pytest.raises(StoreError, match=r"could not be written.*the credentials have expired"):
        simkit.sweep(**setup(store=memory))


def test_workers_of_another_version_are_refused(tmp_path, monkeypatch):
    from simkit.sweeps import _sweep

    monkeypatch.setattr(_sweep, "installed", lambda: {"simkit": "0.0.1", "jax": jax.__version__})
    with (
        ProcessPoolExecutor(1, mp_context=SPAWN) as executor,
        pytest.raises(ArgumentError, match=r"Workers must have the versions .* simkit .* in place of 0.0.1"),
    ):
        simkit.sweep(**setup(store=tmp_path / "s", executor=executor))


def test_hdf5_is_read_without_locks(whole, monkeypatch):
    opened = []
    real = h5py.File
    monkeypatch.setattr(h5py, "File", lambda *args, **known: opened.append((args, known)) or real(*args, **known))
    assert simkit.sweeps.open(whole.store)["amount"][:].shape[0] == COUNT
    read = [known for args, known in opened if not isinstance(args[0], io.BytesIO) and args[1:2] == ("r",)]
    assert read
    assert all(known == {"locking": False} for known in read)
