"""Reports: every picture that is drawn is in the page, and a model's docstring becomes HTML."""

import ast
import base64
import dataclasses
import html.parser
import inspect
import json
import pathlib
import re

import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import fluids, odes
from simkit.cli import main
from simkit.report import _answer, _figures, _live, _report, _verdict, report
from simkit.report._equation import describe_model

ROOT = pathlib.Path(__file__).parents[2]


class Reader(html.parser.HTMLParser):
    """What stands in a page: pictures, and elements that are not closed."""

    def __init__(self):
        html.parser.HTMLParser.__init__(self)
        self.pictures, self.open = [], []

    def handle_starttag(self, tag, attrs):
        if tag == "img":
            self.pictures.append(dict(attrs)["src"])
        elif tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def read(page):
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    for source in reader.pictures:
        kind, _, data = source.partition(";base64,")
        begins = {"data:image/png": b"\x89PNG", "data:image/svg+xml": b"<svg"}[kind]
        assert base64.b64decode(data, validate=True).lstrip().startswith((begins, b"<?xml"))
    return reader


@pytest.mark.slow
def test_the_report_of_a_flow_shows_its_fields(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "examples" / "cavity.toml").read_text().replace("[48, 48]", "[8, 8]")
    pathlib.Path("small.toml").write_text(text)
    assert main(["run", "small.toml", "--no-cache"]) == 0
    page = pathlib.Path("results/small/report.html").read_text()
    assert ">Fields</h2>" in page
    assert any(source.startswith("data:image/png") for source in read(page).pictures)


def test_every_picture_has_its_section():
    """The names that are drawn are those that the page puts somewhere."""

    def words(function):
        return {
            node.value for node in ast.walk(ast.parse(inspect.getsource(function))) if isinstance(node, ast.Constant)
        }

    drawn = {
        call.args[0].value
        for function in (_figures.pictures, _figures._add_averages, _figures._add_population)
        for call in ast.walk(ast.parse(inspect.getsource(function)))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "add"
    }
    assert {"fields", "fit", "ranks", "outputs", "npde"} <= drawn
    assert drawn <= words(_report._page)


def test_a_docstring_is_html():
    page = describe_model(fluids.SpectralFlow2D.example().system)
    assert "<li><code>force</code>" in page
    assert "python" not in page
    assert read(describe_model(odes.LotkaVolterra())).pictures


STUDY = """
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
"""


@pytest.mark.slow
def test_fits_in_one_process_are_tested_and_one_that_cannot_be_says_why(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("decay.toml").write_text(STUDY)
    for folder in ("one", "two"):
        assert main(["fit", "decay.toml", "--out", folder, "--no-cache"]) == 0
        assert (tmp_path / folder / "figures" / "check.svg").exists()

    def broken(problem, result):
        raise simkit.SimulationError("The problem cannot be simulated <here>.")

    monkeypatch.setattr(_report, "check", broken)
    assert main(["report", "two/result.h5", "--overwrite"]) == 0
    page = pathlib.Path("two/report.html").read_text()
    assert "The fit could not be tested. The problem cannot be simulated &lt;here&gt;." in page
    assert "a part was not tested: &quot;Does the model describe the data?&quot;" in page
    read(page)


def test_a_verdict_is_that_of_the_worst_answer():
    answer = _answer.Answer
    best = [answer("Found?", "yes", ""), answer("Sampled?", "yes", "")]
    assert _answer.verdict(best)[0] == "yes"
    for grade, words in (("untested", "not tested"), ("care", "With care"), ("no", "Not yet")):
        best.append(answer(f"Is it {grade}?", grade, ""))
        found, sentence = _answer.verdict(best)
        assert found == grade
        assert words in sentence
        assert f'"Is it {grade}?"' in sentence
        assert "Found?" not in sentence


def test_answers_ask_of_a_fit_and_of_a_posterior_what_can_be_asked():
    """A parameter that moves nothing is seen, as are starts that do not agree and chains that did not mix."""
    system, y0, times, _ = odes.ExponentialDecay.example()
    problem = simkit.Problem(
        system,
        simkit.Experiment("one", times[1:], {"amount": 10.0 * np.exp(-0.5 * times[1:])}, start=0.0, y0=y0),
        free={
            "rate": simkit.Free(bounds=(0.1, 2.0), start=0.5),
            "noise.amount.scale": simkit.Free(bounds=(1e-3, 10.0)),
        },
        noise={"amount": simkit.noise.Normal(0.1)},
        step=0.1,
    )
    fit = simkit.fit(problem, starts=2)
    grades = {answer.question: answer.grade for answer in _verdict.answers(fit, None)}
    assert grades["Was the best optimum found?"] == "yes"
    assert grades["Does the model describe the data?"] in ("untested", "no")
    alone = dataclasses.replace(fit, optimum=jnp.array([0, 1]))
    lost = _verdict.answers(alone, None)[0]
    assert lost.grade == "care"
    assert "Only 1 of 2 starts" in lost.advice[0]
    draws = np.random.default_rng(0).normal(size=(2, 50, 2)) * 0.01 + np.array([[[0.5, 0.1]], [[0.9, 0.1]]])
    nothing = jnp.zeros((2, 50))
    posterior = simkit.Posterior(
        jnp.asarray(draws),
        nothing,
        nothing > 0,
        nothing.astype(int),
        nothing,
        ("rate", "noise.amount.scale"),
        ("1", "1"),
        "NUTS",
    )
    stuck = _verdict.answers(None, posterior)[0]
    assert stuck.question == "Did the sampling converge?"
    assert stuck.grade == "no"


def test_an_interactive_report_holds_plotly_once_and_no_address(tmp_path):
    """Figures with a translation have their data in the page; a browser is forbidden every address outside."""
    system, y0, times, _ = odes.LotkaVolterra.example()
    simkit.save(tmp_path / "r.h5", trajectory=simkit.simulate(system, y0, times))
    results = simkit.load(tmp_path / "r.h5")
    page = report(results, interactive=True)
    assert page.count("plotly.js v") == 1
    assert page.count('<figure class="live">') == page.count('<script type="application/json">') == 1
    assert "default-src 'none'" in page
    assert not re.search(r'<(script|link|img|iframe)[^>]*(src|href)="(?!data:)', page)
    spec = json.loads(re.search(r'<script type="application/json">(.*?)</script>', page, re.DOTALL)[1])
    assert [trace["name"] for trace in spec["data"]] == ["hare", "lynx"]
    assert "time: %{x:.5g}" in spec["data"][0]["hovertemplate"]
    plain = report(results)
    assert "<script" not in plain
    assert len(plain) < 300_000


def test_a_figure_without_a_translation_stays_a_picture():
    figure = simkit.viz.plot_atoms(simkit.md.OpenSpace(2), np.zeros((1, 2)))
    assert _live.live_figure(figure) is None
