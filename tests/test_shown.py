"""Every public name stands in an example that is executed: a block of a page, a notebook.

A class that no one calls by name, such as a result or a state, is shown where something returns it, by its annotation.
"""

import ast
import functools
import inspect
import json
import pathlib
import typing

import test_api
import test_docs

import simkit

ROOT = pathlib.Path(__file__).parents[1]


def sources() -> list[str]:
    """The code of every page and of every notebook: all of it runs in the tests."""
    pages = ["\n".join(block for _, block in test_docs.blocks(path)) for path in test_docs.PAGES]
    notebooks = [
        json.loads(path.read_text(encoding="utf-8"))["cells"] for path in sorted((ROOT / "examples").glob("*.ipynb"))
    ]
    cells = [["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"] for cells in notebooks]
    return [*pages, *("\n".join(each) for each in cells)]


def used(source: str) -> set[str]:
    """The dotted names below simkit that code uses, aliases resolved; an import alone is no use."""
    tree, aliases = ast.parse(source), {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                if name.name.partition(".")[0] == "simkit":
                    aliases[name.asname or "simkit"] = name.name if name.asname else "simkit"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "simkit":
            aliases |= {name.asname or name.name: f"{node.module}.{name.name}" for name in node.names}
    found = set()
    for node in ast.walk(tree):
        words = []
        while isinstance(node, ast.Attribute):
            words.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name) and node.id in aliases:
            found.add(".".join([aliases[node.id], *reversed(words)]))
    return found


def value_of(name: str):
    """What a dotted name stands for; None where it goes below what is public, as to a method."""
    try:
        return functools.reduce(getattr, name.split(".")[1:], simkit)
    except AttributeError:
        return None


def returned(value) -> list:
    """The types in the annotations of what a function, or each method of a class, returns."""
    functions = [value] if inspect.isfunction(value) else []
    if inspect.isclass(value):
        functions = [method for _, method in inspect.getmembers(value, inspect.isfunction)]
        functions += [held.fget for held in vars(value).values() if isinstance(held, property)]
    found = []
    for function in functions:
        try:
            todo = [typing.get_type_hints(inspect.unwrap(function)).get("return")]
        except (NameError, TypeError):  # an annotation that only a type checker can resolve
            continue
        while todo:
            kind = todo.pop()
            found.append(kind)
            todo += typing.get_args(kind)
    return found


def not_shown() -> list[str]:
    names = test_api.public_names()
    # One thing may have several names; what Python keeps once, such as equal tuples, has none of its own.
    by_value: dict[int, set[str]] = {}
    for name in names:
        by_value.setdefault(id(value_of(name)), set()).add(name)
    literal = set().union(*(used(source) for source in sources()))
    shown, todo = set(), [value_of(name) for name in literal]
    while todo:
        new = by_value.get(id(value := todo.pop()), set()) - shown
        shown |= new
        if new:
            todo += returned(value)
    return sorted(set(names) - shown)


def test_every_public_name_is_shown():
    assert not_shown() == [], "show these in an executed block of a page in docs/, where a reader would look for them"


def test_what_counts_as_use():
    source = "import simkit as s\nfrom simkit import md\nfrom simkit.odes import SIR as S, SEIR\nmd.NVE()\ns.fit\nS.example()"
    assert used(source) == {
        "simkit.md.NVE",
        "simkit.md",
        "simkit.fit",
        "simkit",
        "simkit.odes.SIR.example",
        "simkit.odes.SIR",
    }
    assert simkit.FitResult in returned(simkit.fit)
