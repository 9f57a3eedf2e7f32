"""Options that several commands take."""

import argparse
from pathlib import Path
from typing import Any


def study_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", type=Path, help="a study file (TOML)")
    parser.add_argument(
        "--out",
        type=Path,
        help="the output folder; by default results/NAME for NAME.toml, and results/NAME-fit and so on for parts of a run",
    )
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="replace results that are in the folder; those of a study that was edited since are kept aside without it",
    )
    models_option(parser)
    outside_option(parser)
    parser.add_argument("--seed", type=seed, help="in place of the study's own")
    jax_options(parser)


def outside_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--allow-outside",
        action="store_true",
        help="let the study read files that are not below its own folder; for studies that you trust",
    )


def models_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--models",
        type=Path,
        metavar="FILE.py",
        action="append",
        default=[],
        help="a Python file of yours whose systems the study may name: `AlgaePond` is the model algae_pond; its code runs with "
        "your rights, and results keep it; may be given again",
    )


def chosen_models(options: argparse.Namespace) -> Any:
    """The models of `--models`, imported now, or those of simkit and of installed packages."""
    from ..study import SYSTEMS, load_models

    return load_models(*options.models) if options.models else SYSTEMS


def jax_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--float32", action="store_true", help="compute in single precision; double is the default")
    parser.add_argument("--no-cache", action="store_true", help="keep no compiled programs for the next run")


def within(text: str) -> float:
    """A time in words, or in seconds."""
    from .._budget import seconds_of
    from .._errors import ArgumentError

    try:
        found = seconds_of(float(text) if text.replace(".", "", 1).isdigit() else text)
    except ArgumentError as error:
        raise argparse.ArgumentTypeError(str(error).removeprefix("Argument `within` ")) from error
    assert found is not None
    return found


def within_option(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "--within", type=within, help='the time it may take, such as "2 h" or "30 min"; the same command goes on later'
    )


def seed(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 0, but is {text!r}")
    return int(text)


def count(text: str) -> int:
    if not text.isdigit() or text == "0":
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, but is {text!r}")
    return int(text)
