"""`docs/llms.txt`, the documentation's table of contents for agents: titles and first sentences of all pages.

`python tests/test_llms.py` writes it anew. The form is that of https://llmstxt.org.
"""

import json
import pathlib
import re

DOCS = pathlib.Path(__file__).parents[1] / "docs"
FILE = DOCS / "llms.txt"


def chapters() -> dict[str, list[str]]:
    """Caption -> pages, as the front page lists them."""
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    found = re.findall(r"```\{toctree\}\n:caption: (.*)\n(?::.*\n)*((?:[\w/-]+\n)+)```", text)
    return {caption: pages.split() for caption, pages in found}


def source(page: str) -> str:
    """The text of a page, of a notebook that of its first cell of words."""
    path = DOCS / f"{page}.md"
    if path.exists():
        text = path.read_text(encoding="utf-8")
        included = re.search(r"^```\{include\} (\S+)$", text, re.MULTILINE)
        return text if included is None else (DOCS / included[1]).read_text(encoding="utf-8")
    cells = json.loads((DOCS / f"{page}.ipynb").read_text(encoding="utf-8"))["cells"]
    return "".join(next(cell for cell in cells if cell["cell_type"] == "markdown")["source"])


def plain(text: str) -> str:
    """Words without links, roles and pictures."""
    text = re.sub(r"\{\w+\}`([^`<]*)(?:<[^`]*>)?`", r"\1", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return " ".join(text.replace("`", "").split())


def described(page: str) -> tuple[str, str]:
    """Title and first sentence of a page."""
    text = re.sub(r"^```.*?^```$", "", source(page), flags=re.MULTILINE | re.DOTALL)
    title = re.search(r"^# (.+)$", text, re.MULTILINE)
    assert title, page
    blocks = [block.strip() for block in text[title.end() :].split("\n\n")]
    words = [block for block in blocks if block and block[0] not in "#|!<:-*$("]
    first = re.split(r"(?<=[.?!:])\s+(?=[A-Z`\[])", plain(words[0]))[0] if words else ""
    return plain(title[1]), first.rstrip(":")


def contents() -> str:
    """The whole file."""
    title, about = described("index")
    lines = [f"# {title}", "", f"> {about}", ""]
    lines += [
        "Every page is also Markdown: the same address under `_sources/`, ending in `.md.txt` (notebooks in `.ipynb.txt`)."
    ]
    lines += ["Errors have stable codes, and every command takes `--json`: see Errors and Command line."]
    for caption, pages in chapters().items():
        lines += ["", f"## {caption}", ""]
        for page in pages:
            name, first = described(page)
            lines.append(f"- [{name}]({page}.html)" + (f": {first}" if first else ""))
    return "\n".join(lines) + "\n"


def test_the_file_is_that_of_the_pages():
    assert FILE.read_text(encoding="utf-8") == contents(), "run `python tests/test_llms.py`"


def test_every_page_is_listed():
    listed = {page for pages in chapters().values() for page in pages}
    parts = re.compile(r"^(md|fluids)-|^index$|^petab$|^decisions/")  # pages of a chapter stand in the list as well
    pages = {path.stem for path in DOCS.glob("*.md")} | {
        f"examples/{path.stem}" for path in DOCS.glob("examples/*.ipynb")
    }
    assert {page for page in pages - listed if not parts.match(page)} == set()
    assert len(listed) > 60
    assert all(described(page)[0] for page in listed)


if __name__ == "__main__":
    FILE.write_text(contents(), encoding="utf-8")
