"""Studies whose simulation is written part by part."""

import numpy as np
import pytest

import simkit
from simkit.study.runs import simulate_study

STUDY = """
[system]
model = "lotka_volterra"
[y0]
hare = 30.0
lynx = 4.0
[simulate]
times = { from = 0.0, to = 20.0, count = 41 }
every = 10
"""


def read(tmp_path, text):
    path = tmp_path / "study.toml"
    path.write_text(text)
    return simkit.load_study(path)


def test_an_interrupt_and_the_same_call_again(tmp_path):
    study = read(tmp_path, STUDY)
    whole = simulate_study(study, tmp_path / "whole")
    said = []

    def say(line):
        said.append(line)
        if len(said) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate_study(study, tmp_path / "broken", say=say)
    (parts,) = (tmp_path / "broken" / "unfinished").iterdir()
    before = simkit.recordings.open(parts)
    assert before.end == 10.0
    found = simulate_study(study, tmp_path / "broken", say=said.append)
    assert "goes on with what is kept" in said[2]
    np.testing.assert_array_equal(found.ys.hare, whole.ys.hare)
    assert not (tmp_path / "broken" / "unfinished").exists()
    np.testing.assert_array_equal(simkit.load(tmp_path / "broken" / "result.h5").trajectory.ys["hare"], whole.ys.hare)


def test_events_are_refused(tmp_path):
    text = STUDY + '[[events]]\nname = "few"\ncondition = "hare - 5.0"\nends = true\n'
    with pytest.raises(simkit.StudyError, match="Leave `every` out"):
        simulate_study(read(tmp_path, text), tmp_path / "out")
