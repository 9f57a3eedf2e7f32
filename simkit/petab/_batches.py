"""Formulas of large models: those of one shape are evaluated together, on arrays gathered from vectors."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ._expression import OPERATIONS, Node
from ._shapes import Batch, Place, Shapes, SumBatch, Tree
from ._sums import Gather, Reader, Sums, Term, gather


class Batches:
    """Formulas ordered into batches, each of which needs only those before it.

    **Arguments:**

    - `nodes`: the graph; `roots` the formulas that are wanted.
    - `leaves`: node -> where its value stands, in `y` or `c`. Nothing below them is looked at.
    """

    def __init__(self, nodes: Sequence[Node], roots: Sequence[int], leaves: Mapping[int, Place]):
        shapes = Shapes(nodes, roots, leaves)
        terms, offsets = zip(*map(shapes.terms, roots), strict=True) if roots else ((), ())
        steps = shapes.ordered([place for row in terms for place, _ in row])
        self.steps = [*steps, SumBatch(tuple(map(tuple, terms)), tuple(offsets), tuple(roots))]
        places: dict[int, tuple[Any, int]] = {}
        self._runs: list[_Shaped | Sums] = []
        for i, step in enumerate(self.steps):
            found = lambda place: places[place[1]] if place[0] == "x" else place
            self._runs.append(_Shaped(step, found) if isinstance(step, Batch) else _sums(step, found))
            places |= {node: (("value", i), row) for row, node in enumerate(step.nodes)}

    def __call__(self, y: Float[Array, " states"], c: Float[Array, " constants"]) -> Array:
        """The values of the formulas, one vector."""
        read = Reader(y, c)
        for i, run in enumerate(self._runs):
            read.vectors["value", i] = run(read)
        return read.vectors["value", len(self._runs) - 1]

    def partials(self, y: Array, c: Array) -> Reader:
        """Vectors that hold the derivatives of each batch by each of its slots, one behind the other."""
        read = Reader(y, c)
        for i, run in enumerate(self._runs):
            if isinstance(run, _Shaped):
                read.vectors["slope", i] = run.slopes(read)
            if i < len(self._runs) - 1:
                read.vectors["value", i] = run(read)
        return read


class _Shaped:
    """Formulas of one shape."""

    def __init__(self, batch: Batch, found: Any):
        self.tree, self.size = batch.tree, len(batch.nodes)
        self.slots: list[Gather | np.ndarray | float] = []
        for slot in batch.slots:
            numbers = [x for x in slot if isinstance(x, float)]
            if numbers:
                self.slots.append(numbers[0] if len(set(numbers)) == 1 else np.array(numbers))
            else:
                self.slots.append(gather([found(place) for place in slot]))

    def __call__(self, read: Reader) -> Array:
        return self._value(self._read(read), read)

    def slopes(self, read: Reader) -> Array:
        """The derivatives by all slots, zero by those that hold numbers."""
        values, parts = self._read(read), []
        for i, value in enumerate(values):
            if not isinstance(self.slots[i], Gather):
                parts.append(jnp.zeros(self.size, read.dtype))
                continue
            of_slot = lambda x, i=i: self._value([*values[:i], x, *values[i + 1 :]], read)
            parts.append(jax.jvp(of_slot, (value,), (jnp.ones_like(value),))[1])
        return jnp.concatenate(parts)

    def _read(self, read: Reader) -> list[Any]:
        as_array = lambda slot: jnp.asarray(slot, read.dtype) if isinstance(slot, np.ndarray) else slot
        return [read(slot) if isinstance(slot, Gather) else as_array(slot) for slot in self.slots]

    def _value(self, values: Sequence[Any], read: Reader) -> Array:
        return jnp.broadcast_to(jnp.asarray(_evaluated(self.tree, values), read.dtype), (self.size,))


def _sums(step: SumBatch, found: Any) -> Sums:
    return Sums([[(found(place), None, factor) for place, factor in row] for row in step.terms], step.offsets)


def _evaluated(tree: Tree, values: Sequence[Any]) -> Any:
    operation, *operands = tree
    if operation == "number":
        return operands[0]
    if operation == "slot":
        return values[operands[0]]
    parts = [_evaluated(x, values) for x in operands]
    if operation in ("add", "multiply"):
        return functools.reduce(OPERATIONS[operation], parts)
    return OPERATIONS[operation](*parts)


class Jacobian:
    """The derivatives of formulas by the state, as a dense matrix of which only what can differ from zero is computed.

    A formula depends on few states, and has an entry for each of them: the sum over its slots of the derivative by the slot
    times the entry of what stands there.

    **Arguments:** `batches` are the formulas, `states` their number of states.
    """

    def __init__(self, batches: Batches, states: int):
        self.batches = batches
        self._entries: list[Sums] = []
        known: dict[int, dict[int, tuple[Any, int]]] = {}  # node -> state -> where its entry stands
        for i, step in enumerate(batches.steps):
            rows: list[list[Term]] = []
            held = [_entries(step, i, place, known) for place in range(len(step.nodes))]
            for node, entries in zip(step.nodes, held, strict=True):
                known[node] = {state: (("entry", i), len(rows) + k) for k, state in enumerate(entries)}
                rows += entries.values()
            self._entries.append(Sums(rows))
        self._last, self.count = len(batches.steps) - 1, len(rows)
        # Behind the entries of the matrix stands a zero.
        self._places = np.full((len(held), states), self.count)
        first = 0
        for row, entries in enumerate(held):
            self._places[row, list(entries)] = np.arange(first, first + len(entries))
            first += len(entries)

    def __call__(self, y: Float[Array, " states"], c: Float[Array, " constants"]) -> Float[Array, "formulas states"]:
        """The matrix."""
        read = self.batches.partials(y, c)
        for i, entries in enumerate(self._entries):
            read.vectors["entry", i] = entries(read)
        whole = jnp.concatenate([read.vectors["entry", self._last], jnp.zeros(1, y.dtype)])
        return whole.at[self._places].get(mode="promise_in_bounds")


def _entries(step: Batch | SumBatch, number: int, row: int, known: Any) -> dict[int, list[Term]]:
    """State -> the terms of one formula's derivative by it."""
    entries: dict[int, list[Term]] = {}
    if isinstance(step, SumBatch):
        parts = [(place, None, factor) for place, factor in step.terms[row]]
    else:
        size = len(step.nodes)
        slots = [(slot[row], (("slope", number), i * size + row)) for i, slot in enumerate(step.slots)]
        parts = [(place, slope, 1.0) for place, slope in slots if isinstance(place, tuple)]
    for (kind, index), slope, factor in parts:
        inner = {index: None} if kind == "y" else known[index] if kind == "x" else {}
        for state, entry in inner.items():
            term = (entry or ("one", 0), None, factor) if slope is None else (slope, entry, factor)
            entries.setdefault(state, []).append(term)
    return entries
