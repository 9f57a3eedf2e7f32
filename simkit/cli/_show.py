"""Texts of the command line on models and results."""

import inspect
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from .._errors import PluginError, check_known
from ..core import Setup, System, as_inputs, at_time, family_of
from ..fitting import FitResult
from ..infer import Posterior
from ..md import OUTPUT_DIMENSIONS, Particles
from ..report import answers, parameter_rows, table_cells
from ..stores import readers_of
from ..study import DYNAMICS, POTENTIALS, SYSTEMS, TRUNCATIONS


def model_lines(known: Mapping[str, type[System]] = SYSTEMS) -> dict[str, str]:
    """All models with one line each."""
    return {name: _in_one_line(name, known) for name in sorted(known)}


def list_models(known: Mapping[str, type[System]] = SYSTEMS) -> str:
    """All models with one line each, as text."""
    width = max(map(len, known))
    lines = [f"  {name:<{width}}  {line}" for name, line in model_lines(known).items()]
    return "\n".join(["Models, by their name in [system] of a study:", *lines, "", "More of one: simkit models NAME"])


def describe_model(name: str, models: Mapping[str, type[System]] = SYSTEMS) -> str:
    """A model's docstring, and its quantities with values, units and supports; or a potential, a truncation or dynamics."""
    for parts in (POTENTIALS, TRUNCATIONS, DYNAMICS):
        if name in parts.own or (name not in SYSTEMS.own and name not in models and name in parts):
            return f"{name} ({parts[name].__name__})\n\n{inspect.getdoc(parts[name]) or ''}"
    if name not in models:
        check_known(name, (*models, *POTENTIALS, *TRUNCATIONS, *DYNAMICS), "model")
    kind, system, y0, outputs, span = _of_example(name, models)
    return "\n".join(
        [
            f"{name} ({kind.__name__}, {family_of(system).__name__})",
            "",
            inspect.getdoc(kind) or "",
            "",
            "Parameters ([system] parameters, or [free]):",
            *_quantities(Setup(system), ""),
            "",
            "State ([y0]; free as y0.NAME):",
            *_quantities(Setup(y0), ""),
            "",
            "Outputs ([noise], and the data of experiments):",
            *_quantities(Setup(outputs), "", values=False),
            "",
            f"Times worth looking at: {span[0]:g} to {span[-1]:g}",
            *(_parts() if hasattr(system, "potential") else []),
        ]
    )


def model_content(name: str, models: Mapping[str, type[System]] = SYSTEMS) -> dict[str, Any]:
    """A model for machines: what it is, and its quantities with values, units and supports; of others their docstring."""
    if name not in models:
        return {"name": name, "text": describe_model(name, models)}
    kind, system, y0, outputs, span = _of_example(name, models)
    parts = {"parameters": Setup(system), "state": Setup(y0), "outputs": Setup(outputs)}
    return {
        "name": name,
        "class": kind.__name__,
        "family": family_of(system).__name__,
        "doc": inspect.getdoc(kind) or "",
        **{part: _rows(setup, values=part != "outputs") for part, setup in parts.items()},
        "times": [span[0], span[-1]],
    }


def _of_example(name: str, models: Mapping[str, type[System]]) -> tuple[type[System], System, Any, Any, np.ndarray]:
    """A model's class, and system, initial state, outputs and times of its example."""
    kind = models[name]
    system, y0, times, inputs = kind.example()
    if isinstance(system, Particles):  # whose outputs are known without the work of computing them
        outputs = {name: jnp.zeros(()) for name in OUTPUT_DIMENSIONS}
    else:
        outputs = system.outputs(times[0], y0, at_time(as_inputs(system, inputs, y0), times[0]))
    return kind, system, y0, outputs, np.asarray(times, float)


def _rows(setup: Setup, values: bool) -> list[dict[str, Any]]:
    """Quantities for machines: name, unit, support, doc, shape and, of numbers, the value."""
    found = []
    for name, leaf in setup.leaves().items():
        known = setup.metadata(name)
        row = {"name": name or "y", "unit": known.unit, "support": str(known.support), "doc": known.doc}
        row |= {"shape": np.shape(leaf)}
        found.append(row | ({"value": float(np.real(np.asarray(leaf)))} if values and np.ndim(leaf) == 0 else {}))
    return found


def _parts() -> list[str]:
    """List the parts of particles, by the name of `model` in the tables of a study."""
    kinds = {
        "potential": POTENTIALS,
        "potential, from a file of LAMMPS": readers_of("potential"),
        "truncation": TRUNCATIONS,
        "dynamics": DYNAMICS,
    }
    rows = []
    for what, known in kinds.items():
        rows += textwrap.wrap(f"{what}: {', '.join(known)}", 96, initial_indent="  ", subsequent_indent="      ")
    return ["", "Made of (by `model` in their tables; more of one: simkit models NAME):", *rows]


def parameter_table(fit: FitResult | None, posterior: Posterior | None) -> str:
    """The table of parameters as text."""
    heads, lines = table_cells(parameter_rows(fit, posterior))
    return as_text([heads, *lines], left=(0, len(heads) - 1))


def warning_lines(found: Any) -> list[str]:
    """Return warnings that concern the trust in the numbers."""
    told = answers(found.fit, found.posterior, prediction=found.prediction)
    return [f"Warning: {text}" for answer in told for text in answer.advice]


def as_text(rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> str:
    """Rows of cells in columns, flush right but for those named in `left`."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            f"{cell:<{w}}" if i in left else f"{cell:>{w}}" for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  " + "  ".join(cells).rstrip())
    return "\n".join(lines)


def _quantities(setup: Setup, prefix: str, values: bool = True) -> list[str]:
    rows = []
    for name, leaf in setup.leaves().items():
        known = setup.metadata(name)
        size = np.size(leaf)
        value = f"{float(np.asarray(leaf).ravel()[0]):g}" if size == 1 else f"array of shape {np.shape(leaf)}"
        unit = "" if known.unit == "1" else known.unit
        rows.append([prefix + (name or "y"), *([value] if values else []), unit, str(known.support), known.doc])
    if not rows:
        return ["  none"]
    return as_text(rows, left=range(len(rows[0]))).splitlines()


def _in_one_line(name: str, known: Mapping[str, type[System]]) -> str:
    try:
        return _first_line(known[name])
    except PluginError as error:
        return str(error)


def _first_line(kind: type) -> str:
    return (inspect.getdoc(kind) or "").splitlines()[0]
