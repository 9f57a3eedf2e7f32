"""Networks of elementary reactions read with NumPy and SciPy alone, for peers: a reader of its own, beside that of simkit."""

import pathlib
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp


class Plain(NamedTuple):
    """Rate constants, the two reactants of each reaction (the last place holds a 1), net changes, and amounts at the start."""

    k: np.ndarray
    reactants: np.ndarray
    change: Any
    y0: np.ndarray
    names: list[str]

    def field(self, y: np.ndarray) -> np.ndarray:
        whole = np.append(y, 1.0)
        return self.change @ (self.k * whole[self.reactants[0]] * whole[self.reactants[1]])

    def jacobian(self, y: np.ndarray) -> Any:
        whole, (a, b), n = np.append(y, 1.0), self.reactants, len(y)
        rows = np.tile(np.arange(len(self.k)), 2)
        slopes = np.concatenate([self.k * whole[b], self.k * whole[a]])
        columns = np.concatenate([a, b])
        return (self.change @ sp.csc_array((slopes, (rows, columns)), shape=(len(self.k), n + 1)))[:, :n]


def read(path: str) -> Plain:
    """Read a file of BioNetGen whose rate constants are numbers, names, products of these, and such a product over a name."""
    blocks: dict[str, list[list[str]]] = {}
    name = ""
    for line in pathlib.Path(path).read_text().splitlines():
        words = line.split("#")[0].split()
        if words and words[0] in ("begin", "end"):
            name = words[1] if words[0] == "begin" else ""
        elif words and name:
            blocks.setdefault(name, []).append(words)
    values: dict[str, float] = {}
    factor = lambda text: values[text] if text in values else float(text)

    def product(text: str) -> float:
        above, *below = text.replace("(", "").replace(")", "").split("/")
        return float(np.prod([factor(x) for x in above.split("*")]) / np.prod([factor(x) for x in below]))

    for _, parameter, text in blocks["parameters"]:
        values[parameter] = product(text)
    names = [words[1] for words in blocks["species"]]
    y0 = np.array([product(words[2]) for words in blocks["species"]])
    k, reactants, entries = [], [], []
    for r, (_, left, right, rate) in enumerate(blocks["reactions"]):
        sides = [[int(i) - 1 for i in side.split(",") if i != "0"] for side in (left, right)]
        k.append(product(rate))
        reactants.append((sides[0] + [len(names)] * 2)[:2])
        entries += [(i, r, -1.0) for i in sides[0]] + [(i, r, 1.0) for i in sides[1]]
    i, j, count = zip(*entries, strict=True)
    change = sp.csr_array((count, (i, j)), shape=(len(names), len(k)))
    return Plain(np.array(k), np.array(reactants).T, change, y0, names)
