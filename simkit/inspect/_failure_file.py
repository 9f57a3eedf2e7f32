"""Failures in files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from .._errors import ResultFileError
from ..core import Setup
from ..stores import attribute, open_sealed, seal, write_whole

FORMAT = "simkit failure"


def write_failure(path: str | Path, setup: Setup, about: Mapping[str, Any]) -> Path:
    """All numbers of a setup by path, and what is known of the failure."""
    import h5py

    path = Path(path)

    def write(temporary: Path) -> None:
        with h5py.File(temporary, "w") as file:
            file.attrs.update(format=FORMAT, system=type(setup.system).__name__, **about)
            numbers = file.create_group("numbers")
            for name, leaf in setup.leaves().items():
                numbers[name] = np.asarray(leaf)
        seal(temporary)

    write_whole(path, write)
    return path


def read_failure(path: str | Path, like: Setup) -> tuple[Setup, dict[str, Any]]:
    """The numbers of a file in the places of `like`."""
    with open_sealed(Path(path), "file of a failure") as (file, _):
        if file.attrs.get("format") != FORMAT:
            raise ResultFileError(f"`{path}` is not a file of a failure: `Failure.save` writes them.")
        found = {name: np.asarray(value) for name, value in file["numbers"].items()}  # pyright: ignore
        told = {name: attribute(file, name) for name in file.attrs}
        about = {name: value.item() if hasattr(value, "item") else value for name, value in told.items()}
    leaves = like.leaves()
    if set(found) != set(leaves):
        different = ", ".join(sorted(set(found) ^ set(leaves))[:4])
        raise ResultFileError(
            f"`{path}` is of a {about['system']}, whose numbers are not those of a {type(like.system).__name__}: they differ in "
            f"{different}."
        )
    return like.put({name: jnp.asarray(value) for name, value in found.items()}), about
