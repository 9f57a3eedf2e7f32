"""Atoms to turn with the mouse, in a notebook."""

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.typing import ArrayLike

from .._errors import ArgumentError, missing_package
from ..md import Space
from ._atom_figures import checked_frames, drawn_edges
from ._style import GREY, LIGHT

ELEMENTS = ("C", "O", "N", "S", "P", "F", "Cl")
"""Names of species inside the view where no symbols are given; colours and sizes are ours."""


def view_atoms(
    space: Space,
    position: ArrayLike | Sequence[Any],
    *,
    species: ArrayLike | Sequence[Any] | None = None,
    symbols: Sequence[str] | None = None,
    diameter: float | Sequence[float] = 1.0,
    width: int = 480,
    height: int = 480,
    interval: float = 50.0,
) -> Any:
    """A view of atoms in a notebook, in three dimensions, that turns with the mouse; a trajectory plays in it.

    Drawn by 3Dmol.js (Rego and Koes, 2015, doi:10.1093/bioinformatics/btu829), which the browser loads from the web. It needs
    the package py3Dmol: `pip install "simkit[view]"`.

    **Arguments:**

    - `space`, `position`: shape (atoms, d) or (frames, atoms, d), wrapped into the cell for the view.
    - `species`, `diameter`: as for `plot_atoms`.
    - `symbols`: chemical symbols, one an atom, shown in the colours that chemists know in place of `species`.
    - `width`, `height`: in pixels; `interval`: milliseconds between frames.

    **Returns:** a `py3Dmol.view`, which shows itself as the last line of a cell; `write_html` saves it as a page.

    **Raises:** a `MissingPackageError` where py3Dmol is missing, an `ArgumentError` where shapes do not fit.
    """
    try:
        py3dmol: Any = importlib.import_module("py3Dmol")
    except ImportError as error:
        raise missing_package(
            "A view in three dimensions, unlike `simkit.viz.plot_atoms`,", "py3Dmol", "view"
        ) from error
    frames = np.asarray(position, float)
    frames, kinds, sizes = checked_frames(space, frames[None] if frames.ndim == 2 else frames, species, diameter)
    if symbols is not None and len(symbols) != frames.shape[1]:
        raise ArgumentError(
            f"Argument `symbols` must name each of the {frames.shape[1]} atoms, but it has {len(symbols)} names."
        )
    names = [ELEMENTS[k % len(ELEMENTS)] for k in kinds] if symbols is None else list(symbols)
    flat = np.pad(frames, ((0, 0), (0, 0), (0, 3 - frames.shape[2])))
    view = py3dmol.view(width=width, height=height)
    view.addModelsAsFrames("".join(_xyz(names, frame) for frame in flat), "xyz")
    # Bonds would be guessed from distances, which may stand in any unit.
    if symbols is None:
        for k in np.unique(kinds):
            style = {"radius": float(sizes[k]) / 2, "color": LIGHT.colors[k % len(LIGHT.colors)]}
            view.setStyle({"elem": ELEMENTS[k % len(ELEMENTS)]}, {"sphere": style})
    else:
        view.setStyle({}, {"sphere": {"radius": float(sizes[0]) / 2}})
    for start, end in np.pad(drawn_edges(space), ((0, 0), (0, 0), (0, 3 - space.dimensions))):
        view.addLine({"start": _point(start), "end": _point(end), "color": GREY})
    if len(frames) > 1:
        view.animate({"loop": "forward", "interval": interval})
    view.zoomTo()
    return view


def _xyz(names: Sequence[str], frame: np.ndarray) -> str:
    rows = [f"{name} {x:.4f} {y:.4f} {z:.4f}" for name, (x, y, z) in zip(names, frame, strict=True)]
    return "\n".join([str(len(rows)), "", *rows]) + "\n"


def _point(place: np.ndarray) -> dict[str, float]:
    return dict(zip("xyz", map(float, place), strict=True))
