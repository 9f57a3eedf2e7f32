"""How simulations run."""

from ._grid import checkpointed_scan as checkpointed_scan
from ._grid import fixed_grid as fixed_grid
from ._members import over_members as over_members
from ._simulate import Gradient as Gradient
from ._simulate import Method as Method
from ._simulate import integrate as integrate
from ._simulate import resolve as resolve
from ._simulate import simulate as simulate
from ._step import Adaptive as Adaptive
from ._step import Fixed as Fixed
