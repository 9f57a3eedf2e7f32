"""Fits: maximum posterior estimates from many starts, their uncertainty, profiles and identifiability."""

from ._best_design import Design as Design  # internal
from ._best_design import design as design
from ._design import Plan as Plan  # internal
from ._design import plan as plan
from ._ensemble_fit import EnsembleFit as EnsembleFit  # internal
from ._ensemble_inversion import EnsembleKalmanInversion as EnsembleKalmanInversion
from ._field_lbfgs import FieldLBFGS as FieldLBFGS
from ._field_method import AbstractFieldMethod as AbstractFieldMethod  # internal
from ._field_result import FieldFit as FieldFit  # internal
from ._fit import fit as fit
from ._fit_result import FitResult as FitResult
from ._gauss_newton import GaussNewton as GaussNewton
from ._gauss_newton_cg import GaussNewtonCG as GaussNewtonCG
from ._given_fit import check_fit as check_fit  # internal
from ._information_gain import Gain as Gain  # internal
from ._information_gain import expected_information as expected_information
from ._iterated_filtering import IteratedFiltering as IteratedFiltering
from ._local_model import local_model as local_model
from ._marginal import Marginal as Marginal
from ._matching import gradient_matching as gradient_matching
from ._method import FAILED as FAILED  # internal
from ._method import AbstractMethod as AbstractMethod  # internal
from ._optax import LBFGS as LBFGS
from ._optax import Optimiser as Optimiser
from ._optima import comparable as comparable  # internal
from ._optima import shares as shares  # internal
from ._optima_in_words import REMEDY as REMEDY  # internal
from ._optima_in_words import first_starts as first_starts  # internal
from ._optima_in_words import images_of as images_of  # internal
from ._optima_in_words import masses as masses  # internal
from ._optima_in_words import optima_rows as optima_rows  # internal
from ._optima_in_words import optima_texts as optima_texts  # internal
from ._prediction_profile import PredictionProfile as PredictionProfile  # internal
from ._prediction_profile import profile_prediction as profile_prediction
from ._prior_model import prior_model as prior_model  # internal
from ._prior_model import root_of_prior as root_of_prior  # internal
from ._profile import profile as profile
from ._profiles import Profiles as Profiles  # internal
from ._randomised import randomised_draws as randomised_draws
from ._residuals import Finding as Finding  # internal
from ._residuals import Series as Series  # internal
from ._residuals import cross_findings as cross_findings  # internal
from ._residuals import known_scatter as known_scatter  # internal
from ._residuals import largest_finding as largest_finding  # internal
from ._residuals import place_names as place_names  # internal
from ._residuals import quantile_residuals as quantile_residuals  # internal
from ._residuals import scatter_finding as scatter_finding  # internal
from ._residuals import sentences_of as sentences_of  # internal
from ._residuals import serial_findings as serial_findings  # internal
from ._residuals import series_of as series_of  # internal
from ._residuals import shown as shown  # internal
from ._saem import SAEM as SAEM
from ._sampled import covering as covering  # internal
from ._sampled import uncovered as uncovered  # internal
from ._sparse import Sparse as Sparse
from ._sparse_result import SparseFit as SparseFit  # internal
from ._starts import some_start as some_start  # internal
from ._stored import kept_work as kept_work  # internal
