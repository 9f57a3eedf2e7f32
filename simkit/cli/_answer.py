"""Answers of commands: text for a person, or with `--json` one JSON document on stdout and all else on stderr."""

import argparse
import json
import math
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


def answer(options: argparse.Namespace, text: str, /, **content: Any) -> None:
    """Print the text, or with `--json` the content."""
    print(as_json(content) if options.json else text)


def say_of(options: argparse.Namespace) -> Callable[[str], None]:
    """Return what prints a line of a running command: to stdout, or with `--json` to stderr."""
    stream = sys.stderr if options.json else sys.stdout
    return lambda line: print(line, file=stream, flush=True)


def error_json(code: str, kind: str, message: str) -> str:
    """The JSON document of a failure."""
    return as_json({"error": {"code": code, "type": kind, "message": message}})


def as_json(content: Any) -> str:
    """JSON of mappings, sequences, paths and arrays; numbers that are not finite are null."""
    return json.dumps(_plain(content), indent=2)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(own) for key, own in value.items()}
    if hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, str | bool | int) or value is None:
        return value
    if isinstance(value, np.ndarray | np.generic) or hasattr(value, "__array__"):
        return _plain(np.asarray(value).tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return [_plain(own) for own in value]
