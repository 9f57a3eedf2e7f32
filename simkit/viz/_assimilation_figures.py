"""Assimilated states over time, what was observed of them, and whether spread and errors fit."""

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from .._doors import check_kind
from .._errors import ArgumentError, close_matches
from ..assimilation import Assimilation, Observations
from ..core import named_leaves, unit_of
from ._style import color, few_ticks, labelled, new_figure, styled, theme

MOST = 3
"""Numbers of the state that are shown where none is asked for."""


@styled
def plot_assimilation(
    found: Assimilation,
    observations: Observations | None = None,
    *,
    names: Sequence[str] | None = None,
    time: str = "time",
    title: str = "",
) -> Figure:
    """States found by `assimilate` with bands of two standard deviations, and below them chi-square an observation.

    Where states were smoothed their mean is a line of its own; points are what was observed, of outputs that are states. The last
    panel shows the mean of each twentieth of the times, which is near 1 where spread and errors fit what is seen.

    **Arguments:** `found`: what `assimilate` returns; `observations`: the points; `names`: numbers of the state, such as "x" or
    "x[3]", by default the first three; `time`: what the time axis is called.

    **Raises:** an `ArgumentError` for a name that is no number of the state.

    ```python
    import jax
    import numpy as np
    import simkit
    system, y0, _, _ = simkit.odes.Lorenz63.example()
    times = np.arange(1, 41) * 0.1
    seen = simkit.assimilation.Observations(times, {"x": np.zeros(40)}, errors=5.0, start=0.0)
    members = simkit.assimilation.members_around(y0, 10, key=jax.random.key(0), deviation=1.0)
    found = simkit.assimilate(system, members, seen, method=simkit.assimilation.ETKF(1.02), step=0.01)
    simkit.viz.plot_assimilation(found, seen)
    ```
    """
    check_kind("found", found, Assimilation, "an assimilation", "It is what `simkit.assimilate` returns.")
    if observations is not None:
        check_kind("observations", observations, Observations, "observations", "Give those of the assimilation.")
    numbers = dict(_numbers(found))
    shown = list(numbers)[:MOST] if names is None else list(names)
    for name in shown:
        if name not in numbers:
            raise ArgumentError(f"The state has no number `{name}`. {close_matches(name, numbers)}")
    times = np.asarray(found.times, float)
    figure = new_figure(7.0, 0.7 + 1.5 * (len(shown) + 1))
    axes = figure.subplots(len(shown) + 1, 1, sharex=True, squeeze=False)[:, 0]
    for panel, name in zip(axes, shown, strict=False):
        leaf, place = numbers[name]
        pick = lambda tree, leaf=leaf, place=place: _picked(tree, leaf, place)
        mean, width = pick(found.mean), pick(found.deviation)
        panel.fill_between(times, mean - 2 * width, mean + 2 * width, color=color(0), alpha=0.25, lw=0)
        panel.plot(times, mean, color=color(0), lw=1.0, label="analysed")
        if found.smoothed is not None:
            panel.plot(times, pick(found.smoothed), color=color(1), lw=1.0, ls="--", label="smoothed")
        if observations is not None and (seen := _seen(observations, leaf, place, times.size)) is not None:
            panel.plot(times, seen, ".", color=theme().ink, ms=3, label="observed")
        panel.set_ylabel(labelled(name, unit_of(found.mean, leaf)))
        few_ticks(panel, 8, 4)
    handles = {text: line for panel in axes[:-1] for line, text in zip(*panel.get_legend_handles_labels(), strict=True)}
    axes[0].legend(handles.values(), handles.keys(), loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3)
    centres, ratio = _by_parts(times, np.asarray(found.chi_square, float), np.asarray(found.observed, float))
    axes[-1].axhline(1.0, color=theme().ink, lw=0.8, ls=":")
    axes[-1].plot(centres, ratio, "o-", color=color(0), ms=3, lw=1.0)
    axes[-1].set(ylabel="chi-square\nan observation", xlabel=labelled(time, ""))
    axes[-1].set_ylim(0.0, max(2.0, 1.1 * float(np.nanmax(ratio, initial=0.0))))
    few_ticks(axes[-1], 8, 3)
    if title:
        figure.suptitle(title)
    return figure


def _numbers(found: Assimilation) -> Iterator[tuple[str, tuple[str, tuple[int, ...]]]]:
    """Each number of the state: what it is called, and the leaf and place where it stands."""
    for leaf, values in named_leaves(found.mean).items():
        for place in np.ndindex(np.shape(values)[1:]):
            name = f"{leaf or 'y'}{list(place)}" if place else leaf or "y"
            yield name.replace(" ", ""), (leaf, place)


def _picked(tree: object, leaf: str, place: tuple[int, ...]) -> Float[np.ndarray, " times"]:
    return np.asarray(named_leaves(tree)[leaf], float)[(slice(None), *place)]


def _seen(
    observations: Observations, leaf: str, place: tuple[int, ...], count: int
) -> Float[np.ndarray, " times"] | None:
    """Observed values of a number; None where it is no output, or was seen through an operator."""
    if not isinstance(observations.values, dict) or leaf not in observations.values:
        return None
    return np.asarray(observations.values[leaf], float)[(slice(count), *place)]


def _by_parts(
    times: np.ndarray, chi_square: np.ndarray, observed: np.ndarray
) -> tuple[Float[np.ndarray, " parts"], Float[np.ndarray, " parts"]]:
    """Chi-square an observation in each twentieth of the times."""
    parts = np.array_split(np.arange(times.size), min(20, times.size))
    centres = np.array([times[part].mean() for part in parts])
    counts = np.array([observed[part].sum() for part in parts])
    sums = np.array([chi_square[part].sum() for part in parts])
    return centres, np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
