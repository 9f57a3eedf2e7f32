"""Averages over runs, and derivatives of them that say how they were taken and whether to trust them."""

from ._average import EnsembleAverage as EnsembleAverage
from ._average import Trust as Trust
from ._average import sensitivity as sensitivity
from ._average_method import AverageMethod as AverageMethod
from ._front import choose_method as choose_method
from ._front import ensemble_average as ensemble_average
from ._likelihood_ratio import LikelihoodRatio as LikelihoodRatio
from ._lyapunov import LyapunovExponent as LyapunovExponent
from ._lyapunov import lyapunov_exponent as lyapunov_exponent
from ._moves import MonteCarloMove as MonteCarloMove
from ._moves import SwapMoves as SwapMoves
from ._moves import VolumeMoves as VolumeMoves
from ._reweighting import ReweightedEnsemble as ReweightedEnsemble
from ._reweighting import Reweighting as Reweighting
from ._reweighting import sample_ensemble as sample_ensemble
from ._through_trajectory import TrajectoryGradient as TrajectoryGradient
