"""Formulas of large models by their shapes: which are alike, and in what order they can be evaluated together."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ._expression import RELATIONS, Node

Tree = tuple[Any, ...]
"""("slot", place), ("number", value), or (operation, trees...)."""

Place = tuple[str, int]
"""Place of a value: in the vector `y` or `c`, or, as `x`, the value of a node."""

TRUTHS = (*RELATIONS, "and", "or", "xor", "not")
FIXED = {"power": 1, "root": 0, "log": 0}
"""Operations that do something else for each number, and which operand that is."""

DEEPEST = 100
"""A formula that is nested deeper is cut into several, whose trees Python can walk through."""

SUMS = ("add", "subtract")
LONGEST = 300
"""Terms of a sum, which is cut into several where it has more: each operation of a sum counts those below it."""

LONG = 3
"""Number of terms from which on sums are evaluated together, whatever their lengths."""


class Batch(NamedTuple):
    """Formulas of one shape: its tree, and for each of its slots where their values stand."""

    tree: Tree
    slots: tuple[tuple[Place | float, ...], ...]
    nodes: tuple[int, ...]


class SumBatch(NamedTuple):
    """Sums of any lengths: terms with factors, and what is added."""

    terms: tuple[tuple[tuple[Place, float], ...], ...]
    offsets: tuple[float, ...]
    nodes: tuple[int, ...]


class Shapes:
    """Nodes that are values of their own, and the shapes of their formulas."""

    def __init__(self, nodes: Sequence[Node], roots: Sequence[int], leaves: Mapping[int, Place]):
        self.nodes, self.leaves = nodes, leaves
        uses: Counter[int] = Counter(set(roots))
        seen, stack = set(), list(roots)
        while stack:
            i = stack.pop()
            if i in seen or i in leaves or nodes[i][0] == "number":
                continue
            seen.add(i)
            uses.update(nodes[i][1:])
            stack.extend(nodes[i][1:])
        self.uses = uses
        self.deep: set[int] = set()
        self.cut: set[int] = set()
        self._find_cuts(sorted(seen))  # parts first
        self._terms: dict[int, tuple[list[tuple[Place, float]], float]] = {}

    def _find_cuts(self, order: Sequence[int]) -> None:
        """Mark the places at which formulas that are deep, and sums that are long, are cut into several."""
        heights: dict[int, int] = {}
        lengths: dict[int, int] = {}
        for i in order:
            operation, *operands = self.nodes[i]
            parts = [x for x in operands if isinstance(x, int) and x in heights and self.uses[x] == 1]
            heights[i] = 1 + max((heights[x] for x in parts if x not in self.deep), default=0)
            if heights[i] >= DEEPEST and operation not in TRUTHS:
                self.deep.add(i)
            lengths[i] = operation in SUMS and 1 + sum(lengths[x] for x in parts if x not in self.cut)
            if lengths[i] >= LONGEST:
                self.cut.add(i)

    def place(self, node: int) -> Place:
        return self.leaves.get(node, ("x", node))

    # ---- sums ----

    def terms(self, node: int) -> tuple[list[tuple[Place, float]], float]:
        """A formula as a sum of values with factors, and a number."""
        if node not in self._terms:
            found: dict[int, float] = {}
            offset, stack = 0.0, [(node, 1.0, True)]
            while stack:
                i, factor, first = stack.pop()
                operation, *operands = self.nodes[i]
                scaled = None if i in self.leaves else self._scaled(i)
                shared = not first and (self.uses[i] > 1 or i in self.cut)
                if operation == "number":
                    offset += factor * operands[0]
                elif scaled is not None:
                    stack.append((scaled[0], factor * scaled[1], first))
                elif i not in self.leaves and operation in SUMS and not shared:
                    sign = 1.0 if operation == "add" else -1.0
                    stack += [(operands[1], sign * factor, False), (operands[0], factor, False)]
                else:
                    found[i] = found.get(i, 0.0) + factor
            self._terms[node] = [(self.place(i), factor) for i, factor in found.items() if factor != 0], offset
        return self._terms[node]

    def _scaled(self, node: int) -> tuple[int, float] | None:
        """Return the node of which a node is a multiple, and the factor."""
        operation, *operands = self.nodes[node]
        numbers = [self.nodes[x][1] if self.nodes[x][0] == "number" else None for x in operands if isinstance(x, int)]
        if operation == "negative":
            return operands[0], -1.0
        if operation == "multiply" and numbers[0] is not None:
            return operands[1], numbers[0]
        if operation == "multiply" and numbers[1] is not None:
            return operands[0], numbers[1]
        return None

    def long(self, node: int) -> bool:
        return self.nodes[node][0] in SUMS and len(self.terms(node)[0]) >= LONG

    # ---- shapes ----

    def shape(self, node: int) -> tuple[Tree, list[Place | float]]:
        """The tree of a node with its slots in the order in which the tree names them, and what stands in each."""
        slots: list[Place | float] = []

        def numbered(tree: Tree) -> Tree:
            operation, *operands = tree
            if operation == "leaf":
                slots.append(operands[1])
                return "slot", len(slots) - 1
            return tree if operation == "number" else (operation, *map(numbered, operands))

        tree = numbered(self._tree(node, True))
        return tree, slots

    def _tree(self, node: int, top: bool) -> Tree:
        if node in self.leaves:
            place = self.leaves[node]
            return "leaf", place[0], place
        operation, *operands = self.nodes[node]
        if operation == "number":
            return "leaf", "number", operands[0]
        if not top and operation not in TRUTHS and (self.uses[node] > 1 or node in self.deep or self.long(node)):
            return "leaf", "x", ("x", node)
        if operation in ("add", "multiply"):
            parts = [self._tree(x, False) for x in self._flat(operation, node)]
            return (operation, *sorted(parts, key=_signature))
        fixed = FIXED.get(operation)
        plain = lambda i, x: i == fixed and self.nodes[x][0] == "number"
        parts = [self.nodes[x] if plain(i, x) else self._tree(x, False) for i, x in enumerate(operands)]
        return (operation, *parts)

    def _flat(self, operation: str, node: int) -> list[int]:
        """The operands of a chain of one operation."""
        found, stack = [], list(self.nodes[node][1:])
        while stack:
            i = stack.pop()
            alone = i not in self.leaves and self.uses[i] == 1 and i not in self.deep
            if alone and self.nodes[i][0] == operation and not self.long(i):
                stack.extend(self.nodes[i][1:])
            else:
                found.append(i)
        return found

    # ---- order ----

    def ordered(self, wanted: Sequence[Place]) -> list[Batch | SumBatch]:
        """Batches of all values that are needed: of the shapes that could go next the one of which least is still to come."""
        forms: dict[int, tuple[Any, Any]] = {}
        stack = [i for kind, i in wanted if kind == "x"]
        needs: dict[int, set[int]] = {}
        while stack:
            node = stack.pop()
            if node in forms:
                continue
            if self.long(node):
                forms[node] = "sums", self.terms(node)
                places = [place for place, _ in self.terms(node)[0]]
            else:
                tree, slots = self.shape(node)
                kinds = tuple(s[0] if isinstance(s, tuple) else "number" for s in slots)
                forms[node] = (tree, kinds), slots
                places = [slot for slot in slots if isinstance(slot, tuple)]
            needs[node] = {i for kind, i in places if kind == "x"}
            stack.extend(needs[node])
        left = Counter(form for form, _ in forms.values())
        users: dict[int, list[int]] = {node: [] for node in forms}
        for node, needed in needs.items():
            for i in needed:
                users[i].append(node)
        ready: dict[Any, list[int]] = {}
        for node in sorted(forms):
            if not needs[node]:
                ready.setdefault(forms[node][0], []).append(node)
        steps: list[Batch | SumBatch] = []
        while ready:
            form = max(ready, key=lambda f: (len(ready[f]) / left[f], len(ready[f])))
            nodes = ready.pop(form)
            left[form] -= len(nodes)
            steps.append(_batch(form, nodes, [forms[i][1] for i in nodes]))
            for node in nodes:
                for user in users[node]:
                    needs[user].discard(node)
                    if not needs[user]:
                        ready.setdefault(forms[user][0], []).append(user)
        return steps


def _signature(tree: Tree) -> str:
    """Return the common part of trees of one shape."""
    operation, *operands = tree
    if operation == "leaf":
        return f"~{operands[0]}"
    return repr(tree) if operation == "number" else f"{operation}({','.join(map(_signature, operands))})"


def _batch(form: str | tuple[Tree, tuple[str, ...]], nodes: Sequence[int], given: Sequence[Any]) -> Batch | SumBatch:
    if isinstance(form, str):
        return SumBatch(tuple(tuple(terms) for terms, _ in given), tuple(offset for _, offset in given), tuple(nodes))
    return Batch(form[0], tuple(zip(*given, strict=True)), tuple(nodes))
