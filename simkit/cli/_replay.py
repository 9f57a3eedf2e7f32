"""replay: the step in which a simulation broke, outside of compiled code."""

import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .._errors import ArgumentError
from ..core import named_leaves
from ..inspect import Failure
from ..study import SYSTEMS, load_study


def model_of(text: str, *, models: Any = None, allow_outside: bool = False) -> tuple[Any, ...]:
    """System, initial state, inputs and solver of a study file or of a function named `module:function`."""
    module, colon, function = text.partition(":")
    if text.endswith(".toml") or not colon:
        study = load_study(Path(text), allow_outside=allow_outside, models=SYSTEMS if models is None else models)
        return study.system, study.y0, study.inputs, study.solve["solver"]
    sys.path.insert(0, os.getcwd())
    try:
        made = getattr(importlib.import_module(module), function)()
    except (ImportError, AttributeError) as error:
        raise ArgumentError(f"`{text}` cannot be imported: {error}.") from error
    if not isinstance(made, Sequence) or len(made) < 2:
        raise ArgumentError(
            f"`{text}` must return system and initial state, and after them inputs and solver if there are any."
        )
    return (*made, None, None)[:4]


def replay(file: Path, model: tuple[Any, ...], *, debug: bool) -> tuple[str, dict[str, Any]]:
    """Take the step that broke in Python; a failure, the slope before it and the state after as text and as numbers."""
    system, y0, inputs, solver = model
    failure = Failure.load(file, system, y0, inputs, solver)
    lines = [str(failure)]
    content: dict[str, Any] = {"failure": str(failure)}
    if debug:
        print(failure)
    with jax.disable_jit():
        if debug:
            breakpoint()  # `failure.slope()` and `failure.advance()` run the model's own lines
        for title, found in (("slope", failure.slope()), ("after ", failure.advance())):
            leaves = {name or "y": np.asarray(leaf) for name, leaf in named_leaves(found).items()}
            content[title.strip()] = leaves
            lines += [
                f"  {title}, {name} = {np.array2string(leaf, threshold=8, precision=6)}"
                for name, leaf in leaves.items()
            ]
    return "\n".join(lines), content
