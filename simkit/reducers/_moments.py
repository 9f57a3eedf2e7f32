"""Mean and variance over the save times."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from .._types import State
from ..core import System
from ._reducer import Observable, Reducer, observed


class Mean(Reducer):
    """The mean over the save times, every one counted alike; for a time average take equally spaced times.

    It is updated as m <- m + (x - m) / n, which does not grow with the number of rows and loses no digits to a large sum.

    **Arguments:** `observable(system, t, y)`, of which the mean is taken; the state where it is left out.

    **Gives:** what the observable gives.

    ```python
    import simkit
    system, y0, times, _ = simkit.odes.LotkaVolterra.example()
    print(simkit.simulate(system, y0, times, reduce={"mean": simkit.reducers.Mean()}).reduced["mean"].hare)  # prints 33.76
    ```
    """

    observable: Observable = None

    def row(self, system: System, t: Array, y: State) -> Any:
        return observed(self.observable, system, t, y)

    def start(self, t: Array, row: PyTree) -> Any:
        return jnp.zeros((), jnp.int32), jax.tree.map(jnp.zeros_like, row)

    def update(self, total: PyTree, t: Array, row: PyTree) -> Any:
        count = total[0] + 1
        return count, jax.tree.map(lambda mean, x: mean + (x - mean) / count.astype(x.dtype), total[1], row)

    def finish(self, total: PyTree) -> Any:
        return total[1]


class MeanAndVariance(eqx.Module):
    """Result of `Moments`: pytrees like a row, and the number of rows."""

    mean: Any
    variance: Any
    count: Array


class Moments(Reducer):
    """Mean and variance over the save times, var = (1/n) sum |x - mean|^2, by Welford's update.

    The sum of squares about the running mean loses no digits where the variance is small beside the mean, unlike the mean of the
    squares.

    **Arguments:** `observable(system, t, y)`; the state where it is left out.

    **Gives:** a `MeanAndVariance`. The variance is that of the rows themselves; times n / (n - 1) it estimates that of a
    population of which the rows are independent draws.

    **Source:** B. P. Welford, Technometrics 4 (1962) 419, doi:10.1080/00401706.1962.10490022.

    ```python
    import simkit
    system, y0, times, _ = simkit.odes.LotkaVolterra.example()
    hare = simkit.reducers.Moments(lambda system, t, y: y.hare)
    print(simkit.simulate(system, y0, times, reduce={"hare": hare}).reduced["hare"].mean)  # prints 33.76
    ```
    """

    observable: Observable = None

    def row(self, system: System, t: Array, y: State) -> Any:
        return observed(self.observable, system, t, y)

    def start(self, t: Array, row: PyTree) -> Any:
        squares = jax.tree.map(lambda x: jnp.zeros(x.shape, jnp.finfo(x.dtype).dtype), row)
        return jnp.zeros((), jnp.int32), jax.tree.map(jnp.zeros_like, row), squares

    def update(self, total: PyTree, t: Array, row: PyTree) -> Any:
        count, old, squares = total[0] + 1, *total[1:]
        mean = jax.tree.map(lambda mean, x: mean + (x - mean) / count.astype(x.dtype), old, row)
        product = lambda x, a, b: jnp.real((x - a) * jnp.conj(x - b))
        return count, mean, jax.tree.map(lambda s, x, a, b: s + product(x, a, b), squares, row, old, mean)

    def finish(self, total: PyTree) -> MeanAndVariance:
        count, mean, squares = total
        return MeanAndVariance(mean, jax.tree.map(lambda s: s / count.astype(s.dtype), squares), count)
