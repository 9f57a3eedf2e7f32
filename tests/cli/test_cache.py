"""The cache of compiled programs on disk: a second run compiles nothing, and a folder that cannot be used does no harm."""

import json
import os
import subprocess
import sys

import jax
import pytest

from simkit import enable_cache
from simkit.cli._environment import set_jax

STUDY = """
[study]
title = "Decay"
question = "How fast?"
time = "day"
seed = 4
[system]
model = "exponential_decay"
[y0]
amount = 10.0
[solve]
step = 0.5
[noise]
amount = { model = "log_normal", scale = 0.1 }
[free]
rate = { prior = { log_normal = [-1.0, 1.0] } }
[experiments.first]
file = "data.csv"
columns = { time = "day", amount = "amount" }
[fit]
starts = 2
horizons = [1.0]
[predict]
times = { from = 0, to = 8, count = 9 }
"""
DATA = "day,amount\n0,10.2\n1,7.1\n2,5.2\n3,3.4\n4,\n5,1.9\n6,1.3\n"

PROGRAM = """
import json, resource, signal, sys
from simkit.cli._environment import set_devices, set_jax
set_devices(1)
set_jax(x64=True, cache=True)
import simkit
from simkit.study.runs._run import compute
from simkit import load_study
if sys.argv[2] == "full disk":
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))  # writing more to any file is an error
with simkit.count_compilations() as counter:
    found = compute(load_study(sys.argv[1]), ("fit", "predict"))
print(json.dumps([counter.compilations, counter.from_disk, float(found.fit.estimate[0]).hex()]))
"""


@pytest.mark.slow
def test_the_cache_on_disk(tmp_path):
    """A second run compiles nothing; entries cut short, and a disk that takes no more, cost time and nothing else."""
    (tmp_path / "data.csv").write_text(DATA)
    (tmp_path / "decay.toml").write_text(STUDY)
    cache = tmp_path / "cache"
    environment = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"} | {"SIMKIT_CACHE": str(cache)}

    def run(disk="empty disk"):
        words = [sys.executable, "-c", PROGRAM, str(tmp_path / "decay.toml"), disk]
        done = subprocess.run(words, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return json.loads(done.stdout.splitlines()[-1])

    compiled, repeated, estimate = run()
    assert compiled > 5
    assert run() == [0, compiled + repeated, estimate]
    entries = [path for path in cache.iterdir() if path.name.endswith("-cache")]
    assert len(entries) == compiled
    for path in entries:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert run("full disk")[::2] == [compiled + repeated, estimate]


def test_a_cache_folder_that_cannot_be_made_is_done_without(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SIMKIT_CACHE", str(tmp_path / "file" / "cache"))
    before = jax.config.values["jax_compilation_cache_dir"]
    set_jax(x64=True, cache=True)
    assert jax.config.values["jax_compilation_cache_dir"] == before


@pytest.mark.usefixtures("cache_as_before")
def test_the_folder_of_programs_may_change(tmp_path, monkeypatch):
    """A second call counts as the first did, and a script that changes its folder still finds the programs."""
    (tmp_path / "elsewhere").mkdir()
    for times, name in enumerate(("one", "two"), start=2):
        monkeypatch.chdir(tmp_path)
        assert enable_cache(name) == tmp_path / name
        monkeypatch.chdir(tmp_path / "elsewhere")
        jax.jit(lambda x, times=times: times * x + 1)(1.0).block_until_ready()
        assert list((tmp_path / name).iterdir())
