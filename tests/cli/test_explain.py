"""explain and replay on the command line."""

import json

import pytest

from simkit.cli import main

STUDY = """
[system]
model = "lotka_volterra"
parameters = { growth = 0.5, predation = 0.03, death = 0.8, conversion = 0.02 }

[y0]
hare = SIZE
lynx = SIZE

[solve]
step = 0.1

[simulate]
times = { from = 0.0, to = 1.0, count = 3 }
"""


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(size):
        (tmp_path / "study.toml").write_text(STUDY.replace("SIZE", size))
        return "study.toml"

    return write


def test_a_study_is_explained(study, capsys):
    assert main(["explain", study("10.0"), "--json", "--svg", "flow.svg"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["compiles_again"] == 0
    (program,) = found["programs"]
    # 10 steps of at least one stage, each with three operations for either of two lines of the model.
    assert program["flops"] > 10 * 2 * 3
    assert any("vector_field" in share["place"] for share in program["shares"])
    with open("flow.svg") as file:
        assert "ys.hare float64[3]" in file.read()


def test_a_broken_study_is_replayed(study, capsys):
    assert main(["simulate", study("1e155")]) == 2
    told = capsys.readouterr().err
    assert "simkit replay results/study-simulate/failure.h5 study.toml" in told
    assert main(["replay", "results/study-simulate/failure.h5", "study.toml"]) == 0
    printed = capsys.readouterr().out
    assert "made by LotkaVolterra.vector_field" in printed
    assert "slope, hare = -inf" in printed


def test_a_model_that_cannot_be_imported(study, capsys):
    study("1.0")
    assert main(["replay", "failure.h5", "no_such_module:make"]) == 2
    assert "cannot be imported" in capsys.readouterr().err
