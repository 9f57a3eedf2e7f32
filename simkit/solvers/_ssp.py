"""Methods that preserve what a forward Euler step preserves, for transport with shocks."""

from typing import Any, ClassVar

import diffrax
import jax
import numpy as np

from ..core import System
from ._explicit import AbstractExplicitRungeKutta, weighted_stages

# b_j(theta) = sum_i WEIGHTS[i, j] theta^(i+1): of order 2 everywhere, and the step's own weights at its end.
WEIGHTS = np.array([[1.0, 0.0, 0.0], [-5 / 6, 1 / 6, 2 / 3]])


class SSPInterpolation(diffrax.AbstractLocalInterpolation):
    """Dense output of `SSPRK3`."""

    t0: Any
    t1: Any
    y0: Any
    y1: Any
    k: Any

    def evaluate(self, t0: Any, t1: Any = None, left: bool = True) -> Any:
        if t1 is not None:
            return jax.tree.map(lambda a, b: a - b, self.evaluate(t1), self.evaluate(t0))
        theta = (t0 - self.t0) / (self.t1 - self.t0)
        first, second = weighted_stages({"k": self.k}, WEIGHTS)
        return jax.tree.map(lambda y, a, b: y + theta * (a + theta * b), self.y0, first, second)


class SSPRK3(AbstractExplicitRungeKutta):
    """The strong-stability-preserving Runge-Kutta method of order 3 with three stages.

    A step is a convex combination of forward Euler steps of its own length: what those preserve up to Courant number 1, such as
    positive densities or the total variation, it preserves, too. Between steps a polynomial of order 2. Its error estimate, by an
    embedded method of order 2, suits smooth solutions; with shocks step by `Courant`.

    Shu and Osher (1988), J. Comput. Phys. 77:439; the embedded method is that of Fekete, Conde and Shadid (2022),
    J. Comput. Appl. Math. 412:114325.
    """

    family: ClassVar[type[System]] = System
    adaptive: ClassVar[bool] = True
    stiff: ClassVar[bool] = False
    evaluations: ClassVar[int] = 3
    tableau: ClassVar[diffrax.ButcherTableau] = diffrax.ButcherTableau(
        c=np.array([1.0, 1 / 2]),
        a_lower=(np.array([1.0]), np.array([1 / 4, 1 / 4])),
        b_sol=np.array([1 / 6, 1 / 6, 2 / 3]),
        b_error=np.array([1 / 6 - 0.29148541887840855, 1 / 6 - 0.29148541887840855, 2 / 3 - 0.4170291622431829]),
    )
    interpolation_cls: ClassVar[Any] = SSPInterpolation

    def order(self, terms: Any) -> int:
        return 3

    def polynomial(self, dense: Any) -> tuple[Any, ...]:
        return weighted_stages(dense, WEIGHTS)
