"""A model's docstring as HTML: displayed equations drawn by Matplotlib's own TeX subset, everything else as text."""

import base64
import html
import inspect
import io
import re

import matplotlib
from matplotlib.figure import Figure

SYMBOLS = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "zeta": "ζ", "eta": "η", "theta": "θ", "kappa": "κ",
    "lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ", "pi": "π", "rho": "ρ", "sigma": "σ", "tau": "τ", "phi": "φ", "chi": "χ",
    "psi": "ψ", "omega": "ω", "Delta": "Δ", "Gamma": "Γ", "Omega": "Ω", "Sigma": "Σ", "Phi": "Φ", "cdot": "·", "times": "×",
    "sum": "Σ", "ln": " ln ", "log": " log ", "sin": " sin ", "cos": " cos ", "exp": " exp ", "infty": "∞", "le": "≤", "ge": "≥",
    "approx": "≈", "ne": "≠", "sqrt": "√", "to": "→", "in": "∈", "partial": "∂", "nabla": "∇", "ldots": "…", "dots": "…",
}  # fmt: skip

KNOWN = tuple(
    (re.compile(found), put)
    for found, put in (
        (r"\\[bB]igg?[lr]?(?![a-zA-Z])", ""),
        (r"\\[td]frac(?![a-zA-Z])", r"\\frac"),
        (r"\\frac\s*(\w)\s*(\\[a-zA-Z]+|\w)", r"\\frac{\1}{\2}"),
        (r"\\frac\s*(\w)\s*\{", r"\\frac{\1}{"),
        (r"\\sqrt\s*(\\[a-zA-Z]+|\w)", r"\\sqrt{\1}"),
        (r"\\text(?=\s*\{)", r"\\mathrm"),
        (r"\\to(?![a-zA-Z])", r"\\rightarrow"),
        (r"\\([lgn]e)(?![a-zA-Z])", r"\\\1q"),
    )
)
"""TeX that Matplotlib does not know, and what it knows in its place."""

MATRIX = re.compile(r"\\begin\{pmatrix\}(.*?)\\end\{pmatrix\}")

FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def describe_model(system: object) -> str:
    """The docstring of a system as HTML: paragraphs, lists and equations, without the example, which is for Python."""
    text = FENCE.sub("", inspect.getdoc(type(system)) or "")
    blocks = []
    for paragraph in re.split(r"\n\s*\n", text):
        stripped = paragraph.strip()
        if stripped.startswith("$$") and stripped.endswith("$$"):
            blocks.append(_displayed(stripped[2:-2]))
        elif stripped.startswith("- "):
            items = re.split(r"^- ", stripped, flags=re.MULTILINE)[1:]
            blocks.append("<ul>\n" + "\n".join(f"<li>{inline(item)}</li>" for item in items) + "\n</ul>")
        elif stripped:
            blocks.append(f"<p>{inline(stripped)}</p>")
    return "\n".join(blocks)


def inline(text: str) -> str:
    """Text with `code`, **bold** and small formulas as HTML."""
    escaped = html.escape(" ".join(text.split()))
    escaped = re.sub(r"\$([^$]+)\$", lambda found: f"<i>{_plain(found[1])}</i>", escaped)
    escaped = re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped)
    return re.sub(r"\*\*([^*]+)\*\*", r"<b>\1</b>", escaped)


def _plain(formula: str) -> str:
    """A small TeX formula as text: symbols by their characters, what is unknown by its name."""
    text = re.sub(r"\\frac\{([^{}]+)\}\{([^{}]+)\}", r"\1/\2", formula)
    text = re.sub(r"\\([A-Za-z]+)\s*", lambda found: SYMBOLS.get(found[1], found[1] + " "), text)
    text = re.sub(r"_\{([^{}]+)\}|_(\w)", lambda found: f"<sub>{found[1] or found[2]}</sub>", text)
    text = re.sub(r"\^\{([^{}]+)\}|\^(\w)", lambda found: f"<sup>{found[1] or found[2]}</sup>", text)
    return re.sub(r"[\\{}]", "", text)


def _displayed(formula: str) -> str:
    """An equation as a picture; as text where it needs more TeX than Matplotlib knows."""
    formula = " ".join(formula.split())
    lines = _lines(formula)
    try:
        with matplotlib.rc_context({"svg.fonttype": "path", "mathtext.fontset": "cm", "svg.hashsalt": "simkit"}):
            figure = Figure()
            figure.text(0, 0, "\n".join(f"${line}$" for line in lines), fontsize=15, linespacing=1.6)
            buffer = io.BytesIO()
            figure.savefig(buffer, format="svg", bbox_inches="tight", transparent=True, metadata={"Date": None})
    except ValueError:
        return f'<pre tabindex="0">{html.escape(formula)}</pre>'
    picture = base64.b64encode(buffer.getvalue()).decode()
    return f'<img class="equation" alt="{html.escape(formula)}" src="data:image/svg+xml;base64,{picture}">'


def _lines(formula: str) -> list[str]:
    """The lines of a formula, in the TeX that Matplotlib knows."""
    lines = re.split(r"\\qquad|(?<=,) *\\quad|\\\\", _known(formula))
    return [line.strip() for line in lines if line.strip()]


def _known(formula: str) -> str:
    """A formula in the TeX that Matplotlib knows; a column stands as a transposed row, and rows of a matrix one after another."""
    for found, put in KNOWN:
        formula = found.sub(put, formula)
    return MATRIX.sub(_in_a_row, formula)


def _in_a_row(matrix: re.Match[str]) -> str:
    rows = [[cell.strip() for cell in row.split("&")] for row in matrix[1].split(r"\\")]
    if any(len(row) > 1 for row in rows):
        return r"(" + r";\;".join(r"\;".join(row) for row in rows) + ")"
    return r"(" + r",\,".join(row[0] for row in rows) + ")^T"
