"""The integral over time."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from .._types import State
from ..core import System
from ._reducer import Observable, Reducer, observed


class Integral(Reducer):
    """The integral over time by the trapezoidal rule on the save times: an area under a curve, a total dose, a work done.

    Its error falls with the square of the distance between save times. Where that is not enough, make the integral a component
    of the state, which the solver then controls.

    **Arguments:** `observable(system, t, y)`, the integrand; the state where it is left out.

    **Gives:** what the observable gives, times the unit of time.

    ```python
    import simkit
    system, y0, times, _ = simkit.odes.ExponentialDecay.example()
    print(simkit.simulate(system, y0, times, reduce={"area": simkit.reducers.Integral()}).reduced["area"].amount)  # prints 1.989
    ```
    """

    observable: Observable = None

    def row(self, system: System, t: Array, y: State) -> Any:
        return observed(self.observable, system, t, y)

    def start(self, t: Array, row: PyTree) -> Any:
        return t, row, jax.tree.map(jnp.zeros_like, row)

    def update(self, total: PyTree, t: Array, row: PyTree) -> Any:
        before, old, area = total
        half = (t - before) / 2  # of the first row no time has passed since the one before
        return t, row, jax.tree.map(lambda s, a, b: s + half.astype(s.dtype) * (a + b), area, old, row)

    def finish(self, total: PyTree) -> Any:
        return total[2]
