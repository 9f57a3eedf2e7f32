"""Files of n2p2 and RuNNer: high-dimensional neural network potentials of Behler and Parrinello."""

import dataclasses
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..._doors import check_kind
from ..._errors import ArgumentError, DataError, close_matches
from ._potential_text import PotentialText, shown

_SYMBOLS = (
    "H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br Kr Rb Sr Y Zr Nb Mo Tc Ru Rh "
    "Pd Ag Cd In Sn Sb Te I Xe Cs Ba La Ce Pr Nd Pm Sm Eu Gd Tb Dy Ho Er Tm Yb Lu Hf Ta W Re Os Ir Pt Au Hg Tl Pb Bi Po At Rn Fr "
    "Ra Ac Th Pa U Np Pu Am Cm Bk Cf Es Fm Md No"
)
SYMBOLS = tuple(_SYMBOLS.split())
CUTOFFS = ("hard", "cos", "tanhu", "tanh", "exp", "poly1", "poly2", "poly3", "poly4")
ACTIVATIONS = "ltsprgcSeh"
CORES = {"c": "cos", "p1": "poly1", "p2": "poly2", "p3": "poly3", "p4": "poly4", "e": "exp"}
COUNTS = {2: (4,), 3: (6, 7), 9: (6, 7), 12: (3,), 13: (5,), 20: (4,), 21: (7,), 22: (7,), 23: (3,), 24: (5,), 25: (5,)}
"""Words behind the number of a type of symmetry function."""
REFUSED = {
    "nnp_type": "a potential of charges (third and fourth generation)",
    "use_electrostatics": "a potential of charges (third and fourth generation)",
    "use_short_ewald": "a potential of charges (third and fourth generation)",
    "element_nodes_short": "layers of single elements",
    "element_hidden_layers_short": "layers of single elements",
    "element_activation_short": "activation functions of single elements",
}


@dataclasses.dataclass(frozen=True, order=True)
class SymmetryFunction:
    """A symmetry function in the order of the file's statistics, but for the element in the middle; lengths in those of the file.

    - `kind`: the number of its type; `shape`: the cutoff function, or the core of a compact one, with `a` for an asymmetric one.
    - `sorting`: what decides the order within a kind.
    - `others`: places of the elements of the neighbours, none where these are weighted by their atomic number.
    - `numbers`: eta, shift, lambda, zeta, cutoff, alpha; of a compact one left and right distance, left and right angle (degrees).
    """

    kind: int
    sorting: tuple[Any, ...]
    shape: str
    others: tuple[int, ...]
    numbers: tuple[float, ...]

    @property
    def cutoff(self) -> float:
        """The distance from which on it is 0."""
        return self.numbers[1] if self.kind >= 20 else self.numbers[4]


@dataclasses.dataclass(frozen=True)
class NetworkTable:
    """The numbers of a high-dimensional neural network potential.

    - `elements`: names, one a species; `atomic_numbers` of all elements of the file, in rising order, and `places`, the place of
        each species among these.
    - `functions`: the symmetry functions of each species, in their order.
    - `centres`, `factors`: what is subtracted from each and by which it is multiplied then, and `least`, added after that.
    - `layers`: of each species the weights (from, to) and biases of its layers; `activations`, a letter a layer; `normalised`: sums
        are divided by the number of connections.
    - `offsets`: the energies of single atoms, and `energy`, the unit of the networks' energies; both in those of the file.
    """

    elements: tuple[str, ...]
    atomic_numbers: tuple[int, ...]
    places: tuple[int, ...]
    functions: tuple[tuple[SymmetryFunction, ...], ...]
    centres: tuple[np.ndarray, ...]
    factors: tuple[np.ndarray, ...]
    least: float
    layers: tuple[tuple[tuple[np.ndarray, np.ndarray], ...], ...]
    activations: str
    normalised: bool
    offsets: np.ndarray
    energy: float

    def __repr__(self) -> str:
        counts = ", ".join(f"{e}: {len(f)}" for e, f in zip(self.elements, self.functions, strict=True))
        nodes = "-".join(str(len(bias)) for _, bias in self.layers[0])
        return f"NetworkTable of {', '.join(self.elements)}: symmetry functions {counts}, layers {nodes}"


def read_n2p2(folder: str | Path, elements: Sequence[str]) -> NetworkTable:
    """A high-dimensional neural network potential of Behler and Parrinello from the files of n2p2, which RuNNer writes, too.

    **Arguments:**

    - `folder`: with `input.nn`, `scaling.data` and a `weights.NNN.data` for each element, where NNN is its atomic number.
    - `elements`: which of its elements are wanted, in the order of the species.

    **Returns:** a `NetworkTable`, for `BehlerParrinello.from_table`.

    **Raises:** an `ArgumentError` for elements that the potential has not; a `DataError` that names file and line: a keyword or a
    type of symmetry function that is not known, statistics or weights that are missing or do not fit, a potential that has
    charges of its own.

    **Source:** https://compphysvienna.github.io/n2p2/topics/keywords.html; Singraber and others (2019),
    doi:10.1021/acs.jctc.8b00770.
    """
    check_kind("folder", folder, str | Path, "the name of a folder", 'Write `md.read_n2p2("folder", ["H", "O"])`.')
    if isinstance(elements, str) or not all(isinstance(name, str) for name in elements):
        raise ArgumentError(
            f'Argument `elements` must be a list of names, such as ["H", "O"], but is {shown(str(elements))}.'
        )
    folder = Path(folder)
    settings = Settings(folder / "input.nn")
    names = settings.elements()
    for name in elements:
        if name not in names:
            raise ArgumentError(
                f"Argument `elements` must hold elements of the potential, but holds `{name}`. {close_matches(name, names)}"
            )
    if not elements:
        raise ArgumentError("Argument `elements` must hold at least one element, but it is empty.")
    places = tuple(names.index(name) for name in elements)
    functions = settings.functions(names)
    centres, factors, least = settings.scaling(folder / "scaling.data", functions)
    nodes, activations = settings.layers()
    numbers = tuple(SYMBOLS.index(name) + 1 for name in names)
    layers = tuple(_weights(folder / f"weights.{numbers[k]:03d}.data", (len(functions[k]), *nodes, 1)) for k in places)
    offsets = settings.offsets(names)
    pick = lambda rows: tuple(rows[k] for k in places)
    return NetworkTable(
        tuple(elements), numbers, places, pick(functions), pick(centres), pick(factors), least, layers, activations,
        settings.has("normalize_nodes"), np.array([offsets[k] for k in places]), 1 / settings.number("conv_energy", 1.0),
    )  # fmt: skip


class Settings:
    """Keywords of `input.nn`, with the line of each."""

    def __init__(self, path: Path):
        self.text = PotentialText(path)
        self.known: dict[str, list[tuple[int, list[str]]]] = {}
        for line, text in enumerate(self.text.lines, 1):
            words = text.partition("#")[0].split()
            if words:
                self.known.setdefault(words[0], []).append((line, words[1:]))
        for name, what in REFUSED.items():
            if name in self.known and self.known[name][0][1][:1] not in (["2"], ["2G"], ["2G-HDNNP"], ["1"]):
                raise self.text.error(
                    f"must not ask for {what} by `{name}`, which is not known.", self.known[name][0][0]
                )

    def has(self, name: str) -> bool:
        return name in self.known

    def words(self, name: str) -> list[str]:
        """The words behind a keyword that must be there."""
        if name not in self.known:
            raise DataError(f"The potential file `{self.text.name}` must have the keyword `{name}`, but it has not.")
        return self.known[name][-1][1]

    def number(self, name: str, default: float, place: int = 0) -> float:
        if name not in self.known or len(self.known[name][-1][1]) <= place:
            return default
        line, words = self.known[name][-1]
        return self.text.finite(words[place], f"the number of `{name}`", line)

    def elements(self) -> tuple[str, ...]:
        """The elements by their atomic number."""
        found = self.words("elements")[: int(self.number("number_of_elements", 100.0))]
        for name in found:
            if name not in SYMBOLS:
                line = self.known["elements"][-1][0]
                raise self.text.error(f"must name elements, but there is `{shown(name)}`.", line)
        return tuple(sorted(found, key=SYMBOLS.index))

    def offsets(self, names: Sequence[str]) -> list[float]:
        """The energy of an atom of each element beside that of its network."""
        found = dict.fromkeys(names, self.number("mean_energy", 0.0))
        for line, words in self.known.get("atom_energy", []):
            if len(words) < 2 or words[0] not in found:
                raise self.text.error("must hold an element and its energy.", line)
            found[words[0]] += self.text.finite(words[1], "the energy of an atom", line)
        return list(found.values())

    def layers(self) -> tuple[list[int], str]:
        """Nodes of the hidden layers, and a letter for each activation."""
        count = int(self.number("global_hidden_layers_short", 0.0))
        nodes = [int(word) for word in self.words("global_nodes_short")[:count]]
        activations = "".join(self.words("global_activation_short"))[: count + 1]
        if len(nodes) < count or len(activations) < count + 1 or not set(activations) <= set(ACTIVATIONS):
            raise DataError(
                f"The potential file `{self.text.name}` must give nodes and known activations ({' '.join(ACTIVATIONS)}) of "
                f"{count} hidden layers and activations of one more, but gives {nodes} and `{activations}`."
            )
        return nodes, activations

    def functions(self, names: Sequence[str]) -> tuple[tuple[SymmetryFunction, ...], ...]:
        """The symmetry functions of each element, in the order of their statistics."""
        cutoff = int(self.number("cutoff_type", 1.0))
        if not 0 <= cutoff < len(CUTOFFS):
            raise self.text.error("must give a cutoff type from 0 to 8.", self.known["cutoff_type"][-1][0])
        alpha = self.number("cutoff_type", 0.0, 1)
        found: list[list[SymmetryFunction]] = [[] for _ in names]
        for line, words in self.known.get("symfunction_short", []):
            if len(words) < 2 or words[0] not in names:
                raise self.text.error("must hold an element of the potential and a symmetry function.", line)
            found[names.index(words[0])].append(self._function(words[1:], names, cutoff, alpha, line))
        return tuple(tuple(sorted(row)) for row in found)

    def _function(
        self, words: list[str], names: Sequence[str], cutoff: int, alpha: float, line: int
    ) -> SymmetryFunction:
        kind = int(words[0]) if words[0].isdigit() else -1
        if kind not in COUNTS or len(words) - 1 not in COUNTS[kind]:
            raise self.text.error(
                f"must hold a symmetry function of the types {', '.join(map(str, COUNTS))} with all its numbers, but it is "
                f"`{shown(' '.join(words))}`.",
                line,
            )
        weighted = kind in (12, 13, 23, 24, 25)
        partners = 0 if weighted else 1 if kind in (2, 20) else 2
        for name in words[1 : 1 + partners]:
            if name not in names:
                raise self.text.error(f"must name elements of the potential, but there is `{shown(name)}`.", line)
        others = tuple(sorted(names.index(name) for name in words[1 : 1 + partners]))
        rest = words[1 + partners :]
        if kind >= 20:
            core, asymmetric = rest[-1].removesuffix("a"), rest[-1].endswith("a")
            if core not in CORES:
                raise self.text.error(f"must end in a compact function, one of {', '.join(CORES)}.", line)
            numbers = tuple(self.text.finite(word, "a boundary", line) for word in rest[:-1])
            angles = numbers[2:] or (0.0, 0.0)
            sorting = (rest[-1], others, numbers[1], numbers[0], *angles)
            return SymmetryFunction(kind, sorting, CORES[core] + "a" * asymmetric, others, (*numbers[:2], *angles))
        values = [self.text.finite(word, "a number of a symmetry function", line) for word in rest]
        if kind in (2, 12):
            eta, shift, end = values
            spread, power = 0.0, 0.0
        elif kind == 13:
            eta, shift, spread, power, end = values
        else:
            eta, spread, power, end, shift = [*values, 0.0][:5]
        sorting = (end, eta, shift, power, spread, others)
        return SymmetryFunction(kind, sorting, CUTOFFS[cutoff], others, (eta, shift, spread, power, end, alpha))

    def scaling(self, path: Path, functions: Sequence[Sequence[Any]]) -> tuple[Any, Any, float]:
        """Numbers of each symmetry function by element: subtracted from it, a factor, and added then."""
        scaled, centred = self.has("scale_symmetry_functions"), self.has("center_symmetry_functions")
        by_deviation = self.has("scale_symmetry_functions_sigma")
        rows = [np.zeros((len(row), 4)) for row in functions]
        if scaled or centred or by_deviation:
            rows = _statistics(path, functions, by_deviation)
        low, high = self.number("scale_min_short", 0.0), self.number("scale_max_short", 1.0)
        centres, factors = [], []
        for row in rows:
            least, most, mean, deviation = row.T
            centres.append(mean if centred or by_deviation else least)
            spread = deviation if by_deviation else most - least
            factors.append((high - low) / spread if scaled or by_deviation else np.ones(len(row)))
        return tuple(centres), tuple(factors), low if scaled or by_deviation else 0.0


def _statistics(path: Path, functions: Sequence[Sequence[Any]], by_deviation: bool) -> list[np.ndarray]:
    """Minimum, maximum, mean and standard deviation of every symmetry function, by element."""
    text = PotentialText(path)
    found: list[dict[int, list[float]]] = [{} for _ in functions]
    for line, words in ((i, text.partition("#")[0].split()) for i, text in enumerate(text.lines, 1)):
        if len(words) < 5:  # blank, or a mean of energies at the end
            continue
        values = [text.finite(word, "statistics of a symmetry function", line) for word in words]
        element, number = int(values[0]), int(values[1])
        if not 1 <= element <= len(functions) or not 1 <= number <= len(functions[element - 1]):
            raise text.error("must hold statistics of a symmetry function of `input.nn`, but that has fewer.", line)
        found[element - 1][number] = [*values[2:6], np.nan][:4]
        spread = values[3] - values[2] if not by_deviation else found[element - 1][number][3]
        if not spread > 0:
            raise text.error("must hold a symmetry function that varies, but its spread is not positive.", line)
    for k, row in enumerate(functions):
        if len(found[k]) < len(row):
            raise DataError(
                f"The potential file `{text.name}` must hold the statistics of all {len(row)} symmetry functions of element "
                f"{k + 1}, but it holds {len(found[k])}."
            )
    return [np.array([row[i] for i in sorted(row)]).reshape(-1, 4) for row in found]


def _weights(path: Path, sizes: Sequence[int]) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Weights (from, to) and biases of each layer."""
    text = PotentialText(path)
    layers = [(np.full((m, n), np.nan), np.full(n, np.nan)) for m, n in itertools.pairwise(sizes)]
    for line, words in ((i, text.partition("#")[0].split()) for i, text in enumerate(text.lines, 1)):
        if not words:
            continue
        least = {"a": 7, "b": 5}.get(words[1] if len(words) > 1 else "", 99)
        if len(words) < least:
            raise text.error("must hold a weight (a) or a bias (b) with its place, but it does not.", line)
        value = text.finite(words[0], "a weight", line)
        place = [int(text.finite(word, "the place of a weight", line)) for word in words[3:least]]
        try:
            if words[1] == "b":
                layers[place[0] - 1][1][place[1] - 1] = value
            else:
                layers[place[2] - 1][0][place[1] - 1, place[3] - 1] = value
        except IndexError as error:
            raise text.error(
                f"must hold a weight of layers of {list(sizes)} nodes, but it is of others.", line
            ) from error
    if any(np.isnan(x).any() for layer in layers for x in layer):
        raise DataError(
            f"The potential file `{text.name}` must hold all weights and biases of layers of {list(sizes)} nodes, but some are "
            "missing."
        )
    return tuple(layers)
