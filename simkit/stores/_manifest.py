"""Manifests of stores: JSON, checked before it is believed."""

import json
from collections.abc import Mapping
from typing import Any

from .._errors import ResultFileError
from ._gate import MOST_DATA, input_bytes
from ._remote import Place, RemotePath

Kinds = Mapping[str, type | tuple[type, ...]]


def read_manifest(path: Place, format: str, version: int, kinds: Kinds, remedy: str) -> dict[str, Any] | None:
    """The content of a manifest; None where it is JSON of something else.

    **Arguments:** `kinds` are the types of its entries, `remedy` the end of the message about a damaged one.

    **Raises:** a `FileNotFoundError`, or a `ResultFileError` where it is damaged or of a newer version.
    """
    try:
        remote = isinstance(path, RemotePath)
        held = json.loads(path.read_bytes() if remote else input_bytes(path, "manifest", MOST_DATA, ResultFileError))
    except FileNotFoundError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, ResultFileError):
            raise
        raise ResultFileError(f"The file `{path}` is damaged ({error}). {remedy}") from error
    if not isinstance(held, dict) or held.get("format") != format:
        return None
    found = held.get("format_version")
    if isinstance(found, int) and found > version:
        raise ResultFileError(
            f"`{path}` has the format version {found}, but this simkit reads versions up to {version}. Install a newer simkit."
        )
    for name, kind in {"format_version": int, **kinds}.items():
        if not isinstance(held.get(name), kind):
            raise ResultFileError(
                f"The file `{path}` is damaged (its `{name}` is missing or of another kind). {remedy}"
            )
    return held
