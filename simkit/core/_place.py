"""Source lines: the function of a model that an operation of a traced program comes from."""

import contextlib
import os
import pathlib
import re
import sysconfig
from collections.abc import Iterable
from typing import Any, NamedTuple

import equinox
import jax
from jax.extend.core import JaxprEqn

HERE = f"{pathlib.Path(__file__).resolve().parent.parent}{os.sep}"
# JAX may be installed elsewhere than the environment's own packages.
OTHERS = tuple(
    {f"{pathlib.Path(str(package.__file__)).parent}{os.sep}" for package in (jax, equinox)}
    | {*(sysconfig.get_paths()[name] + os.sep for name in ("purelib", "platlib", "stdlib", "platstdlib")), "<"}
)
MODELS = tuple(f"{HERE}{room}{os.sep}" for room in ("odes", "md", "fluids", "problem"))
LOOPS = tuple(f"{HERE}{room}{os.sep}" for room in ("engine", "solvers", "fitting", "infer"))
INSIDE = re.compile(r"\.<(locals|listcomp|dictcomp|setcomp|genexpr)>")
MARK = re.compile(r"from (\S+):(\d+) of ([^/()]+)")


class Place(NamedTuple):
    """A line of a model: the function as Python names it, its file and line."""

    function: str
    file: str
    line: int

    @property
    def label(self) -> str:
        return f"{self.function} ({self.file}:{self.line})"

    @property
    def mark(self) -> str:
        return f"from {self.function}:{self.line} of {self.file}"


def place_of(equation: JaxprEqn) -> Place | None:
    """The innermost line of a model or of the user's own code that an equation comes from; None for one of a loop around it."""
    marks = MARK.findall(str(equation.source_info.name_stack))
    if marks:
        function, line, file = marks[-1]
        return Place(function, file, int(line))
    traceback = equation.source_info.traceback
    frames = () if traceback is None else traceback.frames
    return place_among((frame.file_name, frame.function_name, frame.line_num) for frame in frames)


def place_among(frames: Iterable[tuple[str, str, int]]) -> Place | None:
    """The innermost line of a model or of the user's own code among frames of file, function and line, the innermost first."""
    for file, function, line in frames:
        if file.startswith(LOOPS):
            return None
        if file.startswith(MODELS) or not file.startswith((HERE, *OTHERS)):
            return Place(INSIDE.sub("", function), os.path.basename(file), line)
    return None


def marked(equation: JaxprEqn) -> contextlib.AbstractContextManager[Any]:
    """Mark operations that replace an equation as coming from its source line."""
    found = place_of(equation)
    return contextlib.nullcontext() if found is None else jax.named_scope(found.mark)


def is_library(jaxpr: Any) -> bool:
    """Tell whether a traced function belongs to a library, such as `jax.numpy.fft.rfft`: it is traced once for all callers."""
    source = str(getattr(jaxpr.debug_info, "func_src_info", ""))
    return any(f" at {folder}" in source for folder in OTHERS)
