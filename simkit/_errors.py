"""The exceptions that simkit raises, each with a sentence that says what to do."""

import difflib
from collections.abc import Collection
from typing import ClassVar


class SimkitError(Exception):
    """Everything simkit raises on purpose. The command line prints its text and nothing else.

    `code` is a word for machines that stays the same from version to version: `simkit COMMAND --json` prints it.
    """

    code: ClassVar[str] = "error"


class ArgumentError(SimkitError, ValueError):
    """An argument, or a combination of arguments, that cannot work."""

    code: ClassVar[str] = "argument"


class UnknownNameError(SimkitError, KeyError):
    """A name that nothing carries; the message lists the close matches."""

    code: ClassVar[str] = "unknown-name"

    def __str__(self) -> str:  # KeyError would print the message in quotes
        return str(self.args[0])


class DataError(SimkitError, ValueError):
    """A data file or a table that cannot be used as it is."""

    code: ClassVar[str] = "data"


class StudyError(SimkitError, ValueError):
    """A study file that cannot be used as it is."""

    code: ClassVar[str] = "study"


class ResultFileError(SimkitError, ValueError):
    """A result file that is cut short, not simkit's, or of a newer version."""

    code: ClassVar[str] = "result-file"


class StoreError(SimkitError, RuntimeError):
    """A sweep's folder that belongs to another sweep, is in use by another process, or cannot be written."""

    code: ClassVar[str] = "store"


class SimulationError(SimkitError, ArithmeticError):
    """A simulation that failed; the message says where and what to change."""

    code: ClassVar[str] = "simulation"


class SamplingError(SimkitError, ArithmeticError):
    """Chains that must not be averaged: stuck, or without a place to start."""

    code: ClassVar[str] = "sampling"


class TimeUpError(SimkitError, TimeoutError):
    """The time of `within` was up before there was anything to return; the message says what is kept."""

    code: ClassVar[str] = "time-up"


class StandstillError(SimkitError, RuntimeError):
    """A computation that stood still: nothing in this process computed any more, yet a result was awaited."""

    code: ClassVar[str] = "standstill"


class MissingPackageError(SimkitError, ModuleNotFoundError):
    """A package that comes with one of simkit's extras is not installed; the message holds the command that installs it."""

    code: ClassVar[str] = "missing-package"


class MissingRoomError(SimkitError, AttributeError):
    """A part of simkit that cannot be had as an attribute, since a package of its extra is not installed; it says the same."""

    code: ClassVar[str] = "missing-room"


class PluginError(SimkitError, ImportError):
    """A package that adds to simkit by an entry point which cannot be used; the message names the package."""

    code: ClassVar[str] = "plugin"


def error_codes() -> dict[str, type[SimkitError]]:
    """Code -> class of every error that simkit raises on purpose, in the order of this file."""
    kinds = [kind for kind in globals().values() if isinstance(kind, type) and issubclass(kind, SimkitError)]
    return {kind.code: kind for kind in kinds}


def missing_package(what: str, package: str | None, extra: str) -> MissingPackageError:
    """The error for a package of an extra; `what` begins the sentence, such as "A PEtab problem"."""
    text = f'{what} needs the package `{package}`, which is not installed. Install it with `pip install "simkit[{extra}]"`.'
    return MissingPackageError(text, name=package)


MOST_COMPARED = 2_000
"""The number of names that are compared with one that is unknown; each takes some 10 us."""


def close_matches(name: str, known: Collection[str]) -> str:
    """The names nearest to `name`, or the first few known ones where none is near."""
    known = sorted(known)
    if not known:
        return "There are none."
    name = name[:100]
    if len(known) > MOST_COMPARED:  # those of a similar length
        known = sorted(sorted(known, key=lambda other: abs(len(other) - len(name)))[:MOST_COMPARED])
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    if near:
        return "Close matches: " + ", ".join(f"`{match}`" for match in near) + "."
    listed = ", ".join(f"`{match}`" for match in known[:12])
    return f"There are: {listed}" + (", ..." if len(known) > 12 else ".")


def check_known(name: str, known: Collection[str], what: str) -> None:
    """Raise an `UnknownNameError` that lists the close matches unless `name` is in `known`."""
    if name not in known:
        raise UnknownNameError(f"There is no {what} `{name}`. {close_matches(name, known)}")
