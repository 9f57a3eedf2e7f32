"""The command line for machines: JSON of every command, codes of errors, and completion of shells."""

import json
import pathlib
import re
import shutil
import subprocess

import pytest

import simkit
from simkit import _errors
from simkit.cli import main
from simkit.cli._completion import commands_of, completion_of
from simkit.cli._parser import build_parser

ROOT = pathlib.Path(__file__).parents[2]
STUDY = """
[study]
title = "Decay"
[system]
model = "exponential_decay"
[y0]
amount = 10.0
[noise]
amount = { model = "normal", scale = 0.2 }
[free]
rate = { bounds = [0.1, 2.0], start = 0.5 }
[experiments.one]
start = 0.0
times = [1.0, 2.0, 3.0]
data = { amount = [6.1, 3.6, 2.2] }
[fit]
starts = 2
[solve]
step = 0.1
[simulate]
times = [0.0, 1.0]
[sweep]
over = { rate = [0.1, 0.2] }
times = [0.0, 1.0]
"""


def told(capsys, *words, code=0):
    """The JSON document of a command, and what else it printed."""
    assert main([*map(str, words), "--json"]) == code
    out, err = capsys.readouterr()
    return json.loads(out), err


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("decay.toml").write_text(STUDY)
    return "decay.toml"


def test_every_command_takes_json():
    for name, command in commands_of(build_parser()).items():
        assert "--json" in {text for option in command.options for text in option.texts}, name


def test_a_fit_its_report_and_its_repetition(study, capsys):
    found, err = told(capsys, "fit", study, "--no-cache")
    assert [row["name"] for row in found["parameters"]] == ["rate"]
    assert 0.4 < found["parameters"][0]["estimate"] < 0.6
    assert found["parameters"][0]["rhat"] is None
    assert found["command"] == "fit"
    assert all(pathlib.Path(file).exists() for file in found["files"])
    assert "starts agree" in err  # what a person reads meanwhile
    result = pathlib.Path(found["folder"]) / "result.h5"
    again, _ = told(capsys, "reproduce", result, "--no-cache")
    assert [row["part"] for row in again["comparisons"]][:1] == ["fit"]
    assert all(row["verdict"] != "different" for row in again["comparisons"])
    made, _ = told(capsys, "report", result, "--overwrite")
    assert made["files"][0].endswith("report.html")
    listed, _ = told(capsys, "runs", "results")
    assert listed[0]["model"] == "exponential_decay"
    refused, _ = told(capsys, "fit", study, code=2)
    assert refused["error"]["type"] in {"ArgumentError", "StoreError"}
    assert refused["error"]["code"] in _errors.error_codes()


def test_simulations_and_sweeps(study, capsys):
    found, _ = told(capsys, "simulate", study, "--no-cache")
    assert found["times"] == 2
    assert found["failures"] == []
    swept, _ = told(capsys, "sweep", study, "--out", "here", "--no-cache")
    assert swept["finished"] == swept["members"] == 2
    assert pathlib.Path("here/manifest.json").exists()
    assert swept["set_aside"] == []


def test_commands_that_read_and_write_files(study, capsys):
    checked, _ = told(capsys, "check", study)
    assert checked["study"] == study
    new, _ = told(capsys, "new", "other.toml")
    assert new["files"] == ["other.toml"]
    schema, _ = told(capsys, "schema")
    assert schema["properties"]
    kept, _ = told(capsys, "schema", "--out", "schema.json")
    assert kept["first_line"].startswith("#:schema file://")
    models, _ = told(capsys, "models")
    assert "lotka_volterra" in models["models"]
    one, _ = told(capsys, "models", "lotka_volterra")
    assert one["parameters"][0] == {
        "name": "growth",
        "unit": "1/year",
        "support": "(0, inf)",
        "doc": "birth rate of the prey",
        "shape": [],
        "value": 0.55,
    }
    examples, _ = told(capsys, "examples")
    assert "lynx_hare.toml" in examples["examples"]
    copied, _ = told(capsys, "examples", "lynx_hare.toml")
    assert copied["files"][0] == "lynx_hare.toml"
    script, _ = told(capsys, "completion", "bash")
    assert "complete" in script["script"]


def test_errors_have_codes(study, capsys):
    for words, code in (
        (("check", "nothing.toml"), "study"),
        (("models", "lotka"), "unknown-name"),
        (("report", "decay.toml"), "result-file"),
        (("runs", "nowhere"), "argument"),
    ):
        found, err = told(capsys, *words, code=2)
        assert found["error"]["code"] == code, found
        assert found["error"]["message"]
        assert err == ""
    with pytest.raises(SystemExit) as ended:
        main(["chek", "--json"])
    assert ended.value.code == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "usage"


def test_codes_are_those_of_the_page():
    """Codes are words that scripts rely on: each class has one of its own, and the page on errors lists them."""
    codes = _errors.error_codes()
    kinds = [kind for kind in vars(_errors).values() if isinstance(kind, type) and issubclass(kind, simkit.SimkitError)]
    assert len(codes) == len(kinds)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", code) for code in codes)
    page = (ROOT / "docs" / "errors.md").read_text()
    listed = dict(re.findall(r"^\| `(\w+)` \| `([a-z-]+)` \|", page, re.MULTILINE))
    assert listed == {kind.__name__: code for code, kind in codes.items()}, (
        "the table of docs/errors.md is not that of the registry"
    )


def complete(script, *words):
    """The words that bash offers for the last of these."""
    ask = f"COMP_WORDS=({' '.join(map(repr, words))}); COMP_CWORD={len(words) - 1}; _simkit"
    program = script + "\n" + ask + '; printf "%s\\n" "${COMPREPLY[@]}"'
    found = subprocess.run(["bash", "--norc", "-c", program], capture_output=True, text=True, check=True)
    assert found.stderr == ""
    return found.stdout.split()


def test_bash_completes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pond.toml").touch()
    script = completion_of("bash", build_parser())
    assert complete(script, "simkit", "sw") == ["sweep"]
    assert complete(script, "simkit", "re") == ["report", "reproduce", "replay"]
    assert complete(script, "simkit", "run", "--ove") == ["--overwrite"]
    assert complete(script, "simkit", "run", "--store") == []
    assert complete(script, "simkit", "run", "po") == ["pond.toml"]
    assert complete(script, "simkit", "run", "pond.toml", "--out", "po") == ["pond.toml"]
    assert complete(script, "simkit", "models", "lotka") == ["lotka_volterra"]
    assert complete(script, "simkit", "completion", "") == ["bash", "zsh", "fish"]
    assert "lynx_hare.toml" in complete(script, "simkit", "examples", "lynx")
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_every_command_and_option(shell):
    parser = build_parser()
    script = completion_of(shell, parser)
    for name, command in commands_of(parser).items():
        lines = [line for line in script.splitlines() if re.search(rf"\b{name}\b", line)]
        assert lines, name
        for option in command.options:
            assert any(option.texts[-1].lstrip("-") in line for line in lines), (name, option)
        assert all(line.count("'") % 2 == 0 for line in lines)
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)
