"""Inference problems: experiments, noise models, unknowns, and the Problem that compiles them to arrays."""

from ._autocorrelated import Autocorrelated as Autocorrelated  # internal
from ._autocorrelated import AutocorrelatedData as AutocorrelatedData  # internal
from ._autocorrelated import Series as Series  # internal
from ._autocorrelated import series_information as series_information  # internal
from ._autocorrelated import series_of as series_of  # internal
from ._binomial import BetaBinomial as BetaBinomial  # internal
from ._binomial import Binomial as Binomial  # internal
from ._bisection import bisected as bisected  # internal
from ._categorical import Categorical as Categorical  # internal
from ._censored import Censored as Censored
from ._censored import Limits as Limits  # internal
from ._censored import coarse as coarse  # internal
from ._censored import steps_of as steps_of  # internal
from ._censored_rows import CensoredRows as CensoredRows
from ._censored_series import CensoredSeries as CensoredSeries
from ._closed_form import LOGARITHMIC as LOGARITHMIC  # internal
from ._closed_form import ClosedForm as ClosedForm
from ._closed_solution import remeasured as remeasured  # internal
from ._closed_solution import solved as solved  # internal
from ._contaminated import ContaminatedNormal as ContaminatedNormal  # internal
from ._correlated import Correlated as Correlated  # internal
from ._correlated import CorrelatedData as CorrelatedData  # internal
from ._correlated import correlated_groups as correlated_groups  # internal
from ._correlated import informed_rows as informed_rows  # internal
from ._dataset import Dataset as Dataset  # internal
from ._dataset import in_shape as in_shape  # internal
from ._dense import check_dense as check_dense  # internal
from ._dependence import GaussianCopula as GaussianCopula
from ._dependence import Joint as Joint  # internal
from ._dependence import normal_score as normal_score  # internal
from ._dependence import quantile as quantile  # internal
from ._describe import describe_step as describe_step  # internal
from ._describe import unknown_rows as unknown_rows  # internal
from ._doses import Dose as Dose
from ._doses import Doses as Doses
from ._dosing_table import DosingRows as DosingRows  # internal
from ._dosing_table import Subject as Subject
from ._dosing_table import check_header as check_header  # internal
from ._dosing_table import subjects_of as subjects_of  # internal
from ._expected_information import information_of as information_of  # internal
from ._experiment import Experiment as Experiment
from ._experiment import Observable as Observable  # internal
from ._field_prior import AbstractField as AbstractField  # internal
from ._field_prior import AbstractFieldPrior as AbstractFieldPrior  # internal
from ._field_prior import Matern as Matern  # internal
from ._fixed import check_fixed as check_fixed  # internal
from ._fixed import with_fixed as with_fixed  # internal
from ._forward import ForwardModel as ForwardModel  # internal
from ._forward import Heads as Heads  # internal
from ._free import PRIORS as PRIORS  # internal
from ._free import Free as Free
from ._free import prior_from_text as prior_from_text  # internal
from ._given_problem import check_gaussian as check_gaussian  # internal
from ._given_problem import check_independent as check_independent  # internal
from ._given_problem import check_problem as check_problem  # internal
from ._given_problem import check_sequential as check_sequential  # internal
from ._given_problem import with_fresh_key as with_fresh_key  # internal
from ._given_problem import with_likelihood as with_likelihood  # internal
from ._individual import Individual as Individual
from ._individual import Population as Population  # internal
from ._information import Information as Information  # internal
from ._information import weighted as weighted  # internal
from ._likelihood import AbstractLikelihood as AbstractLikelihood
from ._links import SCALES as SCALES  # internal
from ._links import from_scales as from_scales  # internal
from ._links import to_scales as to_scales  # internal
from ._measure import measured as measured  # internal
from ._measure import outputs_by_name as outputs_by_name  # internal
from ._measurement import AbstractMeasurement as AbstractMeasurement
from ._named_parts import defining_parts as defining_parts  # internal
from ._named_parts import named_parts as named_parts  # internal
from ._noise import NOISES as NOISES  # internal
from ._noise import AbstractNoise as AbstractNoise  # internal
from ._noise import Combined as Combined  # internal
from ._noise import Laplace as Laplace  # internal
from ._noise import LogLaplace as LogLaplace  # internal
from ._noise import LogNormal as LogNormal  # internal
from ._noise import NegativeBinomial as NegativeBinomial  # internal
from ._noise import Normal as Normal  # internal
from ._noise import Poisson as Poisson  # internal
from ._noise import StudentT as StudentT  # internal
from ._noise import multiplied as multiplied  # internal
from ._observed import Observed as Observed  # internal
from ._observed import observed as observed  # internal
from ._ordered import Ordered as Ordered  # internal
from ._prior import StoredPrior as StoredPrior  # internal
from ._prior import drawn as drawn  # internal
from ._problem import Problem as Problem
from ._protocol import AbstractProtocol as AbstractProtocol
from ._refresh import effective_shares as effective_shares  # internal
from ._refresh import errors_of_draws as errors_of_draws  # internal
from ._refresh import refresh as refresh
from ._refresh import without_limit as without_limit  # internal
from ._schedule import dose_event as dose_event
from ._simulator import from_simulator as from_simulator
from ._subpopulation import Subpopulation as Subpopulation
from ._successes import Successes as Successes
from ._total_variation import TotalVariation as TotalVariation  # internal
from ._truncated import Truncated as Truncated  # internal
from ._unknowns import Block as Block  # internal
from ._unknowns import Unknowns as Unknowns  # internal
from ._unknowns import size_of as size_of  # internal
from ._waves import resampled as resampled  # internal
from ._windows import windowed as windowed  # internal
from ._windows import with_gaps as with_gaps  # internal
from ._zero_inflated import ZeroInflatedNegativeBinomial as ZeroInflatedNegativeBinomial  # internal
from ._zero_inflated import ZeroInflatedPoisson as ZeroInflatedPoisson  # internal
