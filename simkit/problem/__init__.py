"""Inference problems: experiments, noise models, unknowns, and the Problem that compiles them to arrays."""

from ._closed import ClosedForm as ClosedForm
from ._experiment import Experiment as Experiment
from ._experiment import Observable as Observable
from ._free import PRIORS as PRIORS
from ._free import Free as Free
from ._free import prior_from_text as prior_from_text
from ._individual import Individual as Individual
from ._individual import Population as Population
from ._measurement import AbstractMeasurement as AbstractMeasurement
from ._noise import NOISES as NOISES
from ._noise import AbstractNoise as AbstractNoise
from ._noise import Laplace as Laplace
from ._noise import LogLaplace as LogLaplace
from ._noise import LogNormal as LogNormal
from ._noise import NegativeBinomial as NegativeBinomial
from ._noise import Normal as Normal
from ._noise import Poisson as Poisson
from ._noise import StudentT as StudentT
from ._observed import Observed as Observed
from ._observed import observed as observed
from ._problem import Heads as Heads
from ._problem import Problem as Problem
from ._protocol import AbstractProtocol as AbstractProtocol
