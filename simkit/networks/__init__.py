"""Reaction networks: their formulas as data, rates and Jacobians evaluated by shape, and files of BioNetGen."""

from ._expression import LEAVES as LEAVES  # internal
from ._expression import RELATIONS as RELATIONS  # internal
from ._expression import TIME as TIME  # internal
from ._expression import Formulas as Formulas  # internal
from ._expression import Graph as Graph  # internal
from ._expression import Node as Node  # internal
from ._expression import reached as reached  # internal
from ._formula_text import Reader as Reader  # internal
from ._large import LargeSystem as LargeSystem  # internal
from ._large import Rates as Rates  # internal
from ._load import load as load
from ._values import numbers_of as numbers_of  # internal
from ._walk import Walk as Walk  # internal
from ._walk import walked as walked  # internal
