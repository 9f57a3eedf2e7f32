"""Artists of a Matplotlib panel as traces and shapes of Plotly, in plain dictionaries."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import Collection, LineCollection, PathCollection, PolyCollection, QuadMesh
from matplotlib.colors import to_rgba
from matplotlib.contour import ContourSet
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Polygon, Rectangle, StepPatch

DASHES = {"-": "solid", "--": "dash", ":": "dot", "-.": "dashdot"}
MARKERS = {
    "o": "circle", ".": "circle", "v": "triangle-down", "^": "triangle-up", "<": "triangle-left", ">": "triangle-right",
    "s": "square", "D": "diamond", "d": "diamond-tall", "x": "x-thin", "+": "cross-thin", "*": "star",
    "_": "line-ew", "|": "line-ns",
}  # fmt: skip
STEPS = {"steps": "vh", "steps-pre": "vh", "steps-mid": "hvh", "steps-post": "hv"}
POINT = 100 / 72
"""Pixels of a point of print, at 100 pixels an inch."""


class Parts(NamedTuple):
    """Content of a panel for Plotly: traces, shapes, and artists that have no translation."""

    traces: list[dict[str, Any]]
    shapes: list[dict[str, Any]]
    left: list[str]


def rgba(shade: Any, alpha: float | None = None) -> str:
    """A colour in the form `rgba(0,114,178,1)`, which alone is used, so that a page can change its theme."""
    red, green, blue, own = to_rgba(shade)
    share = own * (1.0 if alpha is None else alpha)
    return f"rgba({round(255 * red)},{round(255 * green)},{round(255 * blue)},{share:.3g})"


def parts_of(axes: Axes) -> Parts:
    """All artists of a panel that are visible, in the order in which they are drawn."""
    parts = Parts([], [], [])
    bars = {id(bar): container for container in axes.containers for bar in container if isinstance(bar, Rectangle)}
    artists = [*axes.collections, *axes.patches, *axes.lines, *axes.images]
    for artist in sorted((a for a in artists if a.get_visible()), key=lambda a: a.get_zorder()):
        before = len(parts.traces)
        try:
            known = _add(parts, axes, artist, bars.get(id(artist)))
        except (TypeError, ValueError):  # an artist of a known class that holds what it seldom does, such as texts
            known = False
        if not known:
            parts.left.append(type(artist).__name__)
        labelled: Any = bars.get(id(artist), artist)
        label = str(labelled.get_label())
        for trace in parts.traces[before:]:
            trace["name"] = trace["meta"] = "" if label.startswith("_") else label
    return parts


def _add(parts: Parts, axes: Axes, artist: Artist, bars: Any) -> bool:
    """Translate one artist, which may be among `bars`, a container of them; False where there is no translation."""
    if isinstance(artist, Line2D):
        return _line(parts, axes, artist)
    if isinstance(artist, AxesImage):
        parts.traces.append(_image(artist))
        return True
    if isinstance(artist, QuadMesh):
        return _mesh(parts, artist)
    if isinstance(artist, Patch):
        return _patch(parts, axes, artist, bars)
    if isinstance(artist, ContourSet):
        return _contours(parts, artist)
    if isinstance(artist, PathCollection):
        parts.traces.append(_points(artist))
        return True
    if isinstance(artist, LineCollection):
        segments = [np.asarray(segment, float) for segment in artist.get_segments()]
        width = float(np.ravel(artist.get_linewidth())[0])
        x, y = _joined(segments)
        trace = _scatter(x, y, "lines")
        alpha = artist.get_alpha()
        colors = artist.get_colors()
        trace["line"] = {"color": rgba(colors[0], None if len(colors) else alpha), "width": POINT * width}
        parts.traces.append(trace)
        return True
    if isinstance(artist, PolyCollection) and artist.get_offset_transform() != axes.transData:
        parts.traces.append(_area(artist, [path.vertices for path in artist.get_paths()]))
        return True
    return False


def _scatter(x: Any, y: Any, mode: str) -> dict[str, Any]:
    return {"type": "scatter", "x": np.asarray(x, float), "y": np.asarray(y, float), "mode": mode}


def _joined(pieces: list[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Several polygons or segments in one row, NaN between them, where a line breaks."""
    gap = np.full((1, 2), np.nan)
    rows = [part for piece in pieces for part in (np.asarray(piece, float), gap)]
    flat = np.concatenate(rows[:-1]) if rows else np.zeros((0, 2))
    return flat[:, 0], flat[:, 1]


def _line(parts: Parts, axes: Axes, line: Line2D) -> bool:
    if line.get_transform() != axes.transData:
        return line.get_linestyle() in DASHES and _level(parts, axes, line)
    if line.get_marker() not in (*MARKERS, "None", "none", "", " ", None):
        return False
    parts.traces.append(drawn_line(line))
    return True


def drawn_line(line: Line2D) -> dict[str, Any]:
    """The trace of a line with its marks."""
    x, y = (np.ma.filled(np.ma.asarray(values, float), np.nan) for values in line.get_data(orig=False))
    marker, alpha = MARKERS.get(str(line.get_marker())), line.get_alpha()
    lined = line.get_linestyle() in DASHES and line.get_linewidth() > 0
    trace = _scatter(x, y, "+".join(["lines"] * lined + ["markers"] * (marker is not None)) or "none")
    if lined:
        trace["line"] = _stroke(line) | {"shape": STEPS.get(line.get_drawstyle(), "linear")}
    if marker is not None:
        face, edge = line.get_markerfacecolor(), line.get_markeredgecolor()
        size = line.get_markersize() * (0.5 if line.get_marker() == "." else 1.0)
        trace["marker"] = {
            "symbol": marker,
            "size": POINT * size,
            "color": "rgba(0,0,0,0)" if str(face) == "none" else rgba(face, alpha),
            "line": {"color": rgba(edge, alpha), "width": POINT * line.get_markeredgewidth()},
        }
    return trace


def _stroke(line: Line2D) -> dict[str, Any]:
    dash = DASHES.get(str(line.get_linestyle()), "solid")
    return {"color": rgba(line.get_color(), line.get_alpha()), "width": POINT * line.get_linewidth(), "dash": dash}


def _level(parts: Parts, axes: Axes, line: Line2D) -> bool:
    """A line across the panel, in data along one axis only."""
    x, y = (np.asarray(values, float) for values in line.get_data(orig=False))
    across = _across(axes, line.get_transform())
    if across:
        shape = {"type": "line", "line": _stroke(line), "layer": "above", "across": across}
        parts.shapes.append(shape | {"x0": float(x[0]), "x1": float(x[1]), "y0": float(y[0]), "y1": float(y[1])})
    return bool(across)


def _across(axes: Axes, transform: Any) -> str:
    """The axis along which a transform counts in shares of the panel; nothing where it is another."""
    if transform == axes.get_yaxis_transform(which="grid"):
        return "x"
    return "y" if transform == axes.get_xaxis_transform(which="grid") else ""


def _patch(parts: Parts, axes: Axes, patch: Patch, bars: Any) -> bool:
    fill = rgba(patch.get_facecolor()) if patch.get_fill() else "rgba(0,0,0,0)"
    stroke = {"color": rgba(patch.get_edgecolor()), "width": POINT * patch.get_linewidth()}
    if isinstance(patch, StepPatch):
        data: Any = patch.get_data()
        trace = _scatter(data.edges, np.append(data.values, data.values[-1]), "lines")
        trace["line"] = stroke | {"shape": "hv"}
        if patch.get_fill():
            trace |= {"fill": "tozeroy", "fillcolor": fill}
        parts.traces.append(trace)
        return True
    if isinstance(patch, Polygon):
        corners = np.asarray(patch.get_xy(), float)
        trace = _scatter(corners[:, 0], corners[:, 1], "lines")
        trace["line"] = stroke
        parts.traces.append(trace | ({"fill": "toself", "fillcolor": fill} if patch.get_fill() else {}))
        return True
    if not isinstance(patch, Rectangle):
        return False
    (x, y), width, height = patch.get_xy(), patch.get_width(), patch.get_height()
    if bars is not None:
        way = "h" if bars.orientation == "horizontal" else "v"
        last = parts.traces[-1] if parts.traces and parts.traces[-1]["type"] == "bar" else None
        if last is None or (last["marker"]["color"], last["orientation"]) != (fill, way):
            last = {"type": "bar", "x": [], "y": [], "width": [], "base": [], "marker": {"color": fill, "line": stroke}}
            parts.traces.append(last | {"orientation": way})
            last = parts.traces[-1]
        flat = {"x": width, "y": y + height / 2, "width": height, "base": x}
        for key, value in (
            flat if way == "h" else {"x": x + width / 2, "y": height, "width": width, "base": y}
        ).items():
            last[key].append(float(value))
        return True
    shape = {"type": "rect", "fillcolor": fill, "line": {"width": 0}, "layer": "below", "x0": x, "y0": y}
    across = _across(axes, patch.get_data_transform())
    if across or patch.get_data_transform() == axes.transData:
        parts.shapes.append(shape | {"x1": x + width, "y1": y + height, "across": across})
        return True
    return False


def _area(artist: Collection, polygons: list[Any]) -> dict[str, Any]:
    face = artist.get_facecolor()
    x, y = _joined(polygons)
    trace = _scatter(x, y, "lines")
    fill = rgba(np.asarray(face)[0]) if len(np.asarray(face)) else "rgba(0,0,0,0)"
    return trace | {"fill": "toself", "fillcolor": fill, "line": {"width": 0, "color": fill}, "hoveron": "points"}


def _points(artist: PathCollection) -> dict[str, Any]:
    offsets = np.ma.filled(np.ma.asarray(artist.get_offsets(), float), np.nan)
    faces, sizes = (
        [rgba(face) for face in np.asarray(artist.get_facecolor())],
        np.sqrt(np.asarray(artist.get_sizes(), float)),
    )
    trace = _scatter(offsets[:, 0], offsets[:, 1], "markers")
    color = faces if len(faces) == len(offsets) > 1 else faces[0] if faces else "rgba(0,0,0,0)"
    edges = [rgba(edge) for edge in np.asarray(artist.get_edgecolor())]
    trace["marker"] = {"color": color, "size": POINT * (sizes if len(sizes) == len(offsets) > 1 else float(sizes[0]))}
    trace["marker"]["line"] = {"color": edges[0], "width": 0.8} if edges else {"width": 0}
    return trace


def _contours(parts: Parts, artist: ContourSet) -> bool:
    """Lines as traces; filled levels as shapes, whose holes stay open."""
    for number, path in enumerate(artist.get_paths()):
        polygons: Any = path.to_polygons(closed_only=False)
        pieces = [piece for piece in polygons if len(piece) > 1]
        if not pieces:
            continue
        if artist.filled:
            faces = np.asarray(artist.get_facecolor())
            drawn = " ".join("M" + "L".join(f"{x:.6g},{y:.6g}" for x, y in piece) + "Z" for piece in pieces)
            fill = {"fillcolor": rgba(faces[number % len(faces)]), "fillrule": "evenodd", "line": {"width": 0}}
            parts.shapes.append({"type": "path", "path": drawn, "layer": "below", "across": "", **fill})
            continue
        edges, widths = np.asarray(artist.get_edgecolor()), np.ravel(artist.get_linewidth())
        x, y = _joined(pieces)
        trace = _scatter(x, y, "lines")
        dashed = artist.linestyles not in (None, "solid", "-")
        stroke = {"color": rgba(edges[number % len(edges)]), "width": POINT * float(widths[number % len(widths)])}
        trace["line"] = stroke | {"dash": "dash" if dashed else "solid"}
        trace["hoverinfo"] = "skip"
        parts.traces.append(trace)
    return True


def _image(image: AxesImage) -> dict[str, Any]:
    """A picture of numbers with the scale of its colours, and with its bar where there is one."""
    values = np.ma.filled(np.ma.asarray(image.get_array(), float), np.nan)
    left, right, bottom, top = (float(end) for end in image.get_extent())
    rows, columns = values.shape[:2]
    if image.origin == "upper":  # the first row stands at the top
        bottom, top = top, bottom
    steps = {"dx": (right - left) / columns, "dy": (top - bottom) / rows}
    return _heat(image, values) | {
        **steps,
        "x0": left + steps["dx"] / 2,
        "y0": bottom + steps["dy"] / 2,
    }


def _mesh(parts: Parts, mesh: QuadMesh) -> bool:
    """Cells whose sides are lines along the axes, by the ends of their rows and columns."""
    corners: Any = mesh.get_coordinates()
    x, y = corners[0, :, 0], corners[:, 0, 1]
    values: Any = mesh.get_array()
    straight = np.array_equal(corners[..., 0], np.broadcast_to(x, corners.shape[:2]))
    straight &= np.array_equal(corners[..., 1], np.broadcast_to(y[:, None], corners.shape[:2]))
    if not straight or np.size(values) != (len(x) - 1) * (len(y) - 1):
        return False
    values = np.ma.filled(np.ma.asarray(values, float), np.nan).reshape(len(y) - 1, len(x) - 1)
    parts.traces.append(_heat(mesh, values) | {"x": np.asarray(x, float), "y": np.asarray(y, float)})
    return True


def _heat(shown: Any, values: np.ndarray) -> dict[str, Any]:
    """Numbers and the scale of their colours, without the place."""
    low, high = (float(end) for end in shown.get_clim())
    shades = [[k / 32, rgba(shown.get_cmap()(k / 32))] for k in range(33)]
    scale = {"zmin": low, "zmax": high, "colorscale": shades, "showscale": False}
    return {"type": "heatmap", "z": values, **scale}


def every_text(axes: Axes) -> Iterator[tuple[float, float, str, str, str]]:
    """Texts in data coordinates: place, words, colour, and how they are anchored."""
    for text in axes.texts:
        if text.get_visible() and text.get_transform() == axes.transData and text.get_text():
            x, y = text.get_position()
            yield float(x), float(y), text.get_text(), rgba(text.get_color()), str(text.get_horizontalalignment())
