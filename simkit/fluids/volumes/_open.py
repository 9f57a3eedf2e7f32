"""Ends of an axis that waves leave and enter through."""

from typing import ClassVar

from jaxtyping import Array

from ...core import POSITIVE, quantity
from ..grids._boundary import Boundary


class Open(Boundary):
    """An end without a condition: outside is as it is in the last cell, so that what arrives leaves."""

    serves: ClassVar[tuple[str, ...]] = ("gas", "water")


class Stream(Boundary):
    """A gas of a given state outside: density, velocity (a number for all components, or shape `(dimensions,)`), pressure.

    Faster than sound it all comes in; slower, what leaves is taken into account by the solution of Riemann's problem.
    """

    serves: ClassVar[tuple[str, ...]] = ("gas",)
    density: Array = quantity(support=POSITIVE, doc="density outside")
    velocity: Array = quantity(doc="velocity outside")
    pressure: Array = quantity(support=POSITIVE, doc="pressure outside")


class Level(Boundary):
    """Water outside whose surface stands at a given height, such as that of a tide; it moves as the water in the last cell."""

    serves: ClassVar[tuple[str, ...]] = ("water",)
    surface: Array = quantity(unit="m", doc="height of the surface outside")
