"""Sensitivities of the averages of chaotic systems."""

from ._shadow import Shadowed as Shadowed  # internal
from ._shadow import shadow as shadow
