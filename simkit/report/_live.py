"""Figures of a report that answer to the mouse, with Plotly's program inside the page."""

import html
import importlib
import json

from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from .. import viz
from .._errors import ArgumentError

POLICY = (
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data: blob:\">"
)
"""Forbids a browser every address outside the page, that of Plotly's own server among them."""

SCRIPT = """(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)"), pairs = PAIRS;
  const colour = text => text.replace(/^rgba\\((\\d+,\\d+,\\d+),/, (all, rgb) => pairs[rgb] ? `rgba(${pairs[rgb]},` : all);
  const turned = (value, key) => {
    if (typeof value === "string") return dark.matches ? colour(value) : value;
    if (key === "colorscale" || key === "annotations" || value === null || typeof value !== "object") return value;
    if (Array.isArray(value)) return value.map(part => turned(part, ""));
    return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, turned(part, name)]));
  };
  const draw = () => document.querySelectorAll("figure.live").forEach(figure => {
    const made = JSON.parse(figure.querySelector("script").textContent);
    figure.classList.add("drawn");
    const layout = {...turned(made.layout, ""), paper_bgcolor: "rgba(0,0,0,0)"};
    Plotly.react(figure.querySelector(".plot"), turned(made.data, ""), layout, {displaylogo: false});
  });
  dark.addEventListener("change", draw);
  draw();
})();"""


def live_figure(figure: Figure) -> str | None:
    """The figure as JSON for Plotly; None where it has no translation, so that its picture stays."""
    try:
        made = viz.interactive(figure)
    except ArgumentError:
        return None
    made.layout.template = None
    return made.to_json().replace("</", "<\\/")


def live_part(spec: str, caption: str) -> str:
    """The place in which a figure is drawn, and its data."""
    region = f'<div class="wide" tabindex="0" role="region" aria-label="{html.escape(caption)}"><div class="plot"></div></div>'
    return f'{region}<script type="application/json">{spec}</script>'


def scripts() -> str:
    """Plotly's program, once, and what draws each figure in the colours of the reader's light or dark mode."""
    program = importlib.import_module("plotly.offline").get_plotlyjs().replace("</script", "<\\/script")
    light, dark = ([_numbers(shade) for shade in _shades(colours)] for colours in (viz.LIGHT, viz.DARK))
    drawn = SCRIPT.replace("PAIRS", json.dumps(dict(zip(light, dark, strict=True))))
    return f"<script>{program}</script>\n<script>{drawn}</script>"


def _shades(colours: viz.Theme) -> list[str]:
    # The ink is the last of the series as well: a name that is there twice has one partner in both themes.
    return [colours.edge, colours.grid, colours.shade, *colours.fills, *colours.colors, colours.paper]


def _numbers(shade: str) -> str:
    return ",".join(str(round(255 * part)) for part in to_rgb(shade))
