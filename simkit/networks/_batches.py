"""Formulas of large models: those of one shape are evaluated together, on arrays gathered from one vector of all values."""

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from ..core import SparseMatrix
from ._expression import OPERATIONS, Node
from ._shapes import Batch, Place, Shapes, SumBatch, Tree
from ._sums import Sums, picked

Find = Callable[[Place], int]


class Batches:
    """Formulas in batches, which follow each other in levels: each needs only values of the levels before it.

    **Arguments:**

    - `nodes`: the graph; `roots` the formulas that are wanted.
    - `leaves`: node -> where its value stands, in `y` or `c`. Nothing below them is looked at.
    - `sizes`: the lengths of `y` and `c`.
    """

    def __init__(
        self, nodes: Sequence[Node], roots: Sequence[int], leaves: Mapping[int, Place], sizes: tuple[int, int]
    ):
        shapes = Shapes(nodes, roots, leaves)
        terms, offsets = zip(*map(shapes.terms, roots), strict=True) if roots else ((), ())
        steps = shapes.ordered([place for row in terms for place, _ in row])
        end = SumBatch(tuple(map(tuple, terms)), tuple(offsets), tuple(roots))
        self.levels = [*_levels(steps), [end]]
        self.count = len(roots)
        # All values in one vector: the state, the constants, and the batches as they come.
        first = {"y": 0, "c": sizes[0]}
        known: dict[int, int] = {}
        find: Find = lambda place: known[place[1]] if place[0] == "x" else first[place[0]] + place[1]
        self._runs: list[list[_Shaped | Sums]] = []
        total = sum(sizes)
        for level in self.levels:
            self._runs.append([_Shaped(s, find) if isinstance(s, Batch) else _sums(s, find) for s in level])
            for node in [node for step in level for node in step.nodes]:
                known[node] = total
                total += 1

    def __call__(self, y: Float[Array, " states"], c: Float[Array, " constants"]) -> Array:
        """The values of the formulas, one vector."""
        whole = jnp.concatenate([y, c])
        for runs in self._runs:
            given = _parts(whole, [run.index for run in runs])
            found = [run(part) for run, part in zip(runs, given, strict=True)]
            whole = jnp.concatenate([whole, *found])
        return whole[whole.shape[0] - self.count :]

    def slopes(self, y: Array, c: Array) -> list[Array]:
        """Return by level the derivatives of each batch by each of its slots, concatenated, with a one at the end."""
        whole, slopes = jnp.concatenate([y, c]), []
        for runs in self._runs:
            given = _parts(whole, [run.index for run in runs])
            pairs = list(zip(runs, given, strict=True))
            steep = [run.slopes(part) for run, part in pairs if isinstance(run, _Shaped)]
            slopes.append(jnp.concatenate([*steep, jnp.ones(1, y.dtype)]))
            whole = jnp.concatenate([whole, *(run(part) for run, part in pairs)])
        return slopes


def _levels(steps: Sequence[Batch | SumBatch]) -> list[list[Batch | SumBatch]]:
    """Batches that can be evaluated at once."""
    levels: list[list[Batch | SumBatch]] = []
    level_of: dict[int, int] = {}
    for step in steps:
        rows = [[place for place, _ in row] for row in step.terms] if isinstance(step, SumBatch) else step.slots
        needed = [level_of[p[1]] for row in rows for p in row if isinstance(p, tuple) and p[0] == "x"]
        level = max(needed, default=-1) + 1
        levels += [[]] if level == len(levels) else []
        levels[level].append(step)
        level_of |= dict.fromkeys(step.nodes, level)
    return levels


def _parts(whole: Array, indices: Sequence[np.ndarray]) -> list[Array]:
    """Gather the values of several lists of places at once."""
    values = picked(whole, np.concatenate(indices)) if indices else whole[:0]
    ends = np.cumsum([0, *map(len, indices)]).tolist()
    return [values[a:b] for a, b in itertools.pairwise(ends)]


class _Shaped:
    """Formulas of one shape. `index` says where what stands in their slots is."""

    def __init__(self, batch: Batch, find: Find):
        self.tree, self.size = batch.tree, len(batch.nodes)
        self.numbers: list[Any] = []  # by slot, None where it holds values
        index: list[int] = []
        for slot in batch.slots:
            numbers = [x for x in slot if isinstance(x, float)]
            index += [find(place) for place in slot if isinstance(place, tuple)]
            self.numbers.append((numbers[0] if len(set(numbers)) == 1 else np.array(numbers)) if numbers else None)
        self.index = np.array(index, int)

    def __call__(self, values: Float[Array, " places"]) -> Float[Array, " formulas"]:
        return self._value(self._slots(values), values.dtype)

    def slopes(self, values: Float[Array, " places"]) -> Float[Array, " places"]:
        """The derivatives by all slots that hold values, one behind the other."""
        slots, parts = self._slots(values), [values[:0]]
        for i, number in enumerate(self.numbers):
            if number is None:
                of_slot = lambda x, i=i: self._value([*slots[:i], x, *slots[i + 1 :]], values.dtype)
                parts.append(jax.jvp(of_slot, (slots[i],), (jnp.ones_like(slots[i]),))[1])
        return jnp.concatenate(parts)

    def _slots(self, values: Array) -> list[Any]:
        slots, first = [], 0
        for number in self.numbers:
            if number is None:
                slots.append(values[first : first + self.size])
                first += self.size
            else:
                slots.append(number if isinstance(number, float) else jnp.asarray(number, values.dtype))
        return slots

    def _value(self, slots: Sequence[Any], dtype: DTypeLike) -> Array:
        return jnp.broadcast_to(jnp.asarray(_evaluated(self.tree, slots), dtype), (self.size,))


def _sums(step: SumBatch, find: Find) -> Sums:
    return Sums([[(find(place), factor) for place, factor in row] for row in step.terms], step.offsets)


def _evaluated(tree: Tree, slots: Sequence[Any]) -> Any:
    operation, *operands = tree
    if operation == "number":
        return operands[0]
    if operation == "slot":
        return slots[operands[0]]
    parts = [_evaluated(x, slots) for x in operands]
    if operation in ("add", "multiply"):
        return functools.reduce(OPERATIONS[operation], parts)
    return OPERATIONS[operation](*parts)


class Jacobian:
    """The derivatives of formulas by the state, at the places that can differ from zero.

    A formula depends on few states, and has an entry for each of them: the sum over its slots of the derivative by the slot
    times the entry of what stands there.

    **Arguments:** `batches` are the formulas, `states` their number of states.
    """

    def __init__(self, batches: Batches, states: int):
        self.batches = batches
        self._sums: list[Sums] = []
        self._slopes: list[np.ndarray] = []  # by level and term
        self._entries: list[np.ndarray] = []
        known: dict[int, dict[int, int]] = {}  # node -> state -> where its entry stands
        total, held = 1, []  # the first entry is one, that of a state by itself
        for level in batches.levels:
            first, held = 0, []
            ones = sum(len(s.nodes) * _slots(s) for s in level)
            for step in level:
                held += [_terms(step, first, ones, row, known) for row in range(len(step.nodes))]
                first += len(step.nodes) * _slots(step)
            rows = [row for terms in held for row in terms.values()]
            flat = [term for row in rows for term in row]
            places = iter(range(len(flat)))
            sums = Sums([[(next(places), factor) for _, _, factor in row] for row in rows])
            self._slopes.append(np.array([slope for slope, _, _ in flat], int)[sums.index])
            self._entries.append(np.array([entry for _, entry, _ in flat], int)[sums.index])
            self._sums.append(sums)
            for node, terms in zip([node for step in level for node in step.nodes], held, strict=True):
                known[node] = {state: total + k for k, state in enumerate(terms)}
                total += len(terms)
        self.count = sum(map(len, held))
        self._states, self._rows = states, np.repeat(np.arange(len(held)), [len(terms) for terms in held])
        self._columns = np.array([state for terms in held for state in terms], int)

    def __call__(self, y: Float[Array, " states"], c: Float[Array, " constants"]) -> SparseMatrix:
        """The matrix."""
        entries = jnp.ones(1, y.dtype)
        for i, slopes in enumerate(self.batches.slopes(y, c)):
            values = picked(slopes, self._slopes[i])
            if self._entries[i].any():
                values = values * picked(entries, self._entries[i])
            entries = jnp.concatenate([entries, self._sums[i](values)])
        return SparseMatrix(entries[len(entries) - self.count :], self._rows, self._columns, self._states)


def _slots(step: Batch | SumBatch) -> int:
    """Return the number of slots of a batch that hold values."""
    return sum(not isinstance(slot[0], float) for slot in step.slots) if isinstance(step, Batch) else 0


def _terms(
    step: Batch | SumBatch, first: int, one: int, row: int, known: Mapping[int, Mapping[int, int]]
) -> dict[int, list[Any]]:
    """State -> the terms of one formula's derivative by it: where the slope and the entry stand, and a factor."""
    if isinstance(step, SumBatch):
        parts = [(place, one, factor) for place, factor in step.terms[row]]
    else:
        held = [place for place in (slot[row] for slot in step.slots) if isinstance(place, tuple)]
        parts = [(place, first + i * len(step.nodes) + row, 1.0) for i, place in enumerate(held)]
    found: dict[int, list[Any]] = {}
    for (kind, index), slope, factor in parts:
        for state, entry in ({index: 0} if kind == "y" else known[index] if kind == "x" else {}).items():
            found.setdefault(state, []).append((slope, entry, factor))
    return found
