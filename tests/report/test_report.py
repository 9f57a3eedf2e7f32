"""Reports: every picture that is drawn is in the page, and a model's docstring becomes HTML."""

import ast
import base64
import html.parser
import inspect
import pathlib

import pytest

import simkit
from simkit import fluids, odes
from simkit.cli import main
from simkit.report import _figures, _report
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
    assert "<h2>Fields</h2>" in page
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
    read(page)
