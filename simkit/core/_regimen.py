"""Regimens: the doses of one subject as the change of an event, which a simulation completes before it starts."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from .._types import Inputs, State, Time
from ._names import Setup

Element = str | float | None
"""The path of a number of the system, a number, or None for the default."""


class Regimen(eqx.Module):
    """The change of an event whose `values` are doses, with one row for each dose or reset.

    The event has the known times of records. What happens there depends on parameters: a dose arrives after a lag, an infusion
    ends, a steady state is that of these very parameters. So the simulation makes events of it once its numbers are known.

    The values of n states, shape `(rows,)` except for `into`:

    - `amount`, and `into` of shape `(rows, n)`: how much goes where; 0 where a row is a reset alone.
    - `rate`, `duration`: the one that an infusion was given with, else 0.
    - `reset`: 1 where the state is set back to its start.
    - `steady`, `interval`: 1 where the state is that of equal doses at this interval for ever, 2 where that is added; else 0.

    **Arguments:**

    - `share`, `lag`: for each number of the state the path of its bioavailability and of its lag, a number, or None.
    - `infused`: the places in the flat state that infusions go into.
    - `resets`: whether any row resets. `steady`: how many rows have a steady state.
    - `given`: the places that any dose goes into.
    """

    share: tuple[Element, ...] = eqx.field(static=True)
    lag: tuple[Element, ...] = eqx.field(static=True)
    infused: tuple[int, ...] = eqx.field(static=True, default=())
    resets: bool = eqx.field(static=True, default=False)
    steady: int = eqx.field(static=True, default=0)
    given: tuple[int, ...] = eqx.field(static=True, default=())

    def __call__(self, system: Any, t: Time, y: State, inputs: Inputs, value: Any) -> Any:
        """The state with the whole amount of a row added: what tells how large states become."""
        flat, unravel = ravel_pytree(y)
        amount = value["amount"].astype(flat.dtype) * value["into"].astype(flat.dtype)
        return unravel(flat + amount * self.shares(Setup(system)).astype(flat.dtype))

    def shares(self, setup: Setup) -> Array:
        """The bioavailability of every number of the state."""
        return _numbers(setup, self.share, 1.0)

    def lags(self, setup: Setup) -> Array:
        """The lag of every number of the state."""
        return _numbers(setup, self.lag, 0.0)


def _numbers(setup: Setup, given: Sequence[Element], default: float) -> Array:
    found = [default if x is None else setup.get(x) if isinstance(x, str) else x for x in given]
    return jnp.stack([jnp.asarray(x, float) for x in found])
