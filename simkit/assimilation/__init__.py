"""State assimilation: states of a running system from observations, by ensembles and by least squares over windows."""

from ._assimilate import assimilate as assimilate
from ._filters import ETKF as ETKF
from ._filters import LETKF as LETKF
from ._filters import AbstractEnsembleFilter as AbstractEnsembleFilter
from ._filters import Correction as Correction
from ._filters import EnKF as EnKF
from ._hybrid import Hybrid as Hybrid
from ._localisation import Localisation as Localisation
from ._observations import Observations as Observations
from ._observations import members_around as members_around
from ._result import Assimilation as Assimilation
from ._variational import FourDVar as FourDVar
