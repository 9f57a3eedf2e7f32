"""Tsitouras' explicit method of order 5."""

from typing import Any, ClassVar

import numpy as np

from .._types import State
from ..core import System
from ._explicit import AbstractExplicitRungeKutta, Tableau, weighted_stages
from ._registry import SOLVERS

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

TABLEAU = Tableau(
    c=(0.161, 0.327, 0.9, 0.9800255409045097, 1.0, 1.0),
    a=(
        (0.161,),
        (-0.008480655492356989, 0.335480655492357),
        (2.8971530571054935, -6.359448489975075, 4.3622954328695815),
        (5.325864828439257, -11.748883564062828, 7.4955393428898365, -0.09249506636175525),
        (5.86145544294642, -12.92096931784711, 8.159367898576159, -0.071584973281401, -0.028269050394068383),
        (0.09646076681806523, 0.01, 0.4798896504144996, 1.379008574103742, -3.290069515436081, 2.324710524099774),
    ),
    b=(0.09646076681806523, 0.01, 0.4798896504144996, 1.379008574103742, -3.290069515436081, 2.324710524099774, 0.0),
    error=(
        *(0.0017800110522257773, 0.0008164344596567463, -0.007880878010261994, 0.1447110071732629),
        *(-0.5823571654525552, 0.45808210592918686, -0.015151515151515152),
    ),
)


@SOLVERS.named("tsit5")
class Tsit5(AbstractExplicitRungeKutta):
    """Tsitouras' method of order 5 with an embedded method of order 4 and its own interpolant of order 4.

    The default for problems that are not stiff; good tolerances are 1e-3 to 1e-8.

    Tsitouras (2011), Computers & Mathematics with Applications 62:770, doi:10.1016/j.camwa.2011.06.002.
    """

    family: ClassVar[type[System]] = System
    adaptive: ClassVar[bool] = True
    stiff: ClassVar[bool] = False
    evaluations: ClassVar[int] = 6
    order: ClassVar[int] = 5
    tableau: ClassVar[Tableau] = TABLEAU

    def polynomial(self, dense: dict[str, Any]) -> tuple[State, ...]:
        return weighted_stages(dense, WEIGHTS)
