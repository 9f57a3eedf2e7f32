"""Reading of network files of BioNetGen as systems."""

import math
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from .._doors import check_kind
from .._errors import DataError, UnknownNameError, check_known
from ..stores import input_bytes, reading
from ._blocks import Line, blocks_of
from ._expression import TIME, Formulas, Graph
from ._formula_text import FUNCTIONS, Reader
from ._jump_network import Reactions
from ._large import Rates
from ._laws import rate_of
from ._network import ReactionNetwork
from ._values import Values

SPECIES = re.compile(r"((?:@\w+:{1,2})?)(\$?)(.+)")
TERM = re.compile(r"(?:([0-9.eE+-]+)\*)?(\d+)")


def load(path: str | Path) -> ReactionNetwork:
    r"""Read a reaction network as BioNetGen writes it, a file with the ending `.net`.

    Its blocks are `parameters`, `functions`, `species` (with `$` in front of those whose amount is held), `reactions` and
    `groups`, the observables. The rate of a reaction is its law times the amounts of its reactants,
    $r = s\,k \prod_i x_i$ with the statistical factor s of the file and a parameter or a function k, or one of

    $$\text{Sat: } k \prod_i \frac{x_i}{K_i + x_i}, \quad \text{Hill: } k \frac{x_1^h}{K^h + x_1^h} \prod_{i>1} x_i, \quad
    \text{MM: } k\,E \frac{S}{K + S},$$

    where Sat divides by as many reactants as it has constants K, and S of MM is the substrate without its complex with the
    enzyme E, $S = (b + \sqrt{b^2 + 4 S_0 K}) / 2$ with $b = S_0 - K - E$.

    **Arguments:** `path`, the file.

    **Returns:** a system whose parameters are the numbers of the file by their names, whose states are the species, and whose
    outputs are species, observables and functions. Its `start()` is the state at the start, for its parameters.

    **Raises:** a `DataError` with the line where a block is cut short, a name is unknown, or a formula cannot be read.

    ```python
    import jax.numpy as jnp
    import simkit
    text = '''
    begin parameters
        1 k 0.5
    end parameters
    begin species
        1 A() 10
        2 B() 0
    end species
    begin reactions
        1 1 2 k
    end reactions
    begin groups
        1 Total 1,2
    end groups
    '''
    with open("decay.net", "w") as file:
        _ = file.write(text)
    system = simkit.networks.load("decay.net")
    found = simkit.simulate(system, system.start(), jnp.linspace(0.0, 4.0, 5))
    print(round(float(found.ys["A()"][-1]), 4))  # prints 1.3534
    ```

    Faeder, Blinov & Hlavacek (2009), Methods in Molecular Biology 500:113, doi:10.1007/978-1-59745-525-1_5.
    """
    check_kind("path", path, str | os.PathLike, "the path of a network file", "Write `load('model.net')`.")
    path = Path(path)
    with reading(path, "network file"):
        text = input_bytes(path, "network file").decode("utf-8-sig")
    try:
        return _Builder(blocks_of(text, path.name), path.name).build()
    except RecursionError as error:
        raise DataError(
            f"The formulas of `{path.name}` must refer to each other at most some hundred deep, but the chain is longer. Write "
            "those first that others name."
        ) from error


class _Formula(NamedTuple):
    """A named formula of the file: its arguments, its text and its line."""

    arguments: tuple[str, ...]
    text: str
    line: Line


class _Builder:
    """One pass over the blocks of a network; what names stand for is found when they are first used."""

    def __init__(self, blocks: Mapping[str, Sequence[Line]], file: str):
        self.blocks, self.file, self.graph = blocks, file, Graph()
        self.parameters: dict[str, _Formula] = {}
        self.functions: dict[str, _Formula] = {}
        self.groups: dict[str, int] = {}
        self.species: dict[int, str] = {}
        self.held: set[str] = set()
        self.values: dict[str, float] = {}
        self.known: dict[tuple[str, str], int] = {}
        self.open: list[str] = []
        of_parameters = Reader(self.graph, self.parameter, self.called, {})
        self.initial = lambda text, where: of_parameters.read(text, where)
        self.reader = Reader(self.graph, self.symbol, self.called, self.functions)
        self.laws = Reader(self.graph, self.parameter, self.called, self.functions)

    def build(self) -> ReactionNetwork:
        for line in self.blocks.get("parameters", ()):
            _, (name, *rest) = line.words()
            self._declare(self.parameters, name, _Formula((), " ".join(rest), line), "parameter")
        for line in self.blocks.get("functions", ()):
            self._function(line)
        for name in self.parameters:
            self.parameter(name)
        starts = self._species()
        for line in self.blocks.get("groups", ()):
            self._group(line)
        rates, reactions = self._rates()
        outputs = self.groups | {name: self.called(name, ()) for name, f in self.functions.items() if not f.arguments}
        outputs = {name: self.graph.counted(node) for name, node in outputs.items()}
        formulas = Formulas(tuple(self.graph.nodes))
        names = tuple(sorted(self.values))
        whole = Rates(formulas, tuple(rates.items()), (), frozenset())
        return ReactionNetwork(
            self.values,
            whole,
            Values(formulas, tuple(outputs.items()), whole.states, names),
            Values(formulas, tuple(starts.items()), (), names),
            Reactions(formulas, tuple((name, law) for name, law, _ in reactions), tuple(c for *_, c in reactions)),
        )

    # ---- what there is ----

    def _declare(self, table: dict[str, _Formula], name: str, formula: _Formula, what: str) -> None:
        line = formula.line
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise line.error(f"must name a {what} by letters, digits and underscores, but it is `{name[:80]}`.")
        if name in FUNCTIONS:
            raise line.error(f"must not name a {what} `{name}`, which is a function of the language.")
        if not formula.text.strip():
            raise line.error(f"must give the {what} `{name}` a value, but gives none. Was the file cut short?")
        for other in (self.parameters, self.functions):
            if name in other:
                raise line.error(
                    f"must name each {what} once, but line {other[name].line.number} has `{name}` already."
                )
        table[name] = formula

    def _function(self, line: Line) -> None:
        match = re.fullmatch(r"(?:\d+\s+)?([^\s(]+)\s*\(([^()]*)\)\s*=?\s*(.*)", line.text)
        if match is None:
            raise line.error(f"must hold a function such as `rate() k*A`, but it is `{line.text[:80]}`.")
        arguments = tuple(word.strip() for word in match[2].split(",") if word.strip())
        self._declare(self.functions, match[1], _Formula(arguments, match[3], line), "function")

    def _species(self) -> dict[str, int]:
        """Name -> the formula of its amount at the start."""
        starts: dict[str, int] = {}
        for place, line in enumerate(self.blocks["species"], start=1):
            index, words = line.words()
            if len(words) < 2:
                raise line.error("must hold a species and its amount, but one is missing. Was the file cut short?")
            match = SPECIES.fullmatch(words[0])
            assert match is not None
            name = match[1] + match[3]
            if name in self.parameters:
                raise line.error(f"must not name a species `{name}`, which is a parameter. Rename one of them.")
            if name in starts or (index or place) in self.species:
                raise line.error(f"must name a species that is not there yet, but `{words[0][:80]}` or its index is.")
            self.species[index or place] = name
            if match[2]:
                self.held.add(name)
            starts[name] = self.initial(" ".join(words[1:]), line.where)
        if not starts:
            raise DataError(f"The network file `{self.file}` must have at least one species, but has none.")
        return starts

    def _group(self, line: Line) -> None:
        _, (name, *rest) = line.words()
        if name in self.groups or name in self.functions:
            raise line.error(f"must name a group that is not there yet, but there is `{name[:80]}` already.")
        terms = []
        for part in "".join(rest).split(",") if rest else ():
            match = TERM.fullmatch(part)
            factor = _number(match[1] or "1") if match else None
            if match is None or factor is None:
                raise line.error(f"must list species by their indices, such as `1,2*3`, but `{part[:80]}` is no index.")
            terms.append(self.graph.multiply(self.graph.number(factor), self._amount(match[2], line)))
        self.groups[name] = self.graph.add(*terms)

    def _amount(self, index: str, line: Line) -> int:
        if not index.isdecimal() or int(index) not in self.species:
            raise line.error(f"must name species by their indices, but there is no species `{index[:80]}`.")
        return self.graph.symbol(self.species[int(index)])

    # ---- what names stand for ----

    def parameter(self, name: str) -> int:
        """The node of a name among parameters."""
        if name == "time()":
            return self.graph.symbol(TIME)
        check_known(name, self.parameters, "parameter")
        return self._once("parameter", name, self._parameter)

    def _parameter(self, name: str) -> int:
        _, text, line = self.parameters[name]
        node = self.initial(text, f"{line.where} parameter `{name}`,")
        value = self.graph.value(node)
        if value is None:
            return node
        if not math.isfinite(value):
            raise DataError(f"{line.where} parameter `{name}`, must be finite, but it is {value:g}.")
        self.values[name] = value
        return self.graph.symbol(name)

    def symbol(self, name: str) -> int:
        """The node of a name within a function: an observable or a parameter."""
        if name in self.groups:
            if name in self.parameters:
                raise UnknownNameError(f"`{name}` is both a parameter and an observable. Rename one of them.")
            return self.groups[name]
        if name != "time()":
            check_known(name, {*self.parameters, *self.groups, *self.functions}, "parameter, observable or function")
        return self.parameter(name)

    def called(self, name: str, operands: Sequence[int]) -> int:
        """The node of a function of the file for given arguments."""
        formula = self.functions[name]
        if len(operands) != len(formula.arguments):
            count = len(formula.arguments)
            raise formula.line.error(f"gives `{name}` {count} arguments, but it is called with {len(operands)}.")
        if not operands:
            return self._once("function", name, self._body)
        self._check_open(name)
        self.open.append(name)
        try:
            return self._body(name, operands)
        finally:
            self.open.pop()

    def _body(self, name: str, operands: Sequence[int] = ()) -> int:
        arguments, text, line = self.functions[name]
        bound = dict(zip(arguments, operands, strict=True))
        return self.reader.read(text, f"{line.where} function `{name}`,", bound)

    def _check_open(self, name: str) -> None:
        if name in self.open:
            chain = " -> ".join([*self.open[self.open.index(name) :], name])
            raise DataError(f"The formula of `{name}` in `{self.file}` must not depend on itself, but does: {chain}.")

    def _once(self, kind: str, name: str, make: Callable[[str], int]) -> int:
        if (kind, name) not in self.known:
            self._check_open(name)
            self.open.append(name)
            try:
                self.known[kind, name] = make(name)
            finally:
                self.open.pop()
        return self.known[kind, name]

    # ---- what changes ----

    def _rates(self) -> tuple[dict[str, int], list[tuple[str, int, tuple[tuple[str, float], ...]]]]:
        """Return by name the rate of change of each species; and each reaction: name, propensity and what it changes."""
        graph = self.graph
        terms: dict[str, list[int]] = {name: [] for name in self.species.values()}
        reactions = []
        for line in self.blocks["reactions"]:
            index, words = line.words()
            if index is None or len(words) < 3:
                raise line.error(
                    "must hold an index, reactants, products and a rate, but something is missing. Was the file cut short?"
                )
            reactants, products = (self._listed(word, line) for word in words[:2])
            rate = rate_of(line, words[2:], [graph.symbol(name) for name in reactants], self.laws)
            change = Counter(products)
            change.subtract(reactants)
            moved = tuple((name, float(n)) for name, n in change.items() if n and name not in self.held)
            if moved:
                reactions.append((f"reaction {index}", self._propensity(line, words[2:], reactants, rate), moved))
            for name, count in change.items():
                if count and name not in self.held:
                    terms[name].append(graph.multiply(graph.number(float(count)), rate))
        return {name: graph.add(*found) for name, found in terms.items()}, reactions

    def _propensity(self, line: Line, words: Sequence[str], reactants: Sequence[str], rate: int) -> int:
        """The law of a reaction for whole numbers: of reactants that are named twice it counts pairs."""
        if len(set(reactants)) == len(reactants) or (len(words) > 1 and "Ele" not in words[0]):
            return rate
        graph, names = self.graph, list(reactants)
        amount = lambda i: graph.make(
            "subtract", graph.symbol(names[i]), graph.number(float(names[:i].count(names[i])))
        )
        return rate_of(line, words, [amount(i) for i in range(len(reactants))], self.laws)

    def _listed(self, text: str, line: Line) -> list[str]:
        """The species of one side of a reaction; 0 stands for none."""
        found = []
        for index in text.split(","):
            if index.isdecimal() and int(index) in self.species:
                found.append(self.species[int(index)])
            elif index != "0":
                raise line.error(f"must name species by their indices, but there is no species `{index[:80]}`.")
        return found


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
