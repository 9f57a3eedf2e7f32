"""Molecular dynamics: spaces, potentials, neighbours."""

from ._eam_files import EAMTables as EAMTables
from ._eam_files import read_finnis_sinclair as read_finnis_sinclair
from ._eam_files import read_funcfl as read_funcfl
from ._eam_files import read_setfl as read_setfl
from ._space import OpenSpace as OpenSpace
from ._space import Orthorhombic as Orthorhombic
from ._space import Space as Space
from ._space import Triclinic as Triclinic
from ._three_body_files import ThreeBodyTable as ThreeBodyTable
from ._three_body_files import read_stillinger_weber as read_stillinger_weber
from ._three_body_files import read_tersoff as read_tersoff
from ._unit_text import si_value as si_value
from ._units import METAL as METAL
from ._units import REAL as REAL
from ._units import REDUCED as REDUCED
from ._units import SI as SI
from ._units import UNIT_SYSTEMS as UNIT_SYSTEMS
from ._units import Units as Units
from ._units import convert as convert
from ._units import reduced as reduced
