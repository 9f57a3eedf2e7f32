"""Simulations: one, many at once, and their compiled programs."""

from ._agreed import check_agreed as check_agreed  # internal
from ._agreed import check_one_process as check_one_process  # internal
from ._agreed import over_processes_of as over_processes_of  # internal
from ._awaited import awaited as awaited
from ._diagnose import finite_rows as finite_rows  # internal
from ._ensemble import ensemble as ensemble
from ._ensemble import resolve_members as resolve_members
from ._integrate import Method as Method
from ._integrate import integrate as integrate
from ._simulate import resolve as resolve
from ._simulate import simulate as simulate
from ._single import settled_method as settled_method
from ._single import single_attempt as single_attempt
from ._transition import transition as transition  # internal
from .adaptive._block import lanes_of as lanes_of
from .batching._members import over_members as over_members
from .batching._paired import paired as paired
from .batching._processes import over_processes as over_processes
from .stepping._checkpointed import Checkpointed as Checkpointed
from .stepping._fixed_grid import checkpointed_scan as checkpointed_scan
from .stepping._fixed_grid import fixed_grid as fixed_grid
from .stepping._on_disk import GradientChoice as GradientChoice  # internal
from .stepping._on_disk import OnDisk as OnDisk
from .stepping._reduce import first_totals as first_totals  # internal
from .stepping._reduce import next_totals as next_totals  # internal
from .stepping._room import joined as joined
from .stepping._room import with_room_for as with_room_for  # internal
from .task._arguments import check_events as check_events  # internal
from .task._arguments import check_reducers as check_reducers  # internal
from .task._arguments import check_times as check_times  # internal
from .task._bucket import PARTS as PARTS  # internal
from .task._bucket import bucket as bucket  # internal
from .task._compilations import Compilations as Compilations
from .task._compilations import count_compilations as count_compilations
from .task._compilations import note_trace as note_trace
from .task._scales import similar as similar
from .task._scales import sizes_of_start as sizes_of_start
from .task._scales import state_sizes as state_sizes
from .task._scales import unresolved as unresolved
from .task._step import Adaptive as Adaptive
from .task._step import Courant as Courant
from .task._step import Fixed as Fixed
from .task._step import Varying as Varying
from .task._task import Options as Options  # internal
