"""Docstrings open with a noun phrase or an imperative, never with a relative clause or a preposition."""

import ast
import itertools
import pathlib
import re
from collections.abc import Iterator

import pytest

ROOT = pathlib.Path(__file__).parents[1]

FRAGMENT = re.compile(
    r"(What|Whether|Where|Which|Who|Whose|When|Why|How|Of|From|So (?:many|much|long|few)|As|At|By|For|In|Over|Between|Those|That"
    r"|To|With|Without|On|Under|Among)\b"
)


def attribute_texts(body: list[ast.stmt]) -> Iterator[tuple[int, str]]:
    """Line and text of each string below an assignment."""
    for before, after in itertools.pairwise(body):
        if not isinstance(before, ast.Assign | ast.AnnAssign) or not isinstance(after, ast.Expr):
            continue
        if isinstance(after.value, ast.Constant) and isinstance(after.value.value, str):
            yield after.lineno, after.value.value


def texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and text of each docstring, and of each string below an assignment."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef):
            yield from attribute_texts(node.body)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield getattr(node, "lineno", 1), ast.get_docstring(node) or ""


def fragments(source: str) -> list[str]:
    return [f"{line}: {text.splitlines()[0]}" for line, text in texts(ast.parse(source)) if FRAGMENT.match(text)]


ROOMS = sorted(p.name for p in (ROOT / "simkit").iterdir() if p.suffix == ".py" or (p / "__init__.py").exists())


@pytest.mark.parametrize("room", ROOMS)
def test_docstrings_open_with_a_noun_phrase_or_an_imperative(room):
    path = ROOT / "simkit" / room
    files = [path] if path.suffix == ".py" else sorted(path.rglob("*.py"))
    found = [f"{p.relative_to(ROOT)}:{text}" for p in files for text in fragments(p.read_text(encoding="utf-8"))]
    assert not found, "Docstrings that open with a fragment:\n" + "\n".join(found)


def test_a_fragment_is_seen():
    source = '"""Whether it holds."""\n\nLIMIT = 3\n"""So many at most."""\n'
    assert sorted(fragments(source)) == ["1: Whether it holds.", "4: So many at most."]
    assert not fragments('"""Tell whether it holds."""\n\nLIMIT = 3\n"""Largest count."""\n')
