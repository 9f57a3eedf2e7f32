"""SBML models of level 2 and 3, read into formulas: states, their rates, and what follows from them."""

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import libsbml

from .._errors import DataError
from ..networks import TIME, Graph
from ._algebraic import determined, solved
from ._deep import check_depth, long_chains
from ._mathml import Reader
from ._model import NOTHING, Event, FastReaction, Model
from ._submodels import flattened
from ._tables import Files

HARMLESS = ("l3v2extendedmath",)
"""Packages whose elements are read like those of the core."""


def read_sbml(path: str | Path) -> Model:
    """Read an SBML file of level 2 or 3.

    **Raises:** a `DataError` that names the element where the file is no SBML, declares entities, refers to other files, or
    holds what simkit does not know.
    """
    path = Path(path)
    return sbml_from_text(Files(path.parent).read(path.name, "SBML file"), path.name)


def sbml_from_text(text: str, name: str = "model.xml") -> Model:
    """A model from its text; `name` is how messages call it."""
    if re.search(r"<!\s*(DOCTYPE|ENTITY)", text, re.IGNORECASE):
        raise DataError(
            f"The SBML file `{name}` must not declare a document type or entities, but does. Such declarations can read other "
            "files or fill up the memory. Remove them."
        )
    check_depth(text, name)
    document = libsbml.readSBMLFromString(text)
    worst = [
        document.getError(i)
        for i in range(document.getNumErrors())
        if document.getError(i).getSeverity() >= libsbml.LIBSBML_SEV_ERROR
    ]
    model = document.getModel()
    if model is None or any(error.getSeverity() == libsbml.LIBSBML_SEV_FATAL for error in worst):
        reason = " ".join(worst[0].getMessage().split()) if worst else "it holds no model"
        line = f", line {worst[0].getLine()}" if worst else ""
        raise DataError(f"The file `{name}`{line} must be SBML, but: {reason}")
    if document.getLevel() < 2:
        raise DataError(
            f"The SBML file `{name}` must be of level 2 or 3, but it is of level {document.getLevel()}. Convert it."
        )
    needed = re.search(r'(\w+):required\s*=\s*"true"', re.sub(r"(?s)^.*?(<\w*:?sbml\b[^>]*>).*$", r"\1", text))
    if document.getPlugin("comp") is not None:
        model = flattened(document, name)
    elif needed and needed[1] not in HARMLESS and re.search(rf"<{needed[1]}:", text):
        raise DataError(
            f"The SBML file `{name}` needs the package `{needed[1]}`, which changes the meaning of the model and which simkit does "
            "not know."
        )
    return _built(model, name)


class _Unsolved(Exception):
    """An algebraic rule that cannot be solved by hand for the name that it determines."""


def _built(model: libsbml.Model, file: str) -> Model:
    """The formulas of a model. Names for which no rule can be solved by hand become unknowns, as few as it takes."""
    unknown: list[str] = []
    while True:
        try:
            return _Builder(model, file, unknown).build()
        except _Unsolved as found:
            unknown.append(str(found))


class _Builder:
    """One pass over a model; what names stand for is found when they are first used."""

    def __init__(self, model: libsbml.Model, file: str, unknown: Sequence[str]):
        self.model, self.file = model, file
        self.found = Model(model.getId() or file.removesuffix(".xml"), Graph())
        functions = {}
        for f in model.getListOfFunctionDefinitions():
            if f.getBody() is not None:
                functions[f.getId()] = ([f.getArgument(i).getName() for i in range(f.getNumArguments())], f.getBody())
        self.reader = Reader(self.found.graph, self.symbol, functions, self.rate_of, self.found.delayed)
        self.found.reader = self.reader
        self.late = "symbols/delay" in model.toSBML()
        # Since version 2 of level 3 an element without a formula says nothing.
        rules = [r for r in model.getListOfRules() if r.getMath() is not None]
        self.rules = {r.getVariable(): r for r in rules if not r.isAlgebraic()}
        self.assigned = {a.getSymbol(): a for a in model.getListOfInitialAssignments() if a.getMath() is not None}
        self.reactions = {r.getId(): r for r in model.getListOfReactions()}
        self.changed = {a.getVariable() for e in model.getListOfEvents() for a in e.getListOfEventAssignments()}
        self.algebraic = self._determined()
        self.found.unknowns = {name: _text(self.algebraic[name]) for name in unknown}
        self.references = {
            x.getId(): x
            for r in model.getListOfReactions()
            for x in (*r.getListOfReactants(), *r.getListOfProducts())
            if x.isSetId()
        }
        self.local: dict[str, dict[str, str]] = {}
        self.open: list[str] = []
        self.nodes: dict[str, int] = {}
        self.terms: dict[str, list[tuple[Any, ...]]] = {}
        self.quick: dict[str, dict[str, list[tuple[Any, ...]]]] = {}
        self.slopes: dict[str, int] = {}
        self.turning: list[str] = []

    def build(self) -> Model:
        model, found = self.model, self.found
        self._declare()
        for name in long_chains(self._trees(), self.file):
            self.symbol(name)
        if not found.states:  # a model of formulas alone
            found.states.append(NOTHING)
            found.start[NOTHING] = found.graph.number(0.0)
        self._flows()
        for name in (*self.rules, *self.algebraic, *self.reactions):
            if name not in found.states:
                found.formulas[name] = self.symbol(name)
        found.rates = {name: self._slope(name) for name in found.states}
        found.fast = [self._fast(name, moved) for name, moved in self.quick.items()]
        for name, assignment in self.assigned.items():
            if self._ruled(name) and name not in found.unknowns:
                raise self._error(f"The initial assignment of `{name}`", "must not stand beside an assignment rule.")
            found.start[name] = self._math(assignment, f"The initial assignment of `{name}`")
        events = enumerate(model.getListOfEvents())
        found.events = [self._event(e, i) for i, e in events if _math_of(e.getTrigger()) is not None]
        return found

    def _trees(self) -> dict[str, Any]:
        """The formulas of assignment rules and of reactions, by name."""
        rules = {name: rule.getMath() for name, rule in self.rules.items() if rule.isAssignment()}
        laws = {name: _math_of(reaction.getKineticLaw()) for name, reaction in self.reactions.items()}
        return rules | {name: tree for name, tree in laws.items() if tree is not None}

    # ---- what there is ----

    def _declare(self) -> None:
        model, found = self.model, self.found
        for c in model.getListOfCompartments():
            size = c.getSize() if c.isSetSize() else (1.0 if c.getSpatialDimensions() == 0 else math.nan)
            if c.getId() not in self.assigned and math.isnan(size):
                size = 1.0  # what everybody means by a compartment without a size
            self._quantity(c.getId(), size)
            found.compartments.append(c.getId())
        for p in model.getListOfParameters():
            self._quantity(p.getId(), p.getValue() if p.isSetValue() else math.nan)
        for s in model.getListOfSpecies():
            self._species(s)
        for name, reference in self.references.items():
            if {name} & {*self.rules, *self.assigned, *self.changed}:
                self._quantity(name, _written(reference))
        for r in model.getListOfReactions():
            law = r.getKineticLaw()
            if law is None:
                raise self._error(f"The reaction `{r.getId()}`", "must have a kinetic law, but has none.")
            held = [*law.getListOfParameters(), *law.getListOfLocalParameters()]
            self.local[r.getId()] = {}
            for p in held:
                name = f"{r.getId()}_{p.getId()}"
                if p.getId() not in self.local[r.getId()]:
                    self.local[r.getId()][p.getId()] = name
                    found.constants[name] = p.getValue()

    def _quantity(self, name: str, value: float) -> None:
        """A parameter or a compartment: constant, a state or a formula."""
        if self._ruled(name) and name not in self.found.unknowns:
            return
        if name in {*self.rules, *self.changed, *self.found.unknowns}:
            self.found.states.append(name)
            self.found.start[name] = self.found.graph.number(value)
        else:
            self.found.constants[name] = value

    def _species(self, s: libsbml.Species) -> None:
        found, name = self.found, s.getId()
        if self._ruled(name) and name not in found.unknowns:
            return
        found.states.append(name)
        found.species.add(name)
        graph, volume = found.graph, self.symbol(s.getCompartment())
        amount = s.getHasOnlySubstanceUnits()
        if not amount:
            found.sizes[name] = volume
        if s.isSetInitialAmount():
            start = graph.number(s.getInitialAmount())
            found.start[name] = start if amount else graph.make("divide", start, volume)
        elif s.isSetInitialConcentration():
            start = graph.number(s.getInitialConcentration())
            found.start[name] = graph.make("multiply", start, volume) if amount else start
        else:
            found.start[name] = graph.number(math.nan)
        if not amount and not self._still(s.getCompartment()) and name not in found.unknowns:
            found.volumes[name] = volume

    def _ruled(self, name: str) -> bool:
        """Tell whether a rule determines a name at all times."""
        return name in self.algebraic or (name in self.rules and self.rules[name].isAssignment())

    def _determined(self) -> dict[str, Any]:
        """Return the names that algebraic rules determine."""
        found = determined(self.model, {*self.rules, *self.changed})
        if found is None:
            texts = [f"`0 = {_text(rule)}`" for rule in self.model.getListOfRules() if rule.isAlgebraic()]
            raise self._error(
                f"The algebraic rule{'s' if len(texts) > 1 else ''} {', '.join(texts)}",
                "must each determine a name of its own that nothing else does: no constant, no rule's, reaction's or event's.",
            )
        return found

    def _solved(self, name: str) -> int:
        """Return the solution of an algebraic rule for the name that it determines; a symbol where it is an unknown."""
        if name in self.found.unknowns:
            return self.found.graph.symbol(name)
        rule, known = self.algebraic[name], dict(self.nodes)
        self.nodes[name] = self.found.graph.symbol(name)
        node = solved(self.found.graph, self._math(rule, f"The algebraic rule of `{name}`"), name)
        self.nodes = known  # without what was made of the name that is not solved for yet
        if node is None:
            raise _Unsolved(name)
        return node

    def _still(self, compartment: str) -> bool:
        return compartment not in {*self.rules, *self.algebraic, *self.changed}

    # ---- what names stand for ----

    def symbol(self, name: str) -> int:
        """The node of a name."""
        if name in self.nodes:
            return self.nodes[name]
        if name in self.open:
            circle = self.open[self.open.index(name) :]
            for other in circle:
                if other in self.algebraic:
                    raise _Unsolved(other)
            chain = " -> ".join([*circle, name])
            raise self._error(f"The rule of `{name}`", f"must not depend on itself, but does: {chain}.")
        self.open.append(name)
        try:
            node = self._resolved(name)
        finally:
            self.open.pop()
        self.nodes[name] = node
        return node

    def _resolved(self, name: str) -> int:
        found, graph = self.found, self.found.graph
        if name in self.algebraic:
            return self._solved(name)
        if self._ruled(name):
            return self._math(self.rules[name], f"The rule of `{name}`")
        if name in self.reactions:
            return self._rate(name)
        if name in self.found.volumes:
            return graph.make("divide", graph.symbol(name), self.found.volumes[name])
        if self.model.getElementBySId(name) is None:
            raise DataError(f"`{name}` is no name in the SBML model `{self.file}`.")
        if name in self.references and name not in {*found.constants, *found.states}:
            return self._counted(self.references[name])
        return graph.symbol(name)

    def _rate(self, name: str) -> int:
        """The rate of a reaction, its own parameters before those of the model."""
        law, local = self.reactions[name].getKineticLaw(), self.local[name]
        if law.getMath() is None:
            raise self._error(f"The kinetic law of `{name}`", "must have a formula, but has none.")
        bound = {key: self.found.graph.symbol(long) for key, long in local.items()}
        return self.reader.read(law.getMath(), f"The kinetic law of `{name}` in `{self.file}`", bound)

    def _math(self, element: Any, where: str) -> int:
        if element is None or element.getMath() is None:
            raise self._error(where, "must have a formula, but has none.")
        return self.reader.read(element.getMath(), f"{where} in `{self.file}`")

    # ---- what changes ----

    def _flows(self) -> None:
        """Find the reactions that change a species; those of fast ones stand apart."""
        self.terms = {name: [] for name in self.found.states}
        fast = {name for name, reaction in self.reactions.items() if reaction.isSetFast() and reaction.getFast()}
        for name, reaction in self.reactions.items():
            for sign, references in ((-1.0, reaction.getListOfReactants()), (1.0, reaction.getListOfProducts())):
                for reference in references:
                    species = self.model.getSpecies(reference.getSpecies())
                    if species is None:
                        why = f"names the species `{reference.getSpecies()}`, which is not in the model."
                        raise self._error(f"The reaction `{name}`", why)
                    if (
                        not species.getBoundaryCondition()
                        and not species.getConstant()
                        and species.getId() in self.terms
                    ):
                        terms = self.quick.setdefault(name, {}) if name in fast else self.terms
                        terms.setdefault(species.getId(), []).append((sign, reference, name))
                        self._moves(name, species, sign, reference)

    def _moves(self, reaction: str, species: libsbml.Species, sign: float, reference: libsbml.SpeciesReference) -> None:
        """Note by how much a reaction changes the amount of a species."""
        graph, moved = self.found.graph, self.found.reactions.setdefault(reaction, {})
        count = graph.multiply(graph.number(sign), self._count(reference), self._factor(species))
        moved[species.getId()] = graph.add(moved.get(species.getId(), graph.number(0.0)), count)

    def _slope(self, name: str) -> int:
        """The rate of a state; rates may name those of others."""
        if name not in self.slopes:
            if name in self.turning:
                raise self._error(f"The rate of `{name}`", "must not depend on itself, but does.")
            self.turning.append(name)
            self.slopes[name] = self._moved(name)
            self.turning.pop()
        return self.slopes[name]

    def _moved(self, name: str) -> int:
        found, graph, species = self.found, self.found.graph, self.model.getSpecies(name)
        if name in found.unknowns:
            return self._math(self.algebraic[name], f"The algebraic rule of `{name}`")
        if name in self.rules:
            node = self._math(self.rules[name], f"The rule of `{name}`")
            if name not in found.volumes:
                return node
            # The rule is that of a concentration, and the state is an amount: both it and its volume change.
            swollen = graph.multiply(self.symbol(name), self.rate_of(species.getCompartment()))
            return graph.add(graph.multiply(node, found.volumes[name]), swollen)
        rate = graph.add(*(self._flow(*term) for term in self.terms[name]))
        return rate if species is None else self._as_state(name, rate)

    def _as_state(self, name: str, amount: int) -> int:
        """Return a change of the amount of a species as one of its state."""
        species = self.model.getSpecies(name)
        if species.getHasOnlySubstanceUnits() or name in self.found.volumes:
            return amount
        return self.found.graph.make("divide", amount, self.symbol(species.getCompartment()))

    def _fast(self, name: str, moved: dict[str, list[tuple[Any, ...]]]) -> FastReaction:
        """Return a fast reaction, with what it changes."""
        graph = self.found.graph
        count = lambda sign, reference, _: graph.multiply(graph.number(sign), self._count(reference))
        counts = {state: graph.add(*(count(*term) for term in terms)) for state, terms in moved.items()}
        scales = {state: self._as_state(state, self._factor(self.model.getSpecies(state))) for state in moved}
        return FastReaction(name, self.symbol(name), counts, scales)

    def rate_of(self, name: str) -> int:
        """Return the rate of change of a name."""
        found, graph = self.found, self.found.graph
        if self._ruled(name) or name in self.reactions:
            raise self._error(
                f"The rate of `{name}`", "must be that of what no formula gives: others are not supported."
            )
        for reaction, moved in self.quick.items():
            if name in moved:
                why = f"must not be asked for with `rateOf`, since the fast reaction `{reaction}` changes it: not supported."
                raise self._error(f"The rate of `{name}`", why)
        if name not in found.states:
            if name not in found.constants:  # which hold those of reactions, too
                self.symbol(name)  # raises where there is no such name
            return graph.number(0.0)
        slope = self._slope(name)
        if self.late:  # before the start, where a delay may ask for it, nothing changes
            slope = graph.make(
                "choice", slope, graph.make("geq", graph.symbol(TIME), graph.number(0.0)), graph.number(0.0)
            )
        if name not in found.volumes:
            return slope
        thinned = graph.multiply(self.symbol(name), self.rate_of(self.model.getSpecies(name).getCompartment()))
        return graph.make("divide", graph.make("subtract", slope, thinned), found.volumes[name])

    def _flow(self, sign: float, reference: libsbml.SpeciesReference, reaction: str) -> int:
        """Return the contribution of a reaction to a species."""
        graph, factor = self.found.graph, self._factor(self.model.getSpecies(reference.getSpecies()))
        return graph.multiply(graph.number(sign), self._count(reference), factor, self.symbol(reaction))

    def _factor(self, species: libsbml.Species) -> int:
        """Return the conversion factor of a species."""
        converted = species if species.isSetConversionFactor() else self.model
        if not converted.isSetConversionFactor():
            return self.found.graph.number(1.0)
        return self.symbol(converted.getConversionFactor())

    def _count(self, reference: libsbml.SpeciesReference) -> int:
        """Return the stoichiometric number of a species in a reaction."""
        return self.symbol(reference.getId()) if reference.isSetId() else self._counted(reference)

    def _counted(self, reference: libsbml.SpeciesReference) -> int:
        """Return the stoichiometric number of a species in a reaction, where nothing else changes it."""
        if _math_of(reference.getStoichiometryMath()) is not None:
            return self._math(reference.getStoichiometryMath(), f"The stoichiometry of `{reference.getSpecies()}`")
        return self.found.graph.number(_written(reference))

    def _event(self, event: libsbml.Event, index: int) -> Event:
        name = event.getId() or f"event {index + 1}"
        where = f"The event `{name}`"
        trigger = event.getTrigger()
        changes = event.getListOfEventAssignments()
        assignments = {
            a.getVariable(): self._math(a, f"{where}, assignment of `{a.getVariable()}`,")
            for a in changes
            if a.getMath() is not None
        }
        # The amount is the new concentration in the old volume, though the event may change that, too: values are set at once.
        volumes = {state: volume for state, volume in self.found.volumes.items() if state in assignments}
        extra = lambda part, what: None if _math_of(part) is None else self._math(part, f"{where}, {what},")
        return Event(
            name,
            self._math(trigger, f"{where}, trigger,"),
            assignments,
            volumes,
            extra(event.getDelay(), "delay"),
            extra(event.getPriority(), "priority"),
            bool(trigger.getInitialValue()) if trigger.isSetInitialValue() else True,
            bool(event.getUseValuesFromTriggerTime()),
            bool(trigger.getPersistent()) if trigger.isSetPersistent() else True,
        )

    def _error(self, what: str, why: str) -> DataError:
        return DataError(f"{what} in `{self.file}` {why}")


def _text(rule: libsbml.Rule) -> str:
    return str(libsbml.formulaToL3String(rule.getMath()))


def _math_of(element: Any) -> Any:
    return None if element is None else element.getMath()


def _written(reference: libsbml.SpeciesReference) -> float:
    """Return the stoichiometric number of a species in a reaction."""
    count = float(reference.getStoichiometry())
    return 1.0 if math.isnan(count) else count
