"""Ends of an axis that waves leave and enter through."""

from typing import Any, ClassVar

from ...core import POSITIVE
from ..grids._boundary import Boundary
from ..grids._values import given


class Open(Boundary):
    """An end without a condition: outside is as it is in the last cell, so that what arrives leaves."""

    serves: ClassVar[tuple[str, ...]] = ("gas", "water")


class Stream(Boundary):
    """A gas of a given state outside: density, velocity (a number for all components, or shape `(dimensions,)`), pressure.

    Each may be a profile by the cells of the end, and may change with time: a function `(t, x)`, or an `InputValue`. Faster than
    sound it all comes in; slower, what leaves is taken into account by the solution of Riemann's problem.
    """

    serves: ClassVar[tuple[str, ...]] = ("gas",)
    density: Any = given(support=POSITIVE, doc="density outside")
    velocity: Any = given(doc="velocity outside")
    pressure: Any = given(support=POSITIVE, doc="pressure outside")


class Level(Boundary):
    """Water outside whose surface stands at a given height, such as that of a tide; it moves as the water in the last cell.

    The height is a number, a profile by the cells of the end, or with time a function `(t, x)` or an `InputValue`.
    """

    serves: ClassVar[tuple[str, ...]] = ("water",)
    surface: Any = given(unit="m", doc="height of the surface outside")
