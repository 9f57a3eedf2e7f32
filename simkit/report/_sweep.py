"""The report of a sweep: its members, what they gave, and how results follow from the values that were varied."""

import dataclasses
import html
import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.stats

from .. import viz
from .._errors import SimkitError
from ..core import System
from ..io import Provenance
from ..study import Study, load_study
from ..sweeps import Sweep
from ._answer import Answer, judged
from ._figures import Picture, picture_of
from ._provenance import provenance_section
from ._sensitivity import sensitivity_section
from ._tables import as_table, folded

MOST_RESULTS, MOST_VALUES = 9, 12
"""Most results in a figure, and most figures."""

FEW = 0.01
"""Share of failed members up to which a sweep can be used with care."""


class Numbers(NamedTuple):
    """One number a member of each result: as it is, or at the last time; units by name, and the names that are arrays."""

    results: dict[str, np.ndarray]
    units: dict[str, str]
    left: list[str]


def sweep_sections(
    sweep: Sweep, study: Study | None, *, interactive: bool = False
) -> tuple[list[tuple[str, str]], list[Picture]]:
    """Headings and bodies of the page, figures being places to fill, and the figures."""
    numbers = numbers_of(sweep) if sweep.finished else Numbers({}, {}, [])
    depends, bars = sensitivity_section(sweep, study, numbers.results, interactive)
    found = bars + _pictures(sweep, numbers, interactive)
    sections = [
        ("Can it be believed?", judged(sweep_answers(sweep, numbers))),
        ("Parameters", as_table(("parameter", "least", "median", "largest", "values", "unit"), _value_rows(sweep))),
        ("Results", _results(numbers)),
        ("Which parameters matter", depends),
        ("How results follow from parameters", _ranks(sweep, numbers)),
        ("Failed members", _failed(sweep)),
    ]
    return sections, found


def sweep_answers(sweep: Sweep, numbers: Numbers) -> list[Answer]:
    """The questions that a sweep raises."""
    status = sweep.status if sweep.finished else np.full(sweep.members, -1)
    missing, failed = int((status < 0).sum()), int((status > 0).sum())
    aside = tuple(f"Chunk {note['chunk']} was set aside: {note['error']}" for note in sweep.set_aside)
    text = f"{sweep.members - missing} of {sweep.members} members were computed."
    advice = ("The sweep is not complete: the same command goes on from there.",) if missing and not aside else aside
    found = [Answer("Were all members computed?", "no" if missing else "yes", text, advice)]
    words = tuple(
        f"{len(rows)} members ended with {kind.name}, the first is {rows[0]}. {kind.told(sweep.definition.get('solver', ''))}"
        for kind, rows in (sweep.failures() if sweep.finished else ())
    )
    grade = "yes" if not failed else "care" if failed <= FEW * sweep.members else "no"
    found.append(Answer("Did all members succeed?", grade, f"{failed} of {sweep.members} failed.", words))
    good = status == 0
    odd = {name: int((~np.isfinite(y[good])).sum()) for name, y in numbers.results.items()}
    bad = tuple(f"`{name}` is not finite for {count} members that succeeded." for name, count in odd.items() if count)
    text = "Not all of them." if bad else "All of those that succeeded."
    found.append(Answer("Are the results finite?", "care" if bad else "yes", text, bad))
    found.append(_steps(sweep.definition))
    damaged = sweep.damaged()
    text = (
        f"{len(damaged)} files do not hold what their names say."
        if damaged
        else "Every file holds what its checksum says."
    )
    advice = ("Call the sweep again: damaged parts are computed anew.",) if damaged else ()
    found.append(Answer("Are the files whole?", "no" if damaged else "yes", text, advice))
    return found


def _steps(definition: Mapping[str, str]) -> Answer:
    question, rtol = "Were the steps fine enough?", definition.get("step.rtol", "None").split(" ")[0]
    if definition.get("step", "").endswith("Adaptive"):
        told = f" rtol {rtol}" if rtol != "None" else ""
        return Answer(question, "yes", f"Steps adapt to a tolerance,{told}." if told else "Steps adapt to a tolerance.")
    if definition.get("step", "").endswith("Courant"):
        return Answer(question, "yes", "Steps followed the flow by its Courant number.")
    return Answer(question, "untested", "Steps were fixed: run some members with half the step and compare.")


def numbers_of(sweep: Sweep) -> Numbers:
    """One number a member of each result that has one, also at the end of a series."""
    results, units, left = {}, {}, []
    for name in sweep.names:
        column = sweep[name]
        series = len(column.shape) == 2 and column.shape[1] == len(sweep.times)
        if (len(column.shape) != 1 and not series) or len(results) == MOST_RESULTS:
            left.append(name)
            continue
        label = f"{name} at the end" if series else name
        results[label] = np.asarray(column[:, -1] if series else column[:], float)
        units[label] = column.unit
    return Numbers(results, units, left)


def _value_rows(sweep: Sweep) -> list[list[str]]:
    rows = []
    for path, values in sweep.values.items():
        flat = np.asarray(values, float).reshape(len(values), -1)
        ends = [f"{x:.4g}" for x in (flat.min(), np.median(flat), flat.max())]
        unit = sweep[path].unit if sweep.finished else "1"
        rows.append([path, *ends, str(len(np.unique(flat, axis=0))), "" if unit == "1" else unit])
    return rows


def _results(numbers: Numbers) -> str:
    if not numbers.results:
        return ""
    rows = []
    for name, values in numbers.results.items():
        known = values[np.isfinite(values)]
        ends = np.quantile(known, [0, 0.05, 0.5, 0.95, 1]) if len(known) else np.full(5, np.nan)
        unit = numbers.units[name]
        rows.append([name, *(f"{x:.4g}" for x in ends), str(len(known)), "" if unit == "1" else unit])
    heads = ("result", "least", "5 %", "median", "95 %", "largest", "members", "unit")
    rest = (
        f"<p>Not shown, as they are arrays or too many: {html.escape(', '.join(numbers.left))}.</p>"
        if numbers.left
        else ""
    )
    return as_table(heads, rows) + rest


def _ranks(sweep: Sweep, numbers: Numbers) -> str:
    """Spearman's rank correlations of results with parameters; the figures follow."""
    paths = [path for path, values in sweep.values.items() if values.ndim == 1]
    rows = []
    for name, y in numbers.results.items():
        known = np.isfinite(y)
        cells = []
        for path in paths:
            x = sweep.values[path][known]
            varies = known.sum() > 2 and np.ptp(x) > 0 and np.ptp(y[known]) > 0
            cells.append(f"{_rank_correlation(x, y[known]):+.2f}" if varies else "-")
        rows.append([name, *cells])
    if not rows or not paths:
        return ""
    about = "Rank correlations (Spearman): +1 where a result rises with the parameter throughout, -1 where it falls."
    return f"<p>{about}</p>{as_table(('result', *paths), rows, label='rank correlations')}"


def _rank_correlation(x: np.ndarray, y: np.ndarray) -> float:
    found: Any = scipy.stats.spearmanr(x, y)
    return float(found.statistic)


def _pictures(sweep: Sweep, numbers: Numbers, interactive: bool) -> list[Picture]:
    found = []
    paths = [path for path, values in sweep.values.items() if values.ndim == 1 and np.ptp(values) > 0]
    for path in paths[:MOST_VALUES] if numbers.results else ():
        units = numbers.units | {path: sweep[path].unit}
        figure = viz.plot_sweep(sweep.values[path], numbers.results, name=path, units=units)
        caption = f"Results over {path}: members, and the median along it."
        found.append(picture_of(f"sweep_{path.replace('.', '_')}", "sweep", caption, figure, True, interactive))
    return found


def _failed(sweep: Sweep) -> str:
    """The first failed members with their values."""
    if not sweep.finished:
        return ""
    rows = []
    for kind, members in sweep.failures():
        for member in members[:5]:
            values = ", ".join(f"{path} {value:.6g}" for path, value in sweep.member_values(int(member)).items())
            rows.append([str(member), kind.name, values])
    return as_table(("member", "status", "values"), rows, "words") if rows else ""


def sweep_method(sweep: Sweep, study: Study | None) -> str:
    """A sentence on the points, the solver and its steps."""
    definition = sweep.definition
    solver, step = (definition.get(name, "").rpartition(".")[2] for name in ("solver", "step"))
    method = "" if study is None else study.sweep["method"]
    known = {"grid": "lie on a grid", "zip": "are listed", "": ""}
    known |= {"saltelli": "are points for Sobol's indices", "morris": "are walks for elementary effects"}
    how = known.get(method, f"are points by the method {method}")
    parts = [f"Members {how}." if how else ""]
    parts.append(f"Each is solved by {solver} with {step} steps." if solver not in ("", "None") else "")
    times = sweep.times
    if np.ndim(times) == 1 and len(times):
        parts.append(f"States are saved at {len(times)} times from {times[0]:g} to {times[-1]:g}.")
    return f"<p>{html.escape(' '.join(part for part in parts if part))}</p>"


def sweep_provenance(sweep: Sweep, study: Study | None) -> str:
    """The definition of the sweep in words, its versions, and how to make it again."""
    about = ""
    if study is not None:
        command = f"simkit sweep study.toml --out {shlex.quote(sweep.store.name)}"
        about = "The folder holds the study. To compute what is missing, or in another folder all of it:"
        about = f"<p>{about} <code>{html.escape(command)}</code></p>"
    rows = {f"definition: {name}": str(text) for name, text in sweep.definition.items()}
    known = {field.name for field in dataclasses.fields(Provenance)}
    made = Provenance(**{key: value for key, value in sweep.made.items() if key in known})
    text = "" if study is None else folded("Study file", study.text)
    return provenance_section(made, about, rows) + text


def study_of_sweep(sweep: Sweep, models: Mapping[str, type[System]] | None = None) -> Study | None:
    """The study that lies in the store; None where there is none, or it names a system that is not at hand."""
    path = sweep.store / "study.toml"
    if not path.exists():
        return None
    asked: Any = {} if models is None else {"models": models}
    try:
        return load_study(path, **asked)
    except SimkitError:
        return None
