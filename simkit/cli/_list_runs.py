"""runs: the results in a folder, listed and compared."""

import argparse
from collections.abc import Sequence

from ..core import uncertain_text
from ..study.runs import ListedRun, list_runs
from ._answer import as_json
from ._show import as_text


def runs(options: argparse.Namespace) -> int:
    found = list_runs(options.folder)
    if options.json:
        print(as_json([run.to_json() for run in found]))
        return 0
    print(runs_text(found) if found else f"No results in {options.folder}.")
    return 0


def runs_text(found: Sequence[ListedRun]) -> str:
    """A table of the runs by number, and one of their parameters, a column a run."""
    good = [run for run in found if not run.fault]
    rows = [["", "date (UTC)", "result", "model", "data", "log likelihood", "AIC", "simkit"]]
    for number, run in enumerate(good, 1):
        numbers = ["" if x is None else f"{x:.6g}" for x in (run.log_likelihood, run.aic)]
        date = run.date[:19].replace("T", " ")
        rows.append([str(number), date, run.path, run.model, run.data or "", *numbers, run.version])
    parts = [as_text(rows, left=(0, 1, 2, 3, 4, 7))] if good else []
    names = list(dict.fromkeys(name for run in good for name in run.parameters))
    if names:
        table = [["parameter", *(str(number) for number in range(1, len(good) + 1)), "unit"]]
        for name in names:
            units = {run.parameters[name]["unit"] for run in good if name in run.parameters}
            cells = [_cell(run, name) for run in good]
            table.append([name, *cells, ", ".join(sorted(units - {"1"}))])
        parts.append(as_text(table, left=(0, len(good) + 1)))
    if len({run.data for run in good if run.data is not None}) > 1:
        parts.append(
            "The data differ (column data): log likelihoods and AIC compare only between runs of the same data."
        )
    parts += [f"{run.path} cannot be read: {run.fault}" for run in found if run.fault]
    return "\n\n".join(parts)


def _cell(run: ListedRun, name: str) -> str:
    if name not in run.parameters:
        return "-"
    value, error = run.parameters[name]["value"], run.parameters[name]["error"]
    return f"{uncertain_text(value, error)} +- {uncertain_text(error, error)}"
