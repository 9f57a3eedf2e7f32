"""Errors of means of correlated series, by blocks."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ..._errors import ArgumentError

ENOUGH = 16
"""Smallest number of independent blocks for an estimate of their scatter."""


class BlockAverage(eqx.Module):
    """Result of `block_average`.

    `mean`; `error`, its standard error; `inefficiency`, how many numbers of the series are worth one independent number;
    `level`, at which
    blocks of 2^level numbers are independent; `converged`, whether there are at least 16 of them. `errors` and `uncertainties`
    are the standard error at each level with its own standard error, for a plot; `sizes` are the numbers in a block.
    """

    mean: Float[Array, ""]
    error: Float[Array, ""]
    inefficiency: Float[Array, ""]
    level: Int[Array, ""]
    converged: Bool[Array, ""]
    errors: Float[Array, " levels"]
    uncertainties: Float[Array, " levels"]
    sizes: tuple[int, ...] = eqx.field(static=True)

    def __repr__(self) -> str:
        warning = "" if bool(self.converged) else " (too short: the error is larger than this)"
        return (
            f"{float(self.mean):.8g} +- {float(self.error):.2g}{warning}, inefficiency {float(self.inefficiency):.3g}"
        )


def block_average(series: Float[Array, " n"]) -> BlockAverage:
    r"""The mean of a correlated series and its standard error, by the blocking method.

    Neighbours are averaged again and again; at level j there are $n_j = n / 2^j$ blocks with variance $\sigma_j^2$, and
    the standard error is

    $$\epsilon_j = \frac{\sigma_j}{\sqrt{n_j - 1}} \Big(1 \pm \frac{1}{\sqrt{2 (n_j - 1)}}\Big)$$

    It grows with j until the blocks are independent. The level is the first from which on the blocks show no correlation
    at the 99 % level of

    $$M_j = \sum_{k \ge j} n_k \frac{[(n_k - 1) \sigma_k^2 / n_k^2 + \gamma_k]^2}{\sigma_k^4}$$

    with the covariance of next neighbours $\gamma_k$, which for independent blocks is a chi-square number.

    **Arguments:** `series`, shape (n,), at least 8 numbers, in the order of time and in equilibrium. Numbers at its
    beginning that fill no block are left out.

    **Returns:** a `BlockAverage`. Where it did not converge the error is a guess, and most likely too small.

    **Raises:** an `ArgumentError` for another shape or too few numbers.

    **Source:** Flyvbjerg and Petersen (1989), J. Chem. Phys. 91:461, doi:10.1063/1.457480; the test: Jonsson (2018),
    Phys. Rev. E 98:043304, doi:10.1103/PhysRevE.98.043304.

    ```python
    import jax
    from simkit.md import block_average
    print(block_average(jax.random.normal(jax.random.key(0), (1024,))))
    ```
    """
    if series.ndim != 1 or series.shape[0] < 8:
        raise ArgumentError(
            f"Argument `series` must be at least 8 numbers in a row, but its shape is {series.shape}. Use `jax.vmap` for several."
        )
    return _blocked(series)


@jax.jit  # its small operations, each on another shape, would be compiled one by one
def _blocked(series: Array) -> BlockAverage:
    levels = int(math.log2(series.shape[0]))
    counts, variances, tests = [], [], []
    mean, x = jnp.mean(series), series
    for _ in range(levels):
        n = x.shape[0]
        away = x - jnp.mean(x)
        variance = jnp.mean(away**2)
        neighbours = jnp.sum(away[1:] * away[:-1]) / n
        ratio = jnp.where(variance > 0, neighbours / jnp.where(variance > 0, variance, 1.0), 0.0)
        counts.append(n)
        variances.append(variance)
        tests.append(n * ((n - 1) / n**2 + ratio) ** 2)
        x = x[n % 2 :]
        x = (x[0::2] + x[1::2]) / 2
    free = np.array(counts, float) - 1
    errors = jnp.sqrt(jnp.maximum(jnp.stack(variances), 0.0) / jnp.asarray(free, series.dtype))
    # From the last level backwards; a constant series has no correlation at all.
    total = jnp.cumsum(jnp.stack(tests)[::-1])[::-1]
    passed = (total < jnp.asarray(_chi_squared(np.arange(levels, 0, -1)), total.dtype)) | (variances[0] <= 0)
    level = jnp.where(jnp.any(passed), jnp.argmax(passed), levels - 1)
    # The last levels pass whatever the series is: a few blocks show no correlation.
    converged = (jnp.asarray(counts)[level] >= ENOUGH) | (variances[0] <= 0)
    error = errors[level]
    first = jnp.where(errors[0] > 0, errors[0], 1.0)
    return BlockAverage(
        mean,
        error,
        jnp.where(errors[0] > 0, (error / first) ** 2, 1.0),
        level,
        converged,
        errors,
        errors / jnp.asarray(np.sqrt(2 * free), series.dtype),
        tuple(2**j for j in range(levels)),
    )


def _chi_squared(freedom: np.ndarray) -> np.ndarray:
    """99 % of a chi-square number lies below: Wilson and Hilferty's approximation, within one percent."""
    part = 2 / (9 * freedom)
    return freedom * (1 - part + 2.3263478740408408 * np.sqrt(part)) ** 3
