"""Fits: maximum posterior estimates from many starts, their uncertainty, profiles and identifiability."""

from ._design import Plan as Plan
from ._design import plan as plan
from ._fit import fit as fit
from ._gauss_newton import GaussNewton as GaussNewton
from ._marginal import Marginal as Marginal
from ._matching import gradient_matching as gradient_matching
from ._method import AbstractMethod as AbstractMethod
from ._model import local_model as local_model
from ._optax import LBFGS as LBFGS
from ._optax import Optimiser as Optimiser
from ._prediction_profile import PredictionProfile as PredictionProfile
from ._prediction_profile import profile_prediction as profile_prediction
from ._profile import Profiles as Profiles
from ._profile import profile as profile
from ._result import FitResult as FitResult
