"""Models of the user's own Python files, by the names that a study gives them."""

import ast
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ..._doors import shown
from ..._errors import ArgumentError, StudyError, UnknownNameError, close_matches
from ...core import System
from ...stores import MOST_STUDY, PythonFile, import_file, input_bytes, loaded_files, reading
from ._names import SYSTEMS

EXAMPLE = "Write a class such as `class Pond(simkit.PlainSystem)` in it; `simkit new --package NAME` shows one."


class OwnModels(Mapping[str, type[System]]):
    """The systems of Python files by name, and behind them those of simkit and of installed packages.

    A class `AlgaePond` is called `algae_pond` in a study.

    - `files`: the files; `own`: their systems by name.
    """

    def __init__(self, files: Sequence[PythonFile], own: Mapping[str, type[System]]):
        self.files, self.own = tuple(files), dict(own)

    def __getitem__(self, name: str) -> type[System]:
        return self.own[name] if name in self.own else SYSTEMS[name]

    def __contains__(self, name: object) -> bool:
        return name in self.own or name in SYSTEMS

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self.own, *SYSTEMS]))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        told = [f"`{name}` ({kind.__qualname__})" for name, kind in self.own.items()]
        return f"{', '.join(told)} of {', '.join(f'`{Path(file.name).name}`' for file in self.files)}"

    @property
    def sources(self) -> dict[str, str]:
        """The texts of the files by their names without folders, as results keep them."""
        return {Path(file.name).name: file.text for file in self.files}


def load_models(*paths: str | Path) -> OwnModels:
    """Import Python files and return the systems that are defined in them, for `load_study`.

    The code runs with your rights, so name files of your own only. A class `AlgaePond` is the model `algae_pond` of a study.
    Results keep the text of the files with its SHA-256.

    **Arguments:** `paths`: Python files. Each stands for itself: it may import installed packages, but not the files beside it.

    **Raises:** a `StudyError` where a file is missing, raises an exception (with its line), defines no system, or two of one name;
    or where a name is that of a model of simkit or of an installed package.

    ```python
    import pathlib
    import simkit
    pathlib.Path("cup.py").write_text('''
    import jax.numpy as jnp
    import simkit

    class Cup(simkit.PlainSystem):
        rate: simkit.Scalar = simkit.quantity(0.1, unit="1/min", support=simkit.POSITIVE)

        def vector_field(self, t, y, inputs):
            return {"temperature": -self.rate * (y["temperature"] - 20.0)}

        @classmethod
        def example(cls):
            return simkit.Example(cls(), {"temperature": jnp.asarray(90.0)}, jnp.linspace(0.0, 30.0, 31))
    ''')
    models = simkit.study.load_models("cup.py")
    cooling = models["cup"]()
    ```
    """
    for path in paths:
        if not isinstance(path, str | Path):
            raise ArgumentError(
                f'Argument `paths` must be the paths of Python files, such as "pond.py", but one is {shown(path)}.'
            )
    files = [_read(Path(path)) for path in paths]
    names = [Path(file.name).name for file in files]
    for name in names:
        if names.count(name) > 1:
            raise StudyError(f"Files of models must have different names, but two are called `{name}`. Rename one.")
    return models_of(files)


def models_of(files: Sequence[PythonFile]) -> OwnModels:
    """The models of files that are read."""
    own: dict[str, type[System]] = {}
    places: dict[str, str] = {}
    for file in files:
        for name, kind in _systems(file).items():
            if name in places:
                raise StudyError(
                    f"The models of `--models` must have names of their own, but `{name}` is in `{places[name]}` and in "
                    f"`{file.name}`. Rename one of the classes."
                )
            own[name], places[name] = kind, file.name
    return OwnModels(files, own)


def loaded_models(sources: Mapping[str, str]) -> OwnModels | None:
    """The models of texts where this process has imported just these; None where it has not, since that would run code."""
    known = {file.text: file for file in loaded_files()}
    if not sources or any(text not in known for text in sources.values()):
        return None
    return models_of([known[text] for text in sources.values()])


def model_name(kind: type) -> str:
    """The name of a class in a study: `AlgaePond` is `algae_pond`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", kind.__name__).lower()


def _read(path: Path) -> PythonFile:
    with reading(path, "file of models", StudyError, "*.py"):
        text = input_bytes(path, "file of models", MOST_STUDY, StudyError).decode("utf-8")
    if path.suffix != ".py":
        raise StudyError(f"The file of models `{path}` must be a Python file, NAME.py, but it is called `{path.name}`.")
    return PythonFile(str(path), text)


def _systems(file: PythonFile) -> dict[str, type[System]]:
    """The systems that a file defines, by name; those that are only bases of others are left out."""
    module = import_file(file)
    _check_twice(file)
    kinds = [
        kind
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, System) and kind.__module__ == module.__name__
    ]
    kinds = list(dict.fromkeys(kinds))
    found: dict[str, type[System]] = {}
    for kind in kinds:
        if inspect.isabstract(kind):
            if not any(issubclass(other, kind) for other in kinds if other is not kind):
                lacks = ", ".join(f"`{name}`" for name in sorted(kind.__abstractmethods__))
                raise StudyError(f"The class `{kind.__name__}` of `{file.name}` must define {lacks}, but it does not.")
            continue
        name = model_name(kind)
        if name in found:
            raise StudyError(
                f"The classes `{found[name].__name__}` and `{kind.__name__}` of `{file.name}` must have different names in a "
                f"study, but both are `{name}`. Rename one."
            )
        if name in SYSTEMS:
            raise StudyError(
                f"The class `{kind.__name__}` of `{file.name}` must not be called `{name}` in a study, since simkit or an "
                f"installed package has a model of that name. Rename the class, such as `My{kind.__name__}`."
            )
        found[name] = kind
    if not found:
        raise StudyError(
            f"`{file.name}` must define a system, a subclass of a family of simkit, but it has none. {EXAMPLE}"
        )
    return found


def _check_twice(file: PythonFile) -> None:
    """Refuse two classes of one name, of which Python would keep the second without a word."""
    names: dict[str, int] = {}
    for node in ast.parse(file.text).body:
        if isinstance(node, ast.ClassDef):
            if node.name in names:
                raise StudyError(
                    f"`{file.name}` must define each class once, but `{node.name}` stands in line {names[node.name]} and in "
                    f"line {node.lineno}. Rename one."
                )
            names[node.name] = node.lineno


def check_model(name: str, models: Mapping[str, type[System]], place: str) -> None:
    """Refuse a model that is not there; the message names the flag that loads models of one's own."""
    if name not in models:
        hint = "" if isinstance(models, OwnModels) else " A model of your own Python file needs `--models FILE.py`."
        raise UnknownNameError(f"{place}: there is no model `{name}`. {close_matches(name, models)}{hint}")
