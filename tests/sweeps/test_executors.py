"""Executors: the same files from all of them, chunks that fail, and workers that die."""

import functools
import multiprocessing
import os
import signal
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import dask
import numpy as np
import pytest
import sweep_models
from dask.distributed import Client, LocalCluster
from sweep_models import CHUNK, COUNT, RATES, setup

import simkit
from simkit import ArgumentError, Status, StoreError

SPAWN = multiprocessing.get_context("spawn")
FACTORY = functools.partial(ProcessPoolExecutor, 2, mp_context=SPAWN)


def chunk_names(found):
    return sorted(path.name for path in found.store.glob("chunk-*"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The chunk files of this process."""
    folder = tmp_path_factory.mktemp("executors") / "whole"
    return chunk_names(simkit.sweep(**setup(store=folder, measure=sweep_models.final)))


@pytest.fixture(scope="module")
def client():
    """Two workers of Dask; a chunk whose worker dies is given to one more."""
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        LocalCluster(2, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as cluster,
        Client(cluster) as client,
    ):
        yield client


def test_threads(tmp_path, whole):
    with ThreadPoolExecutor(2) as executor:
        found = simkit.sweep(**setup(store=tmp_path / "s", measure=sweep_models.final, executor=executor))
    assert chunk_names(found) == whole


def test_a_chunk_that_raises_is_tried_again_and_set_aside(tmp_path):
    arguments = setup(store=tmp_path / "s", measure=sweep_models.raising)
    found = simkit.sweep(**arguments, retries=2)
    assert found.finished == COUNT - 2
    (note,) = found.set_aside
    assert (note["chunk"], note["first"], note["members"], note["tries"]) == (5, 20, 2, 3)
    assert note["values"] == {"rate": [pytest.approx(0.957, abs=1e-3), 1.0]}
    assert "rates above 0.99 are not for me" in note["traceback"]
    text = repr(found)
    assert "20 of 22" in text
    assert "chunk 5, members 20 to 21: " in text
    assert "their values: rate 0.9571 to 1" in text
    assert simkit.sweeps.open(found.store).set_aside == found.set_aside
    # Another call tries again, and nothing else.
    assert simkit.sweep(**arguments, retries=0).set_aside[0]["tries"] == 1


def test_what_cannot_travel_is_refused(tmp_path):
    def measure(system, trajectory, lock=threading.Lock()):  # nobody can pickle a lock
        return sweep_models.final(system, trajectory)

    with pytest.raises(ArgumentError, match="must be able to travel to other processes"):
        simkit.sweep(**setup(store=tmp_path / "s", measure=measure, executor=FACTORY))


def test_a_broken_pool_keeps_what_is_finished(tmp_path, whole, monkeypatch):
    flag = tmp_path / "flag"
    monkeypatch.setenv("SIMKIT_TEST_FLAG", str(flag))
    said = []
    arguments = setup(store=tmp_path / "s", measure=sweep_models.deadly, progress=said.append)
    words = r"A worker process died.* while these chunks were at hand: (\d+, )*5\."
    with ProcessPoolExecutor(1, mp_context=SPAWN) as executor, pytest.raises(StoreError, match=words):
        simkit.sweep(**arguments, executor=executor)
    assert flag.exists()
    # Whatever it said was finished is on disk; a chunk that a busy machine made fail once would come after the deadly one.
    finished = max(int(line.split(" of ")[0]) for line in said)
    assert finished >= CHUNK
    assert simkit.sweeps.open(tmp_path / "s").finished >= finished, said
    # The flag is up, so nothing kills the second pool.
    with ProcessPoolExecutor(1, mp_context=SPAWN) as executor:
        assert simkit.sweep(**arguments, executor=executor).finished == COUNT


def left_out(found, whole):
    """Check that the last member alone is left out, and that all others have the bits of a sweep without such a member."""
    assert found.finished == COUNT
    assert not found.set_aside
    assert {status: list(members) for status, members in found.failures()} == {Status.WORKER_DIED: [COUNT - 1]}
    assert "1 with WORKER_DIED, the first is member 21: rate 1" in repr(found)
    assert np.isnan(found["final"][-1])
    np.testing.assert_array_equal(found["final"][:-1], whole["final"][:-1])
    assert chunk_names(found)[:-1] == chunk_names(whole)[:-1]


@pytest.mark.slow
def test_pools_are_replaced_until_a_member_is_found_guilty(tmp_path, monkeypatch):
    found = simkit.sweep(**setup(store=tmp_path / "s", measure=sweep_models.deadly, executor=FACTORY, retries=1))
    flag = tmp_path / "flag"
    flag.touch()
    monkeypatch.setenv("SIMKIT_TEST_FLAG", str(flag))
    left_out(found, simkit.sweep(**setup(store=tmp_path / "t", measure=sweep_models.deadly)))
    # Where its chunk file is removed, it is tried again.
    next(found.store.glob("chunk-000005-*")).unlink()
    again = simkit.sweep(**setup(store=tmp_path / "s", measure=sweep_models.deadly))
    assert not (again.status != 0).any()


@pytest.mark.slow
def test_a_chunk_of_which_every_member_is_deadly_is_set_aside(tmp_path):
    arguments = setup(store=tmp_path / "s", measure=sweep_models.deadly, executor=FACTORY, retries=0)
    found = simkit.sweep(**{**arguments, "over": {"rate": np.append(RATES, [0.995, 0.996, 0.997, 0.998, 0.999, 1.0])}})
    assert found.finished == COUNT + 2
    assert list(found.status[20:24]) == [0, Status.WORKER_DIED, Status.WORKER_DIED, Status.WORKER_DIED]
    (note,) = found.set_aside
    assert (note["chunk"], note["members"]) == (6, 4)
    assert note["error"].startswith("BrokenProcessPool")


def test_dask_with_a_worker_killed_in_the_middle(client, tmp_path, whole):
    killed = []

    def say(line):
        if not killed:
            address, pid = sorted(client.run(os.getpid).items())[0]
            os.kill(pid, signal.SIGKILL)
            killed.append(address)

    found = simkit.sweep(**setup(store=tmp_path / "s", measure=sweep_models.final, executor=client, progress=say))
    assert killed
    assert found.finished == COUNT
    assert not found.set_aside
    assert chunk_names(found) == whole


@pytest.mark.slow
def test_dask_with_a_worker_that_joins_and_one_that_leaves(tmp_path, monkeypatch):
    seen = tmp_path / "workers"
    seen.mkdir()
    monkeypatch.setenv("SIMKIT_TEST_WORKERS", str(seen))
    rates = {"rate": np.linspace(0.1, 0.9, 80)}
    arguments = setup(measure=sweep_models.slow, over=rates)
    pids: dict[str, int] = {}
    with (
        LocalCluster(1, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as cluster,
        Client(cluster) as client,
    ):

        def say(line):
            if "first" not in pids:
                pids["first"] = next(iter(client.run(os.getpid).values()))
                cluster.scale(2)
                client.wait_for_workers(2)
            elif "killed" not in pids:
                pids["killed"] = pids["first"]
                os.kill(pids["first"], signal.SIGKILL)

        found = simkit.sweep(**arguments, store=tmp_path / "s", executor=client, progress=say)
    computed = {path.name for path in seen.iterdir()}
    assert str(pids["killed"]) in computed
    assert len(computed) > 1  # what came later, or in place of the one that was killed
    assert found.finished == 80
    assert not found.set_aside
    assert chunk_names(found) == chunk_names(simkit.sweep(**arguments, store=tmp_path / "t"))


@pytest.mark.slow
def test_dask_with_a_member_that_kills_its_worker_every_time(client, tmp_path, monkeypatch):
    found = simkit.sweep(**setup(store=tmp_path / "s", measure=sweep_models.deadly, executor=client))
    monkeypatch.setenv("SIMKIT_TEST_FLAG", str(tmp_path))
    left_out(found, simkit.sweep(**setup(store=tmp_path / "u", measure=sweep_models.deadly)))
    # The cluster stays usable.
    again = simkit.sweep(**setup(store=tmp_path / "t", measure=sweep_models.final, executor=client))
    assert again.finished == COUNT
