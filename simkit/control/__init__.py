"""Control: environments for reinforcement learning, regulators, and model predictive control."""

from ._environment import Environment as Environment
from ._gymnasium import to_gymnasium as to_gymnasium
from ._ilqr import ILQR as ILQR
from ._lqr import linearise as linearise
from ._lqr import lqr as lqr
