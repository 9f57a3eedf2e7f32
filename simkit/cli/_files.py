"""Files that commands write."""

from pathlib import Path

from .._errors import ArgumentError


def check_free(path: Path, overwrite: bool, another: str) -> None:
    """Refuse to write over a file; `another` says how to choose another place.

    **Raises:** an `ArgumentError` where the file is there and `overwrite` is not allowed.
    """
    if path.exists() and not overwrite:
        raise ArgumentError(f"The file `{path}` exists already. Choose another {another}, or allow --overwrite.")
