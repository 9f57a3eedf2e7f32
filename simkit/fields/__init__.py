"""Priors of fields: what is known beforehand of an array of unknowns, such as an initial vorticity or a source."""

from ..problem import AbstractField as AbstractField
from ..problem import Matern as Matern
from ..problem import TotalVariation as TotalVariation
from ..problem import resampled as resampled
