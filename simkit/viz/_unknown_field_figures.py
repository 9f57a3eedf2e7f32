"""Fitted fields: the estimate and its standard error, as curves or pictures."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .._doors import check_kind
from .._errors import ArgumentError
from ..fitting import FieldFit
from ..problem import AbstractFieldPrior
from ._field_figures import MAPS, colour_range
from ._style import color, labelled, new_figure, styled

WIDTH = 2.9
"""Width of a picture, in inches."""


@styled
def plot_field_fit(fit: FieldFit, *, title: str = "") -> Figure:
    """The estimate of each unknown field and its standard error: pictures of two axes, curves of one with the 90 % interval.

    Of three axes and more the first two are shown, in the middle of the others; leading axes, such as components, give rows. The
    standard error needs `modes` in the method of the fit.

    **Raises:** an `ArgumentError` where nothing that was fitted is an array.

    ```python
    import jax.numpy as jnp
    import simkit
    from simkit import fluids
    system, y0, times, _ = fluids.SpectralFlow2D.example()
    shape = system.grid.shape
    data = simkit.Experiment("tank", times[1:3], {"vorticity": jnp.ones((2, *shape))}, start=0.0)
    free = {"y0.vorticity": simkit.Free(simkit.fields.Matern(1.0, length=2.0, box=(6.28, 6.28)))}
    noise = {"vorticity": simkit.noise.Normal(0.5)}
    problem = simkit.Problem(system, data, free=free, noise=noise, y0=y0, step=0.05)
    fit = simkit.fit(problem, method=simkit.GaussNewtonCG(max_steps=3, modes=5))
    simkit.viz.plot_field_fit(fit)
    ```
    """
    remedy = "It is what `simkit.fit` returns with `GaussNewtonCG` or `FieldLBFGS`."
    check_kind("fit", fit, FieldFit, "a fit of fields", remedy)
    rows = [
        (
            block.name if block.shape[:lead] == () else f"{block.name}, {', '.join(map(str, which))}",
            unit,
            which,
            prior,
            block,
        )
        for (block, prior), unit in zip(fit.unknowns.pairs, fit.units, strict=True)
        if block.shape
        for lead in [len(block.shape) - _axes(prior, len(block.shape))]
        for which in np.ndindex(block.shape[:lead])
    ]
    if not rows:
        raise ArgumentError(
            "Argument `fit` must hold an unknown that is an array, but all of its unknowns are single numbers."
        )
    columns = 2 if fit.eigenvalues.size else 1
    figure = new_figure(0.8 + 1.3 * WIDTH * columns, 0.5 + WIDTH * len(rows))
    panels = figure.subplots(len(rows), columns, squeeze=False)
    for line, (name, unit, which, prior, block) in zip(panels, rows, strict=True):
        values = np.asarray(fit[block.name], float)[which]
        errors = np.asarray(fit.standard_error(block.name), float)[which] if columns == 2 else None
        box = (
            [float(x) for x in prior.box] if isinstance(prior, AbstractFieldPrior) else [float(n) for n in values.shape]
        )
        if values.ndim == 1:
            ends = np.asarray(fit.interval(block.name), float)[which] if columns == 2 else None
            _curve(line, values, errors, ends, box, labelled(name, unit))
        else:
            _picture(figure, line[0], values, box, labelled(name, unit))
            if errors is not None:
                _picture(figure, line[1], errors, box, labelled(f"standard error of {name}", unit))
    figure.suptitle(title)
    return figure


def _axes(prior: Any, most: int) -> int:
    """Number of axes of a field; the others count fields."""
    return len(prior.box) if isinstance(prior, AbstractFieldPrior) else most


def _curve(
    line: np.ndarray,
    values: np.ndarray,
    errors: np.ndarray | None,
    ends: np.ndarray | None,
    box: list[float],
    name: str,
) -> None:
    places = (np.arange(values.size) + 0.5) / values.size * box[0]
    line[0].plot(places, values, color=color(0))
    if errors is not None and ends is not None:
        line[0].fill_between(places, ends[:, 0], ends[:, 1], color=color(0), alpha=0.25, lw=0)
        line[1].plot(places, errors, color=color(1))
        line[1].set(xlabel="x", ylabel="standard error", ylim=(0, None))
    line[0].set(xlabel="x", ylabel=name)


def _picture(figure: Figure, panel: Axes, values: np.ndarray, box: list[float], name: str) -> None:
    shown = values[(slice(None), slice(None), *(n // 2 for n in values.shape[2:]))]
    low, high = colour_range(shown)
    image = panel.imshow(
        shown.T,
        origin="lower",
        extent=(0, box[0], 0, box[1]),
        cmap=MAPS[low == -high],
        interpolation="nearest",
        vmin=low,
        vmax=high,
    )
    panel.grid(False)
    panel.set(xlabel="x", ylabel="y")
    panel.set_title(name, fontsize="small")
    figure.colorbar(image, ax=panel, shrink=0.85)
