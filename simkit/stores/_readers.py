"""Registry of readers: formats of text files that a study file can name."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from .._registry import Registry


class Reader(NamedTuple):
    """Reader of one format of text files, for study files.

    - `gives`: "table", columns of numbers for an experiment; "frames", atoms to start from; or "potential".
    - `read`: the function of the path of a copy of the file and of one more argument: of a table the columns as name -> header,
        of frames the unit system, of a potential the elements. It returns of a table name -> numbers, of frames a list of
        `md.Frame`, of a potential its tables, with their unit system as `units`.
    - `make`: of a potential the function that makes it of its tables.

    **Raises:** `read` refuses bad files by `simkit.DataError`, whose text is shown with the place in the study.
    """

    gives: Literal["table", "frames", "potential"]
    read: Callable[..., Any]
    make: Callable[..., Any] | None = None


READERS: Registry[Reader] = Registry("reader", Reader, group="simkit.readers", instances=True)
"""Readers by the names that study files give them, each declared beside its function."""


def reader_of(name: str, gives: str) -> Reader | None:
    """The reader of a name where it gives what is wanted, else None."""
    found = READERS.get(name)
    return found if found is not None and found.gives == gives else None


def readers_of(gives: str) -> Sequence[str]:
    """The names of readers of simkit that give one thing."""
    return [name for name, reader in READERS.own.items() if reader.gives == gives]
