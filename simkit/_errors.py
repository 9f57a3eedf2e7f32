"""The exceptions that simkit raises, each with a sentence that says what to do."""

import difflib
from collections.abc import Collection


class SimkitError(Exception):
    """Everything simkit raises on purpose. The command line prints its text and nothing else."""


class ArgumentError(SimkitError, ValueError):
    """An argument, or a combination of arguments, that cannot work."""


class UnknownNameError(SimkitError, KeyError):
    """A name that nothing carries; the message lists the close matches."""

    def __str__(self) -> str:  # KeyError would print the message in quotes
        return str(self.args[0])


class DataError(SimkitError, ValueError):
    """A data file or a table that cannot be used as it is."""


class StudyError(SimkitError, ValueError):
    """A study file that cannot be used as it is."""


class ResultFileError(SimkitError, ValueError):
    """A result file that is cut short, not simkit's, or of a newer version."""


class StoreError(SimkitError, RuntimeError):
    """A sweep's folder that belongs to another sweep, is in use by another process, or cannot be written."""


class SimulationError(SimkitError, ArithmeticError):
    """A simulation that failed; the message says where and what to change."""


class SamplingError(SimkitError, ArithmeticError):
    """Chains that must not be averaged: stuck, or without a place to start."""


def close_matches(name: str, known: Collection[str]) -> str:
    """The names nearest to `name`, or the first few known ones where none is near."""
    known = sorted(known)
    if not known:
        return "There are none."
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    if near:
        return "Close matches: " + ", ".join(f"`{match}`" for match in near) + "."
    listed = ", ".join(f"`{match}`" for match in known[:12])
    return f"There are: {listed}" + (", ..." if len(known) > 12 else ".")


def check_known(name: str, known: Collection[str], what: str) -> None:
    """Raise an `UnknownNameError` that lists the close matches unless `name` is in `known`."""
    if name not in known:
        raise UnknownNameError(f"There is no {what} `{name}`. {close_matches(name, known)}")
