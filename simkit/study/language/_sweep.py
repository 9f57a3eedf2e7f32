"""[sweep] of a study file: which members, and when their states are saved."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..._errors import StudyError
from ...sweeps import DESIGNS, METHODS
from ._section import Section, check_numbers, entries

MOST_MEMBERS = 200_000_000
"""Members of a sweep, and times of a simulation: some gigabytes for their numbers alone."""
DRAWN = (*METHODS, *DESIGNS)
SWEEP_METHODS = ("grid", "zip", *DRAWN)
RULED = ("grid", "latin", "sobol", "saltelli")
"""Methods for which members are made by a rule where `by_rule` asks for it."""


def read_sweep(section: Section) -> dict[str, Any]:
    """[sweep]: `method`, `over` (path -> values, or low, high and scale) and, where given, `count`, `seed`, `chunk`, `times`.

    Empty where the study has no such table.
    """
    if not section.table:
        return {}
    section.need("over")
    method = str(section.name("method", SWEEP_METHODS, "sweep method", "grid"))
    asked: dict[str, Any] = {"method": method, "over": _over(section.section("over"), method)}
    asked["count"] = section.count("count", most=MOST_MEMBERS)
    asked["seed"] = section.count("seed", least=0)
    asked["chunk"] = section.count("chunk")
    asked["times"] = read_times(section)
    asked["by_rule"] = section.get("by_rule", "true or false", False) or None
    if asked["by_rule"] and method not in RULED:
        raise section.error("by_rule", f'goes with the methods {", ".join(RULED)}, but the method is "{method}".')
    section.finish()
    if method in DRAWN:
        section.need("count")
    elif asked["count"] is not None:
        raise section.error("count", f'goes with the methods {", ".join(DRAWN)}, but the method is "{method}".')
    return {key: value for key, value in asked.items() if value is not None}


def read_times(section: Section) -> np.ndarray | None:
    """`times`: increasing numbers, or a table of from, to and count; None where it is left out."""
    given = section.table.get("times")
    if isinstance(given, dict):
        part = section.section("times")
        first, last, count = _span(part)
        part.finish()
        return np.linspace(first, last, count)
    if given is None:
        return None
    times = section.numbers("times")
    if not times or any(isinstance(t, list) for t in times) or not np.all(np.diff(times) > 0):
        raise section.error("times", "must be increasing numbers, or a table { from = ..., to = ..., count = ... }.")
    return np.asarray(times, float)


def _over(section: Section, method: str) -> dict[str, Any]:
    """Path -> an array of values, or (low, high, scale) for the methods that draw them."""
    found, members = {}, 1
    for path, value in entries(section, lambda value: "from" in value or "to" in value).items():
        part = Section(value if isinstance(value, Mapping) else {path: value}, f"{section.place}.{path}", section.file)
        if method in DRAWN:
            found[path] = _range(section, path, value, part)
        elif method == "grid" and isinstance(value, dict):
            scale = part.name("scale", ("linear", "log"), "scale", "linear")
            low, high, count = _span(part, log=scale == "log")
            part.finish()
            members *= count
            if members > MOST_MEMBERS:
                raise StudyError(
                    f"{section.where()} must span at most {MOST_MEMBERS:,} members, but the counts up to `{path}` multiply to "
                    f'{members:,}. Take fewer, or `method = "sobol"` with a `count`.'
                )
            found[path] = (np.geomspace if scale == "log" else np.linspace)(low, high, count)
        elif isinstance(value, list):
            check_numbers(section, path, value)
            found[path] = np.asarray(value, float)
        else:
            more = ", or a table { from = 0.1, to = 1.0, count = 10 }" if method == "grid" else ""
            raise section.error(path, f"must be an array of numbers{more}, but it is `{value!r}`.")
    if not found:
        raise StudyError(f"{section.where()} must name what differs between the members, but it is empty.")
    return found


def _range(section: Section, path: str, value: object, part: Section) -> tuple[float, float, str]:
    if not isinstance(value, dict):
        raise section.error(path, f"must be a table such as {{ from = 0.1, to = 1.0 }}, but it is `{value!r}`.")
    scale = str(part.name("scale", ("linear", "log"), "scale", "linear"))
    low, high, _ = _span(part, counted=False, log=scale == "log")
    part.finish()
    return low, high, scale


def _span(part: Section, *, counted: bool = True, log: bool = False) -> tuple[float, float, int]:
    """`from`, `to` and, where it belongs there, `count`."""
    part.need("from", "to", *(["count"] if counted else []))
    low, high = part.number("from"), part.number("to")
    count = part.count("count", least=2, most=MOST_MEMBERS) if counted else 2
    assert low is not None
    assert high is not None
    assert count is not None
    if not low < high:
        raise part.error("to", f"must lie after `from`, {low:g}, but it is {high:g}.")
    if log and low <= 0:
        raise part.error("from", f"must be positive where the scale is logarithmic, but it is {low:g}.")
    return low, high, count
