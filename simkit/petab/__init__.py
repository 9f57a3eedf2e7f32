"""PEtab problems and SBML models."""

from . import _packages as _packages  # isort: skip
from ._equations_sbml import equations_sbml as equations_sbml
from ._jumps import load_jumps as load_jumps
from ._load import PEtab as PEtab
from ._load import load as load
from ._load import read as read
from ._petab_export import write as write
from ._select import SelectedModel as SelectedModel
from ._select import Selection as Selection
from ._select import select as select
from ._source import python_source as python_source
