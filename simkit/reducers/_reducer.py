"""What a reducer is."""

import abc
from collections.abc import Callable
from typing import Any, TypeAlias

import equinox as eqx
from equinox import AbstractVar
from jaxtyping import Array

Observable: TypeAlias = Callable[..., Any] | None
"""A function (system, t, y) -> array or pytree of arrays; None for the state itself."""


class Reducer(eqx.Module):
    """What becomes of the rows of a simulation: a total that is updated at every save time, in their order.

    A row is what `observable(system, t, y)` gives at a save time, an array or a pytree of arrays, or the state where `observable`
    is None. Integers and truth values become floats. `simulate(..., reduce={"name": reducer})` keeps the total alone.

    A subclass has the field `observable` and writes `start`, `update` and `finish`, pure functions on arrays; the total is any
    pytree whose shapes and types stay the same. Derivatives pass through them.

    ```python
    import jax
    import jax.numpy as jnp
    import simkit

    class RootMeanSquare(simkit.reducers.Reducer):
        observable: simkit.reducers.Observable = None

        def start(self, t, row):
            return 0, jax.tree.map(jnp.zeros_like, row)

        def update(self, total, t, row):
            count, squares = total
            return count + 1, jax.tree.map(lambda a, x: a + x**2, squares, row)

        def finish(self, total):
            count, squares = total
            return jax.tree.map(lambda a: jnp.sqrt(a / count), squares)

    system, y0, times, _ = simkit.odes.HarmonicOscillator.example()
    print(simkit.simulate(system, y0, times, reduce={"size": RootMeanSquare()}).reduced["size"])
    ```
    """

    observable: AbstractVar[Observable]

    @abc.abstractmethod
    def start(self, t: Array, row: Any) -> Any:
        """The total before any row is counted, from the first row and its time; `update` then counts that row like all others."""

    @abc.abstractmethod
    def update(self, total: Any, t: Array, row: Any) -> Any:
        """The total with one more row, that of time t."""

    @abc.abstractmethod
    def finish(self, total: Any) -> Any:
        """The result."""
