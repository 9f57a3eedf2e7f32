"""Sweeps: ensembles on disk, points to run them at, and global sensitivity."""

from ._points import METHODS as METHODS  # internal
from ._points import grid as grid
from ._points import points as points
from ._result import Sweep as Sweep
from ._result import open as open
from ._rules import FunctionRule as FunctionRule
from ._rules import GridRule as GridRule
from ._rules import PointsRule as PointsRule
from ._rules import Rule as Rule
from ._rules import SobolDesignRule as SobolDesignRule
from ._sensitivity import DESIGNS as DESIGNS  # internal
from ._sensitivity import MorrisEffects as MorrisEffects  # internal
from ._sensitivity import SobolIndices as SobolIndices  # internal
from ._sensitivity import morris as morris
from ._sensitivity import morris_design as morris_design
from ._sensitivity import sobol_design as sobol_design
from ._sensitivity import sobol_indices as sobol_indices
from ._store import Store as Store  # internal
from ._store import open_store as open_store  # internal
from ._sweep import sweep as sweep
