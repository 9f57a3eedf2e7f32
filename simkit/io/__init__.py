"""Files: tables of data, studies in TOML, results in HDF5."""

from ._ase import from_ase as from_ase
from ._ase import to_ase as to_ase
from ._ase_calculator import ase_calculator as ase_calculator
from ._extxyz import read_extxyz as read_extxyz
from ._extxyz import write_extxyz as write_extxyz
from ._fields import write_fields as write_fields
from ._h5md_read import H5MDTrajectory as H5MDTrajectory
from ._h5md_read import read_h5md as read_h5md
from ._h5md_write import H5MDWriter as H5MDWriter
from ._models import DYNAMICS as DYNAMICS
from ._models import MODELS as MODELS
from ._models import POTENTIAL_FILES as POTENTIAL_FILES
from ._models import POTENTIALS as POTENTIALS
from ._models import TRUNCATIONS as TRUNCATIONS
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
