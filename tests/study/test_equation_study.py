"""[system.equations] of study files."""

import numpy as np
import pytest

import simkit
from simkit import StudyError, UnknownNameError
from simkit.cli import main
from simkit.study import study_from_text

STUDY = """
[study]
title = "Algae"
time = "day"
[system]
name = "Pond"
[system.equations]
"d algae" = "growth*algae*room"
room = "1 - algae/capacity"
[system.parameters]
growth = { value = 0.8, unit = "1/day", support = "positive", doc = "growth rate" }
capacity = 9.0
[system.states]
algae = { unit = "g/m^3" }
[system.outputs]
green = "0.02*algae"
[y0]
algae = 1.0
[solve]
step = 0.1
[[events]]
name = "harvest"
condition = "algae > 8"
change = { algae = "1.0" }
[noise]
green = { model = "log_normal", scale = 0.1 }
[free]
growth = { prior = { log_normal = [0.0, 1.0] } }
[experiments.first]
times = [0, 1, 2, 3]
data = { green = [0.0206, 0.0376, 0.0720, 0.104] }
[fit]
starts = 1
horizons = [1.0]
[predict]
times = [0.0, 1.0, 2.0]
"""


def test_a_study_of_equations():
    study = study_from_text(STUDY)
    assert study.model == "Pond"
    found = simkit.simulate(study.system, study.y0, [0.0, 1.0, 2.0], step=0.01)
    exact = 9.0 / (1 + 8.0 * np.exp(-0.8 * np.arange(3.0)))
    np.testing.assert_allclose(found.ys.algae, exact, rtol=1e-6)
    assert "in g/m^3" in repr(found)
    ended = simkit.simulate(study.system, study.y0, np.linspace(0.0, 12.0, 25), events=study.events, step=0.1)
    assert float(ended.ys.algae.max()) <= 8.0 + 1e-6
    assert study.problem().names == ("growth",)


MISTAKES = {
    ('"growth*algae*room"', '"grwth*algae*room"'): r"\[system.equations\].*`grwth`.*Close matches: `growth`",
    ('support = "positive"', 'support = "pos"'): r"`support` in \[system.parameters.growth\]",
    ('support = "positive"', "support = [2, 1]"): "must have a lower end below the upper one",
    ('unit = "1/day"', 'unit = "7"'): r"`unit` in \[system.parameters.growth\].*must be a unit as text",
    ("value = 0.8, ", ""): r"\[system.parameters.growth\].*must give `value`",
    ("value = 0.8", "value = -0.8"): r"\[system.equations\].*must be positive",
    ('"1 - algae/capacity"', '"1 - room"'): "`room` uses `room`",
    ("[y0]\n", "[y0]\nzoo = 1.0\n"): '`zoo` has no equation. Add "d zoo"',
    ("[system.states]\n", "[system.states]\nzoo = 'g'\n"): r"The state `zoo` must have an equation",
    ('name = "Pond"', 'model = "logistic_growth"'): "gives both",
    ('name = "Pond"', 'nmae = "Pond"'): "no key `nmae`",
}


@pytest.mark.parametrize("change", MISTAKES, ids=[f"mistake{i}" for i in range(len(MISTAKES))])
def test_mistakes_are_refused(change):
    with pytest.raises((StudyError, UnknownNameError), match=MISTAKES[change]):
        study_from_text(STUDY.replace(*change, 1))


def test_fit_report_and_export(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text(STUDY)
    assert main(["fit", "study.toml", "--no-cache"]) == 0
    page = (tmp_path / "results" / "study-fit" / "report.html").read_text()
    assert "<math" in page
    assert "Model: Pond" in page
    (tmp_path / "plain.toml").write_text(without_events(STUDY))
    assert main(["export", "plain.toml", "pond.py"]) == 0
    assert list(simkit.study.load_models("pond.py").own) == ["pond"]
    assert main(["export", "plain.toml", "pond.xml"]) == 0
    assert main(["export", "plain.toml", "pond.xml"]) == 2
    assert main(["reproduce", "results/study-fit/result.h5", "--no-cache"]) == 0
    assert "fit         bitwise equal" in capsys.readouterr().out


def without_events(text):
    start = text.index("[[events]]")
    return text[:start] + text[text.index("[noise]", start) :]


def lit(light):
    """The study with an input and its value, without events."""
    text = (
        without_events(STUDY)
        .replace("algae*room", "algae*room*light")
        .replace("[system.outputs]", "[system.inputs]\nlight = { default = 1.0 }\n[system.outputs]")
    )
    return f"{text}[inputs]\nlight = {light}\n"


def test_exports_keep_inputs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text(lit("1.5"))
    assert main(["export", "study.toml", "pond.py"]) == 0
    system, y0, _, inputs = simkit.study.load_models("pond.py")["pond"].example()
    exact = 9.0 / (1 + 8.0 * np.exp(-0.8 * 1.5 * np.arange(3.0)))
    for given in (inputs, None):
        found = simkit.simulate(system, y0, [0.0, 1.0, 2.0], step=0.01, inputs=given)
        np.testing.assert_allclose(found.ys.algae, exact, rtol=1e-6)
    assert main(["export", "study.toml", "pond.xml"]) == 0
    assert 'id="light" value="1.5"' in (tmp_path / "pond.xml").read_text()
    (tmp_path / "moving.toml").write_text(lit("{ times = [0.0, 5.0], values = [0.0, 1.0] }"))
    for name in ("moving.py", "moving.xml"):
        assert main(["export", "moving.toml", name]) == 2
        assert "The input `light` must be a constant to be written" in capsys.readouterr().err
        assert not (tmp_path / name).exists()
