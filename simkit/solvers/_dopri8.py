"""Dormand and Prince's explicit method of order 8."""

from typing import Any, ClassVar

from .._types import State
from ..core import System
from ._explicit import AbstractExplicitRungeKutta, Tableau, weighted_stages
from ._of_diffrax import coefficients, dense_of_dopri8, lazily
from ._registry import SOLVERS


def _tableau() -> Tableau:
    found = coefficients("Dopri8")
    return Tableau(found.c, found.a_lower, found.b_sol, found.b_error)


@SOLVERS.named("dopri8")
class Dopri8(AbstractExplicitRungeKutta):
    """Dormand and Prince's method of order 8 with an embedded method of order 7.

    Between steps an interpolant whose measured order is 6: save times there carry larger errors than the ends of steps.

    For smooth problems that are not stiff at tight tolerances; good ones are 1e-8 to 1e-13 in float64. It takes thirteen
    evaluations a step, so at loose tolerances `Tsit5` is cheaper.

    Prince and Dormand (1981), J. Comput. Appl. Math. 7:67, doi:10.1016/0771-050X(81)90010-3.
    """

    family: ClassVar[type[System]] = System
    adaptive: ClassVar[bool] = True
    stiff: ClassVar[bool] = False
    evaluations: ClassVar[int] = 13
    order: ClassVar[int] = 8
    tableau = lazily(_tableau)
    dense = lazily(dense_of_dopri8)

    def polynomial(self, dense: dict[str, Any]) -> tuple[State, ...]:
        return weighted_stages(dense, self.dense)
