"""Values that conditions set: at the start of an experiment by formulas, and in its later periods by events."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ..networks import Formulas
from ._model import Model
from ._switches import NEVER
from ._tables import Row
from ._tables_v1 import Series


class Formula(NamedTuple):
    """The node of a formula that a condition gives as a value."""

    node: int


Values = Mapping[str, float | str | Formula]


def flag(name: str, value: Formula, period: str = "") -> str:
    """The parameter that is 1 where an experiment sets a name by a formula."""
    return f"{period}{name} by formula {value.node}"


def by_formulas(model: Model, conditions: Iterable[Values]) -> tuple[dict[str, int], dict[str, float]]:
    """The starts of what first conditions set by formulas, and the parameters that choose among those."""
    start, flags = dict(model.start), {}
    for values in conditions:
        for name, value in values.items():
            if isinstance(value, Formula) and flag(name, value) not in flags:
                flags[flag(name, value)] = 0.0
                other = start.get(name, model.graph.number(float("nan")))
                chosen = model.graph.symbol(flag(name, value))
                start[name] = model.graph.make("choice", value.node, chosen, other)
    return start, flags


def set_paths(model: Model, values: Values) -> dict[str, float | str]:
    """Return the values that an experiment sets at its start; a formula leaves its target to that."""
    found: dict[str, float | str] = {}
    for name, value in values.items():
        path = f"y0.{name}" if name in model.states else name
        if isinstance(value, Formula):
            found |= {path: float("nan"), flag(name, value): 1.0}
        else:
            found[path] = value
    return found


def check_start(model: Model, row: Row, values: Values, settled: bool) -> None:
    """Refuse formulas of a start that need what has no value then."""
    formulas = Formulas(tuple(model.graph.nodes))
    for name, value in values.items():
        if isinstance(value, Formula):
            used = formulas.symbols([value.node])
            bad = sorted(used & {*values, *(model.states if settled else ())})
            if bad:
                why = "after a steady state" if bad[0] in model.states and settled else "in the first period"
                raise row.error(
                    name,
                    f"must not depend, {why}, on what the condition sets or the model computes: `{bad[0]}`: not supported.",
                )


@dataclasses.dataclass(frozen=True)
class Periods:
    """The later periods of all experiments.

    - `changes`: of each the node of its time, and what it assigns; `values`: the parameters that its time and new values are, by
        their names.
    - `conditions`: by the name of a condition what it sets.
    """

    changes: tuple[tuple[int, Mapping[str, int]], ...]
    values: Mapping[str, float]
    conditions: Mapping[str, Values]

    @classmethod
    def of(cls, model: Model, series: Sequence[Series], conditions: Mapping[str, Values]) -> "Periods":
        """The periods, where constants of the model that they change have become states."""
        graph, changes, values = model.graph, [], {}
        for k in range(max((len(s.later) for s in series), default=0)):
            given = [conditions[s.later[k][1]] for s in series if len(s.later) > k]
            changed = {}
            for name in sorted({name for one in given for name in one}):
                _make_state(model, name)
                new, chosen = f"period {k} {name}", f"period {k} sets {name}"
                values |= {new: 0.0, chosen: 0.0}
                node = graph.make("choice", graph.symbol(new), graph.symbol(chosen), model.reader.symbol(name))
                formulas = (one.get(name) for one in given)
                for value in dict.fromkeys(x for x in formulas if isinstance(x, Formula)):
                    values[flag(name, value, f"period {k} ")] = 0.0
                    node = graph.make("choice", value.node, graph.symbol(flag(name, value, f"period {k} ")), node)
                changed[name] = node
            values[f"period {k}"] = NEVER
            changes.append((graph.symbol(f"period {k}"), _amounts(model, changed)))
        return cls(tuple(changes), values, conditions)

    def of_series(self, series: Series) -> dict[str, float | str]:
        """Return the values that an experiment sets: the times of its periods and their values."""
        found: dict[str, float | str] = {}
        for k, (time, condition) in enumerate(series.later):
            found[f"period {k}"] = time
            for name, value in self.conditions[condition].items():
                if isinstance(value, Formula):
                    found[flag(name, value, f"period {k} ")] = 1.0
                else:
                    found |= {f"period {k} {name}": value, f"period {k} sets {name}": 1.0}
        return found


def _amounts(model: Model, changed: Mapping[str, int]) -> dict[str, int]:
    """New values of states, of which some are amounts: all concentrations that are not set stay, though a volume changes."""
    found = dict(changed)
    for name, volume in model.volumes.items():
        (compartment,) = Formulas(tuple(model.graph.nodes)).symbols([volume]) or ("",)
        if name in changed or compartment in changed:
            new = changed.get(name, model.reader.symbol(name))
            found[name] = model.graph.make("multiply", new, changed.get(compartment, volume))
    return found


def _make_state(model: Model, name: str) -> None:
    if name in model.constants:
        value = model.constants.pop(name)
        model.states.append(name)
        model.rates[name] = model.graph.number(0.0)
        model.start.setdefault(name, model.graph.number(value))
