"""The example notebooks run top to bottom as a user runs them, are stored without outputs, and stand in the gallery.

`python tests/test_examples.py` draws the README's picture anew: the last figure of the first notebook.
`python tests/test_examples.py examples/NAME.ipynb docs/_static/gallery/NAME.png` draws a picture of the gallery.
`python tests/test_examples.py examples/README.md` writes the gallery for visitors of the repository.
"""

import ast
import io
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
PICTURE = ROOT / "docs" / "_static" / "lynx_hare.png"
GALLERY = ROOT / "docs" / "_static" / "gallery"
SHAPE, MOST_BYTES = (560, 350), 90_000
"""Pixels and bytes of a picture of the gallery."""
PNG = b"\x89PNG\r\n\x1a\n"


def code_cells(path: pathlib.Path) -> list[str]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def run(path: pathlib.Path) -> list[bytes]:
    """Run the code cells in one namespace and show the value of each cell's last line, as Jupyter does; the figures shown."""
    namespace, figures = {"__name__": "__main__"}, []
    for number, source in enumerate(code_cells(path)):
        tree = ast.parse(source)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        name = f"{path.name}, code cell {number}"
        exec(compile(tree, name, "exec"), namespace)
        shown = None if last is None else eval(compile(ast.Expression(last.value), name, "eval"), namespace)
        if hasattr(shown, "_repr_png_"):
            figures.append(shown._repr_png_())
        elif hasattr(shown, "savefig"):  # a plain figure of matplotlib, which Jupyter shows as well
            shown.savefig(picture := io.BytesIO(), format="png")
            figures.append(picture.getvalue())
        elif shown is not None:
            repr(shown)
    return figures


def test_notebooks_are_found():
    assert EXAMPLES / "lynx_hare.ipynb" in NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_stored_without_outputs(path):
    cells = [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert cells
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_figures_are_shown_once(path):
    # Jupyter shows a figure of pyplot at the end of a cell, and again where it is the cell's value.
    for cell in code_cells(path):
        if "plt." in cell and cell.endswith("\nfigure"):
            assert "plt.close(figure)" in cell


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.stem)
def test_study_loads_and_says_how_to_run_it(path):
    import simkit  # not at the top: a notebook that runs through this file sets things before it imports
    from simkit.cli._parser import build_parser

    study = simkit.load_study(path)
    assert study.title
    assert study.question
    commands = re.findall(r"^# +(simkit .*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert any(f"examples/{path.name}" in command for command in commands)
    for command in commands:
        build_parser().parse_args(shlex.split(command)[1:])


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_commands_in_a_notebook_name_studies_that_are_there(path):
    from simkit.cli._parser import build_parser

    cells = [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "markdown"]
    for command in re.findall(r"`(simkit [a-z]+ [^`]*)`", "".join("".join(cell["source"]) for cell in cells)):
        words = shlex.split(command)[1:]
        build_parser().parse_args(words)
        assert any(file.name == words[1] for file in [*EXAMPLES.iterdir(), *(ROOT / "data").rglob("*.yaml")])


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_and_ends_in_a_figure(path, tmp_path):
    # In a process of its own, without the settings of the tests: a reader has none of them. Warnings stay errors.
    out = tmp_path / "figure.png"
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    command = [sys.executable, "-W", "error", __file__, str(path), str(out)]
    done = subprocess.run(command, cwd=EXAMPLES, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert out.read_bytes().startswith(PNG)
    assert "hares eat lynx" in done.stdout or path.stem != "lynx_hare"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_stands_in_the_gallery_with_its_picture(path):
    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    assert page.count(f":link: examples/{path.stem}\n") == 1
    assert page.count(f":img-top: _static/gallery/{path.stem}.png\n") == 1
    picture = (GALLERY / f"{path.stem}.png").read_bytes()
    assert picture.startswith(PNG)
    assert len(picture) < MOST_BYTES


def small(picture: bytes) -> bytes:
    """A picture of the gallery: the whole figure, on a white ground of one shape."""
    from PIL import Image

    figure = Image.open(io.BytesIO(picture)).convert("RGB")
    figure.thumbnail(SHAPE, Image.Resampling.LANCZOS)
    ground = Image.new("RGB", SHAPE, "white")
    ground.paste(figure, ((SHAPE[0] - figure.width) // 2, (SHAPE[1] - figure.height) // 2))
    ground.quantize(128).save(file := io.BytesIO(), format="png", optimize=True)
    return file.getvalue()


CARD = re.compile(
    r":::\{grid-item-card\} (?P<title>.+)\n:link: (?P<link>.+)\n:link-type: doc\n:img-top: (?P<picture>.+)\n"
    r":img-alt: (?P<alt>.+)\n\n(?P<text>(?:.+\n)+):::\n"
)
COLUMNS = 3


def overview() -> str:
    """The gallery as Markdown that a repository's page shows: the cards of docs/gallery.md as tables of pictures."""
    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    lines = ["# Examples", "", page.split("\n\n")[1], ""]
    for part in page.split("\n## ")[1:]:
        cards = [card.groupdict() for card in CARD.finditer(part)]
        lines += [f"## {part.splitlines()[0]}", ""] * bool(cards)
        for first in range(0, len(cards), COLUMNS):
            row = cards[first : first + COLUMNS]
            row += [None] * (COLUMNS - len(row)) if first else []
            cells = ["" if card is None else f"[{card['title']}]({_link(card)})" for card in row]
            shown = ["" if card is None else f"![{card['alt']}](../docs/{card['picture']})" for card in row]
            texts = ["" if card is None else " ".join(card["text"].split()) for card in row]
            rows = (
                [f"| {' | '.join(cells)} |", f"|{' --- |' * len(row)}"] if not first else [f"| {' | '.join(cells)} |"]
            )
            lines += [*rows, f"| {' | '.join(shown)} |", f"| {' | '.join(texts)} |"]
        lines += [""] * bool(cards)
    return "\n".join(lines)


def _link(card: dict[str, str]) -> str:
    return f"{pathlib.PurePosixPath(card['link']).name}.ipynb"


def test_visitors_of_the_repository_see_the_gallery():
    page = overview()
    assert (EXAMPLES / "README.md").read_text(encoding="utf-8") == page, (
        "python tests/test_examples.py examples/README.md"
    )
    for path in NOTEBOOKS:
        assert page.count(f"]({path.name})") == page.count(f"(../docs/_static/gallery/{path.stem}.png)") == 1


if __name__ == "__main__":
    if sys.argv[1:] == ["examples/README.md"]:
        (EXAMPLES / "README.md").write_text(overview(), encoding="utf-8")
        sys.exit()
    asked = [pathlib.Path(word).resolve() for word in sys.argv[1:]] or [EXAMPLES / "lynx_hare.ipynb", PICTURE]
    notebook, target = asked
    os.chdir(notebook.parent)
    figure = run(notebook)[-1]
    target.write_bytes(small(figure) if target.parent == GALLERY else figure)
