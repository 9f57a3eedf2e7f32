"""simkit on the command line."""

import argparse
import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .._errors import SimkitError
from ._environment import keep_interrupts, set_devices, set_jax
from ._files import check_free
from ._options import count, jax_options, outside_option, seed, study_options
from ._signals import NOTHING, Terminated, leave, obeyed_signals, telling

EXAMPLES = """examples:
  simkit doctor                          what simkit runs on here, and whether it works
  simkit examples                        stories and studies to start from; simkit examples NAME copies one
  simkit new study.toml                  write a commented study file to start from
  simkit new --package my-models         write a package for a system of your own, which studies find by name
  simkit run study.toml                  fit, sample, predict; report.html and result.h5 in results/study
  simkit run study.toml --out try2       ... in another folder
  simkit fit study.toml                  the fit alone: fast, for finding out whether the model can follow the data
  simkit sweep study.toml --workers 4    all members of its table [sweep]; called again, it goes on
  simkit models                          the models that a study can name
  simkit models lotka_volterra           one of them: equation, names, units, good values
  simkit explain study.toml              what compiles, how long that takes, what is computed and which lines compute it
  simkit reproduce results/study/result.h5   run it again from what the file holds, and compare

Exit codes: 0 done, 1 reproduced numbers differ or a sweep set chunks aside, 2 bad input (one message says what and
where), 130 interrupted, 143 terminated (what is finished is kept). More of one command: simkit COMMAND --help"""

RUN = """What it does, one phase after the other, each saved as soon as it is done (within fit and sample every few starts and
draws as well: a run that was interrupted or killed goes on when it is called again):
  fit       from many starts, so that a local optimum is seen for what it is
  sample    the posterior distribution, from the fit
  predict   bands for the model and for new data
  profile   profile likelihoods, where the study has [profile] (or is a PEtab problem of up to 20 parameters)
  report    report.html with tables, figures, warnings in words and provenance

A study of particles without experiments is simulated: averages with their errors, trajectory.h5md and report.html.

The study file says all of this; `simkit new study.toml` writes one to start from."""

SWEEP = """Members are computed in chunks, each a file of its own that is whole or not there: an interrupt, a crash or a full
disk costs the chunks at hand, and the same command goes on with what is missing. view.h5 is one HDF5 file over all of them.

More than one worker takes Dask where it is installed (pip install "simkit[dask]"), else a pool of processes."""

INTERRUPTED, TERMINATED = 130, 143

Handler = Callable[[argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command `simkit`; returns the exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    parser = build_parser()
    options = parser.parse_args(words)
    options.command_line = " ".join(["simkit", *words])
    own = arguments is None  # the process is that of the command
    watched = own and not getattr(options, "debug", False)  # a debugger has its own use for Ctrl-C
    code = 0
    try:
        with keep_interrupts(), obeyed_signals() if watched else contextlib.nullcontext():
            code = options.handler(options)
    except KeyboardInterrupt as error:
        print(f"\n{NOTHING}", file=sys.stderr)
        code = TERMINATED if isinstance(error, Terminated) else INTERRUPTED
    except SimkitError as error:
        print(f"simkit: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader, such as `head`, has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"simkit: {error}", file=sys.stderr)
        return 2
    if own and code in (INTERRUPTED, TERMINATED):
        leave(code)
    return code


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="simkit",
        description="Simulate, fit and infer: one study file in, parameters with honest uncertainty out.",
        epilog=EXAMPLES,
        formatter_class=layout,
    )
    parser.add_argument("--version", action="version", version=f"simkit {_version()}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def command(name: str, handler: Handler, text: str, more: str = "") -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text, epilog=more, formatter_class=layout)
        made.set_defaults(handler=handler, name=name)
        return made

    for name, text in (
        ("run", "fit, sample, predict and report a study"),
        ("fit", "fit a study and predict at the estimate"),
        ("sample", "fit a study and sample its posterior distribution"),
    ):
        made = command(name, _run, text, RUN if name == "run" else "")
        study_options(made)
    study_options(command("simulate", _simulate, "simulate a study at the values in its file; no data are needed"))
    made = command("sweep", _sweep, "simulate all members of a study's [sweep]; called again, it goes on", SWEEP)
    made.add_argument("study", type=Path, help="a study file (TOML) with a table [sweep]")
    made.add_argument("--workers", type=count, default=1, help="how many processes; 1 by default, which is this one")
    made.add_argument("--store", type=Path, help="the folder; by default results/NAME-sweep for NAME.toml")
    outside_option(made)
    made.add_argument("--seed", type=seed, help="in place of the study's own")
    jax_options(made)
    made = command("report", _report, "write the report of a result file again")
    made.add_argument("file", type=Path, help="a result file, such as results/study/result.h5")
    made.add_argument("--out", type=Path, help="where to write; by default report.html beside the result file")
    made.add_argument("--overwrite", action="store_true", help="replace a report that is there")
    made = command("reproduce", _reproduce, "run the study of a result file again and compare the numbers")
    made.add_argument("file", type=Path, help="a result file; it holds its study and its data")
    jax_options(made)
    made = command(
        "explain", _explain, "say what JAX makes of a study: what compiles, what it computes and holds, and where"
    )
    made.add_argument("study", type=Path, help="a study file (TOML)")
    made.add_argument("--json", action="store_true", help="print JSON, for machines")
    made.add_argument("--svg", type=Path, help="also draw the flow of the data into this file")
    outside_option(made)
    jax_options(made)
    made = command(
        "replay", _replay, "open the file of a simulation that broke, and take the broken step outside of compiled code"
    )
    made.add_argument("file", type=Path, help="such as results/study-simulate/failure.h5")
    made.add_argument(
        "model", help="the study file, or MODULE:FUNCTION of a function that returns system and initial state"
    )
    made.add_argument("--debug", action="store_true", help="stop in a debugger before the step")
    outside_option(made)
    jax_options(made)
    made = command("models", _models, "list the models, or show one")
    made.add_argument("model", nargs="?", help="a model's name")
    made = command("examples", _examples, "list the examples, or copy one into a folder with the data it reads")
    made.add_argument("example", nargs="?", help="an example's name")
    made.add_argument("--into", type=Path, default=Path(), help="the folder; by default this one")
    made.add_argument("--overwrite", action="store_true", help="replace a file that is there")
    made = command("doctor", _doctor, "report versions, devices, precision and cache, and check a small simulation")
    jax_options(made)
    made = command("new", _new, "write a commented study file to start from; it runs as it stands")
    made.add_argument(
        "file", type=Path, nargs="?", default=Path("study.toml"), help="where to write; study.toml by default"
    )
    made.add_argument(
        "--package",
        metavar="NAME",
        help="write a package instead, for a system of your own that studies find by name, into a folder of that name",
    )
    made.add_argument("--overwrite", action="store_true", help="replace a file that is there")
    return parser


def _run(options: argparse.Namespace) -> int:
    from ..study import load_study
    from ..study.runs import PHASES, UNFINISHED, Found, check_folder, is_simulation, run
    from ._show import parameter_table, warning_lines

    folder = _folder(options)
    check_folder(folder, options.overwrite or (folder / UNFINISHED).is_dir())
    set_devices()
    set_jax(x64=not options.float32, cache=not options.no_cache)
    study = load_study(options.study, seed=options.seed, allow_outside=options.allow_outside)
    if options.name == "run" and is_simulation(study):
        return _particles(options, study, folder)
    if options.name == "run" and study.simulate and not study.experiments:
        return _simulated(options, study, folder)
    phases = {"run": PHASES, "fit": ("fit", "predict", "profile"), "sample": ("fit", "sample")}[options.name]
    print(study.title, flush=True)
    kept: list[Found] = []
    left = lambda: _left(kept, (folder / UNFINISHED).is_dir())
    try:
        with telling(left):
            found = run(
                study,
                folder,
                phases,
                overwrite=options.overwrite,
                say=_say,
                command=options.command_line,
                found_so_far=kept,
                report=_reported,
            )
    except KeyboardInterrupt as error:
        return _stopped(error, left())
    print()
    print(parameter_table(found.fit, found.posterior))
    print()
    for line in warning_lines(found):
        print(line)
    print(f"Results, report and figures are in {folder}:")
    for file in found.files:
        print(f"  {file}")
    return 0


def _particles(options: argparse.Namespace, study: Any, folder: Path) -> int:
    """Simulate a study of particles and print its averages."""
    from ..study.runs import TRAJECTORY, run_particles

    print(study.title, flush=True)
    kept = lambda: f" The frames so far are kept in {folder / TRAJECTORY}." if (folder / TRAJECTORY).exists() else ""
    left = lambda: f"Interrupted.{kept()}"
    try:
        with telling(left):
            asked = {"overwrite": options.overwrite, "say": _say, "command": options.command_line}
            found = run_particles(study, folder, report=_reported, **asked)
    except KeyboardInterrupt as error:
        return _stopped(error, left())
    assert found.averages is not None
    print(f"\n{found.averages}\n")
    for line in found.averages.warnings():
        print(f"Warning: {line}")
    print(f"Results, report and figures are in {folder}:")
    for file in found.files:
        print(f"  {file}")
    return 0


def _left(kept: Sequence[Any], goes_on: bool) -> str:
    """Describe the results that an interrupt has left."""
    text = "Interrupted before a phase was finished."
    if kept:
        done = [name for name in ("fit", "posterior", "prediction", "profiles") if getattr(kept[0], name) is not None]
        text = f"Interrupted. Finished and kept in {kept[0].files[0]}: {', '.join(done)}."
    return f"{text}\nThe same command goes on from what is kept." if goes_on else text


def _stopped(error: KeyboardInterrupt, text: str) -> int:
    """Say what an interrupt has left; the exit code."""
    print(f"\n{text}", file=sys.stderr)
    return TERMINATED if isinstance(error, Terminated) else INTERRUPTED


def _simulate(options: argparse.Namespace) -> int:
    from ..study import load_study
    from ..study.runs import check_folder, is_simulation

    folder = _folder(options)
    check_folder(folder, options.overwrite)
    set_devices()
    set_jax(x64=not options.float32, cache=not options.no_cache)
    study = load_study(options.study, seed=options.seed, allow_outside=options.allow_outside)
    if is_simulation(study):
        return _particles(options, study, folder)
    return _simulated(options, study, folder)


def _simulated(options: argparse.Namespace, study: Any, folder: Path) -> int:
    """Simulate a study and print how it went."""
    from ..study.runs import REPORT, RESULT, simulate_study

    print(study.title, flush=True)
    trajectory = simulate_study(study, folder, command=options.command_line)
    written = _reported(folder / RESULT, folder / REPORT)
    print(trajectory)
    print(f"Results, report and figures are in {folder}:")
    for file in [folder / RESULT, *written]:
        print(f"  {file}")
    return 0


def _sweep(options: argparse.Namespace) -> int:
    from ..study import load_study
    from ..study.runs import finished_so_far, sweep_study
    from ._workers import workers

    store = options.store or Path("results") / f"{options.study.stem}-sweep"
    set_devices()
    set_jax(x64=not options.float32, cache=not options.no_cache)
    study = load_study(options.study, allow_outside=options.allow_outside)
    print(study.title, flush=True)

    def left() -> str:
        if not (store / "manifest.json").exists():
            return NOTHING
        return f"Interrupted. Finished and kept in {store}: {finished_so_far(store)}.\nThe same command goes on from there."

    try:
        with telling(left), workers(options.workers, cache=not options.no_cache) as executor:
            found = sweep_study(study, store, seed=options.seed, executor=executor, progress=True)
    except KeyboardInterrupt as error:
        return _stopped(error, left())
    print(found)
    return 1 if found.set_aside else 0


def _report(options: argparse.Namespace) -> int:
    from ..io import load
    from ..report import write_report

    set_jax(x64=True, cache=True)
    path = options.out or options.file.parent / "report.html"
    results = load(options.file)
    check_free(path, options.overwrite, "with --out")
    for file in write_report(results, path):
        print(file)
    return 0


def _reproduce(options: argparse.Namespace) -> int:
    from .._errors import ArgumentError
    from ..io import load, load_provenance
    from ..study import study_from_provenance
    from ..study.runs import Found, average_particles, changes, comparisons, compute

    made = load_provenance(options.file)
    if not made.study:
        raise ArgumentError(f"`{options.file}` was not made from a study file, so it cannot be run again from here.")
    # The same number of devices and the same float type give the same program, and so the same bits.
    set_devices(made.devices)
    set_jax(x64=made.float_type == "float64" and not options.float32, cache=not options.no_cache)
    results = load(options.file)
    study = study_from_provenance(made)
    print(f"{study.title}, made {made.date} with seed {made.seed}", flush=True)
    parts = {
        "fit": results.fit,
        "sample": results.posterior,
        "predict": results.prediction,
        "profile": results.profiles,
    }
    if results.averages is not None:
        found = Found()
        found.averages = average_particles(study, found, say=_say)
    else:
        phases = [phase for phase, part in parts.items() if part is not None]
        # A store cuts the work into the same parts as that of the first run, which rounding depends on.
        with tempfile.TemporaryDirectory() as store:
            found = compute(study, phases, seed=made.seed, say=_say, store=Path(store))
    for line in changes(results):
        print(f"  {line}")
    rows = comparisons(results, found)
    for row in rows:
        print(f"{row.part:<11} {row.verdict}" + (f": {row.text}" if row.text else ""))
    return 1 if any(row.verdict == "different" for row in rows) else 0


def _explain(options: argparse.Namespace) -> int:
    from ..stores import write_text
    from ..study import load_study
    from ..study.runs import explain_study

    set_devices()
    set_jax(x64=not options.float32, cache=False)  # compiled programs from disk would hide what compiling costs
    found = explain_study(load_study(options.study, allow_outside=options.allow_outside))
    print(found.to_json() if options.json else found)
    if options.svg is not None:
        write_text(options.svg, found.svg())
    return 0


def _replay(options: argparse.Namespace) -> int:
    from ._replay import model_of, replay

    set_devices()
    set_jax(x64=not options.float32, cache=not options.no_cache)
    replay(options.file, model_of(options.model, allow_outside=options.allow_outside), debug=options.debug)
    return 0


def _models(options: argparse.Namespace) -> int:
    from ._show import describe_model, list_models

    print(list_models() if options.model is None else describe_model(options.model))
    return 0


def _examples(options: argparse.Namespace) -> int:
    from ._examples import copy_example, list_examples, next_steps

    if options.example is None:
        print(list_examples())
        return 0
    copied = copy_example(options.example, options.into, overwrite=options.overwrite)
    for file in copied:
        print(file)
    print("Next:", *next_steps(copied[0]), sep="\n  ")
    return 0


def _doctor(options: argparse.Namespace) -> int:
    from ._doctor import examine

    set_jax(x64=not options.float32, cache=not options.no_cache)
    lines = examine()
    width = max(len(line.name) for line in lines)
    for line in lines:
        print(f"  {line.name:<{width}}  {line.text}")
    faults = [line for line in lines if line.fault]
    for line in faults:
        print(f"To do: {line.fault}   ({line.name})")
    if not faults:
        print("All is well.")
    return 1 if faults else 0


def _new(options: argparse.Namespace) -> int:
    from ._new import write_new_package, write_new_study

    if options.package is not None:
        folder, files = write_new_package(options.package, options.overwrite)
        print(*files, sep="\n")
        print("Next:", f"cd {folder}", 'pip install -e ".[test]"', "pytest", "simkit run study.toml", sep="\n  ")
        return 0
    path: Path = options.file
    write_new_study(path, options.overwrite)
    print(f"Wrote {path}. It runs as it stands: simkit run {path}")
    return 0


def _reported(result: Path, path: Path) -> list[Path]:
    """Write the report of a result file."""
    from ..io import load
    from ..report import write_report

    return write_report(load(result), path)


def _folder(options: argparse.Namespace) -> Path:
    """The output folder: each command has one of its own, so that none stands in another's way."""
    stem = options.study.stem
    return options.out or Path("results") / (stem if options.name == "run" else f"{stem}-{options.name}")


def _say(line: str) -> None:
    print(line, flush=True)


def _version() -> str:
    from .. import __version__

    return __version__
