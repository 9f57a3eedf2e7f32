"""Reaction networks: their formulas as data, rates and Jacobians evaluated by shape, and files of BioNetGen."""

from ._equation_source import equations_source as equations_source
from ._equation_source import set_inputs as set_inputs  # internal
from ._equation_source import start_numbers as start_numbers  # internal
from ._equation_system import EquationSystem as EquationSystem
from ._equation_system import from_equations as from_equations
from ._equations import TAKEN as TAKEN  # internal
from ._expression import LEAVES as LEAVES  # internal
from ._expression import RELATIONS as RELATIONS  # internal
from ._expression import TIME as TIME  # internal
from ._expression import Formulas as Formulas  # internal
from ._expression import Graph as Graph  # internal
from ._expression import Node as Node  # internal
from ._expression import reached as reached  # internal
from ._fmu import write_fmu as write_fmu
from ._fmu_read import read_fmu as read_fmu
from ._fmu_system import FMUSystem as FMUSystem
from ._fmu_system import StaticFMU as StaticFMU
from ._formula_text import Reader as Reader  # internal
from ._infix import Printer as Printer  # internal
from ._infix import identifier as identifier  # internal
from ._infix import shared as shared  # internal
from ._infix import time_as as time_as  # internal
from ._large import LargeSystem as LargeSystem  # internal
from ._large import Rates as Rates  # internal
from ._load import load as load
from ._spelled import Spelled as Spelled  # internal
from ._spelled import equations_html as equations_html  # internal
from ._values import numbers_of as numbers_of  # internal
from ._walk import Walk as Walk  # internal
from ._walk import walked as walked  # internal
from ._written_event import WrittenEvent as WrittenEvent  # internal
from ._written_event import root_text as root_text  # internal
