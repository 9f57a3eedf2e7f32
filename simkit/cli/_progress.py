"""progress: how far stores are into which others compute, as a table or a page."""

import argparse
import html
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from .._errors import ArgumentError
from .._progress import clock
from ..stores import write_text
from ..study.runs import StoreProgress, progress_of
from ._answer import as_json
from ._show import as_text

HEADS = ("store", "work", "done", "left", "rate", "last file", "state")

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>{refresh}
<style>body{{font:15px/1.4 sans-serif;margin:2em}}td,th{{padding:.2em 1em .2em 0;text-align:left;vertical-align:top}}
progress{{width:12em}}</style></head><body><h1>{title}</h1><p>{date}</p>
<table><tr>{heads}</tr>
{rows}
</table>{errors}</body></html>
"""


def progress(options: argparse.Namespace) -> int:
    if options.html is not None and (
        options.html.suffix.lower() not in (".html", ".htm") or not options.html.parent.is_dir()
    ):
        raise ArgumentError(
            f"Option --html must name a page to write in a folder that is there, `progress.html`, not `{options.html}`."
        )
    while True:
        found = progress_of(options.folder)
        if options.html is not None:
            # Whole at each moment: a browser that reads it meanwhile has the page before.
            write_text(options.html, page_of(found, options.folder, options.watch))
        if options.json:
            print(as_json([vars(one) for one in found]), flush=True)
        else:
            begin = "\x1b[H\x1b[2J" if options.watch and sys.stdout.isatty() else ""
            print(begin + text_of(found), flush=True)
        if not options.watch or not any(one.writer for one in found):
            return 0
        time.sleep(options.watch)


def text_of(found: Sequence[StoreProgress]) -> str:
    """A table with a line a store, and what went wrong below it."""
    lines = [as_text([HEADS, *map(_cells, found)], left=range(len(HEADS)))]
    lines += [f"  {one.path}: {error}" for one in found for error in one.errors]
    return "\n".join(lines)


def page_of(found: Sequence[StoreProgress], folder: Path, watch: float | None) -> str:
    """The same as a page of HTML that needs nothing else, and reads itself again while it is written."""
    escaped = lambda text: html.escape(str(text))
    rows = []
    for one in found:
        bar = f'<progress value="{one.done}" max="{one.total}"></progress> ' if one.total else ""
        cells = [escaped(cell) for cell in _cells(one)]
        cells[2] = bar + cells[2]
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    errors = "".join(f"<li>{escaped(one.path)}: {escaped(error)}</li>" for one in found for error in one.errors)
    again = watch and any(one.writer for one in found)
    return PAGE.format(
        title=escaped(f"Progress in {folder}"),
        refresh=f'<meta http-equiv="refresh" content="{max(1, round(watch))}">' if again and watch else "",
        date=time.strftime("%Y-%m-%d %H:%M:%S"),
        heads="".join(f"<th>{escaped(head)}</th>" for head in HEADS),
        rows="\n".join(rows),
        errors=f"<ul>{errors}</ul>" if errors else "",
    )


def _cells(one: StoreProgress) -> list[str]:
    whole = f" of {one.total}" if one.total is not None else ""
    parts = [f"{one.done}{whole} {one.noun}".strip(), one.failed, f"{len(one.errors)} set aside" if one.errors else ""]
    complete = one.total is not None and one.done >= one.total
    return [
        one.path,
        one.kind,
        ", ".join(part for part in parts if part),
        clock(one.left) if math.isfinite(one.left) and not complete else "",
        f"{one.rate:.3g} a second" if math.isfinite(one.rate) else "",
        f"{clock(one.age)} ago" if math.isfinite(one.age) else "",
        one.writer or ("finished" if complete else "nobody computes"),
    ]
