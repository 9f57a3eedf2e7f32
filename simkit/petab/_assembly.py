"""The parts of a PEtab problem put together to a `Problem`."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from .._errors import DataError, close_matches
from ..core import as_float_array
from ..engine import Adaptive, Fixed, Varying
from ..networks import TIME, Formulas, Rates
from ..problem import Experiment, Problem
from ..solvers import Rodas5P, SolverLike
from ._closed import closed_forms
from ._equilibria import equations_of
from ._known_numbers import check_finite, check_used
from ._model import Model
from ._passages import Passages, known_before
from ._past import Delay, DelayedSBMLSystem
from ._periods import Formula, Periods, Values, by_formulas, check_start, set_paths
from ._row_formulas import TableMeasurement, rows_of
from ._sbml_protocol import FOREVER, SBMLProtocol
from ._sbml_system import AbstractSBMLSystem, ConstrainedSBMLSystem, SBMLSystem
from ._steady import conserved
from ._switches import Switches
from ._tables import Row, as_number
from ._tables_v1 import Observable, Parameter, Series, formula_of

LARGE = 400
"""Number of operations of the rates from which on the stages are a loop, which compiles in half the time and runs half as fast."""

VERY_LARGE = 1000
"""Number of operations from which on formulas of one shape are evaluated together: the program has the size of the shapes, not
of the model. Models of some thirty states take 1.3 times as long so, and those of a hundred no longer than formula by
formula."""


def _operations(formulas: Formulas, rates: Sequence[tuple[str, int]]) -> int:
    """Return the number of operations in the rates."""
    return len(formulas.reached([node for _, node in rates]))


@dataclasses.dataclass
class Assembly:
    """The parts of a problem, put together."""

    model: Model
    parameters: Mapping[str, Parameter]
    conditions: Mapping[str, Row]
    targets: Sequence[str]
    observables: Mapping[str, Observable]
    series: Sequence[Series]
    formulas: bool = False  # whether values of conditions may be formulas

    def problem(self, solver: SolverLike | None, step: float | Varying | Fixed | None) -> Problem:
        model = self.model
        self._check_targets()
        plan = Periods.of(model, self.series, {s: self._values(self.conditions[s]) for s in self._later()})
        firsts = [values for s in self.series for values in self._first(s)]
        for s, before, here in zip(self.series, firsts[::2], firsts[1::2], strict=True):
            check_finite(model, {*self.parameters, *before, *here}, s.label)
        # Of conditions the texts: the value of a parameter that is fixed stands there as a number.
        asked = {row.text(name) for row in self.conditions.values() for name in self.targets if row.has(name)}
        check_used(self.parameters, model, asked, self.series)
        starts, flags = by_formulas(model, firsts)
        switches = Switches(model.graph, frozenset((*model.states, *model.delays)))
        equations = equations_of(model)
        located = lambda nodes: tuple((name, switches.located(nodes[name])) for name in model.states)
        rates = located(model.rates if equations is None else equations.rates)
        flow = located(equations.flow) if equations is not None and equations.flow else ()
        events = self._events(plan)
        formulas = Formulas(tuple(model.graph.nodes))
        operations = _operations(formulas, rates)
        start = {name: node for name, node in starts.items() if name not in self.parameters}
        values = model.constants | {name: math.nan for name in model.start if name in {*start} & {*model.constants}}
        values |= flags | dict(plan.values)
        values |= {p.name: p.nominal for p in self.parameters.values() if p.name not in model.states}
        earlier, size = [*self._earlier(), *flags], len(model.states)
        varying = frozenset((*start, *flags, *self.targets, *dict(plan.values)))
        settles = any(s.before for s in self.series)
        endless = any(s.times[-1] >= FOREVER for s in self.series)
        held: Any = (
            values,
            {name: math.nan if name in model.states else values[name] for name in earlier},
            0.0,
            np.zeros((size, size)) if settles else None,
            np.zeros((size, size)) if endless else None,
        )
        used = [node for _, node in rates] + [node for *_, node in ([] if equations is None else equations.mass)]
        used += [node for delay in model.delays.values() for node in delay]
        named = [(name, x) for name, x in model.formulas.items() if not formulas.symbols([x]) & {*model.delays}]
        made: Any = {"formulas": formulas, "rates": rates, "named": tuple(named)}
        delays = tuple(Delay(name, *nodes) for name, nodes in model.delays.items())
        in_rates = formulas.symbols([node for _, node in rates])
        past = any(delay.name in in_rates for delay in delays)
        if delays:
            remembered = past or bool(formulas.symbols(events.roots()) & {*model.delays})
            self._check_delays(formulas, settles, endless, starts if past else {}, remembered)
        if past:
            system = DelayedSBMLSystem(*held, **made, delays=tuple(x for x in delays if x.name in in_rates))
        elif equations is None:
            together = Rates(formulas, rates, switches.names(), varying) if operations > VERY_LARGE else None
            system = SBMLSystem(*held, **made, together=together)
        else:
            self._check_constrained(settles, endless)
            unknown = frozenset(model.unknowns)
            system = ConstrainedSBMLSystem(*held, **made, entries=equations.mass, flow=flow, unknown=unknown)
        protocol = SBMLProtocol(
            tuple(start.items()),
            tuple(model.volumes.items()),
            tuple(switches.times),
            events,
            settles,
            endless,
            self._implied(start, formulas),
            delays,
            all(s.timeless for s in self.series) and not (events.given or delays or equations),
        )
        free = {p.name: p.free for p in self.parameters.values() if p.free is not None}
        observed = [name for name in self.observables if any(name in s.data for s in self.series)]
        problem = Problem(
            system,
            [self._experiment(s, system, plan) for s in self.series],
            free=free,
            noise={name: self.observables[name].noise for name in observed},
            y0=dict.fromkeys(model.states, math.nan),
            set=self._everywhere(),
            solver=Rodas5P(compact=operations > LARGE) if solver is None else solver,
            step=Adaptive(5e-7, 1e-12) if step is None else step,
            protocol=protocol,
            measurement=self._measurement(observed, formulas, tuple(values), protocol, used),
        )
        return problem

    def _events(self, plan: Periods) -> Passages:
        """Events of periods and of the model."""
        model, states = self.model, frozenset(self.model.states)
        endless = any(s.times[-1] >= FOREVER for s in self.series)
        late = [event.name for event in model.events if not known_before(event, model.graph, states)]
        if late and (endless or any(s.before for s in self.series)):
            raise DataError(
                f"The event `{late[0]}` of the model, which may happen on the way to a steady state, must not stand beside "
                "experiments that start from one, nor beside data at infinite time: not supported."
            )
        if endless and (model.events or plan.changes):
            what = f"the event `{model.events[0].name}`" if model.events else "periods after the first"
            raise DataError(f"Data at infinite time must not stand beside {what}: not supported.")
        return Passages.of(model.events, plan.changes, model.graph, states)

    def _implied(self, start: Mapping[str, int], formulas: Formulas) -> bool:
        """Tell whether an initial assignment depends on what an algebraic rule determines."""
        unknown = {*self.model.unknowns}
        return bool(formulas.symbols([node for name, node in start.items() if name not in unknown]) & unknown)

    def _check_constrained(self, settles: bool, endless: bool) -> None:
        """Refuse steady states of models with algebraic equations."""
        if settles or endless:
            rules = [f"algebraic rule `0 = {text}`, not solved by hand," for text in self.model.unknowns.values()]
            found = (*rules, *(f"fast reaction `{r.name}`" for r in self.model.fast))[0]
            raise DataError(
                f"The {found} must not stand beside experiments that start from a steady state, nor beside data at infinite time: "
                "not supported. Take a late time in place of infinite ones."
            )

    def _check_delays(
        self, formulas: Formulas, settles: bool, endless: bool, start: Mapping[str, int], remembered: bool
    ) -> None:
        """Refuse what values of earlier times cannot stand beside; `remembered` where rates or events need them."""
        model = self.model
        found = [f"the event `{event.name}`" for event in model.events] if remembered else []
        found += [f"the algebraic rule `0 = {text}`, not solved by hand" for text in model.unknowns.values()]
        found += [f"the fast reaction `{reaction.name}`" for reaction in model.fast]
        found += ["starts at another time than 0"] if any(s.start for s in self.series) else []
        found += [f"the initial assignment of `{n}` by time" for n, x in start.items() if TIME in formulas.symbols([x])]
        found += ["periods after the first"] if remembered and any(s.later for s in self.series) else []
        found += ["steady states before the start"] * settles + ["data at infinite time"] * endless
        moved = formulas.symbols([lag for _, lag in model.delays.values()]) & {*model.states} if remembered else ()
        found += [f"a lag that depends on `{name}`, which changes" for name in sorted(moved)]
        if found:
            raise DataError(f"`delay` in formulas of the model must not stand beside {found[0]}: not supported.")

    def _later(self) -> list[str]:
        """The conditions of periods after the first."""
        return [condition for s in self.series for _, condition in s.later]

    def _check_targets(self) -> None:
        for name in self.targets:
            known = name in self.model.constants or name in self.model.states
            if not known or name in self.model.unknowns:
                row = next(row for row in self.conditions.values() if name in row.cells)
                names = (*self.model.constants, *self.model.states)
                ruled = name in self.model.formulas or name in self.model.unknowns
                why = "is given by a rule of the model" if ruled else "is none"
                raise DataError(
                    f"`{row.table}`, line {row.line}, must set parameters, species or compartments of the model, but "
                    f"`{name}` {why}. {close_matches(name, names)}"
                )

    def _earlier(self) -> list[str]:
        """Return the targets that conditions before a start may set."""
        return list(self.targets) if any(s.before for s in self.series) else []

    def _everywhere(self) -> dict[str, float | str]:
        """Return the values of states in the parameter table."""
        states = {p.name: p for p in self.parameters.values() if p.name in self.model.states}
        return {f"y0.{name}": p.nominal if p.free is None else name for name, p in states.items()}

    def _experiment(self, series: Series, system: AbstractSBMLSystem, plan: Periods) -> Experiment:
        before, here = self._first(series)
        paths: dict[str, Any] = set_paths(self.model, here)
        if series.before:
            found = set_paths(self.model, before)
            paths |= {f"before.{path.removeprefix('y0.')}": value for path, value in found.items()}
            paths["settled"] = 1.0
            paths["kept_before"] = self._conserved(system, before)
        if series.times[-1] >= FOREVER:
            paths["kept"] = self._conserved(system, here)
        paths |= plan.of_series(series)
        return Experiment(series.label, series.times, series.data, start=series.start, set=paths, replicates=True)

    def _first(self, series: Series) -> tuple[Values, Values]:
        """Return the values that an experiment sets before its start, and at it."""
        row, before = self.conditions[series.condition], {}
        here = self._values(row)
        check_start(self.model, row, here, bool(series.before))
        if series.before:
            before = self._values(self.conditions[series.before])
            check_start(self.model, self.conditions[series.before], before, False)
            if series.name:  # of version 2, where what a period does not set stays
                here = {name: x for name, x in before.items() if name not in self.model.states} | here
        return before, here

    def _conserved(self, system: AbstractSBMLSystem, condition: Values) -> np.ndarray:
        """Return the conserved combinations under a condition: numbers that are 0 there stay 0, and sizes stay as they are."""
        states = sorted(self.model.states)
        generator, points = np.random.default_rng(0), 4 * len(states) + 8

        def value(name: str) -> Any:
            fixed = condition.get(name, system.parameters.get(name))
            if name in self.model.states or fixed is None or isinstance(fixed, str | Formula):
                return 1.0 if name.startswith("switch ") else generator.uniform(0.5, 1.5, points)
            number = float(fixed)
            kept = number == 0 or name in self.model.compartments
            return number if kept else generator.uniform(0.5, 1.5, points)

        found = system.slopes(value)
        return conserved(np.stack([np.broadcast_to(np.asarray(found[name], float), points) for name in states], axis=1))

    def _values(self, row: Row) -> dict[str, float | str | Formula]:
        """Return the values that a condition sets: numbers, names of free parameters, and formulas."""
        found: dict[str, float | str | Formula] = {}
        for name in self.targets:
            text = row.text(name)
            number = as_number(text)
            if not row.has(name):
                continue
            if number is not None:
                found[name] = number
            elif text in self.parameters:
                p = self.parameters[text]
                found[name] = text if p.free is not None else p.nominal
            elif text in self.model.constants:
                found[name] = self.model.constants[text]
            elif self.formulas:
                found[name] = Formula(formula_of(row, name, self.model, self.parameters))
            else:
                raise row.error(
                    name,
                    f"must be a number or a parameter, but `{text}` is neither. {close_matches(text, self.parameters)}",
                )
        return found

    def _measurement(
        self,
        observed: Sequence[str],
        formulas: Formulas,
        names: tuple[str, ...],
        protocol: SBMLProtocol,
        moving: Sequence[int],
    ) -> TableMeasurement:
        length = max(len(s.times) for s in self.series)
        used = {
            value
            for s in self.series
            for rows in s.given.values()
            for values in rows.values()
            for value in values
            if isinstance(value, str)
        }
        kept = tuple(name for name in names if name in used)
        places = {name: i for i, name in enumerate(kept)}
        index, constants = {}, {}
        for name in observed:
            head = self.observables[name].head
            if not head.overrides:
                continue
            given = {(e, row): v for e, s in enumerate(self.series) for row, v in s.given.get(name, {}).items()}
            shape = (len(self.series), length, len(head.overrides))
            rows, numbers = rows_of(given, shape, places)
            index[name], constants[name] = jnp.asarray(rows), as_float_array(numbers)
        heads = tuple(self.observables[name].head for name in observed)
        closed = closed_forms(self.model.graph, self.observables, self.series, self._measured_only(protocol, moving))
        return TableMeasurement(index, constants, heads, formulas, kept, closed)

    def _measured_only(self, protocol: SBMLProtocol, moving: Sequence[int]) -> frozenset[str]:
        """The free parameters without priors that no simulation depends on."""
        formulas = Formulas(tuple(self.model.graph.nodes))
        roots = [*moving, *(node for _, node in (*protocol.start, *protocol.volumes)), *protocol.switches]
        roots += protocol.passages.roots()
        used = formulas.symbols(roots) | {
            value for row in self.conditions.values() for value in self._values(row).values() if isinstance(value, str)
        }
        free = {p.name for p in self.parameters.values() if p.free is not None and p.free.prior is None}
        return frozenset(free - used - set(self.model.states) - set(self.model.start) - set(self.targets))
