"""HTML of results in notebooks: tables without colours of their own, which suit light and dark pages."""

import html
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from jax.core import Tracer

from ._names import Setup

SHOWN = 40
"""Most rows that are shown."""
LINE = "border-bottom: 1px solid rgba(128, 128, 128, 0.4)"


def html_page(title: str, *parts: str) -> str:
    """Parts under a heading; empty parts are left out."""
    inside = "".join(part for part in parts if part)
    return f'<div style="overflow-x: auto"><strong>{html.escape(title)}</strong>{inside}</div>'


def html_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column is to the left and whose numbers are to the right; cells that hold more than a number are text."""
    if not rows:
        return ""
    head = "".join(_cell("th", text, column == 0, LINE) for column, text in enumerate(heads))
    lines = [
        "".join(_cell("td", text, column == 0 or not _is_number(text)) for column, text in enumerate(row))
        for row in rows[:SHOWN]
    ]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    more = html_notes([f"and {len(rows) - SHOWN} more"]) if len(rows) > SHOWN else ""
    return f'<table style="{LINE}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}'


def html_notes(lines: Iterable[str]) -> str:
    """Sentences, one a line."""
    return "".join(f'<div style="opacity: 0.8">{html.escape(line)}</div>' for line in lines)


def system_html(system: Any) -> str:
    """A system's quantities: value, unit, support and what each is."""
    setup = Setup(system)
    rows = []
    for path, leaf in setup.leaves().items():
        known = setup.metadata(path)
        support = "" if known.support == (-np.inf, np.inf) else str(known.support)
        rows.append((path, value_text(leaf), "" if known.unit == "1" else known.unit, support, known.doc))
    about = (type(system).__doc__ or "").strip().splitlines()
    notes = html_notes(about[:1]) if about and not about[0].startswith(f"{type(system).__name__}(") else ""
    return html_page(type(system).__name__, notes, html_table(("quantity", "value", "unit", "support", ""), rows))


def trajectory_html(trajectory: Any, facts: Sequence[tuple[str, str]]) -> str:
    """Return a table of a trajectory: its status, and the first value, last value and range of each component."""
    setup = Setup(None, trajectory.ys)
    members = np.ndim(np.asarray(trajectory.status))
    rows = []
    for path, leaf in setup.leaves().items():
        values = np.asarray(leaf, float)
        unit = setup.metadata(path).unit
        finite = values[np.isfinite(values)]
        ends = (finite.min(), finite.max()) if finite.size else (np.nan, np.nan)
        plain = values.ndim == 1 and members == 0 and values.size
        first, last = (f"{values[0]:.5g}", f"{values[-1]:.5g}") if plain else ("", "")
        name = "y" if path == "y0" else path.removeprefix("y0.")
        shape = str(list(values.shape))
        rows.append((name, "" if unit == "1" else unit, shape, first, last, *(f"{end:.5g}" for end in ends)))
    table = html_table(("state", "unit", "shape", "first", "last", "least", "most"), rows)
    return html_page("Trajectory", table, html_notes(f"{name}: {text}" for name, text in facts))


def value_text(leaf: Any) -> str:
    """A number, or the shape and the range of an array."""
    if isinstance(leaf, Tracer):
        return f"traced {list(leaf.shape)}"
    values = np.asarray(leaf)
    if values.size == 1:
        return f"{values.item():.6g}"
    if not values.size:
        return str(list(values.shape))
    return f"{list(values.shape)}, {values.min():.4g} to {values.max():.4g}"


def _cell(kind: str, text: str, left: bool, extra: str = "") -> str:
    side = "left" if left else "right"
    return f'<{kind} style="text-align: {side}; {extra}">{html.escape(text)}</{kind}>'


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
