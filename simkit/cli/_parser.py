"""The parser of the command line: commands, their options and help texts."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from . import _commands, _molecules, _runs
from ._answer import error_json
from ._options import count, jax_options, models_option, outside_option, seed, study_options, within, within_option

EXAMPLES = """examples:
  simkit doctor                          what simkit runs on here, and whether it works
  simkit examples                        stories and studies to start from; simkit examples NAME copies one
  simkit new study.toml                  write a commented study file to start from
  simkit new --data my.csv               write a study of a table: times or dates, outputs, subjects from its columns
  simkit new --package my-models         write a package for a system of your own, which studies find by name
  simkit run study.toml                  fit, sample, predict; report.html and result.h5 in results/study
  simkit run study.toml --out try2       ... in another folder
  simkit fit study.toml                  the fit alone: fast, for finding out whether the model can follow the data
  simkit run study.toml --models pond.py   with a system of your own file: `class Pond` is the model "pond"
  simkit check study.toml                language, data and names without a run; simkit schema is for editors
  simkit sweep study.toml --workers 4    all members of its table [sweep]; called again, it goes on
  simkit models                          the models that a study can name
  simkit models lotka_volterra           one of them: equation, names, units, good values
  simkit explain study.toml              what compiles, how long that takes, what is computed and which lines compute it
  simkit completion bash                 completion for a shell: source <(simkit completion bash)
  simkit runs results                    the results in a folder, with their parameters side by side
  simkit progress lynx --watch 10        how far a sweep, a fit or another store is, into which others compute
  simkit reproduce results/study/result.h5   run it again from what the file holds, and compare

Exit codes: 0 done, 1 reproduced numbers differ or a sweep set chunks aside, 2 bad input (one message says what and
where), 124 the time of --within was up, 130 interrupted, 143 terminated (what is finished is kept, and the same command
goes on). More of one command: simkit COMMAND --help"""

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


PROGRESS = """A line for each store: pieces that are done, failed and left, rate and time left by the dates of the last files, who
computes into it, and what was set aside. The rate is that of the last twenty files."""


MOLECULES = """Files are told apart by their endings:
  simkit md peptide.prmtop peptide.inpcrd         AMBER
  simkit md protein.pdb amber14-all.xml           a structure and force fields of OpenMM; several may be named
  simkit md topol.top conf.gro                    GROMACS; a folder is that of its included files
  simkit md protein.psf protein.pdb par.prm       CHARMM
  simkit md water.data in.water                   LAMMPS: a data file, and commands that name styles and coefficients

Says what was read, looks for a minimum of the energy, and runs; start.h5md, trajectory.h5md and table.csv are in the folder.
The same command goes on after an interrupt, and with more --steps it makes the run longer (with the same --every). A study
file says more than this: averages, sweeps, fits of potentials."""


Handler = Callable[[argparse.Namespace], int]


USAGE = "usage"
"""The code of a command that cannot be parsed."""


class _MachineParser(argparse.ArgumentParser):
    """A parser whose errors are JSON documents on stdout."""

    def error(self, message: str) -> NoReturn:
        print(error_json(USAGE, "UsageError", message))
        self.exit(2)


def build_parser(machine: bool = False) -> argparse.ArgumentParser:
    """The parser of all commands; for a `machine` errors are JSON."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = (_MachineParser if machine else argparse.ArgumentParser)(
        prog="simkit",
        description="Simulate, fit and infer: one study file in, parameters with honest uncertainty out.",
        epilog=EXAMPLES,
        formatter_class=layout,
    )
    parser.add_argument("--version", action="version", version=f"simkit {_version()}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def command(name: str, handler: Handler, text: str, more: str = "") -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text, epilog=more, formatter_class=layout)
        made.set_defaults(handler=handler, name=name, parser=parser)
        made.add_argument("--json", action="store_true", help="print JSON, for machines; errors have a code")
        return made

    for name, text in (
        ("run", "fit, sample, predict and report a study"),
        ("fit", "fit a study and predict at the estimate"),
        ("sample", "fit a study and sample its posterior distribution"),
    ):
        made = command(name, _runs.run, text, RUN if name == "run" else "")
        study_options(made)
        within_option(made)
    study_options(command("simulate", _runs.simulate, "simulate a study at the values in its file; no data are needed"))
    made = command("sweep", _runs.sweep, "simulate all members of a study's [sweep]; called again, it goes on", SWEEP)
    made.add_argument("study", type=Path, help="a study file (TOML) with a table [sweep]")
    made.add_argument("--workers", type=count, default=1, help="how many processes; 1 by default, which is this one")
    made.add_argument("--out", "--store", type=Path, help="the folder; by default results/NAME-sweep for NAME.toml")
    models_option(made)
    outside_option(made)
    made.add_argument("--seed", type=seed, help="in place of the study's own")
    within_option(made)
    jax_options(made)
    _command_of_molecules(command)
    _commands_on_results(command)
    _commands_of_lists(command)
    return parser


def _command_of_molecules(command: Callable[..., argparse.ArgumentParser]) -> None:
    made = command("md", _molecules.run_molecules, "relax molecules of files and run them at a temperature", MOLECULES)
    made.add_argument(
        "files",
        type=Path,
        nargs="+",
        help="a topology or structure, and what belongs to it: coordinates, force field, commands",
    )
    made.add_argument("--temperature", type=float, help="in K; 300 by default, in reduced units 1")
    made.add_argument("--pressure", type=float, help="in bar; the cell keeps its size without it")
    made.add_argument(
        "--steps", type=count, default=1000, help="how many steps; 1000 by default, more later make it longer"
    )
    made.add_argument(
        "--step", type=float, help="in fs; 2 by default where bonds are held, else 1; in reduced units 0.005"
    )
    made.add_argument("--every", type=count, help="steps between two frames; a twentieth of all by default")
    made.add_argument(
        "--minimise",
        type=seed,
        default=1000,
        metavar="STEPS",
        help="most steps of the search for a minimum; 0 for none",
    )
    made.add_argument(
        "--constraints",
        choices=("hydrogens", "bonds", "angles", "none"),
        help="what is held of files that OpenMM reads: bonds to hydrogen by default",
    )
    made.add_argument("--cutoff", type=float, default=1.0, help="in nm, of files that OpenMM reads; 1 by default")
    made.add_argument("--out", "--store", type=Path, help="the folder; by default results/NAME-md")
    made.add_argument("--overwrite", action="store_true", help="begin anew where the folder holds a run")
    made.add_argument("--seed", type=seed, default=0, help="of momenta and noise; 0 by default")
    within_option(made)
    jax_options(made)


def _commands_on_results(command: Callable[..., argparse.ArgumentParser]) -> None:
    made = command("report", _commands.report, "write the report of a result file again, or of a sweep")
    made.add_argument("file", type=Path, help="a result file, such as results/study/result.h5, or a sweep's folder")
    made.add_argument("--out", type=Path, help="where to write; by default report.html beside the result file")
    made.add_argument(
        "--interactive", action="store_true", help="figures that show values at the mouse and zoom (Plotly)"
    )
    models_option(made)
    made.add_argument("--overwrite", action="store_true", help="replace a report that is there")
    made = command("reproduce", _commands.reproduce, "run the study of a result file again and compare the numbers")
    made.add_argument("file", type=Path, help="a result file; it holds its study and its data")
    models_option(made)
    made.add_argument(
        "--kept-models",
        action="store_true",
        help="run the Python code of own models that the result file keeps; for files that you trust",
    )
    jax_options(made)
    made = command("check", _commands.check, "check language, data and names of a study without running it")
    made.add_argument("study", type=Path, help="a study file (TOML)")
    models_option(made)
    outside_option(made)
    made = command(
        "schema", _commands.schema, "print a JSON schema of study files, by which editors complete and check them"
    )
    made.add_argument("--out", type=Path, help="write it into this file")
    made.add_argument("--overwrite", action="store_true", help="replace a file that is there")
    models_option(made)
    made = command("runs", _commands.runs, "list the results in a folder and compare their parameters")
    made.add_argument("folder", type=Path, nargs="?", default=Path("results"), help="a folder; results by default")
    made = command(
        "explain",
        _commands.explain,
        "say what JAX makes of a study: what compiles, what it computes and holds, and where",
    )
    made.add_argument("study", type=Path, help="a study file (TOML)")
    made.add_argument("--svg", type=Path, help="also draw the flow of the data into this file")
    models_option(made)
    outside_option(made)
    jax_options(made)
    made = command(
        "export",
        _commands.export,
        "write the equations of a study as Python (.py) or SBML (.xml), or any study as a Tesseract",
    )
    made.add_argument("study", type=Path, help="a study file (TOML), with [system.equations] for Python and SBML")
    made.add_argument(
        "file", type=Path, help="where to write: NAME.py, NAME.xml for SBML, or a folder with --tesseract"
    )
    made.add_argument(
        "--tesseract",
        action="store_true",
        help="write the folder of a Tesseract: values and derivatives by one interface",
    )
    made.add_argument("--overwrite", action="store_true", help="replace a file that is there")
    models_option(made)
    outside_option(made)
    made = command(
        "replay",
        _commands.replay,
        "open the file of a simulation that broke, and take the broken step outside of compiled code",
    )
    made.add_argument("file", type=Path, help="such as results/study-simulate/failure.h5")
    made.add_argument(
        "model", help="the study file, or MODULE:FUNCTION of a function that returns system and initial state"
    )
    made.add_argument("--debug", action="store_true", help="stop in a debugger before the step")
    models_option(made)
    outside_option(made)
    jax_options(made)


def _commands_of_lists(command: Callable[..., argparse.ArgumentParser]) -> None:
    made = command(
        "progress", _commands.progress, "how far stores are into which others compute; it only reads", PROGRESS
    )
    made.add_argument("folder", type=Path, help="a store of a sweep, a fit or another verb, or a folder with stores")
    made.add_argument("--watch", type=within, metavar="TIME", help="look again every so often while anybody computes")
    made.add_argument("--html", type=Path, metavar="FILE", help="write a page as well, which reads itself again")
    made = command("models", _commands.models, "list the models, or show one")
    made.add_argument("model", nargs="?", help="a model's name")
    models_option(made)
    made = command(
        "examples", _commands.examples, "list the examples, or copy one into a folder with the data it reads"
    )
    made.add_argument("example", nargs="?", help="an example's name")
    made.add_argument("--into", type=Path, default=Path(), help="the folder; by default this one")
    made.add_argument("--overwrite", action="store_true", help="replace a file that is there")
    made = command(
        "doctor", _commands.doctor, "report versions, devices, precision and cache, and check a small simulation"
    )
    jax_options(made)
    made = command(
        "completion", _commands.completion, "print the completion of a shell: of commands, options, names and files"
    )
    made.add_argument("shell", choices=("bash", "zsh", "fish"), help="such as: source <(simkit completion bash)")
    made = command("new", _commands.new, "write a commented study file to start from; it runs as it stands")
    made.add_argument(
        "file", type=Path, nargs="?", default=Path("study.toml"), help="where to write; study.toml by default"
    )
    made.add_argument("--data", type=Path, metavar="FILE.csv", help="write a study of this table, from its columns")
    made.add_argument("--time", metavar="COLUMN", help="with --data: the header of the times or dates")
    made.add_argument("--subject", metavar="COLUMN", help="with --data: the header of subjects, each an experiment")
    made.add_argument(
        "--input",
        metavar="COLUMN",
        action="append",
        default=[],
        help="with --data: the header of a signal that acts on the model; again for more of them",
    )
    made.add_argument(
        "--package",
        metavar="NAME",
        help="write a package instead, for a system of your own that studies find by name, into a folder of that name",
    )
    made.add_argument("--overwrite", action="store_true", help="replace a file that is there")


def _version() -> str:
    from .. import __version__

    return __version__
