"""Interactive figures: the numbers, units, scales and legends of the Matplotlib figure, and a refusal that names what is left."""

import re

import matplotlib.style
import numpy as np
import pytest
from drawn_figures import FIGURES
from matplotlib.figure import Figure

import simkit
from simkit import viz

pytest.importorskip("plotly")
REFUSED = {"atoms": "EllipseCollection", "flat atoms": "EllipseCollection", "phase": "Quiver"}


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_translated_or_refused_by_name(name):
    figure = FIGURES[name]()
    if name in REFUSED:
        with pytest.raises(simkit.ArgumentError, match=f"`{REFUSED[name]}`"):
            viz.interactive(figure)
        return
    live = viz.interactive(figure)
    drawn = [line for axes in figure.axes for line in axes.lines if line.get_transform() == axes.transData]
    rows = [trace for trace in live.data if trace.type == "scatter"]
    for line in drawn:
        if line.axes.get_xscale() == line.axes.get_yscale() == "linear":
            x, y = (np.asarray(values, float) for values in line.get_data())
            assert any(np.array_equal(t.x, x, equal_nan=True) and np.array_equal(t.y, y, equal_nan=True) for t in rows)
    words = {text.get_text() for axes in figure.axes if axes.get_legend() for text in axes.get_legend().get_texts()}
    words |= {text.get_text() for legend in figure.legends for text in legend.get_texts()}
    named = [(trace.legend, trace.name) for trace in live.data if trace.showlegend]
    assert {word for _, word in named} == words
    assert len(named) == len(set(named))
    assert figure.get_suptitle() == (live.layout.title.text or "")


def test_labels_at_the_mouse_have_units_and_panels_zoom_together():
    live = viz.interactive(FIGURES["fit"]())
    label = next(trace.hovertemplate for trace in live.data if trace.name == "median" and trace.yaxis == "y")
    assert label.startswith("<b>year 0</b><br><b>median</b>")
    assert "prey: %{y:.5g} thousand" in label
    assert "year: %{x:.5g}" in label
    assert live.layout.yaxis2.matches == "y"
    assert live.layout.xaxis3.matches == "x"
    assert live.layout.xaxis.title.text is None or live.layout.xaxis.title.text == ""


def test_scales_that_a_browser_does_not_know_keep_the_true_numbers_in_the_label():
    figure = FIGURES["waterfall"]()
    (axes,) = figure.axes
    live = viz.interactive(figure)
    trace = next(trace for trace in live.data if trace.name == "iteration limit")
    line = next(line for line in axes.lines if line.get_label() == "iteration limit")
    np.testing.assert_array_equal(trace.customdata, line.get_ydata())
    np.testing.assert_allclose(trace.y, axes.yaxis.get_transform().transform(line.get_ydata()))
    assert "%{customdata:.5g}" in trace.hovertemplate
    assert "10<sup>1</sup>" in live.layout.yaxis.ticktext
    spectrum = viz.interactive(FIGURES["spectrum"]())
    assert spectrum.layout.xaxis.type == spectrum.layout.yaxis.type == "log"


def test_pictures_stand_where_they_stood():
    figure = Figure()
    axes = figure.subplots()
    axes.imshow(np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), origin="lower", extent=(0.0, 6.0, 10.0, 14.0))
    (trace,) = viz.interactive(figure).data
    assert (trace.x0, trace.dx, trace.y0, trace.dy) == (1.0, 2.0, 11.0, 2.0)
    np.testing.assert_array_equal(trace.z, [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    matrix = Figure()
    matrix.subplots().imshow(np.eye(2))  # the first row at the top, whose middle is at 0
    (trace,) = viz.interactive(matrix).data
    assert (trace.x0, trace.dx, trace.y0, trace.dy) == (0.0, 1.0, 0.0, 1.0)
    assert viz.interactive(matrix).layout.yaxis.range == (1.5, -0.5)


def test_error_bars_bars_steps_and_scattered_points():
    figure = Figure()
    axes = figure.subplots()
    axes.errorbar([1.0, 2.0], [3.0, 4.0], yerr=[0.5, 0.25], fmt="s", label="seen")
    axes.bar([0.0, 1.0], [2.0, 3.0], width=0.5, bottom=1.0)
    axes.scatter([1.0, 2.0], [5.0, 6.0], c=["red", "blue"])
    live = viz.interactive(figure)
    ends = next(trace for trace in live.data if trace.type == "scatter" and trace.mode == "lines")
    np.testing.assert_array_equal(ends.y, [2.5, 3.5, np.nan, 3.75, 4.25])
    bars = next(trace for trace in live.data if trace.type == "bar")
    assert (list(bars.y), list(bars.base), list(bars.width)) == ([2.0, 3.0], [1.0, 1.0], [0.5, 0.5])
    marks = next(
        trace
        for trace in live.data
        if trace.type == "scatter" and trace.mode == "markers" and list(trace.y) == [5.0, 6.0]
    )
    assert list(marks.marker.color) == ["rgba(255,0,0,1)", "rgba(0,0,255,1)"]
    crowd = Figure()
    crowd.subplots().plot(np.zeros(50_001))
    with pytest.raises(simkit.ArgumentError, match="at most 50000 points"):
        viz.interactive(crowd)


def test_dark_figures_stay_dark():
    with matplotlib.style.context("dark_background"):
        live = viz.interactive(FIGURES["trajectory"]())
    assert live.layout.paper_bgcolor == "rgba(19,20,22,1)"
    assert re.match(r"rgba\(224,224,224", live.layout.font.color)


def test_bars_lie_as_in_the_picture_and_cells_have_their_sides():
    live = viz.interactive(FIGURES["sensitivity"]())
    bars = {trace.name: trace for trace in live.data if trace.type == "bar"}
    assert [bars[name].orientation for name in ("alone", "with interactions")] == ["h", "h"]
    np.testing.assert_allclose(bars["alone"].x, [0.6, 0.25, 0.1])
    np.testing.assert_allclose(bars["alone"].y, np.arange(3) - 0.2)
    (heat,) = (trace for trace in viz.interactive(FIGURES["map"]()).data if trace.type == "heatmap")
    assert (len(heat.y), len(heat.x)) == (heat.z.shape[0] + 1, heat.z.shape[1] + 1)
    assert heat.showscale
