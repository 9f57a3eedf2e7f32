"""Fits and draws of averages over frames: after kill -9 the same bits, without drawing frames again."""

import os
import pathlib
import signal
import subprocess
import sys

import numpy as np
import pytest
import stored_averages

import simkit
from simkit import StoreError, TimeUpError
from simkit.fitting import _kept_draws

TESTS = pathlib.Path(stored_averages.__file__).parent


def files(store):
    return sorted(str(path.relative_to(store)) for path in store.rglob("*.h5"))


def killed(verb, store, after):
    """The same work in a process that dies as it puts the file after so many in its place."""
    code = "import sys, stored_averages; stored_averages.main(*sys.argv[1:])"
    words = [sys.executable, "-c", code, verb, str(store), str(after)]
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(words, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    store = tmp_path_factory.mktemp("averages") / "whole"
    return stored_averages.run("sample", store), store


@pytest.fixture
def drawn(monkeypatch):
    """How often frames are drawn."""
    calls, real = [], _kept_draws.refresh
    monkeypatch.setattr(_kept_draws, "refresh", lambda *args, **known: calls.append(1) or real(*args, **known))
    return calls


@pytest.mark.slow
@pytest.mark.parametrize("after", [2, 6])
def test_draws_of_averages_go_on_after_kill(tmp_path, whole, drawn, after):
    draws, store = whole
    killed("sample", tmp_path / "s", after)
    before = files(tmp_path / "s")
    frames = sum("draws-0" in name or "frames-" in name for name in before if not name.startswith("draws/"))
    assert before
    np.testing.assert_array_equal(stored_averages.run("sample", tmp_path / "s"), draws)
    assert files(tmp_path / "s") == files(store)  # their names are hashes of their content
    rounds = sum(name.startswith(("fit/draws-", "frames/frames-")) for name in files(store))
    assert len(drawn) == rounds - frames
    drawn.clear()
    np.testing.assert_array_equal(stored_averages.run("sample", tmp_path / "s"), draws)
    assert not drawn


@pytest.mark.slow
def test_a_store_changes_nothing_and_belongs_to_one_problem(tmp_path, whole):
    draws, store = whole
    np.testing.assert_array_equal(stored_averages.run("sample"), draws)
    with pytest.raises(StoreError, match="belongs to another"):
        simkit.sample(stored_averages.problem(-1.7), key=stored_averages.jax.random.key(4), store=store, chains=2)


@pytest.mark.slow
def test_a_time_that_is_up_ends_averages_between_their_runs(tmp_path, whole, drawn):
    draws, _ = whole
    cut = simkit.fit(stored_averages.problem(), key=stored_averages.jax.random.key(3), within=1e-3)
    assert len(drawn) == 1
    assert cut.cut
    assert "the time of `within` was up: the draws have not settled" in repr(cut)
    with pytest.raises(TimeUpError, match=r"in the fit around which chains begin\. Give a `store`"):
        stored_averages.run("sample", within=1e-3)
    # Each call makes one step more, whatever its time is, and the last one the draws of a call without a limit.
    told = []
    for _ in range(40):
        drawn.clear()
        try:
            found = stored_averages.run("sample", tmp_path / "s", within=1e-3)
        except TimeUpError as error:
            told.append(str(error).partition(". ")[0].partition(" was up ")[2])
            assert len(drawn) == 1 or "warm-up" in told[-1] or "frames" in told[-1]
        else:
            break
    assert {"in the fit around which chains begin", "in the warm-up, before the first draw"} <= set(told)
    np.testing.assert_array_equal(found, draws[:, : found.shape[1]])
    np.testing.assert_array_equal(stored_averages.run("sample", tmp_path / "s"), draws)


def test_numbers_of_programs_are_put_back(whole):
    system = stored_averages.problem().base.system
    found = [*_kept_draws._numbers(system)]
    assert any("capacity" in place or "plan" in place for _, place in found)
    more = _kept_draws._renumbered(system, iter([number + 1 for number, _ in found]))
    assert [*_kept_draws._numbers(more)] == [(number + 1, place) for number, place in found]
    assert [*_kept_draws._numbers(system)] == found
