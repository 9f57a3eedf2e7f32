"""Every Python block of the README and of the documentation pages runs, the blocks of one page in one namespace."""

import os
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(path: pathlib.Path) -> list[tuple[int, str]]:
    """The Python blocks of a page, each with the line on which its code begins."""
    text = path.read_text(encoding="utf-8")
    return [(text.count("\n", 0, match.start(1)), match.group(1)) for match in BLOCK.finditer(text)]


PAGES = [path for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) if blocks(path)]


def test_pages_are_found():
    names = {path.name for path in PAGES}
    assert {"README.md", "getting_started.md"} <= names


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_page(path, tmp_path, monkeypatch):
    # Pages may write files and read the data sets of the checkout.
    for shared in ("data", "examples"):
        os.symlink(ROOT / shared, tmp_path / shared)
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    for line, source in blocks(path):
        # Blank lines before the code make the line numbers of a traceback those of the page.
        exec(compile("\n" * line + source, str(path), "exec"), namespace)
