"""Formulas as BioNetGen and study files write them, read into a graph."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from .._errors import DataError, UnknownNameError, close_matches

DEEPEST = 100
"""Levels of a formula: parentheses, powers and signs within each other. Each takes a few calls of Python."""
WORD = re.compile(
    r"\s*((?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[A-Za-z_]\w*(?:\.\w+)*|\*\*|&&|\|\||[<>=!~]=|[-+*/^<>!~(),])"
)
LEVELS = {
    "||": 1,
    "&&": 2,
    **dict.fromkeys(("<", ">", "<=", ">=", "==", "!=", "~="), 3),
    "+": 4,
    "-": 4,
    "*": 5,
    "/": 5,
    "^": 6,
    "**": 6,
}
POWER = LEVELS["^"]
OPERATIONS = {
    "||": "or",
    "&&": "and",
    "<": "lt",
    ">": "gt",
    "<=": "leq",
    ">=": "geq",
    "==": "eq",
    "!=": "neq",
    "~=": "neq",
    "-": "subtract",
    "/": "divide",
    "^": "power",
    "**": "power",
}
ALIKE = ("exp", "ln", "log10", "log2", "abs", "sin", "cos", "tan", "sinh", "cosh", "tanh")
INVERSE = ("sin", "cos", "tan", "sinh", "cosh", "tanh")
ONE = {name: name for name in ALIKE} | {f"a{name}": f"arc{name}" for name in INVERSE}
NUMBERS = {"_pi": math.pi, "_e": math.e}
MANY = ("min", "max", "sum", "avg")
FUNCTIONS = (*ONE, *MANY, *NUMBERS, "if", "sqrt", "rint", "time")
"""Functions that formulas may call beside those of the file."""

Symbol = Callable[[str], int]
Call = Callable[[str, Sequence[int]], int]


@runtime_checkable
class Builder(Protocol):
    """Store of the formulas that a reader builds, by the indices of nodes: a `Graph`, or a tree as it was written."""

    def number(self, value: float) -> int: ...
    def symbol(self, name: str) -> int: ...
    def make(self, operation: str, *operands: int) -> int: ...
    def add(self, *terms: int) -> int: ...
    def multiply(self, *factors: int) -> int: ...


class Reader:
    """Reads formulas into a graph.

    **Arguments:**

    - `graph`: where nodes are made.
    - `symbol`: the node of a name. `call` is the node of a function of the file, from its name and arguments.
    - `functions`: the names of those functions.
    - `owner`: in messages, what has the names.
    """

    def __init__(
        self, graph: Builder, symbol: Symbol, call: Call, functions: Mapping[str, object], owner: str = "the network"
    ):
        self.graph, self.symbol, self.call, self.functions, self.owner = graph, symbol, call, functions, owner

    def read(self, text: str, where: str, bound: Mapping[str, int] | None = None) -> int:
        """The node of a formula.

        **Arguments:** `where` begins messages, and `bound` are arguments of a function, which go before other names.

        **Raises:** a `DataError`.
        """
        return _Formula(self, text, where, bound or {}).whole()


class _Formula:
    """One pass over the words of a formula, by the levels of its operators."""

    def __init__(self, reader: Reader, text: str, where: str, bound: Mapping[str, int]):
        self.reader, self.graph, self.text, self.where, self.bound = reader, reader.graph, text, where, bound
        self.words, self.place, self.depth = self._split(), 0, 0

    def whole(self) -> int:
        node = self._binary(1)
        if self.place < len(self.words):
            raise self._error(f"`{self.words[self.place]}` stands where the formula could end")
        return node

    def _split(self) -> list[str]:
        found, end = [], 0
        text = self.text.rstrip()
        while end < len(text):
            match = WORD.match(text, end)
            if match is None:
                raise self._error(f"`{text[end:].strip()[:20]}` cannot be read")
            found.append(match[1])
            end = match.end()
        return found

    def _error(self, why: str) -> DataError:
        return DataError(f"{self.where} must hold a formula, but in `{self.text.strip()[:80]}` {why}.")

    def _next(self) -> str:
        return self.words[self.place] if self.place < len(self.words) else ""

    def _taken(self) -> str:
        word = self._next()
        self.place += 1
        return word

    def _binary(self, least: int) -> int:
        """Operands joined by operators of at least one level."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise self._error(f"parts are nested more than {DEEPEST} deep. Split it into several functions")
        node = self._unary()
        while (level := LEVELS.get(self._next(), 0)) >= least:
            operator = self._taken()
            # A power is joined from the right, all others from the left.
            right = self._binary(level if level == POWER else level + 1)
            node = self._joined(operator, node, right)
        self.depth -= 1
        return node

    def _joined(self, operator: str, left: int, right: int) -> int:
        if operator in "+*":
            return (self.graph.add if operator == "+" else self.graph.multiply)(left, right)
        return self.graph.make(OPERATIONS[operator], left, right)

    def _unary(self) -> int:
        word = self._next()
        if word in ("-", "+", "!", "~"):
            self._taken()
            node = self._binary(POWER)  # the sign of a power is that of its result
            return node if word == "+" else self.graph.make("negative" if word == "-" else "not", node)
        return self._operand()

    def _operand(self) -> int:
        word = self._taken()
        if word == "(":
            node = self._binary(1)
            self._closed()
            return node
        if not word:
            raise self._error("an operand is missing at the end")
        if word[0].isdigit() or word[0] == ".":
            return self.graph.number(float(word))
        if not (word[0].isalpha() or word[0] == "_"):
            raise self._error(f"`{word}` stands where an operand belongs")
        if self._next() == "(":
            return self._called(word)
        if word in self.bound:
            return self.bound[word]
        if word in NUMBERS:
            return self.graph.number(NUMBERS[word])
        if word in self.reader.functions:
            return self.reader.call(word, ())
        return self._named(word)

    def _named(self, name: str) -> int:
        try:
            return self.reader.symbol(name)
        except UnknownNameError as error:
            raise DataError(f"{self.where} must name what {self.reader.owner} has. {error}") from error

    def _closed(self) -> None:
        if self._taken() != ")":
            raise self._error("a parenthesis is not closed")

    def _called(self, name: str) -> int:
        self._taken()
        operands: list[int] = []
        while self._next() != ")":
            if operands and self._taken() != ",":
                raise self._error(
                    f"the arguments of `{name}` are not separated by commas, or not closed; `&&` is for `and`"
                )
            operands.append(self._binary(1))
        self._taken()
        if name in self.reader.functions:
            return self.reader.call(name, operands)
        if name not in FUNCTIONS:
            if not operands and name not in self.bound:
                return self._named(name)  # an observable, written like a function
            known = close_matches(name, (*FUNCTIONS, *self.reader.functions))
            raise self._error(f"the function `{name}` is called, which is unknown. {known[:-1]}")
        return self._made(name, operands)

    def _made(self, name: str, operands: Sequence[int]) -> int:
        graph = self.graph
        count = {"if": 3, "time": 0} | dict.fromkeys(NUMBERS, 0)
        wanted = count.get(name, 1)
        if len(operands) != wanted if name not in MANY else not operands:
            number = "at least one argument" if name in MANY else f"{wanted} argument{'' if wanted == 1 else 's'}"
            raise self._error(f"`{name}` must have {number}, but has {len(operands)}")
        if name in NUMBERS:
            return graph.number(NUMBERS[name])
        if name == "time":
            return self.reader.symbol("time()")
        if name == "if":
            return graph.make("choice", operands[1], operands[0], operands[2])
        if name == "sqrt":
            return graph.make("power", operands[0], graph.number(0.5))
        if name == "rint":
            return graph.make("floor", graph.add(operands[0], graph.number(0.5)))
        if name in ("sum", "avg"):
            total = graph.add(*operands)
            return total if name == "sum" else graph.make("divide", total, graph.number(float(len(operands))))
        return graph.make(ONE.get(name, name), *operands)
