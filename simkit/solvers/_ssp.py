"""Methods that preserve what a forward Euler step preserves, for transport with shocks."""

from typing import Any, ClassVar

import numpy as np

from .._types import State
from ..core import System
from ._explicit import AbstractExplicitRungeKutta, Tableau, weighted_stages
from ._registry import SOLVERS

# b_j(theta) = sum_i WEIGHTS[i, j] theta^(i+1): of order 2 everywhere, and the step's own weights at its end.
WEIGHTS = np.array([[1.0, 0.0, 0.0], [-5 / 6, 1 / 6, 2 / 3]])


@SOLVERS.named("ssprk3")
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
    order: ClassVar[int] = 3
    tableau: ClassVar[Tableau] = Tableau(
        c=(1.0, 1 / 2),
        a=((1.0,), (1 / 4, 1 / 4)),
        b=(1 / 6, 1 / 6, 2 / 3),
        error=(1 / 6 - 0.29148541887840855, 1 / 6 - 0.29148541887840855, 2 / 3 - 0.4170291622431829),
    )

    def polynomial(self, dense: dict[str, Any]) -> tuple[State, ...]:
        return weighted_stages(dense, WEIGHTS)
