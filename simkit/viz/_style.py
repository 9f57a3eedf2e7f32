"""Style of simkit's figures."""

import functools
import io
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, ParamSpec, TypeVar

import matplotlib
import numpy as np
from cycler import cycler
from jax.typing import ArrayLike
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, ScalarFormatter
from matplotlib.typing import ColorType

from .._errors import check_known
from ..core import data_frame

P = ParamSpec("P")
T = TypeVar("T")

# Okabe & Ito (2008), Color Universal Design: told apart with every common kind of colour blindness.
BLUE, RED, GREEN, PINK = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY, YELLOW, GREY = "#E69F00", "#56B4E9", "#F0E442", "#888888"


class Theme(NamedTuple):
    """The colours of a figure: ink (text, data), edges of axes, paper, grid, areas that recede, series, and a pair of fills."""

    ink: str
    edge: str
    paper: str
    grid: str
    shade: str
    colors: tuple[str, ...]
    fills: tuple[str, str]


LIGHT = Theme(
    ink="#222222",
    edge="#555555",
    paper="#ffffff",
    grid="#e6e6e6",
    shade="#eeeeee",
    colors=(BLUE, RED, GREEN, PINK, ORANGE, SKY, "#222222"),
    fills=("#9cc7e0", "#3d8fc0"),
)
DARK = Theme(
    ink="#e0e0e0",
    edge="#a8a8a8",
    paper="#131416",
    grid="#303236",
    shade="#26282c",
    colors=(SKY, RED, GREEN, PINK, YELLOW, ORANGE, "#e0e0e0"),
    fills=("#1c4660", "#2c79a8"),
)

SHAPE: Any = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.labelsize": 9,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 9.5,
    "figure.dpi": 110,
    "figure.titlesize": 11,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "grid.linewidth": 0.6,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "lines.linewidth": 1.5,
    "lines.markersize": 4.5,
    "savefig.dpi": 150,
    "savefig.facecolor": "auto",
    "svg.fonttype": "path",
    "svg.hashsalt": "simkit",
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
}
"""Common settings of light and dark figures."""


def theme() -> Theme:
    """Dark where Matplotlib's text is light, as after `matplotlib.style.use("dark_background")`; else light."""
    return DARK if _brightness(matplotlib.rcParams["text.color"]) > 0.5 else LIGHT


def style_of(colours: Theme) -> Any:
    """Matplotlib's settings for a theme."""
    texts = dict.fromkeys(
        ("text.color", "axes.labelcolor", "axes.titlecolor", "lines.color", "patch.edgecolor"), colours.ink
    )
    edges = dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), colours.edge)
    papers = dict.fromkeys(("figure.facecolor", "axes.facecolor"), colours.paper)
    cycle = {"axes.prop_cycle": cycler(color=colours.colors), "grid.color": colours.grid}
    return SHAPE | texts | edges | papers | cycle


def style_for(figure: Figure) -> Any:
    """Matplotlib's settings in which a figure was drawn: what it draws late, such as ticks, has to match."""
    return style_of(DARK if _brightness(figure.get_facecolor()) < 0.5 else LIGHT)


def _brightness(shade: ColorType) -> float:
    red, green, blue = to_rgb(shade)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


class Drawing(Figure):
    """A Matplotlib figure that needs no pyplot: it draws without a screen and shows itself in notebooks.

    `table` holds what is drawn, column by column, where the figure has numbers that its lines do not tell.
    """

    table: dict[str, np.ndarray] | None = None

    def to_frame(self) -> Any:
        """Return what is drawn as a `pandas.DataFrame`: the figure's own table, else panel, series, x and y of its lines.

        **Raises:** a `MissingPackageError` where pandas is not installed.
        """
        return data_frame(self.table if self.table is not None else _lines(self), "to_frame")

    def _repr_png_(self) -> bytes:
        return to_png(self)


def columns_of(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> dict[str, np.ndarray]:
    """Rows of a table as columns by name."""
    return {name: np.array([row[i] for row in rows]) for i, name in enumerate(names)}


def _lines(figure: Figure) -> dict[str, np.ndarray]:
    """The lines of all panels, point by point; lines across a panel, which mark a level, are left out."""
    parts = []
    for axes in figure.axes:
        for number, line in enumerate(axes.lines):
            if line.get_transform() != axes.transData:
                continue
            x, y = (np.asarray(values, float) for values in line.get_data())
            label = str(line.get_label())
            names = (
                axes.get_title(loc="left") or axes.get_ylabel(),
                f"line {number}" if label.startswith("_") else label,
            )
            parts.append([*(np.full(len(x), name, object) for name in names), x, y])
    columns = [np.concatenate(found) for found in zip(*parts, strict=True)] or [np.zeros(0)] * 4
    return dict(zip(("panel", "series", "x", "y"), columns, strict=True))


def new_figure(width: float, height: float, *, fixed: bool = False) -> Drawing:
    """An empty figure of a size in inches, laid out so that no text is cut off or covered.

    With `fixed` the panels stay where they are put, which is much faster for many panels.
    """
    figure = Drawing(figsize=(width, height), layout=None if fixed else "constrained")
    FigureCanvasAgg(figure)
    return figure


def styled(function: Callable[P, T]) -> Callable[P, T]:
    """Run a plotting function in simkit's style, light or dark as the user's settings are."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        with matplotlib.rc_context(style_of(theme())):
            return function(*args, **kwargs)

    return run


def to_png(figure: Figure, dpi: int = 150) -> bytes:
    """The figure as the bytes of a PNG file."""
    with matplotlib.rc_context(style_for(figure)):
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=dpi, bbox_inches=_box(figure))
        return buffer.getvalue()


def to_svg(figure: Figure) -> str:
    """The figure as SVG, the same bytes for the same figure."""
    with matplotlib.rc_context(style_for(figure)):
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None}, bbox_inches=_box(figure))
        text = buffer.getvalue()
        return text[text.index("<svg") :]


def _box(figure: Figure) -> str | None:
    """Figures without a layout engine are cut to what is drawn; the others fit as they are."""
    return "tight" if figure.get_layout_engine() is None else None


def labelled(name: str, unit: str) -> str:
    """A name with its unit, for an axis."""
    return name if unit in ("", "1") else f"{name} [{unit}]"


def few_ticks(axes: Axes, x: int | None = None, y: int | None = None, *, prune: bool = False) -> None:
    """Limit the number of ticks on linear axes, without offsets such as +1.9e3; with `prune` none at the ends."""
    # Years and days read badly in steps of 2.5.
    for axis, count, steps in ((axes.xaxis, x, [1, 2, 5, 10]), (axes.yaxis, y, [1, 2, 2.5, 5, 10])):
        if count is not None:
            axis.set_major_locator(MaxNLocator(count, steps=steps, prune="both" if prune else None))
        if isinstance(axis.get_major_formatter(), ScalarFormatter):
            formatter = ScalarFormatter(useOffset=False)
            formatter.set_powerlimits((-3, 4))
            axis.set_major_formatter(formatter)


def grid(count: int, most: int) -> tuple[int, int]:
    """Rows and columns for so many panels, at most `most` side by side."""
    columns = min(most, max(1, math.ceil(math.sqrt(count))))
    return math.ceil(count / columns), columns


def color(index: int) -> str:
    """The colour of the series with this index."""
    colors = theme().colors
    return colors[index % len(colors)]


def central(values: ArrayLike, share: float = 0.999) -> tuple[float, float]:
    """The range that holds the central share of the values, a little widened: what an axis should show."""
    values = np.asarray(values, float)
    values = values[np.isfinite(values)]
    if not values.size:
        return 0.0, 1.0
    lower, upper = np.quantile(values, [0.5 - share / 2, 0.5 + share / 2])
    pad = 0.04 * (upper - lower) or 0.5 * abs(lower) or 0.5
    return float(lower - pad), float(upper + pad)


def pick(names: Sequence[str], wanted: Sequence[str] | None) -> list[int]:
    """The places of the wanted names, all of them by default."""
    for name in wanted or ():
        check_known(name, names, "parameter")
    return list(range(len(names))) if wanted is None else [list(names).index(name) for name in wanted]
