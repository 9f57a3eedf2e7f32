"""Numbers that a problem must have before anything is simulated: finite ones of the model, and a use for each of the table."""

import math
from collections.abc import Collection, Mapping, Sequence

from .._errors import DataError, close_matches
from ..networks import Formulas
from ._model import Model
from ._tables_v1 import Parameter, Series


def check_used(
    parameters: Mapping[str, Parameter], model: Model, conditions: Collection[str], series: Sequence[Series]
) -> None:
    """Refuse parameters of the table that neither the model, nor a formula, nor another table names; `conditions`: its texts."""
    named = {node[1] for node in model.graph.nodes if node[0] == "symbol"} | {*model.aliases}
    named |= {*model.constants, *model.states, *model.start, *model.formulas}
    named |= {*conditions}
    given = (value for s in series for rows in s.given.values() for values in rows.values() for value in values)
    named |= {value for value in given if isinstance(value, str)}
    for name, parameter in parameters.items():
        if name not in named:
            known = {str(x) for x in named if " " not in str(x)}
            raise DataError(
                f"{parameter.where} tells of `{name}`, but neither the model nor another table names it. "
                f"{close_matches(name, known)}"
            )


def check_finite(model: Model, replaced: Collection[str], experiment: str) -> None:
    """Refuse initial values and constants of the model that are not finite and that nothing replaces in an experiment."""
    used = Formulas(tuple(model.graph.nodes)).symbols([*model.rates.values()])
    constants = {name: model.constants[name] for name in sorted(used & {*model.constants} - {*model.start})}
    states = {name: model.graph.value(model.start[name]) for name in model.states}
    for name, value in (states | constants).items():
        if value is not None and not math.isfinite(value) and name not in replaced:
            raise DataError(
                f"`{name}` of the model must be finite in the experiment `{experiment}`, but it is {value}. Give it a value in the "
                "model, in the parameter table or in the condition table."
            )
