"""How simulations run."""

from ._block import lanes_of as lanes_of
from ._checkpointed import Checkpointed as Checkpointed
from ._compilations import Compilations as Compilations
from ._compilations import count_compilations as count_compilations
from ._compilations import note_trace as note_trace
from ._ensemble import ensemble as ensemble
from ._ensemble import resolve_members as resolve_members
from ._grid import checkpointed_scan as checkpointed_scan
from ._grid import fixed_grid as fixed_grid
from ._integrate import Method as Method
from ._integrate import integrate as integrate
from ._integrate import integrate_to as integrate_to
from ._kept import greatest as greatest
from ._members import over_members as over_members
from ._paired import paired as paired
from ._room import joined as joined
from ._simulate import resolve as resolve
from ._simulate import simulate as simulate
from ._single import single_attempt as single_attempt
from ._step import Adaptive as Adaptive
from ._step import Courant as Courant
from ._step import Fixed as Fixed
from ._step import Varying as Varying
