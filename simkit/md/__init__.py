"""Molecular dynamics: spaces, potentials, neighbours."""

from ._space import OpenSpace as OpenSpace
from ._space import Orthorhombic as Orthorhombic
from ._space import Space as Space
from ._space import Triclinic as Triclinic
