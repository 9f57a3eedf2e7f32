"""Figures that answer to the mouse: a Matplotlib figure as one of Plotly."""

import importlib
import re
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.ticker import LogFormatter, ScalarFormatter

from .._doors import check_kind
from .._errors import ArgumentError, missing_package
from ._plotly_traces import POINT, drawn_line, every_text, parts_of, rgba
from ._style import style_for

MOST_POINTS = 50_000
"""Most points of a figure that a browser draws without delay as SVG."""

MARGIN = 16
"""Pixels around what Matplotlib draws, since words of a browser are wider than its own."""


def interactive(figure: Figure) -> Any:
    """The same figure as one of Plotly, which shows values where the mouse is, zooms, and hides series by a click on the legend.

    Lines, points, bands, error bars, bars, steps, contours, pictures of fields, levels and spans are translated, with titles,
    labels, ticks, logarithmic axes and legends, in the colours of the figure, light or dark. Panels with shared axes zoom together.

    **Arguments:** `figure`: any figure of `simkit.viz`, or another of Matplotlib.

    **Returns:** a `plotly.graph_objects.Figure`, which shows itself in a notebook; `write_html("NAME.html")` saves it as a page.

    **Raises:** a `MissingPackageError` where Plotly is missing; an `ArgumentError` that names what has no translation, such as the
    arrows of `plot_phase` or the atoms of `plot_atoms`, and for more than 50,000 points.
    """
    check_kind("figure", figure, Figure, "a figure of Matplotlib", "The functions of `simkit.viz` return one.")
    try:
        graph: Any = importlib.import_module("plotly.graph_objects")
    except ImportError as error:
        raise missing_package("An interactive figure", "plotly", "interactive") from error
    return graph.Figure(_spec(figure))


def _spec(figure: Figure) -> dict[str, Any]:
    """Traces and layout of all panels, each where it stands in the figure."""
    with matplotlib.rc_context(style_for(figure)):
        figure.draw_without_rendering()
        colored: Any = [part for a in figure.axes for part in (*a.images, *a.collections)]
        bars = {id(part.colorbar.ax): part for part in colored if getattr(part, "colorbar", None) is not None}
        panels = [axes for axes in figure.axes if axes.get_visible() and id(axes) not in bars]
        if others := sorted({axes.name for axes in panels} - {"rectilinear"}):
            raise ArgumentError(
                f"Argument `figure` must have plane axes to be interactive, but it has {others[0]} ones. Show it as it is, or "
                "save it with `viz.to_svg`."
            )
        ink = rgba(matplotlib.rcParams["text.color"])
        width, height = (100 * side for side in figure.get_size_inches())
        layout: dict[str, Any] = {
            "width": round(width) + 2 * MARGIN,
            "height": round(height) + 2 * MARGIN,
            "margin": dict.fromkeys("lrtb", MARGIN),
            "modebar": {"orientation": "v", "bgcolor": "rgba(0,0,0,0)"},
            "font": {"color": ink, "size": 12, "family": "system-ui, sans-serif"},
            "paper_bgcolor": rgba(figure.get_facecolor()),
            "plot_bgcolor": "rgba(0,0,0,0)",
            "hovermode": "closest",
            "showlegend": False,
            "barmode": "overlay",
            "shapes": [],
            "annotations": [],
        }
        traces: list[dict[str, Any]] = []
        legends = _legends(figure, panels, layout)
        left: list[str] = []
        shown: set[tuple[int, str]] = set()
        for number in range(len(panels)):
            left += _panel(traces, layout, panels, number, legends, shown)
        traces += _own_handles(figure, panels, shown)
        for axes, image in ((a, bars[id(a)]) for a in figure.axes if id(a) in bars):
            _colorbar(traces, image, axes)
        _heading(figure, layout)
    if left:
        kinds = ", ".join(f"`{name}`" for name in dict.fromkeys(left))
        raise ArgumentError(
            f"Argument `figure` must hold lines, points, areas, bars and pictures to be interactive, but it has {kinds}. Show it "
            "as it is, or save it with `viz.to_svg`."
        )
    points = sum(np.size(trace.get("x", ())) + np.size(trace.get("z", ())) for trace in traces)
    if points > MOST_POINTS:
        raise ArgumentError(
            f"Argument `figure` must have at most {MOST_POINTS} points to be interactive, but it has {points}. Draw fewer of them."
        )
    return {"data": traces, "layout": layout}


def _panel(
    traces: list[dict[str, Any]],
    layout: dict[str, Any],
    panels: list[Axes],
    number: int,
    legends: list[tuple[Axes | None, set[str]]],
    shown: set[tuple[int, str]],
) -> list[str]:
    """Add the traces and axes of one panel; what has no translation is returned."""
    axes, suffix = panels[number], str(number + 1) if number else ""
    x, y = f"x{suffix}", f"y{suffix}"
    parts = parts_of(axes)
    box = axes.get_position()
    spans = ((box.x0, box.x1), (box.y0, box.y1))
    for axis, name, other, span in zip((axes.xaxis, axes.yaxis), (x, y), (y, x), spans, strict=True):
        layout[f"{name[0]}axis{suffix}"] = _axis(axis, axes, panels, other, span)
    said = {name: _said(axes, panels, name) for name in "xy"}
    title = " ".join(axes.get_title(loc=side) for side in ("left", "center", "right")).strip()
    for trace in parts.traces:
        for name in "xy":
            _scaled(trace, name, getattr(axes, f"{name}axis"))
        trace |= {"xaxis": x, "yaxis": y, "showlegend": False}
        _hover(trace, said, title)
        place = next(
            (i for i, (own, words) in enumerate(legends) if own in (axes, None) and trace["name"] in words), None
        )
        if place is not None:
            layout["showlegend"] = True
            trace |= {"legend": f"legend{place + 1 if place else ''}", "legendgroup": f"{place} {trace['name']}"}
            trace["showlegend"] = (place, trace["name"]) not in shown
            shown.add((place, trace["name"]))
        traces.append(trace)
    for shape in parts.shapes:
        across = shape.pop("across")
        refs = {"xref": f"{x} domain" if across == "x" else x, "yref": f"{y} domain" if across == "y" else y}
        layout["shapes"].append(shape | refs)
    _words(axes, layout, x, y, title)
    return parts.left


def _axis(axis: Any, axes: Axes, panels: list[Axes], anchor: str, span: tuple[float, float]) -> dict[str, Any]:
    name = axis.axis_name
    low, high = (float(end) for end in (axes.get_xlim() if name == "x" else axes.get_ylim()))
    log, curved = axis.get_scale() == "log", axis.get_scale() not in ("linear", "log")
    ends = axis.get_transform().transform(np.array([low, high])) if log or curved else np.array([low, high])
    near = axis.get_ticks_position() in (
        ("bottom", "default", "unknown") if name == "x" else ("left", "default", "unknown")
    )
    first = ("bottom" if name == "x" else "left") if near else ("top" if name == "x" else "right")
    lines = [line.get_visible() for line in axis.get_gridlines()]
    found: dict[str, Any] = {
        "type": "log" if log else "linear",
        "anchor": anchor,
        "domain": [min(max(end, 0.0), 1.0) for end in span],
        "range": [float(end) for end in ends],
        "side": first,
        "zeroline": False,
        "showgrid": bool(lines) and any(lines),
        "gridcolor": rgba(matplotlib.rcParams["grid.color"]),
        "showline": axes.axison and axes.spines[first].get_visible(),
        "linecolor": rgba(matplotlib.rcParams["axes.edgecolor"]),
        "tickfont": {"size": 11, "color": rgba(matplotlib.rcParams["xtick.color"])},
        "title": {"text": axis.get_label_text().replace("\n", "<br>"), "standoff": 4, "font": {"size": 12}},
        "visible": axes.axison,
    }
    ticks = [label for label in axis.get_ticklabels() if label.get_visible()]
    places = np.asarray(axis.get_majorticklocs(), float)
    found["showticklabels"] = bool(ticks) and bool(len(places))
    formatter = axis.get_major_formatter()
    if curved or not isinstance(formatter, ScalarFormatter | LogFormatter):
        words = formatter.format_ticks(list(places)) if len(places) else []
        found["tickvals"] = axis.get_transform().transform(places) if curved else places
        found["ticktext"] = [_plain(word) for word in words]
        found["ticklabeloverflow"] = "allow"
    else:
        found |= _log_ticks(ends) if log else {"nticks": max(3, len(places))}
        found |= {} if log else {"exponentformat": "e"}
    siblings = axes.get_shared_x_axes() if name == "x" else axes.get_shared_y_axes()
    first_of = next((i for i, other in enumerate(panels) if siblings.joined(axes, other)), None)
    if first_of is not None and panels[first_of] is not axes:
        found["matches"] = f"{name}{first_of + 1 if first_of else ''}"
    return found


def _log_ticks(ends: np.ndarray) -> dict[str, Any]:
    """Whole powers of ten where the axis holds two of them; else 2 and 5 as well."""
    decades = float(np.ptp(ends))
    each = max(1, round(decades / 5)) if decades > 1.5 else "D2" if decades > 0.7 else "D1"
    return {"dtick": each, "exponentformat": "power"}


def _plain(word: str) -> str:
    """A label of Matplotlib, with its powers of ten, in the marks of Plotly."""
    word = re.sub(r"\$\\mathdefault\{(.*)\}\$", r"\1", word).replace("\n", "<br>")
    return re.sub(r"\^\{([^}]*)\}", r"<sup>\1</sup>", word)


def _scaled(trace: dict[str, Any], name: str, axis: Axis) -> None:
    """Numbers of an axis that Plotly does not know, such as symlog, where they are drawn; the true ones are for the label."""
    if axis.get_scale() in ("linear", "log") or name not in trace:
        return
    trace["customdata"] = np.asarray(trace[name], float)
    trace[name] = axis.get_transform().transform(np.asarray(trace[name], float))
    trace["true"] = name


def _said(axes: Axes, panels: list[Axes], name: str) -> tuple[str, str]:
    """The name of an axis and its unit; panels with shared axes have one label."""
    joined = axes.get_shared_x_axes() if name == "x" else axes.get_shared_y_axes()
    own = getattr(axes, f"{name}axis").get_label_text()
    others = [getattr(other, f"{name}axis").get_label_text() for other in panels if joined.joined(axes, other)]
    text = " ".join((own or next((other for other in others if other), name)).split())
    head, _, unit = text.partition("[")
    return head.strip() or name, unit.rstrip("]").strip()


def _hover(trace: dict[str, Any], said: dict[str, tuple[str, str]], title: str) -> None:
    """The label at the mouse: panel, series, and both values with their units."""
    if trace.get("hoverinfo") == "skip":
        return
    true, heads = trace.pop("true", None), [f"<b>{text}</b>" for text in (title, trace["name"]) if text]
    rows = []
    for name in "xy":
        called, unit = said[name]
        value = "%{customdata:.5g}" if name == true else f"%{{{name}:.5g}}"
        rows.append(f"{called}: {value}{f' {unit}' if unit else ''}")
    if trace["type"] == "heatmap":
        rows.append("value: %{z:.5g}")
    trace["hovertemplate"] = "<br>".join([*heads, *rows]) + "<extra></extra>"


def _legends(figure: Figure, panels: list[Axes], layout: dict[str, Any]) -> list[tuple[Axes | None, set[str]]]:
    """Legends where they stand, of panels first; each with the words that it holds."""
    own: list[tuple[Axes | None, Legend | None]] = [(axes, axes.get_legend()) for axes in panels]
    found: list[tuple[Axes | None, set[str]]] = []
    for axes, legend in [*own, *((None, legend) for legend in figure.legends)]:
        words = set() if legend is None else {text.get_text() for text in legend.get_texts()}
        if legend is None or not words:
            continue
        box = legend.get_window_extent().transformed(figure.transFigure.inverted())
        layout[f"legend{len(found) + 1 if found else ''}"] = {
            "x": min(max(box.x0, 0.0), 1.0),
            "y": min(max(box.y1, 0.0), 1.0),
            "xanchor": "left",
            "yanchor": "top",
            "orientation": "h" if legend._ncols > 1 else "v",  # pyright: ignore[reportAttributeAccessIssue]
            "font": {"size": 11},
            "bgcolor": "rgba(0,0,0,0)",
            "tracegroupgap": 0,
        }
        found.append((axes, words))
    return found


def _own_handles(figure: Figure, panels: list[Axes], shown: set[tuple[int, str]]) -> list[dict[str, Any]]:
    """Lines that stand in a legend alone, such as those of several panels that share it."""
    legends = [legend for legend in (*(axes.get_legend() for axes in panels), *figure.legends) if legend is not None]
    found = []
    for place, legend in enumerate(legend for legend in legends if legend.get_texts()):
        for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True):
            if (place, text.get_text()) not in shown and isinstance(handle, Line2D):
                trace = drawn_line(handle)
                trace |= {"x": [None], "y": [None], "name": text.get_text(), "showlegend": True}
                found.append(trace | {"legend": f"legend{place + 1 if place else ''}"})
    return found


def _words(axes: Axes, layout: dict[str, Any], x: str, y: str, title: str) -> None:
    """The title of a panel, texts in it, and the labels of a second axis beside it."""
    plain: dict[str, Any] = {"showarrow": False, "font": {"size": 11}}
    if title:
        place = {"x": 0, "y": 1, "xref": f"{x} domain", "yref": f"{y} domain", "xanchor": "left", "yanchor": "bottom"}
        layout["annotations"].append(plain | place | {"text": title.replace("\n", "<br>"), "font": {"size": 12}})
    sides = {"left": "left", "right": "right"}
    for at_x, at_y, text, shade, aligned in every_text(axes):
        ends = [
            np.log10(at) if axis.get_scale() == "log" else at for at, axis in ((at_x, axes.xaxis), (at_y, axes.yaxis))
        ]
        place = {"x": ends[0], "y": ends[1], "xref": x, "yref": y, "xanchor": sides.get(aligned, "center")}
        layout["annotations"].append(plain | place | {"text": text, "font": {"size": 10, "color": shade}})
    for second in axes.child_axes:
        for label in second.get_yticklabels():
            place = {"x": 1.01, "y": label.get_position()[1], "xref": f"{x} domain", "yref": y, "xanchor": "left"}
            layout["annotations"].append(plain | place | {"text": label.get_text()})


def _colorbar(traces: list[dict[str, Any]], image: Any, axes: Axes) -> None:
    """The scale of colours at the first picture that has this range of colours in the panel of the bar."""
    low, high = image.get_clim()
    trace = next(
        t for t in traces if t["type"] == "heatmap" and (t["zmin"], t["zmax"]) == (low, high) and not t["showscale"]
    )
    box, word = axes.get_position(), axes.get_ylabel()
    place = {"x": box.x0, "y": box.y0, "xanchor": "left", "yanchor": "bottom", "len": box.height, "lenmode": "fraction"}
    bar = place | {"thickness": 10, "outlinewidth": 0, "ypad": 0, "xpad": 0, "nticks": 6, "tickfont": {"size": 10}}
    trace |= {"showscale": True, "colorbar": bar | {"title": {"text": word, "side": "right"}}}


def _heading(figure: Figure, layout: dict[str, Any]) -> None:
    text = figure.get_suptitle()
    if text:
        layout["title"] = {
            "text": text,
            "x": 0.5,
            "y": 1 - 2 * POINT / layout["height"],
            "yanchor": "top",
            "font": {"size": 14},
        }
