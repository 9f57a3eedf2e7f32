"""Thermodynamic integration."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

from ..._errors import ArgumentError
from ...core import full_products, traced
from ..observables import block_average
from ._estimate import as_floats


class Integral(eqx.Module):
    r"""A free energy difference over $k_B T$ by thermodynamic integration.

    - `value`; `error`, its standard error by blocks; `converged`, whether every state has at least 16 independent blocks.
    - `quadrature`: how much less the trapezoidal rule gives, or more: where it is larger than the error, take more states.
    - `slopes`: the mean derivative of each state.
    """

    value: Float[Array, ""]
    error: Float[Array, ""]
    quadrature: Float[Array, ""]
    slopes: Float[Array, " states"]
    converged: Bool[Array, ""]

    def __repr__(self) -> str:
        if traced(self):
            return "Integral(traced)"
        short = "" if bool(self.converged) else " (too few independent samples: the error is larger than this)"
        return f"{float(self.value):.6g} +- {float(self.error):.2g}{short}, quadrature {float(self.quadrature):.2g}"


@full_products
def thermodynamic_integration(
    parameters: ArrayLike | Sequence[float],
    slopes: ArrayLike,
    *,
    weights: ArrayLike | Sequence[float] | None = None,
) -> Integral:
    r"""$\Delta f = \int \langle \partial u / \partial \lambda \rangle_\lambda\, d\lambda$ from the first state to the last.

    **Arguments:**

    - `parameters`: $\lambda$ of the states, increasing or decreasing, known when this is called.
    - `slopes`: the derivative of the reduced energy by $\lambda$ at every frame of each state.
    - `weights`: of a quadrature of one's own, such as that of Gauss; by default the states are joined by a cubic spline.

    **Returns:** an `Integral`.

    **Raises:** an `ArgumentError` for shapes that do not fit, and parameters in disorder.

    **Source:** Kirkwood (1935), Journal of Chemical Physics 3:300, doi:10.1063/1.1749657.

    ```python
    import jax.numpy as jnp
    import numpy as np
    from simkit import md
    grid = np.linspace(0.0, 1.0, 5)
    slopes = jnp.asarray(grid[:, None] ** 3 + np.zeros((5, 32)))
    print(md.thermodynamic_integration(grid, slopes))  # prints 0.25 +- 0, quadrature 0.016
    ```
    """
    slopes = as_floats("slopes", slopes)
    if traced(parameters):
        raise ArgumentError("Argument `parameters` must be known when the program is traced, but is traced.")
    grid = np.asarray(as_floats("parameters", parameters), float)
    if grid.ndim != 1 or len(grid) < 2 or slopes.ndim != 2 or slopes.shape[0] != len(grid) or slopes.shape[1] < 8:
        raise ArgumentError(
            "Arguments `parameters` and `slopes` must be of at least two states, with at least 8 frames each, but their shapes are "
            f"{grid.shape} and {slopes.shape}."
        )
    ahead = np.diff(grid)
    if not (np.all(ahead > 0) or np.all(ahead < 0)):
        raise ArgumentError(f"Argument `parameters` must increase or decrease throughout, but it is {grid.tolist()}.")
    trapezoid = 0.5 * (np.append(ahead, 0) + np.append(0, ahead))
    own = spline_weights(grid) if weights is None else np.asarray(weights, float)
    if own.shape != grid.shape:
        raise ArgumentError(f"Argument `weights` must be one number a state, but its shape is {own.shape}.")
    blocks = jax.vmap(block_average)(jax.lax.stop_gradient(slopes))
    by, plain = jnp.asarray(own, slopes.dtype), jnp.asarray(trapezoid, slopes.dtype)
    means = jnp.mean(slopes, axis=1)
    error = jnp.sqrt(jnp.sum((by * blocks.error) ** 2))
    return Integral(by @ means, error, jnp.abs((by - plain) @ means), means, jnp.all(blocks.converged))


def spline_weights(grid: np.ndarray) -> np.ndarray:
    """Weights of the integral over the interpolating cubic spline without knots next to the ends."""
    from scipy.interpolate import CubicSpline

    sign = 1.0 if grid[-1] > grid[0] else -1.0
    order = np.argsort(grid)
    spline = CubicSpline(grid[order], np.eye(len(grid)))
    weights = np.empty(len(grid))
    weights[order] = spline.integrate(grid[order[0]], grid[order[-1]])
    return sign * weights
