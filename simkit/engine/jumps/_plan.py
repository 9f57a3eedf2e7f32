"""Tables of a jump process whose propensities are products: where each stands, and what a jump changes."""

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from ...core import Products

WIDTHS = (4, 8, 16, 32, 64)
SHARED = (1, 4, 8, 16, 1 << 30)
"""Reactions from which on a number of the state is a factor of whole blocks."""

SLOT, TOP, PICK, DEPENDENT, CHANGE = 0.12, 1.0, 1.5, 7.0, 3.0
"""Costs in ns a lane, measured on one core: of a slot in the sums, of a top and a sum to choose from, of a dependent, of a change."""


class Plan(NamedTuple):
    """Products in slots, in `tops` tops of `blocks` blocks of `width` slots.

    The propensity of a slot is its weight times the factor of its top, so that where this factor changes no weight does. Values of a
    lane stand in one array: the factors of the tops, the numbers of the state, those less whole numbers, and 1. The slot behind the
    last one stands for no reaction.

    - `order`: the numbers of the state, those that propensities read first; `read` is how many these are.
    - `taken`: pairs of a number of the state, and what is taken off it.
    - `factor`: by top the number of the state that is its factor, -1 for 1.
    - `reaction`, `coefficient`, `rows`: by slot its reaction (-1 for none), its coefficient, and the values in its weight.
    - `free`: the first slot of those propensities that are no products, and how many they are.
    - `changed`, `amounts`: by slot the values that its reaction changes, and by how much.
    - `dependents`: by slot the slots whose weights it changes.
    """

    tops: int
    blocks: int
    width: int
    order: Int[np.ndarray, " numbers"]
    read: int
    taken: tuple[tuple[int, int], ...]
    factor: Int[np.ndarray, " tops"]
    reaction: Int[np.ndarray, " slots"]
    coefficient: Int[np.ndarray, " slots"]
    rows: Int[np.ndarray, "slots factors"]
    free: tuple[int, int]
    changed: Int[np.ndarray, "slots changes"]
    amounts: Float[np.ndarray, "slots changes"]
    dependents: Int[np.ndarray, "slots dependents"]

    @property
    def slots(self) -> int:
        return self.tops * self.blocks * self.width

    @property
    def values(self) -> int:
        """The number of values of a lane."""
        return self.tops + len(self.order) + len(self.taken) + 1


class _Split(NamedTuple):
    """By reaction the number of the state that is the factor of its top (-1 for 1), and the factors that are left."""

    factor: list[int]
    left: list[tuple[tuple[int, int], ...]]


def planned(products: Products, jumps: Float[np.ndarray, "reactions numbers"]) -> Plan:
    """The tables, with those sizes that are thought to cost least."""
    best: tuple[float, _Split, int, int] | None = None
    moved = [np.flatnonzero(row).tolist() for row in jumps]
    for least in SHARED:
        split = _split(products, least)
        count = Counter(split.factor)
        dependents = max(map(len, _dependents(split, moved)))
        for width, blocks in itertools.product(WIDTHS, WIDTHS):
            tops = {x: math.ceil(n / (width * blocks)) for x, n in count.items()}
            changes = max(sum(1 + tops.get(i, 0) for i in row) for row in moved)
            all_tops = sum(tops.values())
            cost = SLOT * all_tops * width * blocks + TOP * all_tops + PICK * (width + blocks)
            cost += DEPENDENT * dependents + CHANGE * changes
            if best is None or cost < best[0]:
                best = cost, split, blocks, width
    assert best is not None
    return _tables(products, jumps, *best[1:])


def _split(products: Products, least: int) -> _Split:
    """Of the factors of each reaction the one that most reactions have is the factor of its top, where `least` have it."""
    degree = Counter(i for factors in products.factors for i, _ in factors)
    heads = [max([(degree[i], i) for i, m in row if m == 0], default=(0, -1))[1] for row in products.factors]
    count = Counter(heads)
    factor, left = [], []
    for head, row in zip(heads, products.factors, strict=True):
        head = head if count[head] >= least else -1
        rest = list(row)
        if head >= 0:
            rest.remove((head, 0))
        factor.append(head)
        left.append(tuple(rest))
    return _Split(factor, left)


def _dependents(split: _Split, moved: Sequence[Sequence[int]]) -> list[list[int]]:
    """By reaction the reactions whose weights it changes."""
    readers: dict[int, set[int]] = defaultdict(set)
    for j, row in enumerate(split.left):
        for i, _ in row:
            readers[i].add(j)
    return [sorted(set().union(*(readers[i] for i in row if i in readers))) for row in moved]


def _tables(products: Products, jumps: Float[np.ndarray, "reactions numbers"], split: _Split, blocks: int, width: int):
    """Build the tables."""
    each = blocks * width
    known = np.array(products.coefficients) >= 0
    # Slots by factor, within a factor in the order of the reactions; what is no product comes last of all.
    order = sorted(range(len(jumps)), key=lambda j: (not known[j], split.factor[j] == -1, split.factor[j], j))
    factor, reaction = [], []
    for head, group in itertools.groupby(order, key=lambda j: split.factor[j]):
        members = list(group)
        tops = math.ceil(len(members) / each)
        factor += [head] * tops
        reaction += members + [-1] * (tops * each - len(members))
    reaction = np.array([*reaction, -1])
    slots = {j: i for i, j in enumerate(reaction.tolist()) if j >= 0}
    others = [slots[j] for j in np.flatnonzero(~known).tolist()]
    assert others == list(range(others[0], others[0] + len(others))) if others else True
    read = sorted({i for row in products.factors for i, _ in row})
    numbers = np.array([*read, *(i for i in range(jumps.shape[1]) if i not in set(read))])
    place = {i: len(factor) + k for k, i in enumerate(numbers.tolist())}
    taken = sorted({(i, m) for row in split.left for i, m in row if m})
    place_less = {x: len(factor) + len(numbers) + k for k, x in enumerate(taken)}
    one = len(factor) + len(numbers) + len(taken)
    row_of = lambda i, m: place[i] if m == 0 else place_less[i, m]
    rows_of = [[row_of(i, m) for i, m in left] for left in split.left]
    factors = np.array(factor)
    changes: list[list[tuple[int, float]]] = []
    for row in jumps:
        changes.append([])
        for i in np.flatnonzero(row).tolist():
            where = [place[i], *(place_less[x] for x in taken if x[0] == i), *np.flatnonzero(factors == i).tolist()]
            changes[-1] += [(x, float(row[i])) for x in where]
    dependents = _dependents(split, [np.flatnonzero(row).tolist() for row in jumps])
    coefficients = np.array([*products.coefficients, -1])
    return Plan(
        len(factor),
        blocks,
        width,
        numbers,
        len(read),
        tuple(taken),
        factors,
        reaction,
        coefficients[reaction],
        _table([rows_of[j] if j >= 0 else [] for j in reaction], one, 0),
        (others[0] if others else 0, len(others)),
        _table([[x for x, _ in changes[j]] if j >= 0 else [] for j in reaction], one, 1),
        _table([[x for _, x in changes[j]] if j >= 0 else [] for j in reaction], 0.0, 1),
        _table([[slots[i] for i in dependents[j]] if j >= 0 else [] for j in reaction], len(reaction) - 1, 0),
    )


def _table(rows: Sequence[Sequence[float]], filler: float, least: int) -> np.ndarray:
    """Rows of different lengths as an array."""
    width = max(least, max(map(len, rows)))
    kind = np.float64 if isinstance(filler, float) else np.int32
    return np.array([[*row, *[filler] * (width - len(row))] for row in rows], kind).reshape(len(rows), width)
