"""Systems: what changes, and the structure in it that solvers can use."""

import abc
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from .._types import Inputs, Outputs, State
from ._html import system_html
from ._quantity import quantity
from ._scaled import scaled

if TYPE_CHECKING:
    from typing import ClassVar as AbstractClassVar

    AbstractVar = Any
else:
    from equinox import AbstractClassVar, AbstractVar


class Example(NamedTuple):
    """One worked example of a system: values that go together and times worth looking at."""

    system: "System"
    y0: State
    times: Any
    inputs: Inputs = None


class System(eqx.Module):
    """What changes: an Equinox module whose array fields are its parameters.

    A new system subclasses one of the families below, never this class: `PlainSystem`, `SeparableSystem`, `SplitSystem`,
    `TransportSystem`, `StiffTransportSystem`, `StochasticSystem`, `StaticSystem` or `ParticleSystem`. Users, data and names see
    the state `y`; a solver steps `encode(y)`.
    """

    @abc.abstractmethod
    def vector_field(self, t: Any, y: State, inputs: Inputs) -> State:
        """The time derivative of the (encoded) state, with the structure of the state."""

    @abc.abstractmethod
    def outputs(self, t: Any, y: State, inputs: Inputs) -> Outputs:
        """What can be measured: a pytree of named quantities; `return y` when the state itself is."""

    @abc.abstractmethod
    def invariants(self, t: Any, y: State) -> dict[str, Array]:
        """What the exact solution conserves, by name; `return {}` where there is nothing."""

    @abc.abstractmethod
    def encode(self, y: State) -> State:
        """The state that a solver steps."""

    @abc.abstractmethod
    def decode(self, state: State) -> State:
        """The state that users see."""

    @classmethod
    @abc.abstractmethod
    def example(cls) -> Example:
        """One worked example: system, initial state, times and, where it has some, inputs."""

    def _repr_html_(self) -> str:
        return system_html(self)


class PlainSystem(System):
    """dy/dt = f(t, y): a system without structure that a solver could use.

    A subclass writes `vector_field`, `outputs`, `invariants` and `example`.
    """

    def encode(self, y: State) -> State:
        return y

    def decode(self, state: State) -> State:
        return state


class KnownJacobian(System):
    """A system whose encoded state is one vector, and which knows the derivatives of its field by it.

    Implicit solvers factorise this matrix and never differentiate it; what they differentiate is the field.
    """

    @abc.abstractmethod
    def jacobian(self, t: Any, y: Array, inputs: Inputs) -> Array:
        """The derivatives of `vector_field` by the encoded state: a row for each slope, a column for each state."""


class Phase(eqx.Module):
    """Positions and momenta: the state of a separable system."""

    position: Array = quantity()
    momentum: Array = quantity()


class SeparableSystem(System):
    """dq/dt = velocity(p), dp/dt = force(t, q): what symplectic methods need.

    The state is a `Phase`, or any module with the fields `position` and `momentum`. A subclass writes `velocity`, `force`,
    `outputs`, `invariants` and `example`.
    """

    @abc.abstractmethod
    def velocity(self, momentum: Any) -> Any:
        """dq/dt, a function of the momentum alone."""

    @abc.abstractmethod
    def force(self, t: Any, position: Any, inputs: Inputs) -> Any:
        """dp/dt, a function of time and position alone."""

    def vector_field(self, t: Any, y: State, inputs: Inputs) -> State:
        slopes = self.velocity(y.momentum), self.force(t, y.position, inputs)
        return eqx.tree_at(lambda phase: (phase.position, phase.momentum), y, slopes)

    def encode(self, y: State) -> State:
        return y

    def decode(self, state: State) -> State:
        return state


class SplitSystem(System):
    """d state/dt = linear() * state + nonlinear(t, state): a stiff diagonal linear part and the rest.

    The solver steps an encoded state (a spectrum, of real or complex numbers) in which the linear part is diagonal. A subclass
    writes `linear`, `nonlinear`, `encode`, `decode`, `outputs`, `invariants` and `example`.
    """

    @abc.abstractmethod
    def linear(self) -> Any:
        """The diagonal of the linear part, with the structure of the encoded state; it may be real where that is complex."""

    @abc.abstractmethod
    def nonlinear(self, t: Any, state: State, inputs: Inputs) -> State:
        """The rest of the time derivative of the encoded state."""

    def vector_field(self, t: Any, y: State, inputs: Inputs) -> State:
        rest = self.nonlinear(t, y, inputs)
        return jax.tree.map(lambda rate, state, slope: scaled(rate, state) + slope, self.linear(), y, rest)


class StochasticSystem(System):
    """dy = drift(t, y) dt + diffusion(t, y) dW.

    `diffusion` returns a pytree with the structure of the state. A leaf of the state's own shape gives each component a
    Wiener process of its own; where every leaf has one further axis of length m behind, m processes drive all components.

    A subclass writes `drift`, `diffusion`, `outputs`, `invariants`, `example`, and states how its equation is meant
    (`interpretation`, "ito" or "stratonovich") and what its diffusion depends on (`noise_kind`, "additive" if not on the
    state, "diagonal" if each component's on that component alone, else "general").
    """

    interpretation: AbstractClassVar[Literal["ito", "stratonovich"]]
    noise_kind: AbstractClassVar[Literal["additive", "diagonal", "general"]]

    @abc.abstractmethod
    def drift(self, t: Any, y: State, inputs: Inputs) -> State:
        """The deterministic part of the time derivative."""

    @abc.abstractmethod
    def diffusion(self, t: Any, y: State, inputs: Inputs) -> Any:
        """The factor of the Wiener increments."""

    def vector_field(self, t: Any, y: State, inputs: Inputs) -> State:
        return self.drift(t, y, inputs)

    def encode(self, y: State) -> State:
        return y

    def decode(self, state: State) -> State:
        return state


class TransportSystem(System):
    """dy/dt = f(t, y) on a grid, where what is carried from cell to cell bounds the length of a step.

    A subclass writes `vector_field`, `longest_step`, `outputs`, `invariants`, `example`, `encode` and `decode`.
    """

    @abc.abstractmethod
    def longest_step(self, t: Any, state: State, inputs: Inputs) -> Array:
        """The time in which something crosses a cell: the step of Courant number 1, a single number.

        For speeds a and diffusivities D on cells of size dx it is 1 / sum(|a| / dx + 2 D / dx^2), the sum over directions, the
        least of all cells.
        """


class StiffTransportSystem(TransportSystem):
    """Transport with a stiff linear part L of the slope, such as diffusion on fine cells.

    A subclass writes what a `TransportSystem` does, `smoothed`, and `stiff`: whether that part is stepped implicitly,
    so that it does not bound the step.
    """

    stiff: AbstractVar[bool]

    @abc.abstractmethod
    def smoothed(self, state: State, change: State, time: Any) -> State:
        """(1 - time L)^-1 times a change of the state, or something near it."""


class StaticSystem(System):
    """No dynamics: a response as a function of a predictor, for regression through the same verbs.

    The place of time is taken by the predictor x, a number or a vector a datum. A subclass writes `outputs` (of x and
    inputs; `y` is None) and `example`.
    """

    def vector_field(self, t: Any, y: State, inputs: Inputs) -> State:
        return jax.tree.map(jnp.zeros_like, y)

    def invariants(self, t: Any, y: State) -> dict[str, Array]:
        return {}

    def encode(self, y: State) -> State:
        return y

    def decode(self, state: State) -> State:
        return state
