"""The run of the command `simkit md`: recorded part by part, with a table, and stopped where it blows up."""

import argparse
import contextlib
import csv
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._errors import SimulationError, StoreError

TABLE, PARTS = "table.csv", "run"
ABSURD = 1000.0
"""Bound of the energy that a run gains, over the kinetic energy of its temperature: a heat bath never gives so much."""
OPTIONS = {
    "`dynamics.temperature`": "--temperature",
    "`dynamics.pressure`": "--pressure",
    "`step`": "--step",
    "`key`": "--seed",
    "other times": "--every",
}
"""Names of what differs in a store, and the options that give it."""


class Step(NamedTuple):
    """The time step.

    - `given`: the number of the option, or the default; `unit`: its unit.
    - `inside`: the step in the system's unit of time.
    - `good`: a step that suits most systems of this kind, in the same unit as `given`.
    - `bonds`: True of molecules with bonds; `held`: True where some are held.
    """

    given: float
    unit: str
    inside: float
    good: float
    bonds: bool
    held: bool

    @property
    def is_long(self) -> bool:
        return self.given > 2 * self.good

    def advice(self) -> str:
        """A sentence on the step of a run that blew up."""
        unit = f" {self.unit}" if self.unit else ""
        if not self.is_long:
            return (
                f"Let --minimise take more steps, or try a shorter time step than {self.given:g}{unit}, such as "
                f"`--step {self.given / 2:g}`; with --overwrite it begins anew."
            )
        kind = "bonds" if self.bonds else "atoms"
        other = f", or {self.good / 2:g} for hydrogens whose bonds are not held" if self.bonds and not self.held else ""
        return (
            f"The step of {self.given:g}{unit} is too long for such {kind}: give `--step {self.good:g}`{other}, and --overwrite "
            "to begin anew."
        )


class Rows:
    """The table of a run: a line and a row of the file for each save time, up to one whose energy is absurd.

    - `bad`: the time of that one, its temperature and energy in words; None as long as all are sound.
    """

    def __init__(self, system: Any, start: Any, names: Sequence[str]):
        self.columns, self.names = _columns(system, names), names
        warm, pressure = float(system.dynamics.temperature), float(getattr(system.dynamics, "pressure", 0.0))
        # Open space has an infinite volume, on which no pressure works.
        work = abs(pressure) * float(system.space_of(start).volume()) if pressure else 0.0
        self._warm, self._work, self._first = warm, work, (0.0, 0.0)
        self.bad: str | None = None

    def of(self, times: np.ndarray, values: dict[str, Any], is_first: bool) -> list[list[float]]:
        """The numbers of the rows of a part up to one that is absurd."""
        rows = []
        for k, time in enumerate(times):
            here = {"time": float(time)} | {name: float(values[name][k]) for name in self.names}
            energy = here["potential_energy"] + here["kinetic_energy"]
            if is_first and k == 0:
                self._first = energy, self._warm * here["kinetic_energy"] / here["temperature"]
            before, usual = self._first
            numbers = [column.of(here) for column in self.columns]
            if not np.isfinite(numbers).all() or energy - before > ABSURD * usual + self._work:
                words = [
                    f"{column.head[0]} {number:.4g} {column.head[1]}".rstrip()
                    for column, number in zip(self.columns, numbers, strict=True)
                ]
                self.bad = ", ".join(words[:4])
                break
            rows.append(numbers)
        return rows


def run_recorded(
    system: Any, start: Any, step: Step, options: argparse.Namespace, folder: Path, say: Callable[[str], None]
) -> tuple[Any, dict[str, Any], bool]:
    """Record the run part by part, with a line, a row of the table and frames for each save time.

    **Raises:** a `StoreError` before a line is printed where the folder holds a run of other options; a `SimulationError` where
    the run blows up.
    """
    import jax
    import jax.numpy as jnp

    from ..engine import joined
    from ..recordings import Recording, record
    from ..study.runs import TRAJECTORY, part_size, written_frames

    system = system.prepared(start)
    every = options.every or max(1, options.steps // 20)
    windows = max(1, options.steps // every)
    times = np.arange(windows + 1) * (every * step.inside)
    whole = system.encode(start)  # with its cell, where that changes: its density is an output
    names = list(jax.eval_shape(lambda atoms: system.outputs(0.0, atoms, None), whole))
    asked: dict[str, Any] = {
        "store": folder / PARTS,
        "every": part_size(windows),
        "probes": names,
        "step": step.inside,
        "key": jax.random.key(options.seed + 1),
        "progress": False,
    }
    kept = has_parts(folder)
    if kept:
        with _other_run(folder):
            record(system, start, times[:2], **asked)  # computes nothing, as there is a part
        say(f"goes on with what is kept in {folder}")
    say(f"run      {windows * every} steps of {step.inside:.4g}, {system.dynamics.name}")
    table = Rows(system, whole, names)
    for part in zip(*(column.head for column in table.columns), strict=True):
        say("".join(f"{word:>15}" for word in part))
    runs, outputs = [], []
    with (
        written_frames(system, folder / TRAJECTORY, True) as keep,
        (folder / TABLE).open("w", encoding="utf-8", newline="") as file,
    ):
        rows = csv.writer(file)
        rows.writerow([" ".join(column.head).strip() for column in table.columns])

        def take(recording: Recording) -> None:
            for index in range(len(runs), recording.parts):
                run, values = recording.part(index)
                for numbers in table.of(np.asarray(run.times), values, index == 0):
                    rows.writerow([f"{number:.10g}" for number in numbers])
                    say("".join(f"{number:15.6g}" for number in numbers))
                file.flush()
                if table.bad is not None:
                    raise SimulationError(f"The run blew up: it reached {table.bad}. {step.advice()}")
                keep(run, values)
                runs.append(run)
                outputs.append(values)

        try:
            recorded = record(system, start, times, **asked, within=options.within, callback=take)
        except SimulationError as error:
            if table.bad is not None or not step.is_long:
                raise
            where = str(error).partition(". ")[0] if options.minimise else str(error).removesuffix(".")
            raise SimulationError(f"{where}. {step.advice()}") from error
        take(recorded)
    series = {name: jnp.concatenate([jnp.asarray(part[name]) for part in outputs]) for name in names}
    return joined(runs), series, recorded.cut


def has_parts(folder: Path) -> bool:
    """True where a part of a run is finished in the folder."""
    return any((folder / PARTS).glob("part-*.h5"))


@contextlib.contextmanager
def _other_run(folder: Path) -> Iterator[None]:
    """Name the options where the folder holds another run."""
    try:
        yield
    except StoreError as error:
        said = str(error)
        if "belongs to another" not in said and "other times" not in said:
            raise
        named = [option for word, option in OPTIONS.items() if word in said]
        what = f"with another {' and '.join(named)}" if named else "of other files or options"
        raise StoreError(
            f"The folder `{folder}` holds a run {what}. Give the files and options of its first call, choose another folder with "
            "--out, or allow --overwrite."
        ) from error


class Column(NamedTuple):
    """A column of the table: its name and unit, and its number from the outputs of a time."""

    head: tuple[str, str]
    of: Callable[[dict[str, float]], float]


def _columns(system: Any, names: Sequence[str]) -> list[Column]:
    from ..md import OUTPUT_DIMENSIONS, REDUCED

    units = system.units

    def column(name: str) -> Column:
        dimension = OUTPUT_DIMENSIONS.get(name, name)
        if dimension == "pressure" and units != REDUCED:
            return Column((name, "bar"), lambda here: float(units.to_unit(here[name], "pressure", "bar")))
        title = name.removesuffix("_energy")
        return Column((title, units.unit(dimension)), lambda here: float(units.outside(here[name], dimension)))

    shown = ("temperature", "potential_energy", "kinetic_energy", "pressure", "density")
    return [column("time"), *(column(name) for name in shown if name in names)]


def averaged(system: Any, run: Any, outputs: dict[str, Any]) -> tuple[list[dict[str, Any]], list[str]]:
    """Averages over the second half of the run, where these are frames enough, and their lines."""
    from ..md import FEWEST, from_outputs

    after = 0.5 * float(run.times[-1])
    if int(np.sum(np.asarray(run.times) >= after)) < FEWEST:
        return [], []
    found = from_outputs(system, run, outputs, after=after)
    warnings, wanted = found.warnings(), float(system.dynamics.temperature)
    mean = float(found.average("temperature").mean)
    if abs(mean - wanted) > 0.1 * wanted:
        warnings.append(
            f"The temperature of the second half is {mean:.4g} and not {wanted:.4g}: from a minimum it takes some ps to warm up. "
            "The same command with more --steps, and the same --every, goes on."
        )
    return found.table(), [f"\n{found}\n", *(f"Warning: {line}" for line in warnings)]
