"""The JSON schema of study files, and checks without a run."""

import json
import pathlib
import re
import tomllib

import pytest
from helpers import schema_faults

import simkit
from simkit.cli import main
from simkit.study import study_schema
from simkit.study._template import study_text
from simkit.study.language._language import LANGUAGE
from simkit.study.language._section import Section

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.toml"))
MORE = """
[system.equations]
"d x" = "u - k*x"
[system.parameters]
k = { value = 1.0, unit = "1/day", support = "positive" }
[system.inputs]
u = { default = 0.0 }
[y0]
x = 1.0
[inputs]
u = { times = [0, 1], values = [0, 1], kind = "steps" }
[noise]
x = { model = "normal", scale = 0.1 }
[free]
k = { individual = { spread = { prior = { half_normal = 0.5 } }, correlated = true } }
x.start = { bounds = [0.0, 2.0] }
[experiments.a]
times = [0, 1]
data = { x = [1.0, 2.0] }
doses = [{ amount = 1.0, every = 2.0, into = "x" }]
below = { x = 0.1 }
[[events]]
name = "cut"
condition = "x > 5"
change = { x = "0.5*x" }
[profile]
names = ["k"]
"""


@pytest.fixture(scope="module")
def schema():
    return json.loads(json.dumps(study_schema()))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_valid(path, schema):
    assert schema_faults(tomllib.loads(path.read_text()), schema) == []


def test_other_studies_are_valid(schema):
    blocks = re.findall(r"```toml\n(.*?)```", (ROOT / "docs/files.md").read_text(), re.DOTALL)
    texts = [MORE, study_text(pathlib.Path("study.toml")), *(text for text in blocks if "[system]" in text)]
    assert [schema_faults(tomllib.loads(text), schema) for text in texts] == [[]] * len(texts)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[fit]\nstarts = 0", "fit.starts"),
        ("[fit]\nstrats = 3", "fit.strats"),
        ('[sample]\nmethod = "nats"', "sample.method"),
        ("[sampel]\ndraws = 3", "sampel"),
        ('[noise]\ny = { model = "norml" }', "noise.y.model"),
        ("[experiments.a]\nfile = 3", "experiments.a.file"),
        ('[study]\nseed = "one"', "study.seed"),
        ('[[events]]\nconditoin = "x"', "events.0.conditoin"),
    ],
)
def test_slips_are_found(text, place, schema):
    found = schema_faults(tomllib.loads(f'[system]\nmodel = "sir"\n{text}'), schema)
    assert place in " ".join(found)


def test_the_language_names_every_key_that_readers_take(monkeypatch):
    """Readers cross off the keys that they know, so the keys of the schema cannot fall behind them."""
    unknown = set()
    finish = Section.finish

    def noted(self, *also):
        place, *rest = self.place.split(".")
        if place in LANGUAGE and len(rest) == (place in ("experiments", "events")):
            table = LANGUAGE[place] if place != "experiments" else LANGUAGE[place].others.table
            if table.others is None and not table.nested:
                unknown.update(f"{place}.{key}" for key in (self.read | set(also)) - set(table.keys))
        finish(self, *also)

    monkeypatch.setattr(Section, "finish", noted)
    for path in EXAMPLES:
        if path.stem != "lj_fluid":
            simkit.load_study(path)
    assert unknown == set()


def test_parameters_are_completed_by_the_model(schema):
    (rule,) = (
        one for one in schema["allOf"] if one["if"]["properties"]["system"]["properties"]["model"] == {"const": "sir"}
    )
    known = rule["then"]["properties"]["system"]["properties"]["parameters"]["properties"]
    assert set(known) == {"transmission", "recovery"}


def test_check_without_a_run(tmp_path, capsys):
    study = tmp_path / "study.toml"
    study.write_text(study_text(study))
    assert main(["check", str(study)]) == 0
    text = capsys.readouterr().out
    assert "is in order" in text
    assert "13 numbers in 1 experiment\n" in text
    assert "growth, capacity, y0.size, noise.size.scale" in text
    assert list(tmp_path.iterdir()) == [study]
    assert main(["check", str(study), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["model"] == "logistic_growth"
    for old, new, words in (
        ("growth           =", "grwoth =", "Close matches: `growth`"),
        ("from = 0.0, to = 15.0", "from = -9.0, to = 15.0", "cannot be predicted at"),
        ("[predict]", '[profile]\nnames = ["grow"]\n[predict]', "no free parameter `grow`"),
        ("[predict]", "[sweep.over]\nsiz = [1.0]\n[predict]", "[sweep.over]"),
    ):
        study.write_text(study_text(study).replace(old, new))
        assert main(["check", str(study)]) == 2
        assert words in capsys.readouterr().err


def test_schema_command(tmp_path, capsys):
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "A study of simkit"
    assert main(["schema", "--out", str(tmp_path / "s.json")]) == 0
    assert main(["schema", "--out", str(tmp_path / "s.json")]) == 2
