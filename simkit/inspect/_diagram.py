"""The flow of data as a picture: boxes one below the other, with arrows."""

from collections.abc import Sequence
from html import escape

import numpy as np

from ..linear import Pattern

WIDTH, LINE, MARGIN, GAP = 560, 16, 10, 26
MOST_CELLS = 256
"""Rows and columns of a pattern that are drawn; larger ones are drawn as cells of several places, darker where more are taken."""


def draw(title: str, boxes: Sequence[tuple[str, Sequence[str], str]]) -> str:
    """An SVG of boxes, each a heading, lines of text and a remark; colours follow the page's own, light or dark."""
    parts, y = [], MARGIN
    for i, (heading, lines, remark) in enumerate(boxes):
        height = LINE * (len(lines) + 1) + 2 * MARGIN
        if i:
            middle = WIDTH / 2
            parts.append(
                f'<path d="M{middle} {y - GAP + 2} V{y - 4} m-4 -6 l4 6 l4 -6" fill="none" stroke="currentColor"/>'
            )
        parts.append(
            f'<rect x="{MARGIN}" y="{y}" width="{WIDTH - 2 * MARGIN}" height="{height}" rx="6" fill="none" stroke="currentColor"/>'
        )
        baseline = y + MARGIN + 10
        parts.append(f'<text x="{2 * MARGIN}" y="{baseline}" font-weight="bold">{escape(heading)}</text>')
        if remark:
            parts.append(
                f'<text x="{WIDTH - 2 * MARGIN}" y="{baseline}" text-anchor="end" opacity="0.7">{escape(remark)}</text>'
            )
        for line in lines:
            baseline += LINE
            parts.append(f'<text x="{3 * MARGIN}" y="{baseline}" font-family="monospace">{escape(line)}</text>')
        y += height + GAP
    height = y - GAP + MARGIN
    return _picture(title, height, parts)


def draw_pattern(title: str, pattern: Pattern) -> str:
    """An SVG of a sparsity pattern, the first row at the top."""
    side = -(-pattern.size // MOST_CELLS)
    cells = -(-pattern.size // side)
    taken = np.zeros((cells, cells))
    np.add.at(taken, (pattern.rows // side, pattern.columns // side), 1)
    size = (WIDTH - 2 * MARGIN) / cells
    dots = [
        f'<rect x="{MARGIN + size * j:.1f}" y="{MARGIN + LINE + size * i:.1f}" width="{size:.1f}" height="{size:.1f}" '
        f'opacity="{0.3 + 0.7 * taken[i, j] / side**2:.2f}"/>'
        for i, j in np.argwhere(taken).tolist()
    ]
    whole = WIDTH - 2 * MARGIN
    heading = f'<text x="{MARGIN}" y="{LINE}">{escape(title)}</text>'
    frame = (
        f'<rect x="{MARGIN}" y="{MARGIN + LINE}" width="{whole}" height="{whole}" fill="none" stroke="currentColor"/>'
    )
    return _picture(title, WIDTH + LINE, [heading, frame, *dots])


def _picture(title: str, height: int, parts: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" font-size="12" '
        f'font-family="sans-serif" fill="currentColor" role="img"><title>{escape(title)}</title>{"".join(parts)}</svg>'
    )
