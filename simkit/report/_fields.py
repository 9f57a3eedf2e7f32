"""Fitted fields in reports: sentences, a table of the unknowns, and whether they can be believed."""

import numpy as np

from ..fitting import FieldFit
from ._answer import Answer

HEADS = ("unknown", "size", "from", "to", "std. error on average", "unit")
"""Columns of the table of unknowns."""


def field_cells(fit: FieldFit) -> list[tuple[str, ...]]:
    """A line for each unknown: its name, size, range and mean standard error."""
    lines = []
    for block, unit in zip(fit.unknowns.blocks, fit.units, strict=True):
        values = np.asarray(fit[block.name], float)
        error = f"{np.asarray(fit.standard_error(block.name)).mean():.3g}" if fit.eigenvalues.size else ""
        size = " x ".join(map(str, block.shape)) or "1"
        lines.append(
            (block.name, size, f"{values.min():.5g}", f"{values.max():.5g}", error, "" if unit == "1" else unit)
        )
    return lines


def field_sentence(fit: FieldFit) -> str:
    """One sentence: what was fitted, and where it ended."""
    return (
        f"{fit.z.size} unknown numbers of {len(fit.unknowns.blocks)} array(s) were fitted to {fit.data_count} data by "
        f"{fit.method} in {len(fit.gradients) - 1} steps "
        f"(log likelihood {fit.log_likelihood:.4g}, gradient {fit.gradients[-1]:.1e} of the first)."
    )


def field_method(fit: FieldFit) -> str:
    """A sentence on the method and on what the uncertainty neglects."""
    told = f"The fit of fields maximises the posterior density in white coordinates by {fit.method}"
    if not fit.eigenvalues.size:
        return f"{told}; it knows no uncertainty."
    return (
        f"{told}; its uncertainty is the normal approximation by the {fit.eigenvalues.size} directions in which the data say most, "
        "with the prior in all others."
    )


def field_answers(fit: FieldFit) -> list[Answer]:
    """Two questions: was the optimum found, and is its uncertainty whole?"""
    question, count = "Was an optimum found?", len(fit.gradients) - 1
    if fit.status == 0:
        found = [
            Answer(question, "yes", f"The gradient fell to {fit.gradients[-1]:.1e} of the first in {count} steps.")
        ]
    else:
        advice = ("The fit of fields did not converge: raise `max_steps` in [fit].",)
        found = [
            Answer(
                question,
                "care",
                f"The gradient is at {fit.gradients[-1]:.1e} of the first after {count} steps.",
                advice,
            )
        ]
    question, modes = "Is the uncertainty known?", int(fit.eigenvalues.size)
    if not modes:
        found.append(Answer(question, "untested", "The fit was not asked for it: give [fit] `modes = 100`."))
    elif float(fit.eigenvalues[-1]) > 1:
        advice = ("More directions are known by the data than `modes` in [fit]: raise it; intervals are too wide.",)
        found.append(
            Answer(question, "care", f"All {modes} directions are known better by the data than by the prior.", advice)
        )
    else:
        known = int((np.asarray(fit.eigenvalues) > 1).sum())
        found.append(Answer(question, "yes", f"The data say more than the prior in {known} of {modes} directions."))
    return found
