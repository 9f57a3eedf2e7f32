"""The examples that come with simkit: list them, copy one."""

import importlib.util
import json
import re
import shutil
import tomllib
from pathlib import Path

from .._errors import ArgumentError, check_known
from ..stores import write_text
from ._files import check_free

PACKAGED = Path(__file__).resolve().parents[1] / "_gallery"
"""Folder with `examples` in an installed simkit; a checkout has them at its top."""
INSTALL = re.compile(r'pip install "simkit\[\w+\]"')
DATA = re.compile(r"\.\./(data/[\w./-]+)")
"""Data sets of the tests as well, beside the folder `examples`."""
OWN = re.compile(r"[\"'](data/[\w.-]+)")
"""Data in the folder `examples`: a study reads no file outside of its own folder."""
COMMAND = re.compile(r"(simkit \w+ )examples/")


def example_titles() -> dict[str, str]:
    """All examples with their titles."""
    return {name: _title(path) for name, path in _files().items()}


def list_examples() -> str:
    """All examples with one line each."""
    titles = example_titles()
    width = max(map(len, titles))
    lines = [f"  {name:<{width}}  {title}" for name, title in titles.items()]
    more = "Copy one into this folder: simkit examples NAME, which says how it is run."
    return "\n".join(["Examples:", *lines, "", more])


def copy_example(name: str, folder: Path, *, overwrite: bool = False) -> list[Path]:
    """Copy an example into a folder, and the data it reads into `data` there; the files, the example first.

    The commands that it names are those for the copy.

    **Raises:** an `ArgumentError` where there is no such example, or a file of that name is there already.
    """
    files = _files()
    if name not in files:
        alike = [file for file in files if file.rpartition(".")[0] == name]
        if len(alike) == 1:
            name = alike[0]
        elif alike:
            raise ArgumentError(
                f"There is more than one example `{name}`: {', '.join(f'`{file}`' for file in alike)}. Say which."
            )
    check_known(name, files, "example")
    text = files[name].read_text(encoding="utf-8")
    copied = [folder / name]
    check_free(copied[0], overwrite, "folder with --into")
    home = files[name].parent.parent
    # Of a data set that is a folder all is copied: its files name each other.
    wanted = (Path(found) if len(Path(found).parts) == 2 else Path(found).parent for found in DATA.findall(text))
    for found in dict.fromkeys(wanted):
        copied += _copy(home / found, folder / found)
    for found in dict.fromkeys(OWN.findall(text)):
        copied += _copy(files[name].parent / found, folder / found)
    write_text(copied[0], COMMAND.sub(r"\1", DATA.sub(r"\1", text)))
    return copied


def next_steps(example: Path) -> list[str]:
    """Return the commands that run an example that was copied, and the extra packages that it needs."""
    text = example.read_text(encoding="utf-8")
    if example.suffix == ".ipynb":
        text = "".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
        jupyter = ["pip install jupyterlab ipywidgets"] if importlib.util.find_spec("jupyterlab") is None else []
        return [*dict.fromkeys(INSTALL.findall(text)), *jupyter, f"jupyter lab {example}"]
    tables = tomllib.loads(text)
    verb = "sweep" if "sweep" in tables and "experiments" not in tables else "run"
    return [f"simkit {verb} {example}"]


def _files() -> dict[str, Path]:
    folder = next((home / "examples" for home in (PACKAGED, PACKAGED.parents[1]) if (home / "examples").is_dir()), None)
    if folder is None:
        raise ArgumentError(
            "This installation of simkit has no examples; they are in the folder `examples` of its source."
        )
    return {path.name: path for path in sorted(folder.iterdir()) if path.suffix in (".ipynb", ".toml")}


def _title(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".toml":
        return tomllib.loads(text).get("study", {}).get("title", "")
    first = "".join(json.loads(text)["cells"][0]["source"])
    return first.splitlines()[0].lstrip("# ")


def _copy(source: Path, target: Path) -> list[Path]:
    """A file of data, or a folder of them; what is there already is the same and stays."""
    sources = sorted(path for path in source.rglob("*") if path.is_file()) if source.is_dir() else [source]
    copied = []
    for path in sources:
        place = target / path.relative_to(source) if source.is_dir() else target
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)
        copied.append(place)
    return copied
