"""Files: tables of data, frames of atoms, fields, results in HDF5."""

from ..stores import Reader as Reader
from ._ase import from_ase as from_ase
from ._ase import to_ase as to_ase
from ._ase_calculator import ase_calculator as ase_calculator
from ._dosing import read_doses as read_doses
from ._extxyz import read_extxyz as read_extxyz
from ._extxyz import write_extxyz as write_extxyz
from ._fields import write_fields as write_fields
from ._frame_series import FrameSeries as FrameSeries  # internal
from ._h5md_read import read_h5md as read_h5md
from ._h5md_write import H5MDWriter as H5MDWriter
from ._mdanalysis import read_trajectory as read_trajectory
from ._mdanalysis import write_trajectory as write_trajectory
from ._provenance import Provenance as Provenance  # internal
from ._provenance import provenance as provenance
from ._results import Results as Results  # internal
from ._results import load as load
from ._results import load_provenance as load_provenance
from ._results import save as save
from ._table import read_table as read_table
from ._table import read_text as read_text  # internal
from ._tidy import Column as Column  # internal
from ._tidy import read_columns_of as read_columns_of  # internal
from ._vtkhdf import write_vtkhdf as write_vtkhdf
from ._xarray import to_xarray as to_xarray
