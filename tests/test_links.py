"""Links of the documentation, the README and the notebooks lead somewhere: pages, anchors, files; addresses are well formed.

Nothing here asks the network; CONTRIBUTING.md has the command that does.
"""

import json
import pathlib
import re
import urllib.parse

import pytest

ROOT = pathlib.Path(__file__).parents[1]
BOOK = ROOT / "docs"
TOP = ("README.md", "AGENTS.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "data/README.md")
SOURCES = [
    *(ROOT / name for name in TOP),
    *sorted(BOOK.glob("*.md")),
    *sorted(BOOK.glob("decisions/*.md")),
    *sorted((ROOT / "examples").glob("*.ipynb")),
]

FENCE = re.compile(r"^(```+|:::+)(?!\{(?:toctree|note|warning|tip)\}).*?^\1$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^()\s]*(?:\([^()\s]*\)[^()\s]*)*)\)")
DOC_ROLE = re.compile(r"\{doc\}`(?:[^`<]*<)?([^`>]+)>?`")
CODE = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"(?:docs|examples|data|tests|benchmarks|simkit|\.ci)/[\w./-]*\w(?=$|[\s:,])")
HEADING = re.compile(r"^(#{1,3}) +(.*?) *$", re.MULTILINE)
LABEL = re.compile(r"^\(([\w-]+)\)=$", re.MULTILINE)
DOI = re.compile(r"\bdoi:(\S+)")
ADDRESS = re.compile(r"https?://[^\s)>`\"']+")


def prose(path: pathlib.Path) -> str:
    """What a page says outside its blocks of code; of a notebook the cells of text."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return FENCE.sub("", text)


def anchors(path: pathlib.Path) -> set[str]:
    """The anchors of a page, as Sphinx and forges make them of its headings, and its own labels."""
    text = prose(path)
    slugs = {re.sub(r"[^\w\s-]", "", title.lower()).replace(" ", "-") for _, title in HEADING.findall(text)}
    return slugs | set(LABEL.findall(text))


def page_of(path: pathlib.Path, target: str) -> pathlib.Path | None:
    """The file that a link from a page leads to; in the book pages may go without their ending. None where there is none."""
    place = path.parent / target if target else path
    suffixes = ("", ".md", ".ipynb") if path.parent == BOOK else ("",)
    found = (place.with_name(place.name + suffix) for suffix in suffixes)
    return next((file for file in found if file.exists()), None)


def trouble_with(path: pathlib.Path, target: str) -> str | None:
    """What is wrong with a link, if anything."""
    parts = urllib.parse.urlsplit(target)
    if parts.scheme:
        return None if well_formed(target) else "is no address"
    if (path.name == "CHANGELOG.md" or path.suffix == ".ipynb") and parts.path:
        return "leads to a file from a page that the book includes from another folder"
    file = page_of(path, parts.path)
    if file is None:
        return "leads to no file"
    if parts.fragment and parts.fragment not in anchors(file):
        return f"names no heading of {file.name}, which has {', '.join(sorted(anchors(file)))}"
    return None


def well_formed(address: str) -> bool:
    parts = urllib.parse.urlsplit(address)
    host = re.fullmatch(r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,}", parts.netloc)
    return parts.scheme == "https" and host is not None and not re.search(r"[.,;]$", address)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_links(path):
    text = prose(path)
    targets = [*LINK.findall(text), *DOC_ROLE.findall(text)]
    broken = [f"{target}: {trouble}" for target in targets if (trouble := trouble_with(path, target)) is not None]
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_files_that_are_named_exist(path):
    named = {file for code in CODE.findall(prose(path)) for file in FILE.findall(code)}
    missing = sorted(file for file in named if not (ROOT / file).exists())
    assert not missing


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_addresses_are_well_formed(path):
    text = prose(path)
    addresses = [address.rstrip(".,;:") for address in ADDRESS.findall(text)]
    assert [address for address in addresses if not well_formed(address)] == []
    dois = [doi.rstrip(".,;:)") for doi in DOI.findall(text)]
    assert [doi for doi in dois if not re.fullmatch(r"10\.\d{4,9}/[^\s`]+", doi)] == []


def test_every_page_is_in_the_book():
    entries = re.findall(r"^[\w/-]+$", (BOOK / "index.md").read_text(), re.MULTILINE)
    pages = {path.stem for path in BOOK.glob("*.md")} | {
        f"examples/{p.stem}" for p in (ROOT / "examples").glob("*.ipynb")
    }
    pages |= {"decisions/index"}  # which names its own pages
    assert sorted(entries) == sorted(pages - {"index"})


def test_every_decision_is_in_the_index():
    index = (ROOT / "docs/decisions/index.md").read_text()
    left = [path.name for path in (ROOT / "docs/decisions").glob("0*.md") if f"]({path.name})" not in index]
    assert not left


def test_a_broken_link_is_seen():
    page = BOOK / "getting_started.md"
    assert trouble_with(page, "problems.md") is None
    assert trouble_with(page, "problems") is None
    assert "includes" in (trouble_with(ROOT / "CHANGELOG.md", "docs/problems.md") or "")
    assert trouble_with(page, "no_such_page.md") == "leads to no file"
    assert "names no heading" in (trouble_with(page, "problems.md#no-such-heading") or "")
    assert trouble_with(page, "#simulate") is None
    assert trouble_with(page, "http:/nowhere") == "is no address"
