"""Pages with the source of the package, to which the names of the reference link."""

import importlib
import inspect
from collections.abc import Iterator
from typing import Any

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from sphinx.application import Sphinx

FOLDER = "source"


def source_link(app: Sphinx, value: Any) -> str:
    """A link to the line on which a class or function begins, as Markdown; nothing for what has no source in the package."""
    value = inspect.unwrap(value) if callable(value) else value
    module = getattr(value, "__module__", "")
    if not (inspect.isclass(value) or inspect.isroutine(value)) or not module.startswith("simkit"):
        return ""
    try:
        line = inspect.getsourcelines(value)[1]
    except (OSError, TypeError):
        return ""
    modules_of(app).add(module)
    return f'<a class="source-link" href="{FOLDER}/{module}.html#line-{line}">source</a>'


def modules_of(app: Sphinx) -> set[str]:
    """The modules that were linked to; they are kept with what the builder remembers of pages that did not change."""
    if not hasattr(app.env, "source_modules"):
        app.env.source_modules = set()
    return app.env.source_modules


def pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """A page for each module that was linked to."""
    form = HtmlFormatter(lineanchors="line", cssclass="highlight")
    for name in sorted(modules_of(app)):
        text = inspect.getsource(importlib.import_module(name))
        body = f"<h1>{name}</h1>\n{highlight(text, PythonLexer(), form)}"
        yield f"{FOLDER}/{name}", {"parents": [], "title": name, "body": body}, "page.html"


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("html-collect-pages", pages)
    return {"parallel_read_safe": False}
