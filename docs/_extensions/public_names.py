"""Two directives that print public names with their docstrings, which are Markdown.

`public-names` takes a list of dotted names, `public-module` all names that a module exports.
"""

import dataclasses
import functools
import importlib
import inspect
import re
import types
from collections.abc import Callable
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from source_pages import source_link
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

NESTED = ("State", "Outputs", "Conserved")
"""Classes within systems that a page describes with the system."""

DESCRIBED: set[type] = set()
"""Results without a public name that stand on the page already, with the first function that returns them."""


def exported(module: types.ModuleType) -> list[str]:
    """What the module's `__init__` re-exports or defines, in its order."""
    names = re.findall(r"\bas (\w+)$|^([A-Za-z]\w*)\b[^=\n(]*=", inspect.getsource(module), re.MULTILINE)
    return [name for pair in names for name in pair if name and name[0] != "_"]


def _signature(value: Any) -> str:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    parameters = []
    for parameter in signature.parameters.values():
        default = parameter.default
        if not isinstance(default, str | int | float | bool | None | type(inspect.Parameter.empty)):
            # An object's repr is no Python.
            parameter = parameter.replace(default=Ellipsis)
        parameters.append(parameter.replace(annotation=inspect.Parameter.empty))
    return str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))


def _docstring(value: Any) -> str:
    own = getattr(value, "__doc__", None)
    if own is None or (not callable(value) and own == type(value).__doc__):
        return ""
    # A dataclass without a docstring gets its signature for one.
    if dataclasses.is_dataclass(value) and own.startswith(f"{value.__name__}("):
        return ""
    return inspect.cleandoc(own)


def _entry(kind: str, name: str, value: Any, body: str) -> str:
    fence = ":" * (18 if "{py:class}" in body else 12 if kind == "class" else 6)  # longer than those within
    signature = _signature(value) if kind in ("class", "function", "method") else ""
    return f"{fence}{{py:{kind}}} {name}{signature}\n{body}\n{fence}\n"


def _quantities(value: type) -> str:
    """A table of a module's quantities, empty where it has none."""
    rows = []
    for field in dataclasses.fields(value) if dataclasses.is_dataclass(value) else ():
        if (metadata := field.metadata.get("simkit")) is not None:
            default = "" if field.default is dataclasses.MISSING else f"{field.default}"
            rows.append(f"| `{field.name}` | {default} | {metadata.unit} | {metadata.support} | {metadata.doc} |")
    if not rows:
        return ""
    return "\n".join(["", "", "| quantity | default | unit | support | |", "|---|---|---|---|---|", *rows])


def _markdown(dotted: str, source: Callable[[Any], str]) -> str:
    module_name, _, name = dotted.rpartition(".")
    value = getattr(importlib.import_module(module_name), name)
    body = f"{_docstring(value)}\n\n{source(value)}"
    if not inspect.isclass(value):
        if inspect.isroutine(value) and (result := _unlisted_result(value)) is not None:
            body += f"\n\n{_class_entry(result.__name__, result)}"
        return _entry("function" if callable(value) and inspect.isroutine(value) else "data", dotted, value, body)
    return _class_entry(dotted, value, f"\n\n{source(value)}")


def _unlisted_result(function: Any) -> type | None:
    """The class of simkit that a function returns, if it has no public name of its own: it is described with the function."""
    try:
        result = inspect.get_annotations(function, eval_str=True).get("return")
    except NameError:
        return None
    if not inspect.isclass(result) or not result.__module__.startswith("simkit"):
        return None
    room = importlib.import_module(".".join(result.__module__.split(".")[:2]))
    rooms = (room, importlib.import_module("simkit.noise"))  # whose names come from another room
    public = importlib.import_module("simkit")
    listed = result.__name__ in dir(public) or any(result.__name__ in exported(r) for r in rooms)
    if listed or "State" in result.__qualname__ or result in DESCRIBED:
        return None
    DESCRIBED.add(result)
    return result


def _class_entry(dotted: str, value: type, end: str = "") -> str:
    name = value.__name__
    body = _docstring(value)
    body += _quantities(value)
    for nested_name, nested in vars(value).items():
        if inspect.isclass(nested) and nested_name in NESTED:
            body += f"\n\n**`{name}.{nested_name}`:** {_docstring(nested)}{_quantities(nested)}"
    for method_name, method in vars(value).items():
        if isinstance(method, classmethod | staticmethod):
            method = method.__func__
        if method_name[0] != "_" and (inspect.isfunction(method) or isinstance(method, property)):
            kind = "property" if isinstance(method, property) else "method"
            text = _docstring(method)
            if text:
                body += "\n\n" + _entry(kind, method_name, method, text)
    return _entry("class", dotted, value, body + end)


class PublicNames(SphinxDirective):
    """The names in the content, one a line, with their docstrings."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        return self._render(list(self.content))

    def _render(self, names: list[str]) -> list[nodes.Node]:
        container = nodes.container()
        for name in names:
            lines = StringList(_markdown(name, functools.partial(source_link, self.env.app)).splitlines(), source=name)
            self.state.nested_parse(lines, 0, container)
        return container.children


class PublicModule(PublicNames):
    """All names that the module in the argument exports, less those that are public at the top."""

    has_content = False
    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        (module_name,) = self.arguments
        module, top = importlib.import_module(module_name), importlib.import_module(module_name.split(".")[0])
        names = exported(module)
        above = {name for name in names if name in dir(top) and getattr(top, name) is getattr(module, name)}
        return self._render([f"{module_name}.{name}" for name in names if name not in above])


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("public-names", PublicNames)
    app.add_directive("public-module", PublicModule)
    return {"parallel_read_safe": False}
