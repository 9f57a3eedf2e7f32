"""Values of earlier times in SBML formulas, `delay(x, lag)`: systems whose rates need them, and their values at save times."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from .._types import Inputs, Scalar, State, Time
from ..core import DelayedSystem, Past, Trajectory, quantity
from ..networks import TIME, Formulas, numbers_of
from ._sbml_system import AbstractSBMLSystem, Roots, kept_parameters


class Delay(NamedTuple):
    """A value of an earlier time: its name in formulas, the node of what it is the value of, and that of the lag."""

    name: str
    node: int
    lag: int


def delayed_value(formulas: Formulas, delay: Delay, lookup: Callable[[str], Any], past: Callable[[Any], Any]) -> Any:
    """The value of a formula a lag before; `past` gives the values of names at a time."""
    (lag,) = formulas.evaluate([delay.lag], lookup)
    time = lookup(TIME) - lag
    return formulas.evaluate([delay.node], past(time))[0]


class DelayedSBMLSystem(DelayedSystem, AbstractSBMLSystem):
    """An SBML model whose rates need values of earlier times, `delays`; see `AbstractSBMLSystem`.

    Before the first time states are what they are there, and formulas are those of the time that they are asked for.
    """

    parameters: dict[str, Any] = eqx.field(converter=numbers_of)
    before: dict[str, Any] = eqx.field(converter=numbers_of)
    settled: Scalar = quantity(doc="1 where an experiment starts from a steady state")
    kept_before: Any = quantity(optional=True, doc="what steady states before the start conserve")
    kept: Any = quantity(optional=True, doc="what steady states at the end conserve")
    formulas: Formulas = eqx.field(static=True, kw_only=True)
    rates: Roots = eqx.field(static=True, kw_only=True)
    named: Roots = eqx.field(static=True, kw_only=True)
    delays: tuple[Delay, ...] = eqx.field(static=True, kw_only=True)

    def delayed_field(self, t: Time, y: State, inputs: Inputs, past: Past) -> dict[str, Array]:
        now = self.lookup(t, y, inputs)
        then = lambda time: self.lookup(time, past(time), inputs)
        found = {delay.name: delayed_value(self.formulas, delay, now, then) for delay in self.delays}
        return AbstractSBMLSystem.vector_field(self, t, y | found, inputs)

    def lags(self, t: Time, y: State, inputs: Inputs) -> Any:
        found = self.formulas.evaluate([delay.lag for delay in self.delays], self.lookup(t, y, inputs))
        return [jnp.asarray(x, self.settled.dtype) for x in found]

    def moving(self) -> "DelayedSBMLSystem":
        nodes = [node for delay in self.delays for node in (delay.node, delay.lag)]
        kept = kept_parameters(self, [node for _, node in self.rates] + nodes)
        made: Any = {"formulas": self.formulas, "rates": self.rates, "delays": self.delays}
        return DelayedSBMLSystem(kept, {}, self.settled, None, None, named=(), **made)


def asked(system: AbstractSBMLSystem, delays: tuple[Delay, ...], times: Array, states: dict[str, Array]) -> Array:
    """The times at which a solution has to be known: its own, and a lag before each, (1 + delays, times).

    `states` are those at the times, if a lag depends on them.
    """
    lags = system.formulas.evaluate([d.lag for d in delays], system.lookup(times, states))
    early = [times - jnp.where(lag >= 0, lag, jnp.nan) for lag in (jnp.asarray(x, times.dtype) for x in lags)]
    return jnp.stack([times, *early])


def ordered(times: Array, start: Array) -> tuple[Array, Array]:
    """All times in their order, none before the start, and the place of each among them."""
    flat = jnp.where(times > start, times, start).ravel()
    order = jnp.argsort(jax.lax.stop_gradient(flat), stable=True)
    return flat[order], jnp.argsort(order).reshape(times.shape)


def recalled(
    system: AbstractSBMLSystem,
    delays: tuple[Delay, ...],
    times: Array,
    places: Array,
    solution: Trajectory,
    opening: Callable[[Array], dict[str, Array]],
) -> Trajectory:
    """A trajectory at its own times, with the values of earlier times by their names beside the states.

    `opening` gives what holds at a time before the start: initial states, and what initial assignments say.
    """
    ys = {name: y[places] for name, y in solution.ys.items()}
    found = {name: y[0] for name, y in ys.items()}
    for k, delay in enumerate(delays, start=1):
        then = {name: y[k] for name, y in ys.items()}
        for name, y in jax.vmap(opening)(times[k]).items():
            then[name] = jnp.where(times[k] < times[0, 0], y, then.get(name, system.parameters.get(name)))
        (value,) = system.formulas.evaluate([delay.node], system.lookup(times[k], then))
        found[delay.name] = value + 0 * times[k]
    return dataclasses.replace(solution, times=times[0], ys=found)
