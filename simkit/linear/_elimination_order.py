"""The order of an elimination without fill that could be avoided: rounds of states that do not know each other."""

from typing import NamedTuple

from ._pattern import Pattern

# States join a round while their Markowitz number is at most this many times the least one, or that of this share of all.
TIMES_LEAST, SHARE = 2, 5
# Elimination ends where what remains is as full as this.
FULL = 0.7
# An elimination of more products than this takes too long to plan.
MOST_PRODUCTS = 3_000_000
# Solves with the same factors, as in a step of `Rodas5P`.
SOLVES = 9
# Times in microseconds, measured on one core: of an operation of a round, and of a product by gathers.
OPERATION, GATHERED = 1.5, 2e-3


class Order(NamedTuple):
    """Rounds of states, the states that remain for a full matrix, at least one, and the places of L and U, with the fill.

    `rows[p]` are the rows below the pivot `p` and `columns[p]` the columns behind it; in the numbers of the states. `cost` is
    the time that one factorisation and nine solves are expected to take, in microseconds.
    """

    rounds: list[list[int]]
    rest: list[int]
    rows: dict[int, list[int]]
    columns: dict[int, list[int]]
    cost: float


def dense_cost(size: int) -> float:
    """The time of a factorisation and nine solves of a full matrix, in microseconds."""
    return 10 + 3.5e-5 * size**3 + SOLVES * (5 + 3e-4 * size**2)


def elimination_order(pattern: Pattern) -> Order:
    """The rounds of an elimination by least Markowitz numbers; none where a full matrix is expected to take less time.

    Markowitz (1957), Management Science 3:255, doi:10.1287/mnsc.3.3.255; Liu (1985), ACM TOMS 11:141,
    doi:10.1145/214392.214398, for several pivots at a time.
    """
    own = pattern.rows != pattern.columns
    columns: list[set[int]] = [set() for _ in range(pattern.size)]
    rows: list[set[int]] = [set() for _ in range(pattern.size)]
    for i, j in zip(pattern.rows[own].tolist(), pattern.columns[own].tolist(), strict=True):
        columns[i].add(j)
        rows[j].add(i)
    left, places, products = set(range(pattern.size)), int(own.sum()), 0
    rounds: list[list[int]] = []
    below: dict[int, list[int]] = {}
    behind: dict[int, list[int]] = {}
    costs, spent = [dense_cost(pattern.size)], 0.0
    while len(left) > 1 and places < FULL * len(left) ** 2:
        rounds.append(_independent(left, rows, columns)[: len(left) - 1])
        spent += OPERATION * (3 + 2 * SOLVES)
        for p in rounds[-1]:
            below[p], behind[p] = sorted(rows[p]), sorted(columns[p])
            own_products = len(below[p]) * len(behind[p])
            products += own_products
            spent += GATHERED * (own_products + SOLVES * (len(below[p]) + len(behind[p])))
            for i in below[p]:
                places -= len(columns[i])
                columns[i] = (columns[i] | columns[p]) - {p, i}
                places += len(columns[i])
            for j in behind[p]:
                rows[j] = (rows[j] | rows[p]) - {p, j}
            places -= len(columns[p])
            left.discard(p)
        costs.append(spent + dense_cost(len(left)))
        if products > MOST_PRODUCTS:
            break
    count = min(range(len(costs)), key=costs.__getitem__)
    pivots = [p for each in rounds[:count] for p in each]
    rest = sorted(set(range(pattern.size)) - set(pivots))
    of = lambda found: {p: found[p] for p in pivots}
    return Order(rounds[:count], rest, of(below), of(behind), costs[count])


def _independent(left: set[int], rows: list[set[int]], columns: list[set[int]]) -> list[int]:
    """States with small Markowitz numbers, of which none stands in a row or column of another one."""
    sparsest = sorted((len(rows[p]) * len(columns[p]), p) for p in left)
    most = max(TIMES_LEAST * sparsest[0][0], sparsest[len(left) // SHARE][0])
    chosen, blocked = [], set()
    for number, p in sparsest:
        if number <= most and p not in blocked:
            chosen.append(p)
            blocked |= rows[p]
            blocked |= columns[p]
    return chosen
