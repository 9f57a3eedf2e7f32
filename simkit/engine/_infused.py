"""Systems with infusions: the rates that flow into some of their numbers stand behind the state, constant between events."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, PyTree

from .._errors import ArgumentError
from .._types import Inputs, Outputs, State, Time
from ..core import (
    ConstrainedSystem,
    DelayedSystem,
    Example,
    KnownJacobian,
    Past,
    PlainSystem,
    SeparableSystem,
    System,
)
from ..reducers import Reducer
from ..solvers import Stepper, mass_of, times_mass

SERVED = (PlainSystem, KnownJacobian, SeparableSystem, ConstrainedSystem, DelayedSystem)
"""Families whose derivative of the state a rate may be added to."""


class Infused(PlainSystem):
    """A system whose state has the rates of infusions behind it, which flow into some of its numbers as users see them."""

    inner: System
    places: tuple[int, ...] = eqx.field(static=True)

    def encode(self, y: State) -> State:
        return self.inner.encode(y[0]), y[1]

    def decode(self, state: State) -> State:
        return self.inner.decode(state[0]), state[1]

    def vector_field(self, t: Time, y: State, inputs: Inputs) -> State:
        state, rates = y
        slope = self.inner.vector_field(t, state, inputs)
        return with_flow(self.inner, state, slope, self.places, rates), jnp.zeros_like(rates)

    def outputs(self, t: Time, y: State, inputs: Inputs) -> Outputs:
        return self.inner.outputs(t, y[0], inputs)

    @classmethod
    def example(cls) -> Example:
        raise NotImplementedError("A system with infusions has no example of its own.")


class InfusedConstrained(ConstrainedSystem):
    """The same of a constrained system: M dy/dt = f + M r, so that a rate r adds to the derivative of its number.

    - `like`: a state, for its shapes.
    """

    inner: ConstrainedSystem
    like: State
    places: tuple[int, ...] = eqx.field(static=True)

    def mass(self, t: Time) -> Any:
        own, unravel = mass_of(self.inner, t, self.like), ravel_pytree(self.like)[1]
        rates = jnp.ones(len(self.places), own.dtype)
        if own.ndim == 1:
            return unravel(own), rates
        return jax.scipy.linalg.block_diag(own, jnp.diag(rates))

    def vector_field(self, t: Time, y: State, inputs: Inputs) -> State:
        state, rates = y
        own, (flow, unravel) = mass_of(self.inner, t, state), ravel_pytree(_flow(state, self.places, rates))
        # An algebraic number has no derivative to which a rate could be added.
        absent = (own == 0) if own.ndim == 1 else jnp.all(own == 0, axis=0)
        flow = jnp.where(absent & (flow != 0), jnp.nan, times_mass(own, flow))
        slope = self.inner.vector_field(t, state, inputs)
        return jax.tree.map(lambda a, b: a + b.astype(a.dtype), slope, unravel(flow)), jnp.zeros_like(rates)

    def hidden(self, t: Time, y: State, inputs: Inputs) -> dict[str, Array]:
        return self.inner.hidden(t, y[0], inputs)

    def outputs(self, t: Time, y: State, inputs: Inputs) -> Outputs:
        return self.inner.outputs(t, y[0], inputs)

    @classmethod
    def example(cls) -> Example:
        raise NotImplementedError("A system with infusions has no example of its own.")


class InfusedDelayed(DelayedSystem):
    """The same of a system that sees its past, in which the rates were zero before the first time."""

    inner: DelayedSystem
    places: tuple[int, ...] = eqx.field(static=True)

    def encode(self, y: State) -> State:
        return self.inner.encode(y[0]), y[1]

    def decode(self, state: State) -> State:
        return self.inner.decode(state[0]), state[1]

    def delayed_field(self, t: Time, y: State, inputs: Inputs, past: Past) -> State:
        state, rates = y
        slope = self.inner.delayed_field(t, state, inputs, Past(lambda time: past(time)[0]))
        return with_flow(self.inner, state, slope, self.places, rates), jnp.zeros_like(rates)

    def lags(self, t: Time, y: State, inputs: Inputs) -> Any:
        return self.inner.lags(t, y[0], inputs)

    def history(self, t: Time, y0: State) -> State:
        return self.inner.history(t, y0[0]), jnp.zeros_like(y0[1])

    def earliest(self) -> Time | None:
        return self.inner.earliest()

    def breaks(self) -> Array | None:
        return self.inner.breaks()

    def kept_steps(self) -> int:
        return self.inner.kept_steps()

    def outputs(self, t: Time, y: State, inputs: Inputs) -> Outputs:
        return self.inner.outputs(t, y[0], inputs)

    @classmethod
    def example(cls) -> Example:
        raise NotImplementedError("A system with infusions has no example of its own.")


class ReducedInside(Reducer):
    """A reducer of the states of a system with infusions, which sees the states without the rates."""

    own: Reducer

    def row(self, system: Any, t: Array, y: State) -> Any:
        return self.own.row(system.inner, t, y[0])

    def start(self, t: Array, row: PyTree) -> Any:
        return self.own.start(t, row)

    def update(self, total: PyTree, t: Array, row: PyTree) -> Any:
        return self.own.update(total, t, row)

    def finish(self, total: PyTree) -> Any:
        return self.own.finish(total)


def with_flow(system: System, state: State, slope: State, places: tuple[int, ...], rates: Array) -> State:
    """The slope of a state that a solver steps, with rates into numbers of the one that users see."""
    seen = system.decode(state)
    flow = _flow(seen, places, rates)
    if is_encoded(system):  # the chain rule: d encode(y) / dt by a rate of y
        flow = jax.jvp(system.encode, (seen,), (flow,))[1]
    return jax.tree.map(lambda a, b: a + b.astype(a.dtype), slope, flow)


def infused_system(system: System, y0: State, places: tuple[int, ...]) -> Infused | InfusedConstrained | InfusedDelayed:
    """A system with infusions into numbers of its flat state, from one that `check_infused` has passed."""
    if isinstance(system, DelayedSystem):
        return InfusedDelayed(system, places)
    if isinstance(system, ConstrainedSystem):
        return InfusedConstrained(system, y0, places)
    return Infused(system, places)


def is_encoded(system: System) -> bool:
    """Tell whether a solver steps another state than users see."""
    return type(system).encode is not System.encode


def check_infused(system: Any, y0: State, t: Time, places: tuple[int, ...], solver: Stepper | None) -> None:
    """Refuse infusions where a rate has no plain meaning.

    **Raises:** an `ArgumentError`.
    """
    name = type(system).__name__
    if not isinstance(system, SERVED):
        raise ArgumentError(
            f"Infusions need a system whose derivative they can be added to, but `{name}` has a structure of its own: add the rate "
            "as an input of the system, such as `simkit.Pulses`."
        )
    if isinstance(system, SeparableSystem) and solver is not None and not issubclass(PlainSystem, solver.family):
        raise ArgumentError(
            f"Infusions into `{name}` need a solver that takes any system, since a rate of infusion breaks the form that "
            f'`{type(solver).__name__}` steps. Take `solver="tsit5"`.'
        )


def check_differential(system: Any, y0: State, t: Time, places: Sequence[int]) -> None:
    """Refuse doses into numbers of a constrained system that have no derivative: its equations would undo them.

    **Raises:** an `ArgumentError`.
    """
    if not isinstance(system, ConstrainedSystem):
        return
    with jax.ensure_compile_time_eval():
        own = mass_of(system, t, y0)
    if isinstance(own, jax.core.Tracer):
        return  # then states of infusions are NaN
    known = np.asarray(own)
    absent = known == 0 if known.ndim == 1 else np.all(known == 0, axis=0)
    for place in places:
        if absent[place]:
            raise ArgumentError(
                f"Doses must go into numbers that have a derivative, but number {place + 1} of the state of "
                f"`{type(system).__name__}` is algebraic: `mass` is 0 there."
            )


def _flow(y: State, places: tuple[int, ...], rates: Array) -> Any:
    flat, unravel = ravel_pytree(y)
    return unravel(jnp.zeros_like(flat).at[jnp.array(places)].add(rates.astype(flat.dtype)))
