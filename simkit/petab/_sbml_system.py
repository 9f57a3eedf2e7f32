"""SBML models as systems."""

import abc
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array

from .._errors import ArgumentError
from .._types import Inputs, Scalar, State
from ..core import ConstrainedSystem, Example, PlainSystem, System, quantity
from ..networks import TIME, Formulas, LargeSystem, Rates, numbers_of

if TYPE_CHECKING:
    AbstractVar = Any
else:
    from equinox import AbstractVar

Roots = tuple[tuple[str, int], ...]
"""Names and the nodes of their formulas."""


class AbstractSBMLSystem(System):
    """An SBML model: the rates of its states are formulas, evaluated as one graph in which equal parts are one.

    - `parameters`: constants of the model, sizes of compartments and numbers of measurements, by their identifiers; their
        paths are the identifiers alone. NaN stands for what an initial assignment gives.
    - `before`: what is different before the start, where an experiment begins in a steady state: names of parameters and of
        states to values. `settled` is 1 in such experiments. `kept_before` and `kept` say what steady states conserve.
    - `formulas`, `rates`, `named`: the graph, and in it the rates of the states and all other formulas that have names.
    - `together`: of a large model its rates in batches.

    A state is named like its species, and is a concentration, or an amount where the species has substance units only or
    its volume changes.
    """

    parameters: AbstractVar[dict[str, Any]]
    before: AbstractVar[dict[str, Any]]
    settled: AbstractVar[Array]
    kept_before: AbstractVar[Any]
    kept: AbstractVar[Any]
    formulas: AbstractVar[Formulas]
    rates: AbstractVar[Roots]
    named: AbstractVar[Roots]

    def vector_field(self, t: ArrayLike, y: dict[str, Array], inputs: Inputs) -> dict[str, Array]:
        zero = jnp.zeros_like(next(iter(y.values())))
        return {name: slope + zero for name, slope in self.slopes(self.lookup(t, y, inputs)).items()}

    def outputs(self, t: ArrayLike, y: dict[str, Array], inputs: Inputs) -> dict[str, Array]:
        found = self.formulas.evaluate([node for _, node in self.named], self.lookup(t, y, inputs))
        zero = jnp.zeros_like(next(iter(y.values())))
        return y | {name: value + zero for (name, _), value in zip(self.named, found, strict=True)}

    def lookup(self, t: ArrayLike, y: dict[str, Any], inputs: Inputs = None) -> Callable[[str], Any]:
        """Return the value of a name at a time and a state."""

        def value(name: str) -> Any:
            if name == TIME:
                return t
            if name in y:
                return y[name]
            return self.parameters[name] if name in self.parameters else inputs[name]

        return value

    def slopes(self, values: Callable[[str], Any]) -> dict[str, Any]:
        """The rates of the states for given values of all names."""
        found = self.formulas.evaluate([node for _, node in self.rates], values)
        return {name: slope for (name, _), slope in zip(self.rates, found, strict=True)}

    def packed(self, y: dict[str, Array]) -> Any:
        """States by their names in the form in which they are solved."""
        return y

    def unpacked(self, y: State) -> dict[str, Array]:
        """Return the solution by names."""
        return y

    def changed(self, y: State, new: dict[str, Array]) -> Any:
        """Return the solution with other values of some states."""
        return y | new

    @abc.abstractmethod
    def moving(self) -> "AbstractSBMLSystem | LargeSystem":
        """The system with only those parameters on which its equations depend: what a solve has to carry."""

    @classmethod
    def example(cls) -> "Example[Any]":
        raise ArgumentError("A system read from SBML has no example: give its state and times.")


class SBMLSystem(AbstractSBMLSystem, PlainSystem):
    """An SBML model of differential equations alone, see `AbstractSBMLSystem`."""

    parameters: dict[str, Any] = eqx.field(converter=numbers_of)
    before: dict[str, Any] = eqx.field(converter=numbers_of)
    settled: Scalar = quantity(doc="1 where an experiment starts from a steady state")
    kept_before: Any = quantity(optional=True, doc="what steady states before the start conserve")
    kept: Any = quantity(optional=True, doc="what steady states at the end conserve")
    formulas: Formulas = eqx.field(static=True, kw_only=True)
    rates: Roots = eqx.field(static=True, kw_only=True)
    named: Roots = eqx.field(static=True, kw_only=True)
    together: Rates | None = eqx.field(static=True, kw_only=True, default=None)

    def moving(self) -> "SBMLSystem | LargeSystem":
        if self.together is not None:
            return LargeSystem.of(self.together, self.parameters, self.settled)
        kept = kept_parameters(self, [node for _, node in self.rates])
        return SBMLSystem(kept, {}, self.settled, None, None, formulas=self.formulas, rates=self.rates, named=())


class ConstrainedSBMLSystem(AbstractSBMLSystem, ConstrainedSystem):
    """An SBML model with algebraic rules that are not solved by hand, or with fast reactions; see `AbstractSBMLSystem`.

    - `rates`: the right sides of all equations; those of algebraic ones are kept at zero.
    - `entries`: (row, column, node), the entries of M by the names of states.
    - `flow`: the rates of all states by fast reactions alone, where there are such.
    - `unknown`: the states that algebraic rules determine.
    """

    parameters: dict[str, Any] = eqx.field(converter=numbers_of)
    before: dict[str, Any] = eqx.field(converter=numbers_of)
    settled: Scalar = quantity(doc="1 where an experiment starts from a steady state")
    kept_before: Any = quantity(optional=True, doc="what steady states before the start conserve")
    kept: Any = quantity(optional=True, doc="what steady states at the end conserve")
    formulas: Formulas = eqx.field(static=True, kw_only=True)
    rates: Roots = eqx.field(static=True, kw_only=True)
    named: Roots = eqx.field(static=True, kw_only=True)
    entries: tuple[tuple[str, str, int], ...] = eqx.field(static=True, kw_only=True)
    flow: Roots = eqx.field(static=True, kw_only=True)
    unknown: frozenset[str] = eqx.field(static=True, kw_only=True)

    def mass(self, t: ArrayLike) -> Any:
        """M: a diagonal where no fast reaction is there, otherwise a matrix whose rows and columns are states in their order."""
        names = sorted(name for name, _ in self.rates)
        if not self.flow:
            return {name: 0.0 if name in self.unknown else 1.0 for name in names}
        values = self.formulas.evaluate([node for *_, node in self.entries], lambda name: self.parameters[name])
        rows = np.array([names.index(row) for row, _, _ in self.entries])
        columns = np.array([names.index(column) for _, column, _ in self.entries])
        matrix = jnp.zeros((len(names), len(names)), self.settled.dtype)
        return matrix.at[rows, columns].set(jnp.stack([jnp.asarray(x, self.settled.dtype) for x in values]))

    def moving(self) -> "ConstrainedSBMLSystem":
        flow = [node for _, node in self.flow]
        kept = kept_parameters(self, [node for _, node in self.rates] + flow + [node for *_, node in self.entries])
        return ConstrainedSBMLSystem(
            kept,
            {},
            self.settled,
            None,
            None,
            formulas=self.formulas,
            rates=self.rates,
            named=(),
            entries=self.entries,
            flow=self.flow,
            unknown=self.unknown,
        )

    def flowing(self) -> SBMLSystem:
        """The system in which nothing happens but the fast reactions."""
        kept = kept_parameters(self, [node for _, node in self.flow])
        return SBMLSystem(kept, {}, self.settled, None, None, formulas=self.formulas, rates=self.flow, named=())


def kept_parameters(system: AbstractSBMLSystem, roots: list[int]) -> dict[str, Any]:
    """The parameters that some formulas depend on."""
    needed = system.formulas.symbols(roots)
    return {name: value for name, value in system.parameters.items() if name in needed}
