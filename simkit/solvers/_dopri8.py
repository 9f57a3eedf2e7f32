"""Dormand and Prince's explicit method of order 8."""

from typing import Any, ClassVar

import diffrax
import numpy as np

from ..core import System
from ._explicit import AbstractExplicitRungeKutta, weighted_stages

# Of the interpolant, by rising powers of theta; Diffrax has them by falling powers.
WEIGHTS = np.asarray(getattr(diffrax.Dopri8.interpolation_cls, "eval_coeffs")).T[::-1]  # noqa: B009


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
    tableau: ClassVar[diffrax.ButcherTableau] = diffrax.Dopri8.tableau
    interpolation_cls: ClassVar[Any] = diffrax.Dopri8.interpolation_cls

    def order(self, terms: Any) -> int:
        return 8

    def polynomial(self, dense: Any) -> tuple[Any, ...]:
        return weighted_stages(dense, WEIGHTS)
