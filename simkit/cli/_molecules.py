"""The command `simkit md`: molecules from files, relaxed and run at a temperature."""

import argparse
import csv
import dataclasses
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._errors import ArgumentError
from ._answer import answer, say_of
from ._environment import set_devices, set_jax
from ._runs import cut_short, stopped
from ._signals import telling

TOPOLOGIES = (".prmtop", ".parm7", ".top", ".psf")
COORDINATES = (".inpcrd", ".rst7", ".crd", ".restrt", ".gro", ".pdb", ".ent", ".cif", ".mmcif")
LAMMPS = (".data", ".lmp", ".lmpdat")
START, TABLE, PARTS = "start.h5md", "table.csv", "run"


class Asked(NamedTuple):
    """The files of a command: the one to read, and those that it is read with."""

    path: Path
    coordinates: Path | None
    force_field: tuple[str, ...]
    commands: str | None

    @classmethod
    def of(cls, files: Sequence[Path]) -> "Asked":
        """Tell files apart by their endings, in any order."""
        from_lammps = [file for file in files if file.suffix.lower() in LAMMPS or file.name.startswith("data.")]
        if from_lammps:
            inputs = [file for file in files if file not in from_lammps]
            if len(from_lammps) > 1 or len(inputs) > 1:
                raise ArgumentError(
                    "Give one data file of LAMMPS and one file of its commands, such as `simkit md water.data in.water`, but "
                    f"these are {', '.join(map(str, files))}."
                )
            return cls(from_lammps[0], None, (), "\n".join(map(_text, inputs)))
        path = next((file for file in files if file.suffix.lower() in TOPOLOGIES), files[0])
        rest = [file for file in files if file != path]
        placed = [file for file in rest if file.suffix.lower() in COORDINATES]
        if len(placed) > 1:
            raise ArgumentError(
                f"Give one file of coordinates for {path}, but these are {', '.join(map(str, placed))}."
            )
        fields = tuple(str(file) for file in rest if file not in placed)
        return cls(path, placed[0] if placed else None, fields, None)


def run_molecules(options: argparse.Namespace) -> int:
    from ..study.runs import TRAJECTORY, check_is_folder

    asked = Asked.of(options.files)
    folder = options.out or Path("results") / f"{asked.path.stem}-md"
    check_is_folder(folder)
    set_devices()
    set_jax(x64=not options.float32, cache=not options.no_cache)
    if options.overwrite and folder.exists():
        for name in (START, TABLE, TRAJECTORY):
            (folder / name).unlink(missing_ok=True)
        shutil.rmtree(folder / PARTS, ignore_errors=True)
    say = say_of(options)
    model = _read(asked, options, dynamics=None)
    dynamics, step = _dynamics(model, options)
    model = dataclasses.replace(model, system=dataclasses.replace(model.system, dynamics=dynamics))
    for line in _described(model, asked.path):
        say(line)
    left = lambda: f"Interrupted. What is finished is kept in {folder}, and the same command goes on."
    try:
        with telling(left):
            start = _start(model, asked, options, folder, say)
            found, outputs, cut = _run(model.system, start, step, options, folder, say)
    except KeyboardInterrupt as error:
        return stopped(options, error, left())
    files = [folder / name for name in (START, TRAJECTORY, TABLE)]
    if cut:
        return cut_short(
            options, f"The time of `--within` was up at {float(found.times[-1]):g}. The same command goes on."
        )
    averages, lines = _averaged(model.system, found, outputs)
    where = [f"Trajectory and table are in {folder}:", *(f"  {file}" for file in files)]
    content = {"atoms": len(start.position), "terms": model.names, "averages": averages}
    answer(options, "\n".join([*lines, *where]), command="md", folder=folder, files=files, **content)
    return 0


def _text(path: Path) -> str:
    if not path.is_file():
        raise ArgumentError(f"There is no file `{path}`. Give the commands that name styles and coefficients.")
    return path.read_text(encoding="utf-8")


def _read(asked: Asked, options: argparse.Namespace, dynamics: Any, flexible: bool = False) -> Any:
    from ..md import read, read_lammps

    if asked.commands is not None:
        if options.constraints not in (None, "none"):
            raise ArgumentError(
                "`--constraints` goes with files that OpenMM reads, but a data file of LAMMPS holds no bonds here. Leave it out."
            )
        return read_lammps(asked.path, asked.commands, dynamics=dynamics)
    held: Any = {None: "hydrogens", "none": None, "angles": "hydrogen angles"}.get(
        options.constraints, options.constraints
    )
    return read(
        asked.path,
        asked.force_field or None,
        coordinates=asked.coordinates,
        cutoff=options.cutoff,
        constraints=None if flexible else held,
        rigid_water=not flexible,
        dynamics=dynamics,
    )


def _dynamics(model: Any, options: argparse.Namespace) -> tuple[Any, float]:
    """The dynamics at the temperature, and pressure, that are asked for; and the step in the unit of time."""
    from ..md import REDUCED, Langevin, OpenSpace, StochasticCellRescaling

    units, real = model.system.units, model.system.units != REDUCED
    long = 2.0 if model.system.constraints is not None else 1.0
    femtoseconds = lambda value: units.from_unit(value, "time", "fs")
    given = options.step if options.step is not None else (long if real else 0.005)
    step = float(femtoseconds(given)) if real else given
    temperature = options.temperature if options.temperature is not None else (300.0 if real else 1.0)
    for name, value in (("--step", step), ("--temperature", temperature)):
        if value <= 0:
            raise ArgumentError(f"`{name}` must be positive, but is {value:g}.")
    if options.pressure is None:
        slow: tuple[Any, ...] = (temperature, 1.0 / femtoseconds(1000.0) if real else 1.0)
        return Langevin(*slow), step
    if isinstance(model.system.space, OpenSpace):
        raise ArgumentError("`--pressure` needs a periodic cell, but the files have none. Leave it out.")
    # The compressibility of water, and in reduced units that of a Lennard-Jones liquid: only how fast the cell follows rests on it.
    bar = lambda value: units.from_unit(value, "pressure", "bar") if real else value
    soft = 0.45 / units.from_unit(1.0, "pressure", "GPa") if real else 0.1
    numbers: tuple[Any, ...] = (temperature, bar(options.pressure), 100 * step, 500 * step, soft)
    return StochasticCellRescaling(*numbers), step


def _described(model: Any, path: Path) -> Iterator[str]:
    """Lines that say what was read."""
    from ..md import OpenSpace, constraints_of

    system = model.system
    mass = float(np.sum(np.asarray(system.masses(model.start.position))))
    charge = 0.0 if system.charge is None else float(np.sum(np.asarray(system.charge)))
    sites = "" if system.sites is None else f" and {system.sites.count} virtual sites"
    residues = f" in {len(dict.fromkeys(model.residues))} residues" if model.residues else ""
    units = system.units
    weight = units.outside(mass, "mass")
    yield f"read     {path.name}: {len(model.start.position)} atoms{sites}{residues}"
    yield f"         mass {weight:.6g} {units.unit('mass')}".rstrip()
    yield f"         total charge {round(charge, 4) + 0.0:.4f} {units.unit('charge')}".rstrip()
    if isinstance(system.space, OpenSpace):
        yield "cell     none"
    else:
        edges = np.linalg.norm(np.asarray(system.space.vectors()), axis=1)
        yield f"cell     {' x '.join(f'{edge:.5g}' for edge in edges)} {units.unit('length')}".rstrip()
    yield f"terms    {', '.join(model.names)}"
    held = constraints_of(system.constraints)
    if held:
        yield f"held     {sum(one.count for one in held)} distances"
    yield f"units    {units.name}"


def _start(model: Any, asked: Asked, options: argparse.Namespace, folder: Path, say: Callable[[str], None]) -> Any:
    """The relaxed start of the run with its momenta: that of the folder, or a new one, which is kept there."""
    import jax
    import jax.numpy as jnp

    from ..io import H5MDWriter, read_h5md
    from ..md import Atoms, Frame, constraints_of, maxwell_boltzmann, obeyed

    system = model.system
    mass = system.masses(model.start.position)
    held = constraints_of(system.constraints)
    if (folder / START).exists():
        say(f"goes on with what is kept in {folder}")
    else:
        position = _relaxed(model, asked, options, say) if options.minimise else model.start.position
        position = obeyed(held, system.space, mass, position)
        frame = Frame(system.space, position, units=system.units, mass=np.asarray(mass)[:, 0])
        with H5MDWriter(folder / START, frame) as file:
            file.write(frame)
    kept = read_h5md(folder / START)[0].position
    if kept.shape != model.start.position.shape:
        raise ArgumentError(
            f"The folder `{folder}` holds the run of {len(kept)} atoms, but {asked.path} has {len(model.start.position)}. Choose "
            "another with --out, or allow --overwrite."
        )
    position = jnp.asarray(kept, model.start.position.dtype)
    warm, boltzmann = system.dynamics.temperature, system.units.boltzmann
    momentum = maxwell_boltzmann(jax.random.key(options.seed), mass[:, 0], warm, boltzmann=boltzmann)
    for one in held:
        momentum = one.tangent(system.space, mass, position, momentum)
    return Atoms(position, momentum)


def _relaxed(model: Any, asked: Asked, options: argparse.Namespace, say: Callable[[str], None]) -> Any:
    """Positions at a minimum of the energy, of bonds that may stretch; or as near to it as the steps reach."""
    from ..md import LBFGS, REDUCED, minimise

    loose = model if model.system.constraints is None else _read(asked, options, None, flexible=True)
    units, temperature = model.system.units, float(model.system.dynamics.temperature)
    angstrom = 1.0 if units == REDUCED else float(units.from_unit(1.0, "length", "Angstrom"))
    tolerance = units.boltzmann * temperature / angstrom
    say(
        f"minimise until the largest force is {tolerance:.3g}, k_B T over {'sigma' if units == REDUCED else 'an angstrom'} ..."
    )
    system = loose.system.prepared(loose.start)
    before = float(system.energy(loose.start))
    found = minimise(
        system,
        loose.start,
        method=LBFGS(most=0.1 * angstrom),
        tolerance=tolerance,
        max_steps=options.minimise,
        on_failure="mark",
    )
    energy = f"energy {before:.6g} -> {float(found.energy):.6g} {units.unit('energy')}".rstrip()
    short = "" if int(found.status) == 0 else ": not a minimum yet, give --minimise more steps"
    say(f"         {energy}, largest force {float(found.largest_force):.3g} after {int(found.steps)} steps{short}")
    if not np.isfinite(np.asarray(found.atoms.position)).all():
        raise ArgumentError(
            f"The energy of {asked.path} must be finite, but the search for a minimum left numbers. Atoms lie on each other, or "
            "the cell is not that of the coordinates."
        )
    return found.atoms.position


def _run(
    system: Any, start: Any, step: float, options: argparse.Namespace, folder: Path, say: Callable[[str], None]
) -> tuple[Any, dict[str, Any], bool]:
    """Record the run part by part, with a line, a row of the table and frames for each save time."""
    import jax
    import jax.numpy as jnp

    from ..engine import joined
    from ..recordings import Recording, record
    from ..study.runs import TRAJECTORY, part_size, written_frames

    system = system.prepared(start)
    every = options.every or max(1, options.steps // 20)
    windows = max(1, options.steps // every)
    times = np.arange(windows + 1) * (every * step)
    whole = system.encode(start)  # with its cell, where that changes: its density is an output
    names = list(jax.eval_shape(lambda atoms: system.outputs(0.0, atoms, None), whole))
    say(f"run      {windows * every} steps of {step:.4g}, {system.dynamics.name}")
    columns = _columns(system, names)
    for part in zip(*(column.head for column in columns), strict=True):
        say("".join(f"{word:>15}" for word in part))
    runs, outputs = [], []
    with (
        written_frames(system, folder / TRAJECTORY, True) as keep,
        (folder / TABLE).open("w", encoding="utf-8", newline="") as file,
    ):
        rows = csv.writer(file)
        rows.writerow([" ".join(column.head).strip() for column in columns])

        def take(recording: Recording) -> None:
            for index in range(len(runs), recording.parts):
                run, values = recording.part(index)
                keep(run, values)
                for k, time in enumerate(np.asarray(run.times)):
                    here = {"time": float(time)} | {name: float(value[k]) for name, value in values.items()}
                    numbers = [column.of(here) for column in columns]
                    rows.writerow([f"{number:.10g}" for number in numbers])
                    say("".join(f"{number:15.6g}" for number in numbers))
                file.flush()
                runs.append(run)
                outputs.append(values)

        recorded = record(
            system,
            start,
            times,
            store=folder / PARTS,
            every=part_size(windows),
            probes=names,
            step=step,
            key=jax.random.key(options.seed + 1),
            within=options.within,
            callback=take,
            progress=False,
        )
        take(recorded)
    series = {name: jnp.concatenate([jnp.asarray(part[name]) for part in outputs]) for name in names}
    return joined(runs), series, recorded.cut


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


def _averaged(system: Any, run: Any, outputs: dict[str, Any]) -> tuple[list[dict[str, Any]], list[str]]:
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
