"""The classical explicit methods: Euler, Heun and the Runge-Kutta method of order 4."""

from typing import Any, ClassVar

import jax
from jaxtyping import PyTree

from .._types import State, Time
from ..core import System, SystemTerm, scaled
from ._explicit import AbstractExplicitRungeKutta, Tableau
from ._registry import SOLVERS
from ._stepper import Step, Stepper, hermite, straight


@SOLVERS.named("euler")
class Euler(Stepper):
    """Euler's method, y1 = y0 + h f(t0, y0), of order 1; between steps a straight line, of the same order.

    For teaching and for comparisons; it has no error estimate, so `step` must be fixed.

    Hairer, Norsett and Wanner (1993), Solving Ordinary Differential Equations I, section I.7.
    """

    family: ClassVar[type[System]] = System
    adaptive: ClassVar[bool] = False
    stiff: ClassVar[bool] = False
    evaluations: ClassVar[int] = 1
    order: ClassVar[int] = 1

    def advance(self, term: SystemTerm, t0: Time, t1: Time, h: Time, y0: State, memory: PyTree) -> Step:
        y1 = jax.tree.map(lambda y, k: y + scaled(h, k), y0, term.vf(t0, y0))
        return Step(y1, None, {"y0": y0, "y1": y1}, None)

    def polynomial(self, dense: dict[str, Any]) -> tuple[State, ...]:
        return straight(dense)


@SOLVERS.named("heun")
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
    order: ClassVar[int] = 2
    tableau: ClassVar[Tableau] = Tableau(c=(1.0,), a=((1.0,),), b=(0.5, 0.5), error=(0.5, -0.5))

    def polynomial(self, dense: dict[str, Any]) -> tuple[State, ...]:
        return _hermite(dense)


@SOLVERS.named("rk4")
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
    order: ClassVar[int] = 4
    tableau: ClassVar[Tableau] = Tableau(
        c=(1 / 2, 1 / 2, 1.0), a=((1 / 2,), (0.0, 1 / 2), (0.0, 0.0, 1.0)), b=(1 / 6, 1 / 3, 1 / 3, 1 / 6)
    )

    def polynomial(self, dense: dict[str, Any]) -> tuple[State, ...]:
        return _hermite(dense)


def _hermite(dense: dict[str, Any]) -> tuple[State, ...]:
    """Interpolate with the slopes of the first and the last stage."""
    first, last = (jax.tree.map(lambda k, i=i: k[i], dense["k"]) for i in (0, -1))
    return hermite(dense["y0"], dense["y1"], first, last)
