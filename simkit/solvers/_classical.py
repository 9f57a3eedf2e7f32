"""The classical explicit methods: Euler, Heun and the Runge-Kutta method of order 4."""

from typing import Any, ClassVar

import diffrax
import jax
import numpy as np

from ..core import System, scaled
from ._explicit import AbstractExplicitRungeKutta
from ._stepper import Stepper, hermite, straight


class Euler(Stepper):
    """Euler's method, y1 = y0 + h f(t0, y0), of order 1; between steps a straight line, of the same order.

    For teaching and for comparisons; it has no error estimate, so `step` must be fixed.

    Hairer, Norsett and Wanner (1993), Solving Ordinary Differential Equations I, section I.7.
    """

    family: ClassVar[type[System]] = System
    adaptive: ClassVar[bool] = False
    stiff: ClassVar[bool] = False
    evaluations: ClassVar[int] = 1
    interpolation_cls: ClassVar[Any] = diffrax.LocalLinearInterpolation

    def order(self, terms: Any) -> int:
        return 1

    def init(self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any) -> None:
        return None

    def advance(self, terms: Any, t0: Any, t1: Any, h: Any, y0: Any, solver_state: Any, made_jump: Any):
        y1 = jax.tree.map(lambda y, k: y + scaled(h, k), y0, terms.vf(t0, y0, None))
        return y1, None, {"y0": y0, "y1": y1}, None, diffrax.RESULTS.successful

    def polynomial(self, dense: Any) -> tuple[Any, ...]:
        return straight(dense)


class Heun(AbstractExplicitRungeKutta):
    """Heun's method of order 2 (the explicit trapezoidal rule) with Euler's method embedded.

    Between steps the cubic Hermite polynomial through both ends with the slopes of the two stages; its error, of order h^3
    a step, keeps order 2. Good tolerances are 1e-2 to 1e-4.

    Hairer, Norsett and Wanner (1993), Solving Ordinary Differential Equations I, section II.1.
    """

    family: ClassVar[type[System]] = System
    adaptive: ClassVar[bool] = True
    stiff: ClassVar[bool] = False
    evaluations: ClassVar[int] = 2
    tableau: ClassVar[diffrax.ButcherTableau] = diffrax.Heun.tableau
    interpolation_cls: ClassVar[Any] = diffrax.ThirdOrderHermitePolynomialInterpolation.from_k

    def order(self, terms: Any) -> int:
        return 2

    def polynomial(self, dense: Any) -> tuple[Any, ...]:
        return _hermite(dense)


class RK4(AbstractExplicitRungeKutta):
    """The classical Runge-Kutta method of order 4.

    Between steps the cubic Hermite polynomial through both ends with the slopes of the first and the last stage; its error,
    of order h^4 a step, keeps order 4. It has no error estimate, so `step` must be fixed; a good first step is a fiftieth of
    the fastest period.

    Kutta (1901), Z. Math. Phys. 46:435; Hairer, Norsett and Wanner (1993), section II.1.
    """

    family: ClassVar[type[System]] = System
    adaptive: ClassVar[bool] = False
    stiff: ClassVar[bool] = False
    evaluations: ClassVar[int] = 4
    tableau: ClassVar[diffrax.ButcherTableau] = diffrax.ButcherTableau(
        c=np.array([1 / 2, 1 / 2, 1.0]),
        a_lower=(np.array([1 / 2]), np.array([0.0, 1 / 2]), np.array([0.0, 0.0, 1.0])),
        b_sol=np.array([1 / 6, 1 / 3, 1 / 3, 1 / 6]),
        b_error=np.zeros(4),
    )
    interpolation_cls: ClassVar[Any] = diffrax.ThirdOrderHermitePolynomialInterpolation.from_k

    def order(self, terms: Any) -> int:
        return 4

    def polynomial(self, dense: Any) -> tuple[Any, ...]:
        return _hermite(dense)


def _hermite(dense: Any) -> tuple[Any, ...]:
    """As Diffrax's interpolation `from_k`: with the slopes of the first and the last stage."""
    first, last = (jax.tree.map(lambda k, i=i: k[i], dense["k"]) for i in (0, -1))
    return hermite(dense["y0"], dense["y1"], first, last)
