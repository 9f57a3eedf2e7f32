"""Simulations and problems as Tesseracts: components with one interface of values and derivatives, whatever computes them."""

from ._component import Component as Component
from ._component import from_problem as from_problem
from ._component import from_system as from_system
from ._endpoints import Endpoints as Endpoints
from ._endpoints import endpoints as endpoints
from ._study import from_study as from_study
from ._study import study_files as study_files
