"""Figures of runs of particles: structure, motion, and outputs over time."""

from collections.abc import Mapping

import numpy as np
from jax.typing import ArrayLike
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from .._errors import ArgumentError
from ..md import Averages, RadialDistribution
from ._style import GREY, central, color, few_ticks, labelled, new_figure, styled, theme

ENERGIES = ("kinetic_energy", "potential_energy")


@styled
def plot_radial_distribution(
    radial: RadialDistribution | Averages | Mapping[str, RadialDistribution | Averages],
    *,
    measured: Mapping[str, tuple[ArrayLike, ArrayLike]] | None = None,
    length: str = "1",
) -> Figure:
    """The radial distribution function, with a band of two standard errors where they are known.

    **Arguments:**

    - `radial`: what `radial_distribution` or `averages` gives, or several of them by label.
    - `measured`: distances and g(r) of measurements by label, drawn as points as far as the simulated ones reach.
    - `length`: the unit of distances, as text.
    """
    several = radial if isinstance(radial, Mapping) else {"": radial}
    figure = new_figure(6.4, 3.6)
    panel = figure.subplots()
    panel.axhline(1.0, color=GREY, lw=0.8, ls=":")
    for index, (label, one) in enumerate(several.items()):
        if one.g is None:
            raise ArgumentError("Argument `radial` must hold g(r), but does not. Give `cutoff` to `averages`.")
        distance, g = np.asarray(one.distance, float), np.asarray(one.g, float)
        error = one.g_error if isinstance(one, Averages) else None
        if error is not None:
            width = 2 * np.nan_to_num(np.asarray(error, float))
            panel.fill_between(distance, g - width, g + width, color=color(index), alpha=0.3, lw=0)
        panel.plot(distance, g, color=color(index), label=label or ("simulated" if measured else None))
        if isinstance(one, Averages):
            length = one.unit("length")
    reach = max(float(np.max(one.distance)) for one in several.values())
    for index, (label, (distance, g)) in enumerate((measured or {}).items(), len(several)):
        distance, g = np.asarray(distance, float), np.asarray(g, float)
        if distance.ndim != 1 or distance.shape != g.shape:
            raise ArgumentError(
                f"Argument `measured` must give as many distances as g(r) for {label!r}, but their shapes are {distance.shape} and "
                f"{g.shape}."
            )
        near = distance <= reach
        panel.plot(distance[near], g[near], "o", ms=3, color=color(index), label=label)
    panel.set_xlabel(labelled("distance", length))
    panel.set_ylabel("g(r)")
    panel.margins(x=0)
    panel.set_ylim(0, None)
    few_ticks(panel, 8, 6)
    if len(several) > 1 or measured:
        panel.legend()
    return figure


@styled
def plot_displacement(averages: Averages, *, time: str = "time") -> Figure:
    """The mean squared displacement of atoms by time, on logarithmic axes: flight has the slope 2 there, diffusion 1.

    **Arguments:** `averages`, what `simkit.md.averages` gives with `between`; `time`, what the time axis is called.

    The last half of the lags, of few origins, is left out.
    """
    if averages.displacement is None or averages.between is None:
        raise ArgumentError(
            "Argument `averages` must hold a mean squared displacement, but does not. Give `between` to `averages`."
        )
    lag, displacement = np.asarray(averages.lag, float), np.asarray(averages.displacement, float)
    half = slice(1, max(3, lag.size // 2))
    figure = new_figure(6.4, 3.6)
    panel = figure.subplots()
    panel.axvspan(*averages.between, color=theme().shade, lw=0, zorder=0)
    panel.loglog(lag[half], displacement[half], color=color(0))
    slope = averages.slope
    inside = (lag >= averages.between[0]) & (lag <= averages.between[1])
    # The line was fitted with an intercept of its own: it goes through the middle of what it was fitted to.
    line = slope * lag[half] + float(np.mean(displacement[inside] - slope * lag[inside]))
    panel.loglog(lag[half][line > 0], line[line > 0], color=color(1), lw=1.0, ls="--")
    panel.set_title(f"dashed: diffusion with D = {float(averages.diffusion):.4g}", fontsize=8.5)
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_minor_formatter(NullFormatter())
    length = averages.unit("length")
    panel.set_xlabel(labelled(time, averages.unit("time")))
    panel.set_ylabel(labelled("mean squared displacement", length if length == "1" else f"{length}²"))
    return figure


@styled
def plot_outputs(averages: Averages, *, time: str = "time") -> Figure:
    """The energy budget over time, about the means, and every other output with its mean.

    What is left out of averages is grey; axes show the range of what is not.

    **Arguments:** `averages`, what `simkit.md.averages` gives; `time`, what the time axis is called.
    """
    times, kept = np.asarray(averages.times, float), averages.kept
    series = {name: np.asarray(values, float) for name, values in averages.series.items()}
    others = [name for name in series if name not in ENERGIES]
    budget = {name.removesuffix("_energy"): series[name] for name in ENERGIES if name in series}
    if len(budget) > 1:
        budget["total"] = sum(budget.values(), np.zeros(times.shape))
    figure = new_figure(7.0, 0.6 + 2.1 * bool(budget) + 1.5 * len(others))
    heights = [1.4] * bool(budget) + [1.0] * len(others)
    axes = figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    ranges = []
    for (name, values), shade in zip(budget.items(), (color(0), color(1), theme().ink), strict=False):
        mean = float(values[kept].mean())
        axes[0].plot(times, values - mean, color=shade, label=f"{name}, mean {mean:.5g}", lw=0.9)
        ranges.append(values[kept] - mean)
    if budget:
        axes[0].set_ylabel(labelled("energy about its mean", averages.unit(ENERGIES[0])))
        axes[0].set_ylim(*central(np.concatenate(ranges), 1.0))
        axes[0].legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3)
    for panel, name in zip(axes[bool(budget) :], others, strict=True):
        found = averages.average(name)
        panel.plot(times, series[name], color=color(0), lw=0.8)
        panel.hlines(float(found.mean), averages.after, times[-1], color=color(1), lw=1.2)
        panel.set_ylabel(labelled(name, averages.unit(name)))
        panel.set_ylim(*central(series[name][kept], 1.0))
        panel.set_title(with_error(float(found.mean), float(found.error)), fontsize=8.5)
    for panel in axes:
        if averages.after > times[0]:
            panel.axvspan(times[0], averages.after, color=theme().shade, lw=0, zorder=0)
        panel.margins(x=0)
        few_ticks(panel, 8, 4)
    axes[-1].set_xlabel(labelled(time, averages.unit("time")))
    return figure


def with_error(value: float, error: float) -> str:
    """A value with the digits that its error leaves."""
    if not (np.isfinite(error) and error > 0):
        return f"{value:.5g}"
    digits = max(0, 1 - int(np.floor(np.log10(error))))
    return f"{value:.{digits}f} ± {error:.{digits}f}"
