"""Bayesian inference: sampling, diagnostics, prediction and calibration."""

from ._calibrate import calibrate as calibrate
from ._calibration import Calibration as Calibration  # internal
from ._check import Check as Check  # internal
from ._check import check as check
from ._compare import Comparison as Comparison  # internal
from ._compare import compare as compare
from ._diagnostics import effective_sample_size as effective_sample_size  # internal
from ._diagnostics import split_r_hat as split_r_hat  # internal
from ._diagnostics import stuck_chains as stuck_chains  # internal
from ._ensemble_draws import members_as_draws as members_as_draws  # internal
from ._ensemble_sampler import EnsembleSampler as EnsembleSampler
from ._laplace import LaplaceApproximation as LaplaceApproximation
from ._laplace import Variational as Variational
from ._mclmc import LENGTHS as LENGTHS  # internal
from ._mclmc import MCLMC as MCLMC
from ._nested import NestedSampling as NestedSampling
from ._npde import PredictionErrors as PredictionErrors  # internal
from ._npde import npde as npde
from ._numpyro_model import numpyro_model as numpyro_model
from ._nuts import NUTS as NUTS
from ._parallel_tempering import ParallelTempering as ParallelTempering
from ._particle_gibbs import ParticleGibbs as ParticleGibbs
from ._particle_metropolis import ParticleMetropolis as ParticleMetropolis
from ._pathfinder import Pathfinder as Pathfinder
from ._posterior import Posterior as Posterior
from ._prediction import Prediction as Prediction  # internal
from ._prediction import predict as predict
from ._predictive_check import StratifiedPredictiveCheck as StratifiedPredictiveCheck  # internal
from ._predictive_check import VisualPredictiveCheck as VisualPredictiveCheck  # internal
from ._predictive_check import visual_predictive_check as visual_predictive_check
from ._replicates import central_parameters as central_parameters  # internal
from ._replicates import check_result as check_result  # internal
from ._replicates import typical_parameters as typical_parameters  # internal
from ._sample import CUTTABLE as CUTTABLE  # internal
from ._sample import FROM_PRIORS as FROM_PRIORS  # internal
from ._sample import LIKELIHOOD_FREE as LIKELIHOOD_FREE  # internal
from ._sample import sample as sample
from ._target import prior_draws as prior_draws
from ._tempered import TemperedSMC as TemperedSMC
from .likelihood_free import ABCSMC as ABCSMC
from .likelihood_free import LearnedLikelihood as LearnedLikelihood  # internal
from .likelihood_free import LearnedPosterior as LearnedPosterior  # internal
from .likelihood_free import NeuralLikelihood as NeuralLikelihood
from .likelihood_free import NeuralPosterior as NeuralPosterior
from .likelihood_free import SeriesSummary as SeriesSummary
from .likelihood_free import SplineFlow as SplineFlow
from .likelihood_free import learn_likelihood as learn_likelihood
from .likelihood_free import learn_posterior as learn_posterior
from .likelihood_free import learned_from as learned_from  # internal
from .likelihood_free import parts_of as parts_of  # internal
