"""The least and the greatest value over the save times."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from .._types import State
from ..core import System
from ._reducer import Observable, Reducer, observed


class ExtremeValues(eqx.Module):
    """Result of `Extremes`: pytrees like a row."""

    minimum: Any
    maximum: Any
    time_of_minimum: Any
    time_of_maximum: Any


class Extremes(Reducer):
    """The least and the greatest value over the save times, and when they were met first, for every number of a row by itself.

    They are those of the save times, not those between them. A peak of the solution itself is where its derivative passes
    zero.

    **Arguments:** `observable(system, t, y)`, real; the state where it is left out.

    **Gives:** an `ExtremeValues`.

    ```python
    import simkit
    system, y0, times, _ = simkit.odes.LotkaVolterra.example()
    found = simkit.simulate(system, y0, times, reduce={"extremes": simkit.reducers.Extremes()}).reduced["extremes"]
    print(found.maximum.lynx, found.time_of_maximum.lynx)  # prints 55.9 15.0
    ```
    """

    observable: Observable = None

    def row(self, system: System, t: Array, y: State) -> Any:
        return observed(self.observable, system, t, y)

    def start(self, t: Array, row: PyTree) -> ExtremeValues:
        full = lambda value: jax.tree.map(lambda x: jnp.full_like(x, value), row)
        return ExtremeValues(full(jnp.inf), full(-jnp.inf), full(jnp.nan), full(jnp.nan))

    def update(self, total: ExtremeValues, t: Array, row: PyTree) -> ExtremeValues:
        less, more = (jax.tree.map(f, row, old) for f, old in ((jnp.less, total.minimum), (jnp.greater, total.maximum)))
        values = lambda where, old: jax.tree.map(jnp.where, where, row, old)
        times = lambda where, old: jax.tree.map(lambda w, a: jnp.where(w, t.astype(a.dtype), a), where, old)
        return ExtremeValues(
            values(less, total.minimum),
            values(more, total.maximum),
            times(less, total.time_of_minimum),
            times(more, total.time_of_maximum),
        )

    def finish(self, total: ExtremeValues) -> ExtremeValues:
        return total
