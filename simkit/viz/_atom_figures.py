"""Atoms as they stand in their cell: a picture of a frame, and an animation of many."""

import itertools
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import matplotlib
import numpy as np
from jax.typing import ArrayLike
from matplotlib.animation import FuncAnimation
from matplotlib.axes import Axes
from matplotlib.collections import EllipseCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from .._errors import ArgumentError
from ..md import Space
from ._style import GREY, color, new_figure, style_for, styled, theme

EYE = 3.5
"""Distance of the eye from the middle of the picture, in sizes of the picture: smaller ones distort more."""


@styled
def plot_atoms(
    space: Space,
    position: ArrayLike | Sequence[Any],
    *,
    species: ArrayLike | Sequence[Any] | None = None,
    diameter: float | Sequence[float] = 1.0,
    angles: tuple[float, float] = (25.0, 15.0),
    title: str = "",
) -> Figure:
    """A frame: atoms as discs, nearer ones over those behind, in the edges of their cell.

    **Arguments:**

    - `space`, `position`: shape (atoms, d), wrapped into the cell for the picture.
    - `species`: a whole number an atom, for its colour and diameter.
    - `diameter`: one for all, or one a species, in the length unit of the positions.
    - `angles`: in three dimensions, how far the cell is turned to the side and tilted towards the eye, in degrees.

    ```python
    import jax
    import simkit
    fluid = simkit.md.liquid(jax.random.key(0), 200, 0.8)
    simkit.viz.plot_atoms(fluid.space, fluid.position)
    ```
    """
    scene = _Scene(space, np.asarray(position, float)[None], species, diameter, angles)
    figure = new_figure(5.0, 5.2, fixed=True)
    discs = scene.begun(figure)
    scene.draw(discs, 0)
    figure.text(0.02, 0.97, title, va="top")
    return figure


@styled
def animate(
    space: Space,
    position: ArrayLike | Sequence[Any],
    *,
    times: ArrayLike | Sequence[Any] | None = None,
    species: ArrayLike | Sequence[Any] | None = None,
    diameter: float | Sequence[float] = 1.0,
    angles: tuple[float, float] = (25.0, 15.0),
    turn: float = 0.0,
    interval: float = 50.0,
    time: str = "time",
) -> FuncAnimation:
    """An animation of a trajectory, as Matplotlib has it.

    `save("run.gif", writer="pillow")` writes it, `save("run.mp4")` does with FFmpeg, and `to_jshtml()` makes it HTML.

    **Arguments:**

    - `space`, `position`: shape (frames, atoms, d); one space for all frames.
    - `times`: shape (frames,), shown in the title with what `time` calls them.
    - `species`, `diameter`, `angles`: as for `plot_atoms`.
    - `turn`: by how many degrees a frame the cell turns.
    - `interval`: milliseconds between frames.

    Hundred frames of some hundred atoms take some ten seconds to write; take every tenth frame of a long run.

    ```python
    import jax
    import simkit
    fluid = simkit.md.liquid(jax.random.key(0), 64, 0.8)
    steps = 0.05 * jax.random.normal(jax.random.key(1), (3, 64, 3))
    simkit.viz.animate(fluid.space, fluid.position[None] + steps).save("run.gif", writer="pillow", dpi=50)
    ```
    """
    frames = np.asarray(position, float)
    if frames.ndim != 3 or not len(frames):
        raise ArgumentError(f"Argument `position` must have the shape (frames, atoms, d), but it has {frames.shape}.")
    labels = None if times is None else np.asarray(times, float)
    if labels is not None and labels.shape != frames.shape[:1]:
        raise ArgumentError(
            f"Argument `times` must have one number for each of the {len(frames)} frames, but its shape is {labels.shape}."
        )
    scene = _Scene(space, frames, species, diameter, angles)
    figure = new_figure(5.0, 5.2, fixed=True)
    discs = scene.begun(figure)
    text = figure.text(0.02, 0.97, "", fontsize=9, va="top")

    def draw(frame: int) -> list[Any]:
        with matplotlib.rc_context(style_for(figure)):
            scene.draw(discs, frame, turn * frame)
            if labels is not None:
                text.set_text(f"{time} {labels[frame]:.4g}")
        return [discs, text]

    return FuncAnimation(figure, draw, frames=len(frames), interval=interval, blit=False)  # pyright: ignore


def checked_frames(
    space: Space, frames: np.ndarray, species: ArrayLike | Sequence[Any] | None, diameter: float | Sequence[float]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Frames wrapped into the cell, the species of atoms and the diameters of species, all of shapes that fit."""
    d = space.dimensions
    if frames.ndim != 3 or frames.shape[-1] != d or not frames.size:
        raise ArgumentError(
            f"Argument `position` must have {d} coordinates an atom, as its space has, but it has the shape {frames.shape[1:]}."
        )
    kinds = np.zeros(frames.shape[1], int) if species is None else np.asarray(species, int)
    sizes = np.asarray(diameter, float)
    sizes = np.broadcast_to(sizes, kinds.max() + 1) if sizes.ndim == 0 else sizes
    if kinds.shape != frames.shape[1:2] or kinds.min() < 0 or kinds.max() >= len(sizes) or not (sizes > 0).all():
        raise ArgumentError(
            "Arguments `species` and `diameter` must give a whole number for each atom and a positive number for each species, "
            f"but they have the shapes {kinds.shape} and {sizes.shape}."
        )
    return np.asarray(space.wrap(jnp.asarray(frames)), float) if space.periodic else frames, kinds, sizes


def drawn_edges(space: Space) -> np.ndarray:
    """The edges of the cell, each by its ends, shape (edges, 2, d); none of an open space."""
    d = space.dimensions
    if not space.periodic:
        return np.zeros((0, 2, d))
    corners = np.array(list(itertools.product((0, 1), repeat=d)), float)
    pairs = [(a, b) for a, b in itertools.combinations(corners, 2) if np.abs(a - b).sum() == 1]
    return np.array(pairs) @ np.asarray(space.vectors(), float)


class _Scene:
    """Atoms in their cell, seen from an eye."""

    def __init__(
        self,
        space: Space,
        frames: np.ndarray,
        species: ArrayLike | Sequence[Any] | None,
        diameter: float | Sequence[float],
        angles: tuple[float, float],
    ):
        self.frames, kinds, sizes = checked_frames(space, frames, species, diameter)
        self.flat, self.angles = space.dimensions == 2, angles
        self.sizes = sizes[kinds].astype(float)
        self.colors = np.array([to_rgb(color(k)) for k in range(len(sizes))])[kinds]
        self.paper = np.array(to_rgb(theme().paper))
        self.edges = drawn_edges(space)
        points = (self.edges if len(self.edges) else self.frames).reshape(-1, space.dimensions)
        self.middle = (points.min(axis=0) + points.max(axis=0)) / 2
        self.reach = np.abs(points - self.middle).max(axis=0) + 0.52 * self.sizes.max()
        self.size = float(np.linalg.norm(points - self.middle, axis=1).max() + self.sizes.max() / 2)

    def begun(self, figure: Figure) -> EllipseCollection:
        """The panel with what does not depend on the frame; the discs to be filled."""
        panel: Axes = figure.add_axes((0.01, 0.01, 0.98, 0.93))
        panel.set_aspect("equal")
        panel.set_axis_off()
        # A turning cell needs its diagonal; a flat one stays as it is.
        reach = self.reach if self.flat else np.full(2, 0.97 * self.size)
        panel.set_xlim(-reach[0], reach[0])
        panel.set_ylim(-reach[1], reach[1])
        self.lines = [panel.plot([], [], color=GREY, lw=0.9, zorder=0)[0] for _ in self.edges]
        count = self.frames.shape[1]
        discs = EllipseCollection(
            np.ones(count), np.ones(count), np.zeros(count), units="x", offsets=np.zeros((count, 2)),
            offset_transform=panel.transData, linewidths=0.4, edgecolors="#333333",
        )  # fmt: skip
        panel.add_collection(discs)
        return discs

    def draw(self, discs: EllipseCollection, frame: int, turned: float = 0.0) -> None:
        """Put atoms and edges where the eye sees them."""
        for line, edge in zip(self.lines, self.edges, strict=True):
            (x, y), _, depth = self._seen(edge, turned)
            line.set_data(x, y)
            line.set_zorder(0 if self.flat or depth.mean() < 0 else 3)
        place, scale, depth = self._seen(self.frames[frame], turned)
        order = np.argsort(depth, kind="stable")
        widths = (self.sizes * scale)[order]
        discs.set(offsets=place.T[order], widths=widths, heights=widths)
        # What is far is as in mist.
        mist = 0.0 * depth if self.flat else np.clip(0.35 - 0.45 * depth / self.size, 0.0, 0.75)
        discs.set_facecolor((self.colors * (1 - mist[:, None]) + self.paper * mist[:, None])[order])  # pyright: ignore

    def _seen(self, points: np.ndarray, turned: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Places in the picture, shape (2, points), what sizes are multiplied by, and how near to the eye."""
        away = points - self.middle
        if self.flat:
            return away.T, np.ones(len(away)), np.zeros(len(away))
        side, tilt = np.deg2rad(self.angles[0] + turned), np.deg2rad(self.angles[1])
        x = np.cos(side) * away[:, 0] - np.sin(side) * away[:, 1]
        back = np.sin(side) * away[:, 0] + np.cos(side) * away[:, 1]
        y = np.cos(tilt) * away[:, 2] + np.sin(tilt) * back
        depth = np.sin(tilt) * away[:, 2] - np.cos(tilt) * back
        scale = EYE / (EYE - depth / self.size)
        return np.stack([x, y]) * scale, scale, depth
