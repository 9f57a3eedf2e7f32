"""Rate laws of reactions in network files of BioNetGen."""

import re
from collections.abc import Sequence

from ._blocks import Line
from ._formula_text import Builder, Reader

LAWS = ("Ele", "Sat", "Hill", "MM")
FACTOR = re.compile(r"(\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+)\*(\w+)")


def rate_of(line: Line, words: Sequence[str], amounts: Sequence[int], reader: Reader) -> int:
    """The rate of a reaction.

    **Arguments:**

    - `line`, `words`: the line of the reaction, and its words after reactants and products.
    - `amounts`: the nodes of the amounts of its reactants.
    - `reader`: reads formulas of parameters and functions.
    """
    graph, where = reader.graph, f"{line.where} the rate"
    if len(words) == 1:
        return graph.multiply(reader.read(words[0], where), *amounts)
    match = FACTOR.fullmatch(words[0])
    law, factor = (match[2], float(match[1])) if match else (words[0], 1.0)
    if law not in LAWS:
        raise line.error(f"must have a rate law that simkit knows ({', '.join(LAWS)}), but it is `{law[:80]}`.")
    constants = [reader.read(word, where) for word in words[1:]]
    _check_counts(line, law, len(constants), len(amounts))
    scaled = graph.multiply(graph.number(factor), constants[0])
    if law == "Sat":
        return _saturated(graph, scaled, constants[1:], amounts)
    if law == "Hill":
        powers = [graph.make("power", base, constants[2]) for base in (amounts[0], constants[1])]
        share = graph.make("divide", powers[0], graph.add(*powers))
        return graph.multiply(scaled, share, *amounts[1:])
    if law == "MM":
        return _michaelis_menten(graph, scaled, constants[1], amounts)
    return graph.multiply(scaled, *amounts)


def _check_counts(line: Line, law: str, constants: int, reactants: int) -> None:
    least, most = {"Ele": (1, 1), "Sat": (1, reactants + 1), "Hill": (3, 3), "MM": (2, 2)}[law]
    if not least <= constants <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        raise line.error(f"must give the law `{law}` {wanted} constants here, but gives {constants}.")
    if reactants < (needed := {"Hill": 1, "MM": 2}.get(law, 0)):
        raise line.error(f"must give the law `{law}` at least {needed} reactants, but gives {reactants}.")


def _saturated(graph: Builder, scaled: int, halves: Sequence[int], amounts: Sequence[int]) -> int:
    if not halves:  # a law of order zero, whatever the reactants
        return scaled
    shares = [graph.make("divide", x, graph.add(k, x)) for k, x in zip(halves, amounts, strict=False)]
    return graph.multiply(scaled, *shares, *amounts[len(halves) :])


def _michaelis_menten(graph: Builder, scaled: int, half: int, amounts: Sequence[int]) -> int:
    """The rate with the substrate that no enzyme holds, the positive root of S^2 - b S = S0 K.

    Of its two forms each loses no digits on one side of b = 0.
    """
    number = graph.number
    whole, enzyme = amounts[0], graph.add(*amounts[1:])
    b = graph.make("subtract", graph.make("subtract", whole, half), enzyme)
    product = graph.multiply(whole, half)
    inner = graph.add(graph.multiply(b, b), graph.multiply(number(4.0), product))
    sum_ = graph.add(graph.make("power", inner, number(0.5)), graph.make("abs", b))
    above = graph.multiply(number(0.5), sum_)
    below = graph.make("divide", graph.multiply(number(2.0), product), sum_)
    free = graph.make("choice", above, graph.make("geq", b, number(0.0)), below)
    return graph.multiply(scaled, enzyme, graph.make("divide", free, graph.add(half, free)))
