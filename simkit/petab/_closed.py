"""Parameters of a PEtab problem with best values in closed form: scales, offsets and noise that formulas are linear in."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ..networks import Graph, Node, reached
from ..problem import ClosedForm, LogNormal, Normal
from ._row_formulas import Head
from ._tables_v1 import Observable, Series

FREE, PROPORTIONAL, AFFINE = 0, 1, 2


class _Use(NamedTuple):
    """Parameters of one datum: those in which its location is affine, that to which its scale is proportional, others.

    `factor` is the one to which location and scale are proportional both.
    """

    output: str
    linear: frozenset[str]
    proportional: bool
    scatter: str
    others: frozenset[str]
    factor: str = ""

    @property
    def lines(self) -> frozenset[str]:
        """All parameters of the location with a closed form."""
        return self.linear | ({self.factor} if self.factor else frozenset())


def closed_forms(
    graph: Graph, observables: Mapping[str, Observable], series: Sequence[Series], candidates: frozenset[str]
) -> tuple[ClosedForm, ...]:
    """The closed forms of a problem among `candidates`: free parameters that only observables name, without priors."""
    uses = {
        use
        for s in series
        for name, rows in s.given.items()
        for use in _uses(graph, observables[name], rows, candidates)
    }
    linear = frozenset().union(*(u.linear for u in uses)) if uses else frozenset()
    factors = frozenset(u.factor for u in uses if u.factor)
    scatter = frozenset(u.scatter for u in uses if u.scatter)
    others = frozenset().union(*(u.others for u in uses)) if uses else frozenset()
    mixed = (linear & scatter) | (factors & (linear | scatter))
    known = (candidates & (linear | factors | scatter)) - others - mixed
    found: list[ClosedForm] = []
    for group in _connected([(u.lines | {u.scatter}) & known for u in uses]):
        own = [u for u in uses if (u.lines | {u.scatter}) & group]
        found += _of_group(group, own, observables)
    return tuple(sorted(found))


def _of_group(group: frozenset[str], own: Sequence[_Use], observables: Mapping[str, Observable]) -> list[ClosedForm]:
    """The closed form of connected parameters; of their noise alone where they have none together."""
    lines = sorted(group & frozenset().union(*(u.linear for u in own)))
    sizes = sorted(group & frozenset(u.scatter for u in own))
    outputs = lambda names: tuple(sorted({u.output for u in own if (u.lines | {u.scatter}) & frozenset(names)}))
    kinds = lambda names: {type(observables[name].noise) for name in outputs(names)}
    if any(u.factor in group for u in own):
        return _of_factors(group, own, sizes, observables)
    same = {u.scatter if u.scatter in group else "" for u in own if u.linear & group}
    kind = kinds([*lines, *sizes])
    affine = kind == {Normal} and len(lines) <= 2
    factor = kind == {LogNormal} and len(lines) == 1 and all(u.proportional for u in own if u.linear & group)
    if lines and (affine or factor) and len(sizes) <= 1 and len(same) == 1:
        return [ClosedForm(tuple(lines), "".join(sizes), outputs([*lines, *sizes]))]
    return [ClosedForm((), name, outputs([name])) for name in sizes if len(kinds([name])) == 1]


def _of_factors(
    group: frozenset[str], own: Sequence[_Use], sizes: Sequence[str], observables: Mapping[str, Observable]
) -> list[ClosedForm]:
    """The closed form of factors of location and scale, where each datum has one and all share the size of the scatter."""
    names = tuple(sorted({u.output for u in own}))
    same = {u.scatter if u.scatter in group else "" for u in own}
    alike = all(u.factor in group for u in own) and len(sizes) <= 1 and len(same) == 1
    if not alike or {type(observables[name].noise) for name in names} != {Normal}:
        return []
    return [ClosedForm((), "".join(sizes), names, tuple(sorted({u.factor for u in own})))]


def _uses(
    graph: Graph, observable: Observable, rows: Mapping[int, Sequence[str | float]], candidates: frozenset[str]
) -> list[_Use]:
    """The uses of parameters by the data of one observable in one experiment."""
    head = observable.head
    mine, theirs = _symbols(graph, head.location), _symbols(graph, head.scale)
    found = {}
    for values in rows.values():
        given = dict(zip(head.overrides, values, strict=True))
        name = lambda symbol, given=given: str(given.get(symbol, symbol))
        key = tuple(x if isinstance(x, str) else "" for x in values)
        if key in found:
            continue
        if factor := _factor(graph, head, name, candidates):
            rest = {s for s in theirs if name(s) != factor}
            wide = [s for s in rest - mine if _order(graph, head.scale, frozenset([s])) == PROPORTIONAL]
            scatter = name(wide[0]) if len(wide) == 1 else ""
            used = frozenset(map(name, mine | theirs)) - {factor, scatter}
            found[key] = _Use(head.name, frozenset(), True, scatter, used, factor)
            continue
        # Formulas that name one parameter twice are looked at as if the names differed: such a parameter is out.
        twice = {n for n in map(name, mine | theirs) if sum(name(s) == n for s in mine | theirs) > 1}
        line = _affine(graph, head.location, sorted(s for s in mine - theirs if name(s) in candidates))
        wide = [s for s in theirs - mine if _order(graph, head.scale, frozenset([s])) == PROPORTIONAL]
        scatter = name(wide[0]) if len(wide) == 1 else ""
        used = frozenset(map(name, mine | theirs)) - frozenset(map(name, line)) - {scatter} | twice
        order = _order(graph, head.location, line)
        found[key] = _Use(head.name, frozenset(map(name, line)), order == PROPORTIONAL, scatter, used)
    return list(found.values())


def _factor(graph: Graph, head: Head, name: Callable[[str], str], candidates: frozenset[str]) -> str:
    """The one parameter to which location and scale of a datum are proportional both, "" where there is none."""
    sides = []
    for node in (head.location, head.scale):
        named: dict[str, list[str]] = {}
        for symbol in _symbols(graph, node):
            named.setdefault(name(symbol), []).append(symbol)
        sides.append(
            {
                other
                for other, symbols in named.items()
                if other in candidates and len(symbols) == 1 and _order(graph, node, frozenset(symbols)) == PROPORTIONAL
            }
        )
    both = sides[0] & sides[1]
    return both.pop() if len(both) == 1 else ""


def _affine(graph: Graph, node: int, symbols: Sequence[str]) -> frozenset[str]:
    """Return the most symbols in which a formula is jointly affine; of `scale * (x + offset)` the first."""
    found: frozenset[str] = frozenset()
    for symbol in symbols:
        if _order(graph, node, found | {symbol}) not in (FREE, None):
            found |= {symbol}
    return found


def _order(graph: Graph, node: int, names: frozenset[str]) -> int | None:
    """Classify how a formula depends on names jointly: not, as a sum of multiples, with a rest beside it; None otherwise."""
    orders: dict[int, int | None] = {}
    for i in reached(graph.nodes, [node]):  # parts first
        orders[i] = _order_of(graph.nodes[i], orders, names)
    return orders[node]


def _order_of(node: Node, known: Mapping[int, int | None], names: frozenset[str]) -> int | None:
    operation, *operands = node
    if operation == "number":
        return FREE
    if operation == "symbol":
        return PROPORTIONAL if operands[0] in names else FREE
    orders = [known[x] for x in operands]
    if None in orders:
        return None
    if all(x == FREE for x in orders):
        return FREE
    if operation in ("add", "subtract"):
        return PROPORTIONAL if set(orders) == {PROPORTIONAL} else AFFINE
    if operation == "negative":
        return orders[0]
    if operation == "multiply" and FREE in orders:
        return orders[1] if orders[0] == FREE else orders[0]
    return orders[0] if operation == "divide" and orders[1] == FREE else None


def _symbols(graph: Graph, root: int) -> frozenset[str]:
    found, stack, seen = set(), [root], set()
    while stack:
        i = stack.pop()
        if i not in seen:
            seen.add(i)
            operation, *operands = graph.nodes[i]
            if operation == "symbol":
                found.add(operands[0])
            elif operation != "number":
                stack += operands
    return frozenset(found)


def _connected(sets: Sequence[frozenset[str]]) -> list[frozenset[str]]:
    """Sets of names, those that share one joined."""
    found: list[frozenset[str]] = []
    for names in sets:
        touching = [other for other in found if other & names]
        found = [other for other in found if not other & names]
        if names:
            found.append(names.union(*touching))
    return found
