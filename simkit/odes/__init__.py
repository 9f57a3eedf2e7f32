"""Ordinary and stochastic differential equation models, one file a model."""

from ._lotka_volterra import LotkaVolterra as LotkaVolterra
from ._lotka_volterra import Populations as Populations
