"""Linear algebra in compiled programs, alone or in batches, by the structure of the matrix: no call waits for another one."""

from ._chosen import band_cost as band_cost  # internal
from ._chosen import band_order as band_order  # internal
from ._chosen import constrained_structure_of as constrained_structure_of
from ._chosen import half_width as half_width  # internal
from ._chosen import sparse_pattern as sparse_pattern  # internal
from ._chosen import structure_of as structure_of
from ._chosen import unmatched as unmatched
from ._compression import Compression as Compression  # internal
from ._decompositions import cholesky as cholesky
from ._decompositions import eigenvalues as eigenvalues
from ._decompositions import inverse as inverse
from ._decompositions import inverse_root as inverse_root
from ._decompositions import log_determinant as log_determinant
from ._decompositions import singular_values as singular_values
from ._decompositions import solve as solve
from ._decompositions import symmetric_root as symmetric_root
from ._decompositions import triangle as triangle
from ._dense import back_substitute as back_substitute
from ._dense import factorise as factorise
from ._dense import held_solver as held_solver
from ._dense import lu_factors as lu_factors
from ._dependence import jacobian_pattern as jacobian_pattern  # internal
from ._dependence import jacobian_places as jacobian_places  # internal
from ._elimination_order import dense_cost as dense_cost  # internal
from ._gmres import gmres as gmres
from ._on_numbers import evaluated as evaluated
from ._one_at_a_time import one_at_a_time as one_at_a_time
from ._pattern import AbstractPlaces as AbstractPlaces
from ._pattern import Pattern as Pattern
from ._preconditioners import BlockJacobi as BlockJacobi  # internal
from ._preconditioners import Unchanged as Unchanged  # internal
from ._programs import CALLS as CALLS
from ._programs import called_program as called_program
from ._programs import scan_counts as scan_counts
from ._shielded import calls_library as calls_library
from ._shielded import shielded as shielded
from ._structure import Structure as Structure
from ._threads import one_thread as one_thread
