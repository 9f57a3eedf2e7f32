"""4D-Var: the start of each window that fits its observations best, by Gauss and Newton's method."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._doors import check_count
from .._errors import ArgumentError
from ..core import traced
from ..linear import inverse, symmetric_root
from ._observations import as_covariance, as_root


class FourDVar(eqx.Module):
    r"""4D-Var in windows, with a strong or a weak constraint: the start of a window that makes

    $$J(x_0) = \tfrac12 (x_0 - x_b)^T B^{-1} (x_0 - x_b) + \tfrac12 \sum_k (y_k - H x(t_k))^T R^{-1} (y_k - H x(t_k))$$

    least. $x_b$ is the forecast from the window before, B the covariance of its error, which stays the same. Gauss and Newton's
    method solves for the increment in the variable $B^{-1/2} (x_0 - x_b)$, with the exact tangent linear of forecast and
    observations by columns. With linear dynamics one iteration is exact, and the end of the window is that of Kalman's filter.

    With `model_error` the constraint is weak: the state at each observation time is the forecast from the one before and an error
    $\eta_k$ of covariance Q, all of which are found with the start, for $\tfrac12 \sum_k \eta_k^T Q^{-1} \eta_k$ more in J. With
    linear dynamics the states of a window are then those of Kalman's smoother of its observations.

    **Arguments:**

    - `covariance`: B, a matrix over the numbers of the flat state, such as a share of the covariance of a long free run.
    - `root`: instead of B a matrix L of shape (n, k) with $B = L L^T$, of a start $x_b + L \xi$ with k unknowns $\xi$: few ways in
        which the background errs, such as `fluids.IsotropicCovariance(...).root()`. B then needs no inverse.
    - `window`: number of observation times in a window.
    - `shift`: by how many observation times a window lies after the one before; by default `window`. Each observation is used
        once: of a window that overlaps the one before, the last `shift` times.
    - `iterations`: of Gauss-Newton in each window.
    - `model_error`: Q, a matrix as `covariance`, of the error that a forecast from one observation time to the next makes; None
        for a model without error.

    **Good values:** Lorenz-96 observed every 0.2 units: window 1 with 0.02 of the climate's covariance, windows of 2 and 4 that
    move by 1 with 0.005 and 0.002. The cost grows as the square of the number of states n, and memory too: n up to some
    thousands. With `root` n is k; with `model_error` n is the number of states times one more than the window.

    **Reference:** Le Dimet and Talagrand (1986), Tellus A 38:97, doi:10.3402/tellusa.v38i2.11706; Courtier, Thepaut and
    Hollingsworth (1994), Q. J. R. Meteorol. Soc. 120:1367, doi:10.1002/qj.49712051912; Bocquet and Sakov (2013), Nonlin.
    Processes Geophys. 20:803, doi:10.5194/npg-20-803-2013.
    Tremolet (2006), Q. J. R. Meteorol. Soc. 132:2483, doi:10.1256/qj.05.224, for the weak constraint.
    """

    covariance: Float[Array, "n n"] | None
    root: Float[Array, "n k"] | None
    window: int = eqx.field(static=True)
    shift: int = eqx.field(static=True)
    iterations: int = eqx.field(static=True)
    model_error: Float[Array, "n n"] | None

    def __init__(
        self,
        covariance: Any = None,
        *,
        root: Any = None,
        window: int = 1,
        shift: int | None = None,
        iterations: int = 10,
        model_error: Any = None,
    ):
        if (covariance is None) == (root is None):
            raise ArgumentError("Give either `covariance`, that of the background's errors, or `root`, a root of it.")
        known = covariance if root is None else root
        size = jnp.shape(known)[0] if jnp.ndim(known) else 0
        self.covariance = None if covariance is None else as_covariance(covariance, size)
        self.root = None if root is None else as_root(root)
        self.model_error = None if model_error is None else as_covariance(model_error, size, "model_error")
        for name, value in (
            ("window", window),
            ("shift", window if shift is None else shift),
            ("iterations", iterations),
        ):
            check_count(name, value)
        self.window, self.shift, self.iterations = int(window), int(window if shift is None else shift), int(iterations)
        if self.shift > self.window:
            raise ArgumentError(
                f"Argument `shift` must be at most the window of {self.window} times, but it is {self.shift}: observations between "
                "windows would lie in none."
            )

    def check(self, size: int, times: int) -> None:
        """Refuse a state of another size, and observations outside of the windows.

        **Raises:** an `ArgumentError`.
        """
        known = self.covariance if self.root is None else self.root
        assert known is not None
        if known.shape[0] != size:
            raise ArgumentError(
                f"The covariance of `FourDVar` is one of {known.shape[0]} numbers, but the state has {size}."
            )
        left = (times - self.window) % self.shift if times >= self.window else times
        if left and not traced(times):
            raise ArgumentError(
                f"Windows of {self.window} times that move by {self.shift} do not cover {times} observation times: the "
                f"last {left} lie outside. Leave these out, or take another `window` or `shift`."
            )

    def roots(self, dtype: Any) -> tuple[Float[Array, "n k"], Float[Array, "n n"] | None]:
        """Roots of the covariances of the background and of the model's error, symmetric where the covariances were given."""
        error = None if self.model_error is None else symmetric_root(self.model_error.astype(dtype))
        if self.root is not None:
            return self.root.astype(dtype), error
        assert self.covariance is not None
        return symmetric_root(self.covariance.astype(dtype)), error

    def minimised(
        self, residuals: Any, size: int, dtype: Any
    ) -> tuple[Float[Array, " n"], Float[Array, "n n"], Float[Array, ""]]:
        """Minimise; return the control, its covariance by the last linearisation, and the observations' share of chi-square.

        `residuals` are those of observations, whitened, as a function of the control. The share of chi-square is that of the
        first linearisation, at the background.
        """
        unit = jnp.eye(size, dtype=dtype)
        slope = jax.jacfwd(residuals)

        def iteration(state: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], Array]:
            control = state[0]
            rest, jacobian = residuals(control), slope(control)
            covariance = inverse(unit + jacobian.T @ jacobian)
            step = covariance @ (jacobian.T @ rest + control)
            pulled = jacobian.T @ rest
            return (control - step, covariance), rest @ rest - pulled @ covariance @ pulled

        (control, covariance), chi = jax.lax.scan(
            iteration, (jnp.zeros((size,), dtype), unit), None, length=self.iterations
        )
        return control, covariance, chi[0]
