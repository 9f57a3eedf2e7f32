"""Structure of simkit: modules are abstract, final or documented defaults; files and functions stay small."""

import ast
import importlib
import inspect
import pkgutil
import textwrap
from pathlib import Path

import durations
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
    simkit.from_equations({"d x": "-k*x"}, parameters={"k": 1.0})  # classes made at run time keep the rules too
    todo, seen = [eqx.Module], set()
    while todo:
        for cls in todo.pop().__subclasses__():
            if cls not in seen:
                seen.add(cls)
                todo.append(cls)
    return sorted(filter(is_own, seen), key=lambda cls: cls.__qualname__)


def is_own(cls):
    """Tell whether a class is the package's, not one that another test has loaded from a user's file."""
    return cls.__module__.split(".")[0] == "simkit"


def methods(cls):
    """What a class defines itself: names of functions, properties and class methods, and whether they are abstract."""
    for name, value in vars(cls).items():
        is_method = inspect.isfunction(value) or isinstance(value, property | classmethod | staticmethod)
        if is_method and name not in MACHINERY:
            yield name, getattr(value, "__isabstractmethod__", False)


def own_bases(cls):
    return list(filter(is_own, cls.__mro__[1:]))


def is_abstract(cls):
    unset = getattr(cls, "__abstractclassvars__", ()) or getattr(cls, "__abstractvars__", ())
    return inspect.isabstract(cls) or bool(unset) or cls.__name__.lstrip("_").startswith("Abstract")


def is_default(cls, name):
    """Tell whether a method is a documented default: a docstring, and the return of a constant or an argument."""
    value = vars(cls)[name]
    value = value.fget if isinstance(value, property) else value
    if not inspect.isfunction(value) or not value.__doc__:
        return False
    (function,) = ast.parse(textwrap.dedent(inspect.getsource(value))).body
    last = function.body[-1]
    complete = ast.Constant | ast.Name | ast.Dict
    return len(function.body) == 2 and isinstance(last, ast.Return) and isinstance(last.value, complete)


def test_nobody_overrides_a_concrete_method():
    broken = []
    for cls in modules():
        for name, _ in methods(cls):
            for base in own_bases(cls):
                if any(name == other and not abstract for other, abstract in methods(base)) and not is_default(
                    base, name
                ):
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


def name_of(path):
    """The dotted name of a file, and whether it is the entry of a package."""
    parts = list(path.relative_to(ROOT.parent).with_suffix("").parts)
    return (".".join(parts[:-1]), True) if parts[-1] == "__init__" else (".".join(parts), False)


def imports(path):
    """(module, imported name) of every import of simkit in a file, those for type checkers alone included."""
    name, is_package = name_of(path)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            base = name.split(".") if is_package else name.split(".")[:-1]
            base = base[: len(base) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            if source.split(".")[0] == "simkit":
                yield from ((source, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name.split(".")[0] == "simkit")


def graph():
    """File -> the files of simkit that it imports from; what a package's entry only passes on counts for who defines it."""
    names = dict(name_of(path) for path in FILES)
    found = {name_of(path)[0]: list(imports(path)) for path in FILES}

    def definer(source, imported, depth=0):
        if f"{source}.{imported}" in names:
            return f"{source}.{imported}"
        passed = [pair for pair in found[source] if pair[1] == imported] if names.get(source) else []
        return definer(*passed[0], depth + 1) if passed and depth < 9 else source

    modules = [name for name, is_package in names.items() if not is_package]
    edges = {name: {definer(*pair) for pair in found[name]} - {name} for name in modules}
    return {name: targets & set(modules) for name, targets in edges.items()}


def circles(edges):
    """Groups of files that import each other, directly or through others."""

    def reached(start):
        seen, todo = set(), [start]
        while todo:
            for other in edges[todo.pop()] - seen:
                seen.add(other)
                todo.append(other)
        return seen

    reach = {name: reached(name) for name in edges}
    groups = {tuple(sorted(b for b in reach[a] if a in reach[b])) for a in edges}
    return sorted(group for group in groups if group)


def test_no_files_import_each_other():
    """Files inside a room are in an order, too: what helpers need of a class stands below both."""
    edges = graph()
    assert sum(map(len, edges.values())) > 1000
    assert not circles(edges)


def test_a_circle_would_be_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [("b", "c")]


def test_rooms_import_from_each_others_entries():
    """A name that another room uses is exported by its `__init__.py`, marked `# internal` where it is not public."""
    broken = []
    for path in FILES:
        room = path.relative_to(ROOT).parts[0]
        for source, imported in imports(path):
            other, _, inside = source.removeprefix("simkit").lstrip(".").partition(".")
            if path.parent == ROOT or not other or other.startswith("_") or other == room:
                continue
            if any(part.startswith("_") for part in (*inside.split("."), imported)):
                broken.append(f"{path.relative_to(ROOT)} imports {imported} from {source}")
    assert not broken, "\n".join(broken)


def test_tests_in_the_table_of_long_ones_exist():
    for name in durations.known():
        file, _, test = name.partition("::")
        assert f"def {test.split('[')[0]}(" in (ROOT.parent / file).read_text(encoding="utf-8"), name
