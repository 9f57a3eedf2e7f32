"""Questions that a simulation raises, of any system, of flows and of particles, and its numbers."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.fft

from .._types import Inputs, State
from ..core import Status, System, Trajectory, field_metadata, named_leaves, unit_of
from ..engine import Courant
from ..fluids import Grid
from ..io import Results
from ..md import DIMENSIONS, Particles, Units
from ..study import Study
from ._answer import Answer, graded
from ._particles import particle_answers, particle_method

TAIL, SHARE = 0.75, 1e-2
"""Waves shorter than 1/0.75 of the shortest on the grid, and the share of the variance in them from which on a field is not
resolved; the same as for the warnings of spectral systems."""


def run_answers(
    results: Results,
    system: System | None = None,
    solve: Mapping[str, Any] | None = None,
    inputs: Inputs = None,
    y0: State = None,
) -> list[Answer]:
    """The questions that a trajectory and averages raise, each where it can be asked.

    `system`, `solve`, `inputs` and `y0` are those of the study, where it is known: `solve` its table of that name.
    """
    step, trajectory = (solve or {}).get("step"), results.trajectory
    found: list[Answer] = []
    if trajectory is not None and np.ndim(trajectory.times) == 1:
        found.append(_ended(trajectory))
        trajectory, whole = _in_structure(trajectory, y0)
        if system is not None and not isinstance(system, Particles):
            found += _conserved(system, trajectory) if whole else []
            grid = getattr(system, "grid", None)
            if isinstance(grid, Grid) and whole:
                found.append(_resolved(grid, trajectory))
                found.append(_courant(system, grid, trajectory, step, inputs))
            else:
                found.append(_steps(step, trajectory))
    if results.averages is not None:
        found += particle_answers(system, results.averages)
    return found


def system_rows(study: Study) -> list[list[str]]:
    """Name, value and unit of each number of the system and of its initial state, arrays by their size.

    Particles are told in the units of the edge, as the study and its averages are.
    """
    rows, units = [], study.system.units if isinstance(study.system, Particles) else None
    for prefix, tree in (("", study.system), ("y0.", study.y0)):
        if tree is None:
            continue
        for name, value in named_leaves(tree).items():
            last = name.rpartition(".")[2]
            unit = unit_of(tree, name) if "." not in name else field_metadata(_owner(tree, name), last).unit
            if units is not None:
                value, unit = _at_edge(units, NAMED.get(last, unit), value)
            size = int(np.size(value))
            shown = f"{float(np.ravel(value)[0]):.6g}" if size == 1 else f"{size} values"
            if size > 1:
                least, most = f"{float(np.min(value)):.4g}", f"{float(np.max(value)):.4g}"
                shown += f", all {least}" if least == most else f", {least} to {most}"
            rows.append([prefix + (name or "state"), shown, "" if unit == "1" else unit])
    return rows


NAMED = {
    "mass": "mass", "charge": "charge", "temperature": "temperature", "pressure": "pressure", "position": "length",
    "momentum": "momentum", "friction": "rate", "rate": "rate", "period": "time", "cell_period": "time",
    "relaxation": "time", "cell_relaxation": "time",
}  # fmt: skip
"""Dimensions of fields of particles that stand without a unit in their class."""


def _at_edge(units: Units, dimension: str, value: Any) -> tuple[Any, str]:
    """A number in the unit of the edge, and the unit; in another it stays as the simulation counts it."""
    if dimension not in DIMENSIONS:
        return value, dimension
    if dimension == "rate" and units.unit("time"):
        return np.asarray(value) / units.outside(1.0, "time"), f"1/{units.unit('time')}"
    return np.asarray(units.outside(np.asarray(value), dimension)), units.unit(dimension)


def run_method(results: Results, study: Study) -> str:
    """A sentence on the solver, its steps and the times."""
    trajectory = results.trajectory
    if trajectory is None:
        return particle_method(study, results.averages)
    count, times = int(np.sum(trajectory.steps)), np.asarray(trajectory.times)
    text = f"Solved by {trajectory.solver or 'the own step of the system'}: {count} steps from {times[0]:g} to {times[-1]:g}"
    step = study.solve.get("step")
    if isinstance(step, Courant):
        text += f", at a Courant number of {float(step.number):g}"
    return f"{text}, saved at {len(times)} times, {int(np.sum(trajectory.rejected))} steps rejected."


def _owner(tree: Any, name: str) -> Any:
    for word in name.split(".")[:-1]:
        tree = tree[int(word)] if word.isdigit() and isinstance(tree, tuple | list) else getattr(tree, word, None)
    return tree


def _in_structure(trajectory: Trajectory, y0: State) -> tuple[Trajectory, bool]:
    """The states in the structure of the model, which a file does not keep; and whether the names fit."""
    names, leaves = list(named_leaves(y0)), named_leaves(trajectory.ys)
    if y0 is None or set(names) != set(leaves):
        return trajectory, False
    ys = jax.tree.unflatten(jax.tree.structure(y0), [leaves[name] for name in names])
    return dataclasses.replace(trajectory, ys=ys), True


def _ended(trajectory: Trajectory) -> Answer:
    question, status = "Did the simulation reach its end?", Status(int(np.max(trajectory.status)))
    notes = tuple(trajectory.notes)
    if status != Status.OK:
        return Answer(question, "no", f"It ended with {status.name}.", (status.told(trajectory.solver), *notes))
    finite = all(np.isfinite(x).all() for x in map(np.asarray, jax.tree.leaves(trajectory.ys)) if x.dtype.kind == "f")
    ended = trajectory.events is not None and not finite
    if not finite and not ended:
        return Answer(question, "no", "Some states are not finite.", notes)
    text = f"All {len(trajectory.times)} times were reached, in {int(np.sum(trajectory.steps))} steps."
    return Answer(question, "care" if notes else "yes", "An event ended it." if ended else text, notes)


def _steps(step: Any, trajectory: Trajectory) -> Answer:
    question = "Were the steps fine enough?"
    if isinstance(step, int | float):
        advice = f"Run it again with [solve] step = {step / 2:g} and compare."
        return Answer(question, "untested", f"Steps were fixed at {step:g}. {advice}")
    rejected, taken = int(np.sum(trajectory.rejected)), int(np.sum(trajectory.steps))
    if step is None and taken <= len(trajectory.times) and not rejected:
        return Answer(question, "untested", "Nothing is known of the error of a step. Give [solve] `rtol`.")
    return Answer(
        question, "yes", f"Each step kept the tolerance; {rejected} of {rejected + taken} were done again shorter."
    )


def _conserved(system: System, trajectory: Trajectory) -> list[Answer]:
    """The change of what the exact solution conserves, over its size or that of its parts."""
    rows = [jax.tree.map(lambda x, row=row: x[row], trajectory.ys) for row in range(len(trajectory.times))]
    at = np.linspace(0, len(rows) - 1, min(len(rows), 11)).round().astype(int)
    values = [system.invariants(trajectory.times[i], rows[i]) for i in at]
    drifts = {name: _drift([np.asarray(own[name], float) for own in values]) for name in values[0]}
    if not drifts:
        return []
    worst, largest = max(drifts.items(), key=lambda item: item[1])
    text = f"{', '.join(drifts)}: the largest change is {largest:.2g} of the size, of {worst}."
    advice = (
        f"`{worst}` is conserved by the exact solution but changed by {largest:.2g}. Take shorter steps or a smaller rtol.",
    )
    grade = graded(largest)
    return [Answer("Is what should be conserved constant?", grade, text, () if grade == "yes" else advice)]


def _drift(values: list[np.ndarray]) -> float:
    """The largest change from the start, over the largest value; of a total that is zero nothing can be said."""
    size = max(float(np.max(np.abs(value))) for value in values)
    change = max(float(np.max(np.abs(value - values[0]))) for value in values)
    return change / size if size > 0 else change


def _resolved(grid: Grid, trajectory: Trajectory) -> Answer:
    """The share of the variance in the shortest waves of the last fields."""
    question, shares = "Does the grid resolve the fields?", {}
    for name, values in named_leaves(trajectory.ys).items():
        last = np.asarray(values)[-1]
        if last.ndim >= grid.dimensions and last.dtype.kind == "f" and min(last.shape[-grid.dimensions :]) >= 4:
            shares[component_name(name)] = tail_share(last, grid.dimensions)
    if not shares:
        return Answer(question, "untested", "The state holds no field on the grid.")
    worst, share = max(shares.items(), key=lambda item: item[1])
    said = f"{share:.2%}" if share >= 5e-5 else "Less than 0.01%"  # what would be rounded to 0.00%
    text = f"{said} of the variance of {worst} at the end lies in the shortest quarter of its waves."
    if share <= SHARE:
        return Answer(question, "yes", text)
    return Answer(
        question, "care", text, (f"`{worst}` is not resolved, or has a front. Take more cells, and compare.",)
    )


def component_name(name: str) -> str:
    """A leaf of the state as figures call it, such as `velocity x`."""
    head, _, last = name.rpartition(".")
    return f"{head} {'xyz'[int(last)]}" if head and last in ("0", "1", "2") else name


def tail_share(field: np.ndarray, dimensions: int) -> float:
    """The share of a field's variance in cosine waves above three quarters of the highest along some axis."""
    axes = tuple(range(field.ndim - dimensions, field.ndim))
    power = np.asarray(scipy.fft.dctn(np.asarray(field, float), axes=axes, norm="ortho")) ** 2
    power[(..., *[0] * dimensions)] = 0
    high = np.zeros(field.shape[-dimensions:], bool)
    for axis, count in enumerate(high.shape):
        high |= (np.arange(count) > TAIL * count).reshape([-1 if i == axis else 1 for i in range(dimensions)])
    total = power.sum()
    # Where a field is constant but for rounding, its waves say nothing.
    return float(power[..., high].sum() / total) if total > 1e-20 * np.sum(np.square(field)) else 0.0


def _courant(system: Any, grid: Grid, trajectory: Trajectory, step: Any, inputs: Inputs) -> Answer:
    """The cells that the fastest saved flow crosses in a step."""
    question = "Were the steps fine enough?"
    if isinstance(step, Courant):
        return Answer(question, "yes", f"Steps followed the flow, at a Courant number of {float(step.number):g}.")
    speeds = [_velocity(system, trajectory, row, inputs) for row in range(len(trajectory.times))]
    taken, span = int(np.sum(trajectory.steps)), float(trajectory.times[-1] - trajectory.times[0])
    if any(speed is None for speed in speeds) or not taken:
        return _steps(step, trajectory)
    cells = [float(np.min(np.diff(grid.faces(axis)))) for axis in range(grid.dimensions)]
    fastest = max(_crossed(speed, cells) for speed in speeds if speed is not None)
    number = fastest * span / taken
    text = f"In a mean step the fastest flow crosses {number:.2g} cells (Courant number)."
    if number <= 1:
        return Answer(question, "yes", text)
    return Answer(
        question, "care", text, (f"The Courant number is {number:.2g}, above 1. Shorten the steps and compare.",)
    )


def _crossed(velocity: np.ndarray, cells: list[float]) -> float:
    """The most cells that a flow crosses in a unit of time, over all axes."""
    return sum(float(np.max(np.abs(u))) / h for u, h in zip(velocity, cells, strict=True))


def _velocity(system: Any, trajectory: Trajectory, row: int, inputs: Any) -> np.ndarray | None:
    """The velocity at a save time, of the state, the outputs or the system's own."""
    y = jax.tree.map(lambda x: x[row], trajectory.ys)
    own = getattr(system, "velocity", None)
    if callable(own):
        return np.asarray(own(y))
    outputs = system.outputs(jnp.asarray(trajectory.times[row]), y, inputs)
    if isinstance(outputs, Mapping) and np.ndim(outputs.get("velocity", 0.0)) > 1:
        return np.asarray(outputs["velocity"])
    return None
