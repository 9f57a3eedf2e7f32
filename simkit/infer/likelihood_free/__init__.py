"""Inference without a likelihood: densities learned from simulations, and approximate Bayesian computation."""

from ._abc import ABCSMC as ABCSMC
from ._abc import sample_abc as sample_abc  # internal
from ._density import SplineFlow as SplineFlow
from ._neural_likelihood import LearnedLikelihood as LearnedLikelihood  # internal
from ._neural_likelihood import NeuralLikelihood as NeuralLikelihood
from ._neural_likelihood import learn_likelihood as learn_likelihood
from ._neural_likelihood import sample_likelihood as sample_likelihood  # internal
from ._neural_posterior import LearnedPosterior as LearnedPosterior  # internal
from ._neural_posterior import NeuralPosterior as NeuralPosterior
from ._neural_posterior import as_learned as as_learned  # internal
from ._neural_posterior import learn_posterior as learn_posterior
from ._neural_posterior import ranks_of as ranks_of  # internal
from ._neural_posterior import sample_learned as sample_learned  # internal
from ._series import SeriesSummary as SeriesSummary
from ._stored_parts import learned_from as learned_from  # internal
from ._stored_parts import parts_of as parts_of  # internal
