"""Files: tables of data, studies in TOML, results in HDF5."""

from ._atomic import write_text as write_text
from ._parts import SOLVERS as SOLVERS
from ._provenance import Provenance as Provenance
from ._provenance import provenance as provenance
from ._results import Results as Results
from ._results import load as load
from ._results import load_provenance as load_provenance
from ._results import save as save
from ._study import Study as Study
from ._study import load_study as load_study
from ._study import study_from_text as study_from_text
from ._table import read_table as read_table
from ._xarray import to_xarray as to_xarray
