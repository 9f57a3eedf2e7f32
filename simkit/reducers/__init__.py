"""Reducers: what becomes of the rows of a simulation while it runs, so that they need not be stored."""

from ._extremes import Extremes as Extremes
from ._extremes import ExtremeValues as ExtremeValues  # internal
from ._histogram import Histogram as Histogram
from ._integral import Integral as Integral
from ._moments import Mean as Mean
from ._moments import MeanAndVariance as MeanAndVariance  # internal
from ._moments import Moments as Moments
from ._reducer import Observable as Observable  # internal
from ._reducer import Reducer as Reducer
