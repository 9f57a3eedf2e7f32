"""Systems of equations as SBML."""

from collections.abc import Sequence
from typing import Any

import libsbml
import numpy as np

from .._errors import ArgumentError
from .._types import Inputs
from ..networks import TIME, EquationSystem, Spelled, WrittenEvent, set_inputs, start_numbers
from ._events_sbml import as_math, write_events


def equations_sbml(
    system: EquationSystem, y0: Any, inputs: Inputs = None, *, events: Sequence[WrittenEvent] = ()
) -> str:
    """A system of equations as SBML, level 3 version 2: states are parameters with rate rules, assignments and outputs rules.

    Inputs become constants of their values, else of their defaults. Units are text in simkit, so they stand in the notes of each
    parameter, and the model declares none.

    **Arguments:**

    - `system`: what `from_equations` made.
    - `y0`: its initial state.
    - `inputs`: name -> number or `Constant`.
    - `events`: those of a study, as `simkit export` writes them. A passage of zero becomes a trigger that counts as true before the
        start, or two where both directions count; each known time one of its own, those of one time by priority in the given order.

    **Raises:** an `ArgumentError` for another system, an input that varies in time or has neither value nor default, a formula that
    SBML has not, or an event that ends the simulation, which SBML has not either.

    ```python
    import simkit
    decay = simkit.from_equations({"d x": "-rate*x"}, parameters={"rate": 0.5}, name="Decay")
    print(simkit.petab.equations_sbml(decay, {"x": 1.0}))
    ```
    """
    if not isinstance(system, EquationSystem):
        raise ArgumentError(
            f"Argument `system` must be made by `from_equations`, but it is of the class `{type(system).__name__}`."
        )
    equations, spelled = system.equations, Spelled(system.equations)
    document = libsbml.SBMLDocument(3, 2)
    model = document.createModel()
    model.setId(equations.name)
    values: dict[str, Any] = dict(start_numbers(y0, [name for name, _ in equations.rates]))
    values |= {name: getattr(system, name) for name, _, _ in equations.parameters}
    units: dict[str, Any] = dict(equations.states) | {name: known for name, _, known in equations.parameters}
    for name, declared in set_inputs(equations, inputs).items():
        if declared.default is None:
            raise ArgumentError(f"The input `{name}` must have a default to be written as SBML, but it has none.")
        values[name], units[name] = declared.default, declared
    moving = {*spelled.rates, *spelled.assignments, *spelled.observed}
    for name in [*values, *spelled.assignments, *spelled.observed]:
        made = model.createParameter()
        made.setId(name)
        made.setConstant(name not in moving)
        if name in values:
            made.setValue(float(np.asarray(values[name])))
            known = units[name]
            if known.unit != "1" or known.doc:
                text = ", ".join(filter(None, [known.doc, "" if known.unit == "1" else f"in {known.unit}"]))
                made.setNotes(text, True)
    for name, node in spelled.rates.items():
        _rule(model.createRateRule(), name, spelled, node)
    for name, node in {**spelled.assignments, **spelled.observed}.items():
        _rule(model.createAssignmentRule(), name, spelled, node)
    write_events(model, events)
    return str(libsbml.writeSBMLToString(document))


def _rule(rule: Any, name: str, spelled: Spelled, node: int) -> None:
    text = spelled.text(
        node, lambda symbol: "time" if symbol.endswith(TIME) else symbol.partition(":")[2], python=False
    )
    rule.setVariable(name)
    rule.setMath(as_math(text, name))
