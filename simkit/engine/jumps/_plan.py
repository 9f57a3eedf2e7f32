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
"""Slots of a block, and blocks of a top."""
SHARED = (1, 4, 8, 16, 1 << 30)
"""Reactions from which on a number of the state is a factor of whole blocks."""

SLOT, TOP, PICK, DEPENDENT, FACTOR, CHANGE = 0.1, 1.0, 2.0, 6.0, 8.0, 5.0
"""Costs in ns a lane, measured on one core: of a slot in the sums, of a top, of a sum to choose from, of a dependent and each
factor in its weight, of a change."""

GROUP = 16
"""Tops in one group, where they are chosen by groups."""

ONE, OTHER = -1, -2
"""The factors of the tops of products without a common factor, and of what is no product."""

MANY = 64
"""Tops from which on they are chosen by groups."""


class Plan(NamedTuple):
    """Products in slots, `width` of them in a block. Of the `tops` tops the first `small` have one block each, others `blocks`.

    The propensity of a slot is its weight times the factor of its top, so that where this factor changes no weight does. Values of
    a lane stand in one array: the factors of the tops, the numbers of the state, those less whole numbers, and 1. Slots that stand
    at one place of their blocks follow each other, as do blocks of their tops, so that sums add long rows. The last block is empty:
    its first slot stands for no reaction.

    - `order`: the numbers of the state, those that propensities read first; `read` is how many these are.
    - `taken`: pairs of a number of the state, and what is taken off it.
    - `factor`: by top the number of the state that is its factor, -1 for 1.
    - `reaction`, `coefficient`, `rows`: by slot its reaction (-1 for none), its coefficient, and the values in its weight.
    - `free`: the first block of those propensities that are no products, and how many of them there are.
    - `changed`, `amounts`: by slot the values that its reaction changes, and by how much.
    - `dependents`: by slot the slots whose weights it changes.
    """

    tops: int
    small: int
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
    def all_blocks(self) -> int:
        """The number of blocks, with the empty one."""
        return self.small + (self.tops - self.small) * self.blocks + 1

    @property
    def none(self) -> int:
        """The slot of no reaction."""
        return self.all_blocks - 1

    @property
    def values(self) -> int:
        """The number of values of a lane."""
        return self.tops + len(self.order) + len(self.taken) + 1


class _Split(NamedTuple):
    """Factors by reaction: the number of the state that is the factor of its top (`ONE` and `OTHER` for 1), and the others."""

    factor: list[int]
    left: list[tuple[tuple[int, int], ...]]


def planned(products: Products, jumps: Float[np.ndarray, "reactions numbers"]) -> Plan:
    """The tables, with those sizes that are thought to cost least."""
    best: tuple[float, _Split, int, int] | None = None
    moved = [np.flatnonzero(row).tolist() for row in jumps]
    for least in SHARED:
        split = _split(products, least)
        count = Counter(split.factor)
        dependents, factors = max(map(len, _dependents(split, moved))), max(map(len, split.left))
        for width, blocks in itertools.product(WIDTHS, WIDTHS):
            sizes = {x: _tops(x, n, blocks, width) for x, n in count.items()}
            all_tops = sum(n for n, _ in sizes.values())
            changes = max(sum(1 + sizes[i][0] if i in sizes else 1 for i in row) for row in moved)
            sums = all_tops if all_tops <= MANY else all_tops / GROUP + GROUP
            cost = SLOT * width * sum(n * each for n, each in sizes.values())
            cost += TOP * all_tops + PICK * (sums + width + blocks)
            cost += dependents * (DEPENDENT + FACTOR * factors) + CHANGE * changes
            if best is None or cost < best[0]:
                best = cost, split, blocks, width
    assert best is not None
    return _tables(products, jumps, *best[1:])


def _tops(factor: int, count: int, blocks: int, width: int) -> tuple[int, int]:
    """The number of tops of a factor that `count` reactions have, and of the blocks of each."""
    if factor == OTHER or count <= 2 * width:
        return math.ceil(count / width), 1
    return math.ceil(count / (width * blocks)), blocks


def _split(products: Products, least: int) -> _Split:
    """Take as factor of the top of each reaction the one that most reactions have, where `least` have it."""
    degree = Counter(i for factors in products.factors for i, _ in factors)
    heads = [max([(degree[i], i) for i, m in row if m == 0], default=(0, ONE))[1] for row in products.factors]
    count = Counter(heads)
    factor, left = [], []
    for head, coefficient, row in zip(heads, products.coefficients, products.factors, strict=True):
        head = OTHER if coefficient < 0 else head if count[head] >= least else ONE
        rest = list(row)
        if head >= 0:
            rest.remove((head, 0))
        factor.append(head)
        left.append(tuple(rest))
    return _Split(factor, left)


def _dependents(split: _Split, moved: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return by reaction the reactions whose weights it changes."""
    readers: dict[int, set[int]] = defaultdict(set)
    for j, row in enumerate(split.left):
        for i, _ in row:
            readers[i].add(j)
    return [sorted(set().union(*(readers[i] for i in row if i in readers))) for row in moved]


def _tables(
    products: Products, jumps: Float[np.ndarray, "reactions numbers"], split: _Split, blocks: int, width: int
) -> Plan:
    """Build the tables."""
    sizes = {x: _tops(x, n, blocks, width) for x, n in Counter(split.factor).items()}
    # Small tops first, and the last of them what is no product; within a factor in the order of the reactions.
    key = lambda j: (sizes[split.factor[j]][1] > 1, split.factor[j] == OTHER, split.factor[j], j)
    order = sorted(range(len(jumps)), key=key)
    factor = [x for x, _ in itertools.groupby(split.factor[j] for j in order) for _ in range(sizes[x][0])]
    small = sum(n for n, each in sizes.values() if each == 1)
    large = len(factor) - small
    all_blocks = small + large * blocks + 1
    reaction, slots, top = np.full(all_blocks * width, -1), {}, 0
    for head, group in itertools.groupby(order, key=lambda j: split.factor[j]):
        count, each = sizes[head]
        for i, j in enumerate(group):
            own, place = divmod(i, each * width)
            block, place = divmod(place, width)
            at = top + own if each == 1 else small + block * large + top + own - small
            slots[j] = place * all_blocks + at
            reaction[slots[j]] = j
        top += count
    others = sizes.get(OTHER, (0, 1))[0]
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
        small,
        blocks,
        width,
        numbers,
        len(read),
        tuple(taken),
        factors,
        reaction,
        coefficients[reaction],
        _table([rows_of[j] if j >= 0 else [] for j in reaction], one, 0),
        (small - others, sum(x == OTHER for x in split.factor)),
        _table([[x for x, _ in changes[j]] if j >= 0 else [] for j in reaction], one, 1),
        _table([[x for _, x in changes[j]] if j >= 0 else [] for j in reaction], 0.0, 1),
        _table([[slots[i] for i in dependents[j]] if j >= 0 else [] for j in reaction], all_blocks - 1, 0),
    )


def _table(rows: Sequence[Sequence[float | int]], filler: float | int, least: int) -> np.ndarray:
    """Rows of different lengths as an array."""
    width = max(least, max(map(len, rows)))
    kind = np.float64 if isinstance(filler, float) else np.int32
    return np.array([[*row, *[filler] * (width - len(row))] for row in rows], kind).reshape(len(rows), width)
