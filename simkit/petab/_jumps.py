"""SBML models as jump processes: kinetic laws as propensities of amounts that are whole numbers."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from .._doors import check_kind
from .._errors import ArgumentError, DataError
from .._types import Inputs, State, Time
from ..core import Example, JumpSystem
from ..networks import TIME, Formulas, numbers_of
from ._model import Model
from ._sbml import read_sbml
from ._sbml_system import Roots

Resets = tuple[tuple[int, Roots], ...]
"""Events: the node of the trigger, and states with the nodes of their new values."""


class SBMLJumps(JumpSystem):
    """An SBML model as a jump process; the state holds amounts of species by their identifiers.

    - `parameters`: constants of the model by their identifiers. `sizes`: species -> the node of its volume, where its symbol means
        a concentration.
    - `formulas`, `laws`, `named`: the graph, and in it the propensities of the reactions and all else that has a name.
    - `changes`: by reaction what it adds to which species. `resets`: changes at once where a trigger becomes true; `watched`: times
        that triggers compare with.
    """

    parameters: dict[str, Any] = eqx.field(converter=numbers_of)
    formulas: Formulas = eqx.field(static=True)
    laws: Roots = eqx.field(static=True)
    named: Roots = eqx.field(static=True)
    changes: tuple[tuple[tuple[str, float], ...], ...] = eqx.field(static=True)
    sizes: Roots = eqx.field(static=True)
    initial: Roots = eqx.field(static=True)
    resets: Resets = eqx.field(static=True)
    watched: tuple[float, ...] = eqx.field(static=True)

    def start(self) -> dict[str, Array]:
        """Return the amounts at the start that the file gives, for the parameters of this system."""
        known = {**self.parameters, TIME: 0.0}
        found = self.formulas.evaluate([node for _, node in self.initial], lambda name: known[name])
        return {name: jnp.asarray(x, float) for (name, _), x in zip(self.initial, found, strict=True)}

    def _values(self, nodes: list[int], t: Time, y: dict[str, Array]) -> list[Array]:
        dtype = jnp.result_type(*y.values())
        known = {**self.parameters, TIME: t}
        size = dict(zip(dict(self.sizes), self._sizes(), strict=True))
        value = lambda name: known[name] if name in known else y[name] / size[name] if name in size else y[name]
        found = self.formulas.evaluate(nodes, value)
        return [x if jnp.issubdtype(jnp.result_type(x), jnp.bool_) else jnp.asarray(x, dtype) for x in found]

    def _sizes(self) -> list[Any]:
        return self.formulas.evaluate([node for _, node in self.sizes], lambda name: self.parameters[name])

    def propensities(self, t: Time, y: dict[str, Array], inputs: Inputs) -> dict[str, Any]:
        return dict(zip(dict(self.laws), self._values([node for _, node in self.laws], t, y), strict=True))

    def jumps(self) -> Mapping[str, Any]:
        return {name: dict(change) for (name, _), change in zip(self.laws, self.changes, strict=True)}

    def adjusted(self, before: tuple[Time, State], t: Time, y: State, inputs: Inputs) -> State:
        if not self.resets:
            return y
        triggers = [trigger for trigger, _ in self.resets]
        old, new = self._values(triggers, *before), self._values(triggers, t, y)
        size, values = dict(zip(dict(self.sizes), self._sizes(), strict=True)), y
        for (_, changed), was, now in zip(self.resets, old, new, strict=True):
            found = self._values([node for _, node in changed], t, y)
            for (name, _), x in zip(changed, found, strict=True):
                amount = x * size[name] if name in size else x
                values = values | {name: jnp.where(now & ~was, amount, values[name]).astype(y[name].dtype)}
        return values

    def stops(self) -> Array | None:
        return jnp.asarray(self.watched, float) if self.watched else None

    def outputs(self, t: Time, y: dict[str, Array], inputs: Inputs) -> dict[str, Array]:
        return y | dict(zip(dict(self.named), self._values([node for _, node in self.named], t, y), strict=True))

    @classmethod
    def example(cls) -> "Example[SBMLJumps]":
        raise ArgumentError("A system read from SBML has no example: simulate from its `start()`.")


def load_jumps(path: str | Path) -> SBMLJumps:
    """Read an SBML model of level 2 or 3 as a jump process: kinetic laws are propensities, amounts are whole numbers.

    A law is taken as it is written, in reactions per unit of time, so that it must count pairs where a reaction takes two of one
    species. Species whose symbols mean concentrations are divided by their volumes in laws; states and outputs are amounts. Events
    without delay and priority happen at once, where their trigger becomes true by a jump or at a time that it compares with.

    **Returns:** a system whose parameters are the constants of the model, whose states are its species, and whose outputs are
    species, assignment rules and rates. Its `start()` is the state at the start.

    **Raises:** a `DataError` that names what a jump process does not have: rate rules, algebraic rules, fast reactions, delays,
    volumes that change, stoichiometries that are formulas, events with a delay or a priority.
    """
    check_kind("path", path, str | os.PathLike, "the path of an SBML file", "Write `load_jumps('model.xml')`.")
    model = read_sbml(path)
    graph, where = model.graph, f"in `{Path(path).name}`"
    _check(model, where)
    laws, changes = [], []
    for name, moved in model.reactions.items():
        counts = {state: graph.value(node) for state, node in moved.items()}
        if any(count is None for count in counts.values()):
            raise DataError(
                f"The reaction `{name}` {where} must have known stoichiometric numbers, but one is a formula."
            )
        changed = tuple((state, count) for state, count in counts.items() if count)
        if changed:
            laws.append((name, model.formulas[name]))
            changes.append(changed)
    if not laws:
        raise DataError(f"The model {where} must have a reaction that changes a species, but has none.")
    sizes = {name: node for name, node in model.sizes.items() if name in model.states}
    initial = {
        name: graph.multiply(model.start[name], sizes[name]) if name in sizes else model.start[name]
        for name in model.states
    }
    events = tuple((event.trigger, tuple(event.assignments.items())) for event in model.events)
    watched = tuple(t for event in model.events for t in _times_of(model, event.trigger))
    formulas = Formulas(tuple(graph.nodes))
    named = tuple((name, node) for name, node in model.formulas.items())
    return SBMLJumps(
        model.constants,
        formulas,
        tuple(laws),
        named,
        tuple(changes),
        tuple(sizes.items()),
        tuple(initial.items()),
        events,
        watched,
    )


def _check(model: Model, where: str) -> None:
    """Refuse what no jump process has.

    **Raises:** a `DataError`.
    """
    for what, found in (
        ("fast reactions", [x.name for x in model.fast]),
        ("algebraic rules", list(model.unknowns)),
        ("delays", list(model.delays)),
        (
            "rate rules or assignments by events of what is no species",
            [x for x in model.states if x not in model.species],
        ),
        ("volumes that change", list(model.volumes)),
        (
            "events with a delay or a priority",
            [x.name for x in model.events if x.delay is not None or x.priority is not None],
        ),
    ):
        if found:
            names = ", ".join(f"`{x}`" for x in found[:5])
            raise DataError(
                f"A jump process has no {what}, but the model {where} has: {names}. Simulate it as "
                "differential equations."
            )


def _times_of(model: Model, trigger: int) -> list[float]:
    """The times that a trigger compares the time with."""
    nodes, found = model.graph.nodes, []
    for i in Formulas(tuple(nodes)).reached([trigger]):
        operation, *operands = nodes[i]
        if operation in ("lt", "leq", "gt", "geq"):
            kinds = [nodes[x] for x in operands]
            if ("symbol", TIME) in kinds:
                found += [kind[1] for kind in kinds if kind[0] == "number"]
    return found
