"""Noise models: distributions of a datum about the location that the model predicts.

`Normal` here is the scatter of a datum; a prior is a distribution of numpyro, such as `dist.Normal`.
"""

from ..problem import AbstractNoise as AbstractNoise
from ..problem import Autocorrelated as Autocorrelated
from ..problem import BetaBinomial as BetaBinomial
from ..problem import Binomial as Binomial
from ..problem import Categorical as Categorical
from ..problem import Combined as Combined
from ..problem import ContaminatedNormal as ContaminatedNormal
from ..problem import Correlated as Correlated
from ..problem import Information as Information
from ..problem import Laplace as Laplace
from ..problem import LogLaplace as LogLaplace
from ..problem import LogNormal as LogNormal
from ..problem import NegativeBinomial as NegativeBinomial
from ..problem import Normal as Normal
from ..problem import Ordered as Ordered
from ..problem import Poisson as Poisson
from ..problem import StudentT as StudentT
from ..problem import Truncated as Truncated
from ..problem import ZeroInflatedNegativeBinomial as ZeroInflatedNegativeBinomial
from ..problem import ZeroInflatedPoisson as ZeroInflatedPoisson
from ..problem import information_of as information_of
