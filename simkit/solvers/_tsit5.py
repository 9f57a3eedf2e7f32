"""Tsitouras' explicit method of order 5."""

from typing import Any, ClassVar

import diffrax
import numpy as np

from ..core import System
from ._explicit import AbstractExplicitRungeKutta, weighted_stages

# The interpolant's weights b_i(theta) = scale * left(theta) * right(theta) of the paper, coefficients by rising powers.
_FACTORS = (
    (-1.0530884977290216, (0, -1.3299890189751412, 1), (0.7139816917074209, -1.4364028541716351, 1)),
    (0.1017, (0, 0, 1), (1.2949852507374631, -2.1966568338249754, 1)),
    (2.490627285651252793, (0, 0, 1), (1.57803468208092486, -2.38535645472061657, 1)),
    (-16.54810288924490272, (0, 0, -1.21712927295533244, 1), (-0.61620406037800089, 1)),
    (47.37952196281928122, (0, 0, -1.203071208372362603, 1), (-0.658047292653547382, 1)),
    (-34.87065786149660974, (0, 0, -1.2, 1), (-2 / 3, 1)),
    (2.5, (0, 0, -1, 1), (-0.6, 1)),
)
WEIGHTS = np.stack([a * np.polynomial.polynomial.polymul(left, right)[1:] for a, left, right in _FACTORS], axis=1)


class Tsit5(AbstractExplicitRungeKutta):
    """Tsitouras' method of order 5 with an embedded method of order 4 and its own interpolant of order 4.

    The default for problems that are not stiff; good tolerances are 1e-3 to 1e-8.

    Tsitouras (2011), Computers & Mathematics with Applications 62:770, doi:10.1016/j.camwa.2011.06.002.
    """

    family: ClassVar[type[System]] = System
    adaptive: ClassVar[bool] = True
    stiff: ClassVar[bool] = False
    evaluations: ClassVar[int] = 6
    tableau: ClassVar[diffrax.ButcherTableau] = diffrax.Tsit5.tableau
    interpolation_cls: ClassVar[Any] = diffrax.Tsit5.interpolation_cls

    def order(self, terms: Any) -> int:
        return 5

    def polynomial(self, dense: Any) -> tuple[Any, ...]:
        return weighted_stages(dense, WEIGHTS)
