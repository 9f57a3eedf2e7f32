"""Equations as they were written: in text and in MathML, and the tree that both are printed from."""

import html
from collections.abc import Sequence
from typing import Any

from ._equations import Equations, no_call
from ._expression import TIME, Formulas, Node
from ._formula_text import Reader
from ._infix import Printer

GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "zeta": "ζ", "eta": "η", "theta": "θ", "kappa": "κ",
    "lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ", "pi": "π", "rho": "ρ", "sigma": "σ", "tau": "τ", "phi": "φ", "chi": "χ",
    "psi": "ψ", "omega": "ω", "Delta": "Δ", "Gamma": "Γ", "Omega": "Ω", "Sigma": "Σ", "Phi": "Φ", "Psi": "Ψ",
}  # fmt: skip
SIGNS = {"add": "+", "subtract": "−", "multiply": "⋅"}
RELATIONS = {"lt": "&lt;", "leq": "≤", "gt": "&gt;", "geq": "≥", "eq": "=", "neq": "≠", "and": "∧", "or": "∨"}
LEVELS = {"add": 1, "subtract": 1, "negative": 2, "multiply": 3, "power": 5}


class Tree:
    """A graph of formulas that is built as they are written: nothing is simplified, ordered or merged."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []

    def number(self, value: float) -> int:
        """A constant."""
        self.nodes.append(("number", float(value)))
        return len(self.nodes) - 1

    def symbol(self, name: str) -> int:
        """A name."""
        self.nodes.append(("symbol", name))
        return len(self.nodes) - 1

    def make(self, operation: str, *operands: int) -> int:
        """An operation on nodes."""
        self.nodes.append((operation, *operands))
        return len(self.nodes) - 1

    def add(self, *terms: int) -> int:
        """A sum, from the left."""
        return self._folded("add", terms)

    def multiply(self, *factors: int) -> int:
        """A product, from the left."""
        return self._folded("multiply", factors)

    def _folded(self, operation: str, operands: Sequence[int]) -> int:
        node = operands[0]
        for other in operands[1:]:
            node = self.make(operation, node, other)
        return node


class Spelled:
    """The formulas of a model as trees of what was written; symbols are `SORT:NAME`.

    - `rates`, `assignments`, `observed`: nodes by name.
    """

    def __init__(self, equations: Equations):
        tree, sorts = Tree(), equations.sorts()

        def symbol(name: str) -> int:
            return tree.symbol(f"time:{TIME}" if name in ("t", "time()") else f"{sorts[name]}:{name}")

        reader = Reader(tree, symbol, no_call, {}, "the model")
        read = lambda pairs: {name: reader.read(text, f"`{name}`") for name, text in pairs}
        self.rates, self.assignments, self.observed = (
            read(pairs) for pairs in (equations.rates, equations.assignments, equations.observed)
        )
        self.nodes = tree.nodes

    def mathml(self, node: int, outer: int = 0) -> str:
        """A formula in presentation MathML."""
        operation, *operands = self.nodes[node]
        if operation == "number":
            return f"<mn>{_number(operands[0])}</mn>"
        if operation == "symbol":
            return named(operands[0].partition(":")[2].replace(TIME, "t"))
        inner = lambda place, level=0: self.mathml(operands[place], level)
        if operation == "divide":
            return f"<mfrac><mrow>{inner(0)}</mrow><mrow>{inner(1)}</mrow></mfrac>"
        if operation == "power" and self.nodes[operands[1]] == ("number", 0.5):
            return f"<msqrt>{inner(0)}</msqrt>"
        if operation == "power":
            return f"<msup><mrow>{inner(0, 6)}</mrow><mrow>{inner(1)}</mrow></msup>"
        if operation in SIGNS:
            level = LEVELS[operation]
            right = inner(1, level + (operation == "subtract"))
            text = f"{inner(0, level)}<mo>{SIGNS[operation]}</mo>{right}"
        elif operation == "negative":
            level, text = LEVELS[operation], f"<mo>−</mo>{inner(0, 3)}"
        elif operation in RELATIONS:
            level, text = 0, f"{inner(0, 1)}<mo>{RELATIONS[operation]}</mo>{inner(1, 1)}"
        elif operation == "choice":
            rows = [(inner(0), f"<mtext>if </mtext>{inner(1)}"), (inner(2), "<mtext>otherwise</mtext>")]
            cells = "".join(f"<mtr><mtd>{value}</mtd><mtd>{when}</mtd></mtr>" for value, when in rows)
            return f'<mrow><mo>{{</mo><mtable columnalign="left">{cells}</mtable></mrow>'
        else:
            word = {"not": "¬"}.get(operation, operation)
            inside = "<mo>,</mo>".join(self.mathml(x) for x in operands)
            return f"<mrow><mi>{word}</mi><mo>(</mo>{inside}<mo>)</mo></mrow>"
        return f"<mrow><mo>(</mo>{text}<mo>)</mo></mrow>" if level < outer else f"<mrow>{text}</mrow>"

    def text(self, node: int, symbols: Any, *, python: bool) -> str:
        """A formula in Python, or in the infix of SBML; `symbols` makes the text of a symbol."""
        return Printer(Formulas(tuple(self.nodes)), {}, symbols, python=python).text(node)


def named(name: str) -> str:
    """A name in MathML: Greek letters by their characters, what follows an underscore as an index."""
    head, _, rest = name.partition("_")
    base = f"<mi>{GREEK.get(head, html.escape(head))}</mi>"
    return f"<msub>{base}<mtext>{html.escape(rest.replace('_', ', '))}</mtext></msub>" if head and rest else base


def equations_html(equations: Equations) -> str:
    """The equations of a model as HTML with MathML, which browsers draw by themselves."""
    spelled = Spelled(equations)
    slope = lambda name: f"<mfrac><mrow><mi>d</mi>{named(name)}</mrow><mrow><mi>d</mi><mi>t</mi></mrow></mfrac>"
    rows = [(slope(name), node) for name, node in spelled.rates.items()]
    rows += [(named(name), node) for name, node in {**spelled.assignments, **spelled.observed}.items()]
    lines = "".join(
        f"<mtr><mtd>{left}</mtd><mtd><mo>=</mo></mtd><mtd>{spelled.mathml(node)}</mtd></mtr>" for left, node in rows
    )
    table = f'<mtable columnalign="right center left" displaystyle="true" rowspacing="0.8em">{lines}</mtable>'
    label = html.escape(equations_text(equations).replace("\n", "; "), quote=True)
    return f'<div class="equations" style="overflow-x: auto"><math display="block" aria-label="{label}">{table}</math></div>'


def equations_text(equations: Equations) -> str:
    """The equations of a model as they were given, one a line."""
    rows = [(f"d{name}/dt", text) for name, text in equations.rates]
    rows += [*equations.assignments, *equations.observed]
    return "\n".join(f"{left} = {' '.join(text.split())}" for left, text in rows)


def _number(value: float) -> str:
    text = f"{value:.15g}"
    head, _, power = text.partition("e")
    return f"{head}</mn><mo>·</mo><msup><mn>10</mn><mn>{int(power)}</mn></msup>" if power else text
