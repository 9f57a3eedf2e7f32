"""Every Python block of the README and of the documentation pages runs, the blocks of one page in one namespace.

What the pages say in words is compared with the code where it can be: commands, and the names of the models.
"""

import os
import pathlib
import re
import shlex

import pytest

import simkit
from simkit.cli._parser import build_parser
from simkit.core import Setup
from simkit.study import REGISTRIES

ROOT = pathlib.Path(__file__).parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(path: pathlib.Path) -> list[tuple[int, str]]:
    """The Python blocks of a page, each with the line on which its code begins."""
    text = path.read_text(encoding="utf-8")
    return [(text.count("\n", 0, match.start(1)), match.group(1)) for match in BLOCK.finditer(text)]


SHELL = re.compile(r"^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = [path for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) if blocks(path)]

LONGEST = {
    "building_blocks",
    "check",
    "coming_from",
    "compilation",
    "coupled",
    "ensembles",
    "events",
    "explain",
    "fields",
    "figures",
    "fitting",
    "fluids",
    "fluids-equations",
    "fluids-lattice",
    "fluids-layers",
    "fluids-learning",
    "fluids-shocks",
    "fluids-walls",
    "for_chemists",
    "for_control_engineers",
    "for_ecologists",
    "for_fluid_dynamicists",
    "for_machine_learning",
    "for_pharmacometricians",
    "for_systems_biologists",
    "inference",
    "long_gradients",
    "md",
    "md-dynamics",
    "md-free-energy",
    "md-gradients",
    "md-many-body",
    "md-molecules",
    "md-observables",
    "md-potentials",
    "md-studies",
    "models",
    "networks",
    "petab",
    "populations",
    "problems",
    "reducers",
    "simulate",
    "sparse",
    "sweeps",
    "systems",
    "testing",
}
"""Pages that compile for ten seconds to a minute."""


def test_pages_are_found():
    names = {path.name for path in PAGES}
    assert {"README.md", "getting_started.md"} | {f"{name}.md" for name in LONGEST} <= names


@pytest.mark.usefixtures("cache_as_before")
@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[pytest.mark.slow] if path.stem in LONGEST else [], id=path.stem) for path in PAGES],
)
def test_page(path, tmp_path, monkeypatch):
    # Pages may write files and read the data sets of the checkout.
    for shared in ("data", "examples"):
        os.symlink(ROOT / shared, tmp_path / shared)
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    for line, source in blocks(path):
        # Blank lines before the code make the line numbers of a traceback those of the page.
        try:
            exec(compile("\n" * line + source, str(path), "exec"), namespace)
        except simkit.MissingPackageError as error:
            pytest.skip(f"line {line}: {error}")


def test_commands_of_the_pages_are_commands():
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    lines = [line for path in paths for block in SHELL.findall(path.read_text()) for line in block.splitlines()]
    # What follows a pipe or a redirection belongs to the shell.
    calls = [re.split(r"\s[|>]", line)[0] for line in lines]
    commands = [words[1:] for call in calls if (words := shlex.split(call, comments=True)) and words[0] == "simkit"]
    assert len(commands) >= 8
    for words in commands:
        build_parser().parse_args(words)


def test_notation_names_every_number_of_the_models():
    page = (ROOT / "docs" / "notation.md").read_text()
    rows = {cells[1].strip("` "): cells for line in page.splitlines() if len(cells := line.split("|")) == 5}
    for model in REGISTRIES["systems"].of("simkit.odes").values():
        system, y0, _, _ = model.example()
        row = rows.pop(model.__name__)
        for cell, setup in ((row[2], Setup(y0)), (row[3], Setup(system))):
            assert set(re.findall(r"`(\w+)`", cell)) == set(setup.leaves()), model.__name__


def test_figures_of_validation_are_small_and_name_their_tests():
    """`python benchmarks/run.py validation_figures` draws them."""
    page = (ROOT / "docs" / "validation.md").read_text()
    shown = re.findall(r"_static/(validation-[\w-]+\.png)", page)
    kept = {path.name: path.stat().st_size for path in (ROOT / "docs" / "_static").glob("validation-*")}
    assert set(shown) == set(kept)
    assert len(shown) == len(kept) >= 15
    assert max(kept.values()) < 40_000
    for text in page.split("![")[1:]:
        caption = text.split("\n## ")[0]
        file = None
        for named, test in re.findall(r"`([\w/]*\.py)?::(\w+)`", caption):
            file = named or file
            assert f"def {test}(" in (ROOT / "tests" / file).read_text(), (file, test)
        assert file is not None, f"names no test: {caption[:60]}"
    for named in re.findall(r"`([\w/]+/test_\w+\.py)`", page):
        assert (ROOT / "tests" / named).exists(), named
