"""An SBML model as formulas: states, their rates, events, and what holds at all times."""

import dataclasses
from typing import Any

from .._errors import DataError
from ..networks import TIME, Formulas, Graph

NOTHING = "nothing moves"
"""The state of a model without any, which no identifier can be: it is two words."""


@dataclasses.dataclass(frozen=True)
class Event:
    """A change of states at once.

    - `trigger`: the node of its condition; it happens where that becomes true.
    - `assignments`: state -> the node of its new value, as what its symbol means; `volumes` of those that are amounts though
        their symbols mean concentrations, as they are where the event happens.
    - `delay`, `priority`: nodes, or None; `initially` says whether the condition counts as true before the start, `early`
        whether new values are those of the time of the trigger where there is a delay, and `persistent` whether a delayed
        event happens though the condition has become false.
    """

    name: str
    trigger: int
    assignments: dict[str, int]
    volumes: dict[str, int]
    delay: int | None
    priority: int | None
    initially: bool
    early: bool
    persistent: bool


@dataclasses.dataclass(frozen=True)
class FastReaction:
    """A reaction that is in equilibrium at all times: the node of its rate, and what it changes.

    - `counts`: state -> the node of the number by which an extent of 1 changes its amount, products less reactants.
    - `scales`: state -> the node of the change of the state by an amount of 1: its conversion factor, over its volume where the
        state is a concentration.
    """

    name: str
    rate: int
    counts: dict[str, int]
    scales: dict[str, int]


@dataclasses.dataclass
class Model:
    """An SBML model as formulas of one graph.

    - `constants`: name -> value of what does not change by itself; NaN where the model gives none.
    - `states`: the names of the states; `rates` their derivatives; `start` the nodes of their initial values, and those of
        constants with an initial assignment, in the units of their symbols.
    - `volumes`: state -> the node of its volume, for states that are amounts though their symbols mean concentrations.
    - `compartments`: which of the constants and states are sizes.
    - `formulas`: name -> node of all else that has a name: assignment rules, rates of reactions.
    - `aliases`: names that tables use -> those of the model.
    - `unknowns`: state -> the text of the algebraic rule that determines it, where it is not solved for it by hand. Its "rate" is
        what the rule keeps at zero, and its start a guess.
    - `fast`: the fast reactions, whose rates are not in `rates`.
    - `reactions`: reaction -> state -> the node of the number by which it changes its amount. `species`: which of the states are
        species; `sizes`: those whose symbols mean concentrations -> the nodes of their volumes.
    - `delays`: names of values of earlier times -> the nodes of what they are values of, and of the lag.
    """

    name: str
    graph: Graph
    constants: dict[str, float] = dataclasses.field(default_factory=dict)
    states: list[str] = dataclasses.field(default_factory=list)
    rates: dict[str, int] = dataclasses.field(default_factory=dict)
    start: dict[str, int] = dataclasses.field(default_factory=dict)
    volumes: dict[str, int] = dataclasses.field(default_factory=dict)
    formulas: dict[str, int] = dataclasses.field(default_factory=dict)
    events: list[Event] = dataclasses.field(default_factory=list)
    compartments: list[str] = dataclasses.field(default_factory=list)
    aliases: dict[str, str] = dataclasses.field(default_factory=dict)
    unknowns: dict[str, str] = dataclasses.field(default_factory=dict)
    fast: list[FastReaction] = dataclasses.field(default_factory=list)
    delays: dict[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    reactions: dict[str, dict[str, int]] = dataclasses.field(default_factory=dict)
    species: set[str] = dataclasses.field(default_factory=set)
    sizes: dict[str, int] = dataclasses.field(default_factory=dict)
    reader: Any = None

    def delayed(self, node: int, lag: int, where: str) -> int:
        """Return the value of a formula at an earlier time; `where` names it in messages.

        It is a symbol, and of a formula of time alone the formula at that time.
        """
        if self.graph.value(lag) == 0:
            return node
        if Formulas(tuple(self.graph.nodes)).symbols([node]) <= {TIME}:
            early = self.graph.make("subtract", self.graph.symbol(TIME), lag)
            return self.graph.replaced(node, {self.graph.symbol(TIME): early})
        if Formulas(tuple(self.graph.nodes)).symbols([node, lag]) & {*self.delays}:
            raise DataError(f"{where} must not hold a `delay` in a `delay`: not supported.")
        given = node, lag
        name = next((name for name, other in self.delays.items() if other == given), f"delay {len(self.delays)}")
        self.delays[name] = given
        return self.graph.symbol(name)

    def symbol(self, name: str) -> int | None:
        """The node that a name of the model stands for, None where the model has no such name."""
        try:
            return self.reader.symbol(self.aliases.get(name, name))
        except DataError:
            return None
