"""Files of Python code that a user names, imported from their text so that the same text can be imported again elsewhere."""

import ast
import hashlib
import importlib.metadata
import importlib.util
import linecache
import sys
import types
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from .._errors import StudyError

PREFIX = "simkit_file_"
"""The beginning of the names of such modules; the hash of their code follows."""
ALONE = (
    "A file of models must stand for itself: put what it needs into it, install that package, or make a package of your own with "
    "`simkit new --package NAME`"
)


class PythonFile(NamedTuple):
    """A file of Python code: its name in messages and tracebacks, and its text."""

    name: str
    text: str

    @property
    def sha256(self) -> str:
        """The SHA-256 of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def module(self) -> str:
        """The name of the module: a hash of the code without comments and docstrings, so that other code is another module.

        **Raises:** a `StudyError` where the text is no Python, with the line.
        """
        return PREFIX + hashlib.sha256(code_of(self).encode()).hexdigest()[:16]


_loaded: dict[str, PythonFile] = {}


def code_of(file: PythonFile) -> str:
    """The code of a file without comments and docstrings.

    **Raises:** a `StudyError` where the text is no Python, with the line.
    """
    try:
        tree = ast.parse(file.text, file.name)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f"line {error.lineno}: " if isinstance(error, SyntaxError) and error.lineno else ""
        text = error.msg if isinstance(error, SyntaxError) else str(error)
        raise StudyError(f"`{file.name}` must be Python code, but {line}{text}.") from error
    return ast.unparse(_without_docstrings(tree))


def import_file(file: PythonFile) -> types.ModuleType:
    """The module of a file, run once a process for each version of its code.

    **Raises:** a `StudyError` with the line where the code raises an exception, or where it imports a file beside it.
    """
    name = file.module
    if name in _loaded:
        return sys.modules[name]
    _check_alone(file, _imported(file))
    before = set(sys.modules)
    module = types.ModuleType(name)
    module.__file__ = file.name
    # Tracebacks, `explain` and `inspect` find the lines, also where the file is gone or has changed.
    linecache.cache[file.name] = (len(file.text), None, file.text.splitlines(keepends=True), file.name)
    sys.modules[name] = module  # dataclasses look their module up while they are made
    try:
        exec(compile(file.text, file.name, "exec", dont_inherit=True), module.__dict__)
    except (Exception, SystemExit) as error:  # whatever the code does
        del sys.modules[name]
        raise StudyError(_complaint(file, error)) from error
    except BaseException:
        del sys.modules[name]
        raise
    try:
        _check_alone(file, sorted({new.partition(".")[0] for new in set(sys.modules) - before - {name}}))
    except StudyError:
        del sys.modules[name]
        raise
    _loaded[name] = file
    return module


def loaded_file(module: str) -> PythonFile | None:
    """The file of a module that `import_file` has made; None for others."""
    return _loaded.get(module)


def loaded_files() -> tuple[PythonFile, ...]:
    """All files that this process has imported."""
    return tuple(_loaded.values())


def _imported(file: PythonFile) -> list[str]:
    """The first words of what the code of a file imports anywhere."""
    found = []
    for node in ast.walk(ast.parse(file.text, file.name)):
        if isinstance(node, ast.Import):
            found += [alias.name.partition(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            found.append(node.module.partition(".")[0])
    return found


def _check_alone(file: PythonFile, names: Iterable[str]) -> None:
    """Refuse modules that lie beside a file, which Python finds there where that folder is on its path."""
    folder = Path(file.name).resolve().parent
    for name in names:
        if any(Path(place).resolve().parent == folder for place in _places(name)) and not _installed(name):
            for loaded in [one for one in sys.modules if one.partition(".")[0] == name]:
                del sys.modules[loaded]
            raise StudyError(f"`{file.name}` imports `{name}` from beside it, which results would not keep. {ALONE}.")


def _places(name: str) -> list[str]:
    """The file of a module, or the folders of a package."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):  # such as `__main__`
        return []
    if spec is None:
        return []
    inner = spec.submodule_search_locations
    return list(inner) if inner is not None else [spec.origin] if spec.has_location and spec.origin else []


def _installed(name: str) -> bool:
    """Tell whether a package is installed, be it from a folder that is edited."""
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return name in importlib.metadata.packages_distributions()
    return True


def _complaint(file: PythonFile, error: BaseException) -> str:
    lines = []
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file.name:
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    where = f"in line {lines[-1]} " if lines else ""
    text = f"{type(error).__name__}{f': {error}' if str(error) else ''}".splitlines()[0].rstrip(".")
    if isinstance(error, ModuleNotFoundError):
        text += f". {ALONE}"
    return f"`{file.name}` cannot be imported: {where}it raises {text}."


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef | ast.Module)
            and ast.get_docstring(node) is not None
        ):
            node.body = node.body[1:] or [ast.Pass()]
    return tree
