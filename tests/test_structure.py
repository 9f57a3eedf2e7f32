"""How simkit is built: modules are abstract or final, files and functions stay small."""

import ast
import importlib
import inspect
import pkgutil
from pathlib import Path

import equinox as eqx
import pytest

import simkit

ROOT = Path(simkit.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
# Entries of Python and of Equinox's own machinery, and declarations that carry no code.
MACHINERY = {"__replace__", "__init__", "__check_init__", "__doc__", "__module__", "__repr__", "__str__"}


def modules():
    """All Equinox module classes that simkit defines."""
    for found in pkgutil.walk_packages(simkit.__path__, "simkit."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
    todo, seen = [eqx.Module], set()
    while todo:
        for cls in todo.pop().__subclasses__():
            if cls not in seen:
                seen.add(cls)
                todo.append(cls)
    return sorted((cls for cls in seen if cls.__module__.startswith("simkit")), key=lambda cls: cls.__qualname__)


def methods(cls):
    """What a class defines itself: names of functions, properties and class methods, and whether they are abstract."""
    for name, value in vars(cls).items():
        is_method = inspect.isfunction(value) or isinstance(value, property | classmethod | staticmethod)
        if is_method and name not in MACHINERY:
            yield name, getattr(value, "__isabstractmethod__", False)


def own_bases(cls):
    return [base for base in cls.__mro__[1:] if base.__module__.startswith("simkit")]


def is_abstract(cls):
    unset = getattr(cls, "__abstractclassvars__", ()) or getattr(cls, "__abstractvars__", ())
    return inspect.isabstract(cls) or bool(unset) or cls.__name__.lstrip("_").startswith("Abstract")


def test_nobody_overrides_a_concrete_method():
    broken = []
    for cls in modules():
        for name, _ in methods(cls):
            for base in own_bases(cls):
                if any(name == other and not abstract for other, abstract in methods(base)):
                    broken.append(f"{cls.__module__}.{cls.__qualname__}.{name} overrides {base.__qualname__}.{name}")
    assert not broken, "\n".join(broken)


def test_nobody_subclasses_a_concrete_class():
    broken = [
        f"{cls.__module__}.{cls.__qualname__} subclasses {base.__qualname__}"
        for cls in modules()
        for base in own_bases(cls)
        if not is_abstract(base)
    ]
    assert not broken, "\n".join(broken)


def test_the_walk_finds_what_it_should():
    names = {cls.__qualname__ for cls in modules()}
    assert {"System", "LotkaVolterra", "Tsit5", "Trajectory", "FunctionSystem"} <= names
    assert is_abstract(simkit.PlainSystem)
    assert not is_abstract(simkit.odes.LotkaVolterra)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_size(path):
    """Files below 450 lines, function bodies below 80, the docstring apart; star imports nowhere."""
    text = path.read_text()
    assert len(text.splitlines()) < 450, f"{path} is too long: look for the two concepts in it"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            lines = body[-1].end_lineno - body[0].lineno + 1 if body else 0
            assert lines < 80, f"{path.name}: the body of {node.name} has {lines} lines"
        if isinstance(node, ast.ImportFrom):
            assert all(name.name != "*" for name in node.names), f"{path.name} imports *"
