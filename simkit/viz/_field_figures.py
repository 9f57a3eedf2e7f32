"""Fields on grids: pictures at a few times, animations, spectra."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.typing import ArrayLike
from matplotlib.animation import FuncAnimation
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .._errors import ArgumentError, check_known
from ..core import Trajectory, field_metadata, named_leaves
from ..fluids import Grid, energy_spectrum
from ._style import GREY, color, labelled, new_figure, styled

MOST_PANELS = 4
MAPS = {True: "RdBu_r", False: "viridis"}
"""Colour maps of fields around zero, and of others."""


@styled
def plot_fields(
    grid: Grid,
    trajectory: Trajectory,
    *,
    names: Sequence[str] | None = None,
    rows: Sequence[int] | None = None,
    time: str = "time",
    title: str = "",
) -> Figure:
    """The fields of a trajectory at a few of its times: pictures in two dimensions, middle slices in three, curves in one.

    **Arguments:**

    - `grid`: on which they stand.
    - `trajectory`: what `simulate` returns.
    - `names`: which fields, by dotted name; all by default.
    - `rows`: at which save times, by number; by default up to four, evenly spread.
    - `time`: what times are called, such as "day".

    Fields around zero are shown from blue to red with white in the middle. A row has one scale.

    ```python
    import simkit
    system, y0, times, _ = simkit.fluids.SpectralFlow2D.example()
    run = simkit.simulate(system, y0, times, step=0.04)
    simkit.viz.plot_fields(system.grid, run)
    ```
    """
    series = _series(grid, trajectory, names)
    times, units = np.asarray(trajectory.times), {name: _unit(trajectory, name) for name in series}
    evenly = np.unique(np.linspace(0, len(times) - 1, MOST_PANELS).round().astype(int))
    chosen: list[int] = evenly.tolist() if rows is None else list(rows)
    if grid.dimensions == 1:
        return _curves(grid, series, times, chosen, time, title, units)
    shape = (grid.lengths[0], grid.lengths[1])
    width = 2.3
    height = width * min(max(shape[1] / shape[0], 0.4), 2.0)
    figure = new_figure(0.9 + width * len(chosen), 0.5 + (height + 0.3) * len(series))
    panels = figure.subplots(len(series), len(chosen), squeeze=False, sharex=True, sharey=True)
    for line, (name, values) in zip(panels, series.items(), strict=True):
        limits = colour_range(values[chosen])
        for panel, row in zip(line, chosen, strict=True):
            panel.imshow(**_image(grid, values[row], limits))
            panel.grid(False)
            panel.set_title(f"{name}, {time} {times[row]:.4g}", fontsize="small")
        figure.colorbar(line[0].images[0], ax=list(line), shrink=0.9, pad=0.01, label=units[name])
    _name_axes(panels)
    figure.suptitle(title)
    return figure


@styled
def animate_field(
    grid: Grid, trajectory: Trajectory, name: str, *, time: str = "time", interval: float = 50.0
) -> FuncAnimation:
    """A field of a trajectory as it changes, in two dimensions or the middle slice of three.

    **Arguments:**

    - `grid`, `trajectory`: as in `plot_fields`; every save time is a frame.
    - `name`: of the field, dotted.
    - `interval`: milliseconds a frame.

    **Returns:** Matplotlib's animation: `animation.save("flow.gif")` writes it, `HTML(animation.to_jshtml())` shows it.
    """
    if grid.dimensions == 1:
        raise ArgumentError("Argument `grid` must have 2 or 3 dimensions to be animated, but it has 1.")
    values = _series(grid, trajectory, [name])[name]
    times, limits = np.asarray(trajectory.times), colour_range(values)
    figure = new_figure(4.6, 0.6 + 4.0 * min(max(grid.lengths[1] / grid.lengths[0], 0.4), 2.0))
    panel = figure.subplots()
    image = panel.imshow(**_image(grid, values[0], limits))
    panel.grid(False)
    panel.set(xlabel="x", ylabel="y")
    heading = panel.set_title(f"{name}, {time} {times[0]:.4g}")
    figure.colorbar(image, ax=panel, shrink=0.9)

    def draw(row: int) -> list[Any]:
        image.set_data(_even(grid, _slice(grid, values[row])).T)
        heading.set_text(f"{name}, {time} {times[row]:.4g}")
        return [image, heading]

    return FuncAnimation(figure, draw, frames=len(times), interval=interval, blit=False)


@styled
def plot_spectrum(
    grid: Grid, fields: ArrayLike | dict[str, Any], *, slope: float | int | None = None, title: str = ""
) -> Figure:
    """The spectrum of energy over wavenumbers, both logarithmic.

    **Arguments:**

    - `grid`: with equal cells.
    - `fields`: name -> a field as `energy_spectrum` takes it, such as `{"start": velocity}`; or one alone.
    - `slope`: draws a power law beside them, such as -3 or -5/3.
    """
    named = fields if isinstance(fields, dict) else {"": fields}
    figure = new_figure(5.0, 3.6)
    panel = figure.subplots()
    top = None
    for index, (name, field) in enumerate(named.items()):
        k, energy = (np.asarray(x) for x in energy_spectrum(grid, field))
        shown = (k > 0) & (energy > energy.max() * 1e-14)
        panel.loglog(k[shown], energy[shown], color=color(index), label=name or None)
        top = (k[shown], energy[shown]) if top is None else top
    if slope is not None and top is not None:
        k, energy = top
        panel.loglog(
            k,
            2 * energy.max() * (k / k[np.argmax(energy)]) ** slope,
            color=GREY,
            ls="--",
            lw=1,
            label=f"slope {slope:.3g}",
        )
    panel.set_xlabel("wavenumber")
    panel.set_ylabel("energy in a shell")
    if len(named) > 1 or slope is not None:
        panel.legend()
    figure.suptitle(title)
    return figure


def _series(grid: Grid, trajectory: Trajectory, names: Sequence[str] | None) -> dict[str, np.ndarray]:
    """Scalar fields over time by name; components of a vector, and layers, the uppermost first, apart.

    Where a field has components in layers, one with an axis less is a number in each layer.
    """
    if np.ndim(trajectory.times) != 1:
        raise ArgumentError(
            f"Argument `trajectory` must hold one member, but its times have {np.ndim(trajectory.times)} axes."
        )
    leaves = {name: np.asarray(values) for name, values in named_leaves(trajectory.ys).items()}
    for name in names or ():
        check_known(name, leaves, "field of the state")
    found: dict[str, np.ndarray] = {}
    layered = any(values.ndim == grid.dimensions + 3 for values in leaves.values())
    # Numbers beside the fields, such as the places of bodies, are drawn by none of these figures.
    fields = [name for name, values in leaves.items() if values.ndim > grid.dimensions] or list(leaves)
    for name in fields if names is None else names:
        values = _centred(grid, leaves[name])
        if values.shape[values.ndim - grid.dimensions :] != grid.shape:
            raise ArgumentError(
                f"The field `{name}` must end in the shape {grid.shape} of `grid`, but it has {values.shape}."
            )
        if values.ndim == grid.dimensions + 1:
            head, _, component = name.rpartition(".")
            found[f"{head} {'xyz'[int(component)]}" if component.isdigit() else name] = values
            continue
        if layered and values.ndim == grid.dimensions + 2:
            found |= {f"{name} {i + 1}": values[:, i] for i in range(values.shape[1])}
            continue
        for i, label in zip(range(values.shape[1]), "xyz", strict=False):
            if values.ndim == grid.dimensions + 3:
                found |= {f"{name} {label} {k + 1}": values[:, i, k] for k in range(values.shape[2])}
            else:
                found[f"{name} {label}"] = values[:, i]
    return found


def _unit(trajectory: Trajectory, name: str) -> str:
    """The unit of a field; nothing where any consistent units will do, which name dimensions only."""
    unit = field_metadata(trajectory.ys, name.partition(" ")[0]).unit
    return "" if unit == "1" or any(word in unit for word in ("length", "time", "mass")) else unit


def _centred(grid: Grid, values: np.ndarray) -> np.ndarray:
    """Average to cell centres: an array with one value more than there are cells along one axis is on faces."""
    d = grid.dimensions
    shape = values.shape[values.ndim - d :]
    for axis in range(d):
        if shape == tuple(n + (i == axis) for i, n in enumerate(grid.shape)):
            place = values.ndim - d + axis
            lower, upper = (np.take(values, range(k, k + grid.shape[axis]), place) for k in (0, 1))
            return 0.5 * (lower + upper)
    return values


def colour_range(values: np.ndarray) -> tuple[float, float]:
    """The range of colours, even around zero where a field goes to both sides of it."""
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    if low < 0 < high:
        most = max(-low, high)
        return -most, most
    return low, high if high > low else low + 1.0


def _image(grid: Grid, values: np.ndarray, limits: tuple[float, float]) -> dict[str, Any]:
    ends = [x for axis in (0, 1) for x in (grid.origin[axis], grid.origin[axis] + grid.lengths[axis])]
    options = {"origin": "lower", "extent": ends, "vmin": limits[0], "vmax": limits[1], "interpolation": "nearest"}
    return {"X": _even(grid, _slice(grid, values)).T, "cmap": MAPS[limits[0] == -limits[1]], **options}


def _even(grid: Grid, picture: np.ndarray) -> np.ndarray:
    """Pixels of equal width: those of a stretched axis are as narrow as its narrowest cell, and show the cell that they lie in."""
    for axis in (0, 1):
        if grid.stretched[axis] is not None:
            faces = grid.faces(axis)
            count = min(round(grid.lengths[axis] / np.diff(faces).min()), 2000)
            middles = faces[0] + (np.arange(count) + 0.5) / count * grid.lengths[axis]
            picture = np.take(picture, np.searchsorted(faces, middles) - 1, axis)
    return picture


def _slice(grid: Grid, values: np.ndarray) -> np.ndarray:
    return values[..., grid.shape[2] // 2] if grid.dimensions == 3 else values


def _name_axes(panels: np.ndarray) -> None:
    for panel in panels[-1]:
        panel.set_xlabel("x")
    for line in panels:
        line[0].set_ylabel("y")


def _curves(
    grid: Grid,
    series: dict[str, np.ndarray],
    times: np.ndarray,
    rows: Sequence[int],
    time: str,
    title: str,
    units: dict[str, str],
) -> Figure:
    figure = new_figure(7.0, 0.6 + 2.3 * len(series))
    panels: list[Axes] = list(figure.subplots(len(series), 1, sharex=True, squeeze=False)[:, 0])
    for panel, (name, values) in zip(panels, series.items(), strict=True):
        for index, row in enumerate(rows):
            panel.plot(grid.centres(0), values[row], color=color(index), label=f"{time} {times[row]:.4g}")
        panel.set_ylabel(labelled(name, units[name]).strip())
        panel.margins(x=0)
    panels[0].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    panels[-1].set_xlabel("x")
    figure.suptitle(title)
    return figure
