"""Fits and sampling runs that are interrupted, killed and gone on with end with the bits of those that were not."""

import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
import stored_runs
from helpers import tree_bitwise_equal
from stored_runs import RUNS, problem

import simkit
from simkit import StoreError
from simkit.stores import Journal


class Crash(Exception):
    """What ends a run in the middle."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The results of runs that nothing disturbed, each with a store of its own, made when asked for."""
    made = {}

    def get(kind):
        if kind not in made:
            made[kind] = RUNS[kind](tmp_path_factory.mktemp("whole") / kind)
        return made[kind]

    return get


@pytest.mark.parametrize("kind", RUNS)
def test_an_interrupted_run_goes_on_to_the_same_bits(tmp_path, monkeypatch, whole, kind):
    expected = whole(kind)
    write, writes = Journal.write, []

    def crash(self, name, arrays):
        write(self, name, arrays)
        writes.append(name)
        if len(writes) % 2 == 0:
            raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "write", crash)
        for _ in range(3):
            with pytest.raises(Crash):
                RUNS[kind](tmp_path / "s")
    written = list(writes)
    assert tree_bitwise_equal(RUNS[kind](tmp_path / "s"), expected)
    # Draws that were kept without the state after them are drawn again; nothing else is done twice.
    assert len(set(written)) >= len(written) - 3
    assert tree_bitwise_equal(RUNS[kind](tmp_path / "s"), expected)


def test_a_store_changes_no_draw_and_takes_more_of_them(tmp_path, whole):
    for kind in ("nuts", "ensemble"):
        more = RUNS[kind](tmp_path / kind, draws=90)
        assert tree_bitwise_equal(more.draws[:, :60], whole(kind).draws)


def test_records_that_are_cut_short_are_made_again(tmp_path, whole):
    RUNS["fit"](tmp_path / "s")
    records = sorted((tmp_path / "s").glob("ends-*.h5"))
    assert len(records) == 5
    records[1].write_bytes(records[1].read_bytes()[:-10])
    records[3].unlink()
    assert tree_bitwise_equal(RUNS["fit"](tmp_path / "s"), whole("fit"))
    assert sorted((tmp_path / "s").glob("ends-*.h5")) == records


def test_stores_of_others_are_refused(tmp_path):
    store = tmp_path / "s"
    RUNS["fit"](store)
    other = {**stored_runs.PRIORS, "rate": dist.LogNormal(0.0, 2.0)}
    cases = [
        ({"starts": 9}, "belongs to another fit: `starts` is 18 there and 9 here"),
        ({"key": jax.random.key(1)}, "`key` is threefry2x32 "),
        ({"method": simkit.LBFGS()}, "`method` is simkit.fitting._gauss_newton.GaussNewton there and"),
        ({"problem": problem(scale=0.06)}, r"`noise.y.scale` is 0.05 \(float64\) there and 0.06 \(float64\) here"),
        ({"problem": problem(priors=other)}, r"`prior.rate.base_dist.scale` is 1.0 \(float64\) there and 2.0"),
    ]
    for options, words in cases:
        with pytest.raises(StoreError, match=words):
            RUNS["fit"](store, **options)
    with pytest.raises(StoreError, match="belongs to a fit, not to a sampling run"):
        RUNS["nuts"](store, start=simkit.fit(problem(), starts=2))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    with pytest.raises(StoreError, match=r"holds other files, such as `thesis.tex`"):
        RUNS["fit"](tmp_path / "full")


def kill_at(kind, store, cache, after):
    """Start a run in another process and kill it some time after it began to write; whether it was killed before its end."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(pathlib.Path(simkit.__file__).parents[1]), *sys.path[:1]]),
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    words = [sys.executable, stored_runs.__file__, kind, str(store)]
    process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout.readline() == "begins\n"
    while process.poll() is None and not (store / "manifest.json").exists():
        time.sleep(0.01)
    time.sleep(after)
    killed = process.poll() is None
    process.send_signal(signal.SIGKILL)
    text, _ = process.communicate()
    assert killed or process.returncode == 0, text
    return killed


def check_kills(tmp_path, whole, kind, count, seed):
    """Kill so many runs, each of its own store, at random moments, and go on with every one here."""
    draw, killed = random.Random(seed), 0
    for i in range(count):
        store = tmp_path / f"{kind}{i}"
        killed += kill_at(kind, store, tmp_path / "cache", draw.uniform(0.0, 2.0))
        before = {path.name for path in store.glob("*.h5")}
        assert tree_bitwise_equal(RUNS[kind](store), whole(kind)), f"kill {i}, after which there were {sorted(before)}"
        kept = {name for name in before if "state" not in name}
        assert kept <= {path.name for path in store.glob("*.h5")}
    assert killed >= count // 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["fit", "nuts"])
def test_kill(tmp_path, whole, kind):
    check_kills(tmp_path, whole, kind, 2, 1)


@pytest.mark.long
@pytest.mark.parametrize("kind", RUNS)
def test_kill_twenty_times(tmp_path, whole, kind):
    check_kills(tmp_path, whole, kind, 20, 2)


@pytest.mark.slow
def test_one_run_that_is_killed_again_and_again(tmp_path, whole):
    store, draw = tmp_path / "s", np.random.default_rng(3)
    for _ in range(3):
        kill_at("nuts", store, tmp_path / "cache", draw.uniform(0.2, 1.0))
    assert tree_bitwise_equal(RUNS["nuts"](store), whole("nuts"))
