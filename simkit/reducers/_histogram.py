"""Histograms of values between given edges."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, PyTree

from .._errors import ArgumentError
from .._types import State, Vector
from ..core import System, quantity
from ._reducer import Observable, Reducer, observed


class Histogram(Reducer):
    """Counts of numbers of the rows between each two edges, over all save times.

    Every number of a row counts: of an observable that gives all distances between particles this is the histogram of pairs.
    A bin holds its lower edge and not its upper one, the last bin both; what lies outside is not counted, and a number
    that is NaN makes the counts NaN. Counts are whole numbers, so their derivative is 0; for one that is not, take the `Mean` of a
    smooth kernel.

    **Arguments:**

    - `edges`: shape `(bins + 1,)`, increasing, in the unit of the observable.
    - `observable(system, t, y)`, real; the state where it is left out.

    **Gives:** counts of shape `(bins,)`, as floats, for each array of a row; exact up to 1.6e7 in float32.

    **Raises:** an `ArgumentError` where there are fewer than two edges or they do not increase.

    ```python
    import numpy as np
    import simkit
    system, y0, times, _ = simkit.odes.LotkaVolterra.example()
    counts = simkit.reducers.Histogram(np.linspace(0, 100, 11), lambda system, t, y: y.hare)
    print(simkit.simulate(system, y0, times, reduce={"hare": counts}).reduced["hare"])
    ```
    """

    edges: Vector = quantity()
    observable: Observable = None

    def __check_init__(self):
        if isinstance(self.edges, Tracer) or not hasattr(self.edges, "shape"):
            return
        edges = np.asarray(self.edges, float)
        if edges.ndim != 1 or edges.size < 2 or not np.all(np.diff(edges) > 0):
            raise ArgumentError(f"Argument `edges` must be at least two increasing numbers, but it is {edges}.")

    def row(self, system: System, t: Array, y: State) -> Any:
        return observed(self.observable, system, t, y)

    def start(self, t: Array, row: PyTree) -> Any:
        return jax.tree.map(lambda x: jnp.zeros(self.edges.shape[0] - 1, x.dtype), row)

    def update(self, total: PyTree, t: Array, row: PyTree) -> Any:
        last = self.edges.shape[0] - 2

        def one(counts: Array, x: Array) -> Array:
            edges, x = jax.lax.stop_gradient((self.edges.astype(x.dtype), x.reshape(-1)))
            place = jnp.searchsorted(edges, x, side="right") - 1
            place = jnp.where(x == edges[-1], last, place)
            inside = (place >= 0) & (place <= last)
            counts = jnp.where(jnp.any(jnp.isnan(x)), jnp.nan, counts)
            # A row is counted by itself first: one more is nothing to a count beyond the digits of the float type.
            return counts + jnp.zeros_like(counts).at[jnp.where(inside, place, 0)].add(inside.astype(x.dtype))

        return jax.tree.map(one, total, row)

    def finish(self, total: PyTree) -> Any:
        return total
