"""simkit: differentiable simulation, fitting and Bayesian inference on JAX."""

import importlib
from typing import TYPE_CHECKING, Any

from ._errors import ArgumentError as ArgumentError
from ._errors import DataError as DataError
from ._errors import ResultFileError as ResultFileError
from ._errors import SamplingError as SamplingError
from ._errors import SimkitError as SimkitError
from ._errors import SimulationError as SimulationError
from ._errors import StudyError as StudyError
from ._errors import UnknownNameError as UnknownNameError
from ._types import Scalar as Scalar
from ._types import Vector as Vector
from .core import POSITIVE as POSITIVE
from .core import REAL as REAL
from .core import UNIT_INTERVAL as UNIT_INTERVAL
from .core import AbstractSignal as AbstractSignal
from .core import Constant as Constant
from .core import Example as Example
from .core import Interpolated as Interpolated
from .core import Phase as Phase
from .core import PlainSystem as PlainSystem
from .core import Pulses as Pulses
from .core import SeparableSystem as SeparableSystem
from .core import SplitSystem as SplitSystem
from .core import StaticSystem as StaticSystem
from .core import Status as Status
from .core import Steps as Steps
from .core import StochasticSystem as StochasticSystem
from .core import Support as Support
from .core import System as System
from .core import Trajectory as Trajectory
from .core import cast as cast
from .core import enable_x64 as enable_x64
from .core import quantity as quantity
from .engine import Adaptive as Adaptive
from .engine import Fixed as Fixed
from .engine import simulate as simulate

if TYPE_CHECKING:
    from . import odes as odes
    from . import solvers as solvers

# Loaded on first use: numpyro, optax, matplotlib and h5py take longer to import than all the rest.
_LAZY = {
    "infer": "infer",
    "io": "io",
    "odes": "odes",
    "problem": "problem",
    "solvers": "solvers",
    "testing": "testing",
    "viz": "viz",
    "Experiment": "problem",
    "Free": "problem",
    "Laplace": "problem",
    "LogNormal": "problem",
    "NegativeBinomial": "problem",
    "Normal": "problem",
    "Poisson": "problem",
    "Problem": "problem",
    "StudentT": "problem",
}

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'simkit' has no attribute {name!r}")
    module = importlib.import_module(f".{_LAZY[name]}", __name__)
    value = module if _LAZY[name] == name else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
