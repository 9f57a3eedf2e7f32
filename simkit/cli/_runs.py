"""Commands that run a study: run, fit, sample, simulate, sweep."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .._errors import ArgumentError
from ._answer import answer, error_json, say_of
from ._environment import set_devices, set_jax
from ._options import chosen_models
from ._signals import NOTHING, Terminated, telling

TIME_UP, INTERRUPTED, TERMINATED = 124, 130, 143
GOES_ON = "\nThe same command goes on from what is kept."


def run(options: argparse.Namespace) -> int:
    from ..report import parameter_rows
    from ..study.runs import PHASES, UNFINISHED, Found, check_is_folder, is_simulation, run
    from ._show import parameter_table, warning_lines

    folder = _folder(options)
    check_is_folder(folder)
    set_devices()
    set_jax(x64=not options.float32, cache=not options.no_cache)
    study = _study(options, seed=options.seed)
    if options.name == "run" and (is_simulation(study) or (study.simulate and not study.experiments)):
        _refuse_within(options)
    if options.name == "run" and is_simulation(study):
        return _particles(options, study, folder)
    if study.assimilate:
        return _assimilated(options, study, folder)
    if options.name == "run" and study.simulate and not study.experiments:
        return _simulated(options, study, folder)
    say = say_of(options)
    phases = {"run": PHASES, "fit": ("fit", "predict", "profile"), "sample": ("fit", "sample")}[options.name]
    say(study.title)
    kept: list[Found] = []
    left = lambda opening="Interrupted. ": _left(kept, (folder / UNFINISHED).is_dir(), opening)
    try:
        with telling(left):
            found = run(
                study,
                folder,
                phases,
                overwrite=options.overwrite,
                say=say,
                command=options.command_line,
                found_so_far=kept,
                report=_reported,
                within=options.within,
            )
    except KeyboardInterrupt as error:
        return stopped(options, error, left())
    if found.cut:
        return cut_short(options, f"{found.cut}\n{left('')}")
    _keep_sources(study, folder)
    told = parameter_table(found.fit, found.posterior) if found.field_fit is None else repr(found.field_fit)
    lines = ["", told, "", *warning_lines(found)]
    content = {
        "parameters": parameter_rows(found.fit, found.posterior),
        "warnings": [line.removeprefix("Warning: ") for line in warning_lines(found)],
        "seconds": found.seconds,
    }
    return _ended(options, study, folder, found.files, lines, content)


def _ended(
    options: argparse.Namespace,
    study: Any,
    folder: Path,
    files: Sequence[Path],
    lines: Sequence[str],
    content: Mapping[str, Any],
) -> int:
    """Print the results of a command and where they are; the exit code."""
    where = [f"Results, report and figures are in {folder}:", *(f"  {file}" for file in files)]
    text = "\n".join([*lines, *where])
    answer(options, text, command=options.name, title=study.title, folder=folder, files=files, **content)
    return 0


def _refuse_within(options: argparse.Namespace) -> None:
    """A simulation of a study without data is one piece of work, which no time cuts."""
    if options.within is not None:
        raise ArgumentError(
            f"`--within` goes with fits, samples and sweeps, but `{options.study}` is a simulation, which takes the time that it "
            "takes. Leave it out; Ctrl-C keeps what is finished of particles and of [simulate] with `every`."
        )


def _particles(options: argparse.Namespace, study: Any, folder: Path) -> int:
    """Simulate a study of particles and print its averages."""
    from ..study.runs import TRAJECTORY, run_particles

    say = say_of(options)
    say(study.title)
    kept = lambda: f" The frames so far are kept in {folder / TRAJECTORY}." if (folder / TRAJECTORY).exists() else ""
    left = lambda: f"Interrupted.{kept()}"
    try:
        with telling(left):
            asked = {"overwrite": options.overwrite, "say": say, "command": options.command_line}
            found = run_particles(study, folder, report=_reported, **asked)
    except KeyboardInterrupt as error:
        return stopped(options, error, left())
    assert found.averages is not None
    warnings = found.averages.warnings()
    lines = [f"\n{found.averages}\n", *(f"Warning: {line}" for line in warnings)]
    return _ended(
        options, study, folder, found.files, lines, {"averages": found.averages.table(), "warnings": warnings}
    )


def _assimilated(options: argparse.Namespace, study: Any, folder: Path) -> int:
    """Find the states of a study and print how far they can be trusted."""
    from ..study.runs import UNFINISHED, run_assimilation

    if options.name != "run":
        raise ArgumentError(
            f"`{options.study}` has [assimilate], which finds states: call `simkit run {options.study}`."
        )
    say = say_of(options)
    say(study.title)
    left = lambda: "Interrupted before the last time." + GOES_ON * (folder / UNFINISHED).is_dir()
    asked = {"overwrite": options.overwrite, "say": say, "command": options.command_line, "within": options.within}
    try:
        with telling(left):
            found = run_assimilation(study, folder, report=_reported, **asked)
    except KeyboardInterrupt as error:
        return stopped(options, error, left())
    if found.cut:
        return cut_short(options, found.cut + GOES_ON)
    assert found.assimilation is not None
    _keep_sources(study, folder)
    content = {"assimilation": dict(found.assimilation.facts())}
    return _ended(options, study, folder, found.files, [f"\n{found.assimilation}\n"], content)


def _left(kept: Sequence[Any], goes_on: bool, opening: str) -> str:
    """Describe the results that an interrupt, which `opening` says, or the end of the time has left."""
    text = "Interrupted before a phase was finished."
    if kept:
        done = [name for name in ("fit", "posterior", "prediction", "profiles") if getattr(kept[0], name) is not None]
        text = f"{opening}Finished and kept in {kept[0].files[0]}: {', '.join(done)}."
    return f"{text}{GOES_ON}" if goes_on else text


def stopped(options: argparse.Namespace, error: KeyboardInterrupt, text: str) -> int:
    """Say what an interrupt has left; the exit code."""
    print(f"\n{text}", file=sys.stderr)
    terminated = isinstance(error, Terminated)
    if options.json:
        print(error_json("terminated" if terminated else "interrupted", type(error).__name__, text))
    return TERMINATED if terminated else INTERRUPTED


def cut_short(options: argparse.Namespace, text: str) -> int:
    """Say what was done when the time was up; the exit code."""
    print(f"\n{text}", file=sys.stderr)
    if options.json:
        print(error_json("time-up", "TimeUpError", text))
    return TIME_UP


def simulate(options: argparse.Namespace) -> int:
    from ..study.runs import check_is_folder, is_simulation

    folder = _folder(options)
    check_is_folder(folder)
    set_devices()
    set_jax(x64=not options.float32, cache=not options.no_cache)
    study = _study(options, seed=options.seed)
    if is_simulation(study):
        return _particles(options, study, folder)
    return _simulated(options, study, folder)


def _simulated(options: argparse.Namespace, study: Any, folder: Path) -> int:
    """Simulate a study and print how it went."""
    from ..study.runs import REPORT, RESULT, UNFINISHED, check_folder, identity, simulate_study

    say, own = say_of(options), identity(study)
    check_folder(folder, own, overwrite=options.overwrite or (folder / UNFINISHED / own).is_dir())
    say(study.title)
    asked = {"overwrite": options.overwrite, "say": say, "command": options.command_line}
    trajectory = simulate_study(study, folder, **asked)
    _keep_sources(study, folder)
    written = _reported(folder / RESULT, folder / REPORT)
    content = {"failures": trajectory.failures(), "times": len(trajectory.times), "solver": trajectory.solver}
    return _ended(options, study, folder, [folder / RESULT, *written], [str(trajectory)], content)


def sweep(options: argparse.Namespace) -> int:
    from ..study.runs import finished_so_far, sweep_study
    from ._workers import workers

    store = options.out or Path("results") / f"{options.study.stem}-sweep"
    set_devices()
    set_jax(x64=not options.float32, cache=not options.no_cache)
    study, say = _study(options), say_of(options)
    say(study.title)

    def left() -> str:
        if not (store / "manifest.json").exists():
            return NOTHING
        return f"Interrupted. Finished and kept in {store}: {finished_so_far(store)}.\nThe same command goes on from there."

    try:
        with telling(left), workers(options.workers, cache=not options.no_cache) as executor:
            found = sweep_study(
                study, store, seed=options.seed, executor=executor, within=options.within, progress=True
            )
    except KeyboardInterrupt as error:
        return stopped(options, error, left())
    _keep_sources(study, store)
    if found.cut and found.finished < found.members:
        return cut_short(options, f"{found}\nThe time of `within` was up. The same command goes on from there.")
    content = {"members": found.members, "finished": found.finished, "failed": int((found.status > 0).sum())}
    content |= {"set_aside": list(found.set_aside), "rate": found.rate}
    written = _sweep_report(found, store, options)
    text = "\n".join([str(found), *(f"  {file}" for file in written)])
    answer(options, text, command="sweep", title=study.title, folder=store, files=[found.view, *written], **content)
    return 1 if found.set_aside else 0


def _sweep_report(found: Any, store: Path, options: argparse.Namespace) -> list[Path]:
    """Write the report of a sweep into its folder, where any member was computed."""
    from ..report import write_report

    models = chosen_models(options) if options.models else None
    return write_report(found, store / "report.html", models=models) if found.finished else []


def _reported(result: Path, path: Path) -> list[Path]:
    """Write the report of a result file."""
    from ..io import load
    from ..report import write_report

    return write_report(load(result), path)


def _folder(options: argparse.Namespace) -> Path:
    """The output folder: each command has one of its own, so that none stands in another's way."""
    stem = options.study.stem
    return options.out or Path("results") / (stem if options.name == "run" else f"{stem}-{options.name}")


def _study(options: argparse.Namespace, seed: int | None = None) -> Any:
    """The study of a command, with the models of `--models`, which are named."""
    from ..study import load_study

    models = chosen_models(options)
    study = load_study(options.study, seed=seed, allow_outside=options.allow_outside, models=models)
    if options.models:
        say_of(options)(f"models   {models!r}")
    return study


def _keep_sources(study: Any, folder: Path) -> None:
    """Put the user's own Python files beside the results."""
    from ..stores import write_text

    for name, text in study.sources.items():
        write_text(folder / name, text)
