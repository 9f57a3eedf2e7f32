"""Method of a fit where none is named."""

from ..core import SampledSystem, StaticSystem
from ..filters import ParticleFilter
from ..problem import Problem
from ._dependent_model import has_curvature
from ._gauss_newton import GaussNewton
from ._iterated_filtering import IteratedFiltering
from ._marginal import Marginal
from ._method import AbstractMethod
from ._optax import LBFGS
from ._swarm import AbstractSwarm

ROUND_STEPS = 20
"""Most steps between two rounds of draws: at the border of what the draws cover more of them lead nowhere."""


def default_method(problem: Problem) -> AbstractMethod | AbstractSwarm:
    """Return the default method: the marginal likelihood for a population, iterated filtering for particles.

    A regression's steps cost little, and narrow curved valleys, such as that of NIST's Bennett5, need thousands.
    """
    if problem.population is not None:
        return Marginal()
    if isinstance(problem.likelihood, ParticleFilter):
        return IteratedFiltering()
    if not has_curvature(problem):
        return LBFGS()
    if isinstance(problem.base.system, SampledSystem):
        return GaussNewton(max_steps=ROUND_STEPS)
    return GaussNewton(max_steps=5000) if isinstance(problem.base.system, StaticSystem) else GaussNewton()
