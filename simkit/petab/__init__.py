"""PEtab problems and SBML models."""

from ._load import PEtab as PEtab
from ._load import load as load
from ._load import read as read
