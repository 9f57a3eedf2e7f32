"""Files: tables of data, studies in TOML, results in HDF5."""

from ._parts import SOLVERS as SOLVERS
from ._study import Study as Study
from ._study import load_study as load_study
from ._study import study_from_text as study_from_text
from ._table import read_table as read_table
