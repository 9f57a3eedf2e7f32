"""Tables and lists of a report as HTML."""

import html
from collections.abc import Sequence

from ._equation import inline


def as_table(heads: Sequence[str], lines: Sequence[Sequence[str]], kind: str = "", label: str = "") -> str:
    """A table that scrolls by itself where the page is narrow; the first cell of a row is its head."""
    name = f' class="{kind}"' if kind else ""
    head = "".join(f'<th scope="col">{html.escape(text)}</th>' for text in heads)
    rows = (
        f'<tr><th scope="row">{html.escape(line[0])}</th>'
        + "".join(f"<td>{html.escape(cell)}</td>" for cell in line[1:])
        + "</tr>"
        for line in lines
    )
    body = "\n".join(rows)
    table = f"<table{name}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return scrolled(table, label or f"table of {heads[0]}")


def scrolled(inside: str, label: str) -> str:
    """A region that scrolls by itself; so that the keyboard reaches it, it takes the focus and has a name."""
    return f'<div class="wide" tabindex="0" role="region" aria-label="{html.escape(label)}">{inside}</div>'


def folded(name: str, text: str) -> str:
    """A text that shows when its name is chosen."""
    return f'<details><summary>{html.escape(name)}</summary><pre tabindex="0">{html.escape(text)}</pre></details>'


def listed(found: Sequence[str]) -> str:
    """Warnings as a list."""
    return '<ul class="warnings">' + "".join(f"<li>{inline(text)}</li>" for text in found) + "</ul>"
