"""PEtab problems and SBML models."""

from ._export import write as write
from ._load import PEtab as PEtab
from ._load import load as load
from ._load import read as read
from ._source import python_source as python_source
