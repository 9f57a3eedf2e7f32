"""PEtab problems among the study files."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from ...problem import Problem

if TYPE_CHECKING:
    from ...petab import PEtab

LATE = 1e100
"""Data at later times are those of a steady state."""


def is_petab(name: str) -> bool:
    """Tell whether a file is a PEtab problem, by its name."""
    return Path(name).suffix.lower() in (".yaml", ".yml")


def read_petab(path: str | Path, texts: Mapping[str, str] | None, allow_outside: bool = False) -> "PEtab":
    """The PEtab problem; it needs packages that simkit alone does not."""
    from ...petab import load

    return load(path, texts=texts, allow_outside=allow_outside)


def prediction_span(problem: Problem) -> Float[np.ndarray, " times"]:
    """200 times over the span of all experiments."""
    times = np.asarray(problem.times)
    return np.linspace(float(times[:, 0].max()), float(times[times < LATE].max()), 200)
