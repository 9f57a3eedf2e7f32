"""Consistent states of SBML models: fast reactions in equilibrium, algebraic rules met."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from .._errors import ArgumentError
from .._types import Inputs, Time
from ..core import ConstrainedSystem, Example, Setup, SystemTerm
from ..solvers import consistent  # internal
from ._sbml_system import ConstrainedSBMLSystem
from ._steady import steady_state


def consistent_state(setup: Setup, t: Time) -> tuple[Any, Array]:
    """The state of a model at a time, and whether one was found; a model of differential equations alone stays as it is.

    Fast reactions go on from the state until none goes on any more, in the order of the equilibria that they would pass: where
    their rates are zero at several states, such as those of `k A B`, this is the one that they lead to. Then Newton's method finds
    what algebraic rules determine.
    """
    system, y, found = setup.system, setup.y0, jnp.asarray(True)
    if not isinstance(system, ConstrainedSBMLSystem):
        return y, found
    if system.flow:
        y, found = steady_state(Setup(system.flowing(), y, setup.inputs), t, system.mass(t), late=0.0)
    if system.unknown:
        y, met = consistent(SystemTerm(system, setup.inputs), t, y)
        found = found & met
    return y, found


class Opening(ConstrainedSystem):
    """The algebraic rules at the start of an experiment whose initial assignments depend on what these determine."""

    system: ConstrainedSBMLSystem
    given: dict[str, Array]
    protocol: Any  # an SBMLProtocol

    def vector_field(self, t: Time, y: dict[str, Array], inputs: Inputs) -> dict[str, Array]:
        system, first, signals = self.protocol.assigned(self.system, self.given | y, t)
        found = system.vector_field(t, first, {name: signal(t) for name, signal in signals.items()})
        return {name: found[name] for name in y}

    def mass(self, t: Time) -> Any:
        return dict.fromkeys(sorted(self.system.unknown), 0.0)

    @classmethod
    def example(cls) -> "Example[Opening]":
        raise ArgumentError("The start of a system read from SBML has no example.")


def opened(protocol: Any, system: ConstrainedSBMLSystem, given: dict[str, Array], t: Array) -> dict[str, Array]:
    """Return what is given at a start, with the values that algebraic rules determine there; NaN where none are found."""
    _, guess, _ = protocol.assigned(system, given, t)
    opening = Opening(system, given, protocol)
    found, _ = consistent(SystemTerm(opening, None), t, {name: guess[name] for name in sorted(system.unknown)})
    return given | jax.tree.map(jnp.asarray, found)
