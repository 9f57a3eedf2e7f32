"""Optima that are one solution written in several ways: other signs, other labels, other turns."""

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

EQUAL = 1e-2
"""Objectives of images of one optimum differ by rounding and by what the descents left, which is less."""

CLOSE = 0.05, 1e-3
"""A parameter is the image of another within this part of its standard error, and of its size where that is less."""

CHANCE = 0.02
"""A tolerance above this part of pi says nothing about turns: every large number is close to a multiple of pi."""


class Image(NamedTuple):
    """An optimum as the image of another.

    - `of`: the number of the other optimum.
    - `kind`: "sign", "labels", "turn" or "mirror", the first that applies.
    - `words`: what is different, as part of a sentence.
    """

    of: int
    kind: str
    words: str


def images(
    names: tuple[str, ...],
    units: tuple[str, ...],
    thetas: np.ndarray,
    objective: np.ndarray,
    errors: np.ndarray,
    bounds: np.ndarray,
) -> list[Image | None]:
    """Return for every optimum the better one of which it is an image, None where it is none.

    **Arguments:** `thetas`, `errors`: places of the optima and their standard errors, shape `(optima, parameters)`, natural units.
    """
    found: list[Image | None] = []
    for k in range(len(thetas)):
        same = [j for j in range(k) if abs(objective[k] - objective[j]) <= EQUAL]
        tried = (_image(names, units, thetas[j], thetas[k], errors[j], bounds) for j in same)
        pairs = zip(same, tried, strict=True)
        found.append(next((Image(j, *image) for j, image in pairs if image is not None), None))
    return found


def _image(
    names: tuple[str, ...],
    units: tuple[str, ...],
    first: np.ndarray,
    second: np.ndarray,
    error: np.ndarray,
    bounds: np.ndarray,
) -> tuple[str, str] | None:
    """Kind and words of the map that takes one place to another, None where none is known."""
    size = np.maximum(np.abs(first), np.abs(second))
    tolerance = np.minimum(CLOSE[0] * error, CLOSE[1] * size) + 1e-9 * size
    moved = np.flatnonzero(np.abs(second - first) > tolerance).tolist()
    if not moved:
        return None
    if (cycles := _exchanged(moved, units, first, second, tolerance)) is not None:
        return "labels", _cycles_in_words(names, cycles)
    kinds: list[str] = []
    words: list[str] = []
    for i in list(moved):
        if (change := _own(first[i], second[i], tolerance[i], bounds[i])) is not None:
            moved.remove(i)
            kinds.append(change[0])
            words.append(f"`{names[i]}` {change[1]}")
    if moved:
        if (cycles := _exchanged(moved, units, first, second, tolerance)) is None:
            return None
        kinds.insert(0, "labels")
        words.insert(0, _cycles_in_words(names, cycles))
    kind = next(kind for kind in ("labels", "sign", "turn", "mirror") if kind in kinds)
    return kind, " and ".join(words) if len(words) < 3 else ", ".join(words[:-1]) + f" and {words[-1]}"


def _own(first: float, second: float, tolerance: float, bounds: np.ndarray) -> tuple[str, str] | None:
    """Return kind and words of the change of a single parameter, or None."""
    if abs(second + first) <= tolerance:
        return "sign", "of the other sign"
    if np.isfinite(bounds).all() and abs(second - (bounds.sum() - first)) <= tolerance:
        return "mirror", f"as {bounds.sum():g} minus its value"
    if tolerance > CHANCE * math.pi:
        return None
    for sign in (1, -1):
        halves = round((second - sign * first) / math.pi)
        if halves != 0 and abs(second - sign * first - halves * math.pi) <= tolerance:
            pi = "pi" if abs(halves) == 1 else f"{abs(halves)} pi"
            return (
                "turn",
                f"{'more' if halves > 0 else 'less'} by {pi}" if sign == 1 else f"as {halves} pi minus its value",
            )
    return None


def _exchanged(
    moved: list[int], units: tuple[str, ...], first: np.ndarray, second: np.ndarray, tolerance: np.ndarray
) -> list[list[int]] | None:
    """The cycles of the permutation that takes one place to another, None where there is none."""
    cost = np.abs(second[moved][:, None] - first[moved][None])
    cost = cost + np.where([[units[i] == units[j] for j in moved] for i in moved], 0.0, np.inf)
    allowed = cost <= np.maximum(tolerance[moved][:, None], tolerance[moved][None])
    if not (allowed.any(axis=0).all() and allowed.any(axis=1).all()):
        return None
    rows, columns = linear_sum_assignment(np.where(allowed, 0.0, 1.0))
    if not allowed[rows, columns].all():
        return None
    to, left, cycles = {moved[r]: moved[c] for r, c in zip(rows, columns, strict=True)}, list(moved), []
    while left:
        cycle = [left[0]]
        while (following := to[cycle[-1]]) != cycle[0]:
            cycle.append(following)
        left = [i for i in left if i not in cycle]
        cycles.append(cycle)
    return None if any(len(cycle) == 1 for cycle in cycles) else cycles


def _cycles_in_words(names: tuple[str, ...], cycles: list[list[int]]) -> str:
    pairs = [" and ".join(f"`{names[i]}`" for i in cycle) for cycle in cycles if len(cycle) == 2]
    longer = [", ".join(f"`{names[i]}`" for i in cycle) for cycle in cycles if len(cycle) > 2]
    parts = [f"{', '.join(pairs)} exchanged"] if pairs else []
    return " and ".join(parts + [f"{cycle} permuted" for cycle in longer])
