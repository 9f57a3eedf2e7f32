"""A run that is killed again and again, in every phase, ends with the numbers of one that was not."""

import os
import pathlib
import random
import subprocess
import sys

import killed_run
import pytest
from helpers import tree_bitwise_equal

import simkit

STUDY = """
[study]
seed = 3
[system]
model = "lotka_volterra"
[y0]
hare = 30.0
lynx = 4.0
[noise]
hare = { model = "normal", scale = 2.0 }
[free]
growth = { prior = { log_normal = [0.0, 0.5] } }
death = { prior = { log_normal = [0.0, 0.5] } }
[fit]
starts = 6
[sample]
chains = 2
warmup = 100
draws = 200
[profile]
level = 0.9
[experiments.first]
times = [0, 1, 2, 3, 4, 5]
data = { hare = [30.0, 47.0, 70.0, 60.0, 25.0, 15.0] }
"""


def run(folder, *words):
    """One run in a process of its own; its exit code and text."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(pathlib.Path(simkit.__file__).parents[1]),
        "SIMKIT_CACHE": str(folder.parent / "cache"),
    }
    words = [sys.executable, killed_run.__file__, str(folder.parent / "study.toml"), str(folder), *map(str, words)]
    made = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300, check=False)
    return made.returncode, made.stdout + made.stderr


@pytest.mark.long
def test_kills_by_progress_in_every_phase(tmp_path):
    (tmp_path / "study.toml").write_text(STUDY)
    code, text = run(tmp_path / "whole", 10**9, "after")
    assert code == 0, text
    whole, rng, kills, phases = simkit.io.load(tmp_path / "whole" / "result.h5"), random.Random(0), 0, set()
    while True:
        # Few files first; then more, because the last phase draws its dozen figures anew in each run.
        last = rng.randrange(1, 4 if kills < 30 else 30)
        code, text = run(tmp_path / "killed", last, rng.choice(["half written", "before", "after"]))
        phases |= {word for word in ("fit", "sample", "predict", "profile", "report") if f"\n{word} " in text}
        if code == 0:
            break
        assert code == -9, text
        kills += 1
        assert kills < 200
    found = simkit.io.load(tmp_path / "killed" / "result.h5")
    assert tree_bitwise_equal(found.fit, whole.fit)
    assert tree_bitwise_equal(found.posterior, whole.posterior)
    assert tree_bitwise_equal(found.prediction, whole.prediction)
    assert tree_bitwise_equal(found.profiles, whole.profiles)
    left = [path for path in (tmp_path / "killed").rglob("*") if path.suffix == ".part" or path.name == "lock.json"]
    print(f"\n{kills} kills, in {len(phases)} phases; left over: {left}")
    assert not left
    assert kills > 10
    assert phases == {"fit", "sample", "predict", "profile", "report"}
