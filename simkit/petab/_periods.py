"""Periods of an experiment after the first: what changes then, as doses whose times and values belong to the experiment."""

import dataclasses
from collections.abc import Mapping, Sequence

from .._errors import DataError
from ._events import Dose
from ._sbml import Model
from ._switches import NEVER, switch_name
from ._tables_v1 import Series

Values = Mapping[str, float | str]


@dataclasses.dataclass(frozen=True)
class Periods:
    """The later periods of all experiments.

    - `doses`: one a period; `values`: the parameters that its time and new values are, by their names.
    - `conditions`: by the name of a condition what it sets.
    """

    doses: tuple[Dose, ...]
    values: Mapping[str, float]
    conditions: Mapping[str, Values]

    @classmethod
    def of(cls, model: Model, series: Sequence[Series], conditions: Mapping[str, Values]) -> "Periods":
        """The periods, where constants of the model that they change have become states."""
        graph, doses, values = model.graph, [], {}
        for k in range(max((len(s.later) for s in series), default=0)):
            changed = sorted({name for s in series if len(s.later) > k for name in conditions[s.later[k][1]]})
            for name in changed:
                _make_state(model, name)
            when, after = graph.symbol(f"period {k}"), graph.symbol(switch_name(0))
            values[f"period {k}"] = NEVER
            assignments = []
            for name in changed:
                new, given = f"period {k} {name}", f"period {k} sets {name}"
                values |= {new: 0.0, given: 0.0}
                target = graph.symbol(new)
                if name in model.volumes:
                    target = graph.make("multiply", target, model.volumes[name])
                node = graph.make("choice", target, graph.symbol(given), graph.symbol(name))
                assignments.append((name, node))
            doses.append(Dose(when, ((switch_name(0), when),), after, None, tuple(assignments), True))
        return cls(tuple(doses), values, conditions)

    def of_series(self, series: Series) -> dict[str, float | str]:
        """What an experiment sets: the times of its periods and their values."""
        found: dict[str, float | str] = {}
        for k, (time, condition) in enumerate(series.later):
            found[f"period {k}"] = time
            for name, value in self.conditions[condition].items():
                found |= {f"period {k} {name}": value, f"period {k} sets {name}": 1.0}
        return found


def _make_state(model: Model, name: str) -> None:
    if name in model.compartments:
        raise DataError(f"A period after the first must not set the size of a compartment, but sets `{name}`.")
    if name in model.constants:
        value = model.constants.pop(name)
        model.states.append(name)
        model.rates[name] = model.graph.number(0.0)
        model.start.setdefault(name, model.graph.number(value))
