"""Systems: what changes, and the structure in it that solvers can use."""

import abc
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from .._registry import Registry
from .._types import Inputs, Outputs, State, Time
from ._html import html_page, system_html
from ._input import Input
from ._quantity import quantity
from ._scaled import scaled
from ._sparse_matrix import SparseMatrix

if TYPE_CHECKING:
    from typing import ClassVar as AbstractClassVar

    AbstractVar = Any
else:
    from equinox import AbstractClassVar, AbstractVar


S = TypeVar("S", bound="System")


if TYPE_CHECKING:

    class Example(NamedTuple, Generic[S]):
        """One worked example, of which a type checker knows the kind of system."""

        system: S
        y0: State
        times: Any
        inputs: Inputs = None

else:

    class Example(NamedTuple):
        """One worked example of a system: values that go together and times worth looking at."""

        system: Any
        y0: State
        times: Any
        inputs: Inputs = None

        @classmethod
        def __class_getitem__(cls, kind: Any) -> Any:
            """The kind of system is for type checkers; at run time there is one class."""
            return cls


class System(eqx.Module):
    """System: an Equinox module whose array fields are its parameters.

    A new system subclasses one of the families below, never this class: `PlainSystem`, `ConstrainedSystem`, `DelayedSystem`,
    `SeparableSystem`, `SplitSystem`, `TransportSystem`, `StiffTransportSystem`, `StochasticSystem`, `StaticSystem` or
    `ParticleSystem`. Users,
    data and names see the state `y`; a solver steps `encode(y)`.
    """

    @abc.abstractmethod
    def vector_field(self, t: Time, y: State, inputs: Inputs) -> State:
        """The time derivative of the (encoded) state, with the structure of the state."""

    def outputs(self, t: Time, y: State, inputs: Inputs) -> Outputs:
        """Return the measurable quantities, a pytree of named arrays; by default the state."""
        return y

    def invariants(self, t: Time, y: State) -> dict[str, Array]:
        """Return the conserved quantities of the exact solution, by name; by default none."""
        return {}

    def reads(self) -> dict[str, Input] | None:
        """Return the inputs that the system reads, by name, so that others are refused; by default None: not declared."""
        return None

    def own_events(self) -> dict[str, Any]:
        """Return the events without which the equations are others, for `events=`; by default none.

        A run without events of such a system is refused.
        """
        return {}

    def encode(self, y: State) -> State:
        """Return the state that a solver steps; by default the state itself."""
        return y

    def decode(self, state: State) -> State:
        """Return the state that users see; by default the state that a solver steps."""
        return state

    def shardings(self, state: State) -> Any:
        """Return how devices divide an encoded state, a tree of its form of `jax.sharding.NamedSharding`; by default None.

        With it adaptive steps keep each number on its device, where each device holds as much of every array as the others.
        """
        return None

    @classmethod
    @abc.abstractmethod
    def example(cls: type[S]) -> Example[S]:
        """One worked example: system, initial state, times and, where it has some, inputs."""

    def _repr_html_(self) -> str:
        title, *parts = self._html_parts() or ("",)
        return html_page(title, *parts, system_html(self)) if title else system_html(self)

    def _html_parts(self) -> tuple[str, ...] | None:
        """A title, and parts of a page in a notebook above the table of numbers; by default none."""
        return None


SYSTEMS: Registry[type[System]] = Registry("model", System, group="simkit.systems")
"""Systems by the names that study files give them, each declared beside its class."""


class PlainSystem(System):
    """dy/dt = f(t, y): a system without structure that a solver could use.

    A subclass writes `vector_field` and `example`, and where they differ from the defaults `outputs` and `invariants`.
    """


class ConstrainedSystem(System):
    r"""Differential and algebraic equations together,

    $$M(t)\,\frac{dy}{dt} = f(t, y)$$

    with a matrix M that may be singular. Where a row of M is zero, the equation is algebraic: the solution keeps that component of
    the vector field at zero. The index must be 1: the algebraic equations determine the algebraic states. A start is a guess for
    those; they are found from the others by Newton's method at the first time, and again where an input jumps.

    A subclass writes `vector_field` (f), `mass` (M) and `example`, and where there are some `hidden` constraints.
    """

    @abc.abstractmethod
    def mass(self, t: Time) -> Any:
        """Return M: its diagonal as a state (1 for a differential equation, 0 for an algebraic one), or a matrix `(n, n)`.

        Rows and columns of a matrix follow the numbers of the flat state. Rows that combine to zero, such as those of a capacitor
        between two nodes, are found. M may depend on the parameters and, where its algebraic rows stay the same, on time.
        """

    def hidden(self, t: Time, y: State, inputs: Inputs) -> dict[str, Array]:
        """Return residuals that the exact solution keeps at zero beside its equations; by default none.

        Where an equation of higher index was differentiated, these are the equation itself and its first derivatives. Every
        step ends with a projection onto them, so that the solution does not drift away.
        """
        return {}


class KnownJacobian(System):
    """A system whose encoded state is one vector, and which knows the derivatives of its field by it.

    Implicit solvers factorise this matrix and never differentiate it; what they differentiate is the field.
    """

    @abc.abstractmethod
    def jacobian(self, t: Time, y: Array, inputs: Inputs) -> Array | SparseMatrix:
        """The derivatives of `vector_field` by the encoded state: a row for each slope, a column for each state."""


class Phase(eqx.Module):
    """Positions and momenta: the state of a separable system."""

    position: Array = quantity()
    momentum: Array = quantity()


class SeparableSystem(System):
    """dq/dt = velocity(p), dp/dt = force(t, q): what symplectic methods need.

    The state is a `SeparableSystem.State`, or any module with the fields `position` and `momentum`. A subclass writes
    `velocity`, `force` and `example`, and where they differ from the defaults `outputs` and `invariants`.
    """

    State = Phase

    @abc.abstractmethod
    def velocity(self, momentum: Any) -> Any:
        """dq/dt, a function of the momentum alone."""

    @abc.abstractmethod
    def force(self, t: Time, position: Any, inputs: Inputs) -> Any:
        """dp/dt, a function of time and position alone."""

    def vector_field(self, t: Time, y: State, inputs: Inputs) -> Any:
        slopes = self.velocity(y.momentum), self.force(t, y.position, inputs)
        return eqx.tree_at(lambda phase: (phase.position, phase.momentum), y, slopes)


class SplitSystem(System):
    """d state/dt = linear() * state + nonlinear(t, state): a stiff diagonal linear part and the rest.

    The solver steps an encoded state (a spectrum, of real or complex numbers) in which the linear part is diagonal. A subclass
    writes `linear`, `nonlinear`, `encode`, `decode` and `example`.
    """

    @abc.abstractmethod
    def linear(self) -> Any:
        """The diagonal of the linear part, with the structure of the encoded state; it may be real where that is complex."""

    @abc.abstractmethod
    def nonlinear(self, t: Time, state: State, inputs: Inputs) -> State:
        """The rest of the time derivative of the encoded state."""

    @abc.abstractmethod
    def encode(self, y: State) -> State:
        """Return the state that a solver steps: the spectrum in which the linear part is diagonal."""

    @abc.abstractmethod
    def decode(self, state: State) -> State:
        """Return the state that users see."""

    def vector_field(self, t: Time, y: State, inputs: Inputs) -> State:
        rest = self.nonlinear(t, y, inputs)
        return jax.tree.map(lambda rate, state, slope: scaled(rate, state) + slope, self.linear(), y, rest)


class StochasticSystem(System):
    r"""dy = drift(t, y) dt + diffusion(t, y) dW.

    `diffusion` returns a pytree with the structure of the state. A leaf of the state's own shape gives each component a
    Wiener process of its own; where every leaf has one further axis of length m behind, m processes drive all components.

    A subclass writes `drift`, `diffusion` and `example`, and states how its equation is meant
    (`interpretation`, "ito" or "stratonovich") and what its diffusion depends on (`noise_kind`, "additive" if not on the
    state, "diagonal" if each component's on that component alone, else "general").

    With `jump_rate` and `jump` it is a jump-diffusion, whose state also jumps at the random times of a Poisson process N:

    $$dy = f(t, y)\, dt + g(t, y)\, dW + h(t, y_-, z)\, dN$$

    with marks z, random numbers of each jump. Steps are fixed, and cut at the jumps.
    """

    interpretation: AbstractClassVar[Literal["ito", "stratonovich"]]
    noise_kind: AbstractClassVar[Literal["additive", "diagonal", "general"]]

    @abc.abstractmethod
    def drift(self, t: Time, y: State, inputs: Inputs) -> State:
        """The deterministic part of the time derivative."""

    @abc.abstractmethod
    def diffusion(self, t: Time, y: State, inputs: Inputs) -> Any:
        """The factor of the Wiener increments."""

    def jump_rate(self, t: Time, y: State, inputs: Inputs) -> Any:
        """Return the rate of the jumps, one number in 1 over the unit of time; by default None: nothing jumps.

        Without `jump_bound` a step takes the rate at its start, and again after each jump. That is exact where the rate depends on
        neither time nor state, or on time through inputs that are constant piece by piece; else of weak order 1.
        """
        return None

    def jump_bound(self, t: Time, until: Time, y: State, inputs: Inputs) -> Any:
        """Return an upper bound of `jump_rate` from `t` to `until` wherever the state gets from `y`; by default None.

        With it the times of jumps follow the rate along the path: candidates come at the rate of the bound, and one at the time
        s is a jump with the probability rate / bound at the state there (thinning). A rate above its bound ends the run. `until` is
        the end of the step, `inputs` are those at `t`. Lewis and Shedler (1979), doi:10.1002/nav.3800260304; Glasserman and Merener
        (2004), Proc. R. Soc. A 460:111, doi:10.1098/rspa.2003.1151.
        """
        return None

    def jump(self, t: Time, y: State, inputs: Inputs, key: PRNGKeyArray) -> State:
        """Return the (encoded) state after a jump, y + h(t, y, z), with the marks z drawn from `key`."""
        raise NotImplementedError

    def vector_field(self, t: Time, y: State, inputs: Inputs) -> State:
        return self.drift(t, y, inputs)


class TransportSystem(System):
    """dy/dt = f(t, y) on a grid, where what is carried from cell to cell bounds the length of a step.

    A subclass writes `vector_field`, `longest_step` and `example`; `encode` and `decode` where a solver steps other fields.
    """

    @abc.abstractmethod
    def longest_step(self, t: Time, state: State, inputs: Inputs) -> Array:
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
    def smoothed(self, state: State, change: State, time: Time) -> State:
        """(1 - time L)^-1 times a change of the state, or something near it."""


class StaticSystem(System):
    """No dynamics: a response as a function of a predictor, for regression through the same verbs.

    The place of time is taken by the predictor x, a number or a vector a datum. A subclass writes `outputs` (of x and
    inputs; `y` is None) and `example`.
    """

    @abc.abstractmethod
    def outputs(self, t: Time, y: State, inputs: Inputs) -> Outputs:
        """Return the response at the predictor `t`: a pytree of named arrays."""

    def together(self) -> int | None:
        """Number of predictors whose responses are computed at once, all of them by default; fewer where one takes much memory."""
        return None

    def vector_field(self, t: Time, y: State, inputs: Inputs) -> State:
        return jax.tree.map(jnp.zeros_like, y)
