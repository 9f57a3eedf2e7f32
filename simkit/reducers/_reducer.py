"""Interface of reducers."""

import abc
from collections.abc import Callable
from typing import Any, TypeAlias

import equinox as eqx
from jaxtyping import Array, PyTree

from .._doors import shown
from .._errors import ArgumentError
from .._types import State
from ..core import System

Observable: TypeAlias = Callable[..., Any] | None
"""A function (system, t, y) -> array or pytree of arrays; None for the state itself."""


def observed(observable: Observable, system: System, t: Array, y: State) -> Any:
    """Return the value of an observable; the state where there is none."""
    if observable is not None and not callable(observable):
        raise ArgumentError(
            f"Argument `observable` of a reducer must be a function (system, t, y), such as `lambda system, t, y: y.hare`, but it "
            f"is {shown(observable)}."
        )
    return y if observable is None else observable(system, t, y)


class Reducer(eqx.Module):
    """Reduction of the rows of a simulation: a total that is updated at every save time, in their order.

    `simulate(..., reduce={"name": reducer})` keeps the total alone. A subclass writes `row`, `start`, `update` and `finish`, pure
    functions on arrays; derivatives pass through them. A row is an array or a pytree of arrays, and so is a total, whose
    shapes and types stay the same. Integers and truth values in a row become floats.

    ```python
    import jax.numpy as jnp
    import simkit

    class RootMeanSquare(simkit.reducers.Reducer):
        def row(self, system, t, y):
            return y.position

        def start(self, t, row):
            return 0, jnp.zeros_like(row)

        def update(self, total, t, row):
            count, squares = total
            return count + 1, squares + row**2

        def finish(self, total):
            count, squares = total
            return jnp.sqrt(squares / count)

    system, y0, times, _ = simkit.odes.HarmonicOscillator.example()
    print(simkit.simulate(system, y0, times, reduce={"size": RootMeanSquare()}).reduced["size"])  # prints 0.714
    ```
    """

    @abc.abstractmethod
    def row(self, system: System, t: Array, y: State) -> Any:
        """Return the reduced quantity at one save time; `y` is the state as users see it."""

    @abc.abstractmethod
    def start(self, t: Array, row: PyTree) -> Any:
        """The total before any row is counted, from the first row and its time; `update` then counts that row like all others."""

    @abc.abstractmethod
    def update(self, total: PyTree, t: Array, row: PyTree) -> Any:
        """The total with one more row, that of time t."""

    @abc.abstractmethod
    def finish(self, total: PyTree) -> Any:
        """The result."""
