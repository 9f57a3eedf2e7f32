"""Tsitouras' explicit method of order 5."""

from typing import Any, ClassVar

import diffrax

from ..core import System
from ._explicit import AbstractExplicitRungeKutta


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
