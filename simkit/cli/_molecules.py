"""The command `simkit md`: molecules from files, relaxed and run at a temperature."""

import argparse
import dataclasses
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .._errors import ArgumentError
from ._answer import answer, say_of
from ._environment import set_devices, set_jax
from ._molecule_files import Asked
from ._molecule_run import PARTS, TABLE, Step, averaged, has_parts, run_recorded
from ._runs import cut_short, stopped
from ._signals import telling

START = "start.h5md"


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
            found, outputs, cut = run_recorded(model.system, start, step, options, folder, say)
    except KeyboardInterrupt as error:
        return stopped(options, error, left())
    files = [folder / name for name in (START, TRAJECTORY, TABLE)]
    if cut:
        return cut_short(
            options, f"The time of `--within` was up at {float(found.times[-1]):g}. The same command goes on."
        )
    averages, lines = averaged(model.system, found, outputs)
    where = [f"Trajectory and table are in {folder}:", *(f"  {file}" for file in files)]
    content = {"atoms": len(start.position), "terms": model.names, "averages": averages}
    answer(options, "\n".join([*lines, *where]), command="md", folder=folder, files=files, **content)
    return 0


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


def _dynamics(model: Any, options: argparse.Namespace) -> tuple[Any, Step]:
    """The dynamics at the temperature, and pressure, that are asked for; and the step."""
    from ..md import REDUCED, Langevin, OpenSpace, StochasticCellRescaling

    units, real = model.system.units, model.system.units != REDUCED
    held = model.system.constraints is not None
    femtoseconds = lambda value: units.from_unit(value, "time", "fs")
    good = (2.0 if held else 1.0) if real else 0.005
    given = options.step if options.step is not None else good
    inside = float(femtoseconds(given)) if real else given
    step = Step(given, "fs" if real else "", inside, good, "bonds" in model.names or held, held)
    temperature = options.temperature if options.temperature is not None else (300.0 if real else 1.0)
    for name, value, unit in (("--step", given, step.unit), ("--temperature", temperature, "K" if real else "")):
        if not 0 < value < np.inf:
            said = f"{value:g} {unit}".rstrip()
            raise ArgumentError(f"`{name}` must be a positive number, but is {said}. Leave it out for a usual one.")
    if options.pressure is None:
        slow: tuple[Any, ...] = (temperature, 1.0 / femtoseconds(1000.0) if real else 1.0)
        return Langevin(*slow), step
    if isinstance(model.system.space, OpenSpace):
        raise ArgumentError("`--pressure` needs a periodic cell, but the files have none. Leave it out.")
    # The compressibility of water, and in reduced units that of a Lennard-Jones liquid: only how fast the cell follows rests on it.
    bar = lambda value: units.from_unit(value, "pressure", "bar") if real else value
    soft = 0.45 / units.from_unit(1.0, "pressure", "GPa") if real else 0.1
    numbers: tuple[Any, ...] = (temperature, bar(options.pressure), 100 * inside, 500 * inside, soft)
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
        if not has_parts(folder):  # else the run says so, after a look at its options
            say(f"goes on with the start that is kept in {folder}")
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
