"""simkit: differentiable simulation, fitting and Bayesian inference on JAX."""

import importlib
from typing import TYPE_CHECKING, Any

from ._errors import ArgumentError as ArgumentError
from ._errors import DataError as DataError
from ._errors import MissingPackageError as MissingPackageError
from ._errors import MissingRoomError as _MissingRoomError
from ._errors import PluginError as PluginError
from ._errors import ResultFileError as ResultFileError
from ._errors import SamplingError as SamplingError
from ._errors import SimkitError as SimkitError
from ._errors import SimulationError as SimulationError
from ._errors import StandstillError as StandstillError
from ._errors import StoreError as StoreError
from ._errors import StudyError as StudyError
from ._errors import TimeUpError as TimeUpError
from ._errors import UnknownNameError as UnknownNameError

if TYPE_CHECKING:
    from . import assimilation as assimilation
    from . import control as control
    from . import fields as fields
    from . import filters as filters
    from . import fitting as fitting
    from . import fluids as fluids
    from . import inspect as inspect
    from . import io as io
    from . import md as md
    from . import networks as networks
    from . import noise as noise
    from . import odes as odes
    from . import petab as petab
    from . import problem as problem
    from . import recordings as recordings
    from . import reducers as reducers
    from . import report as report
    from . import solvers as solvers
    from . import study as study
    from . import sweeps as sweeps
    from . import tesseract as tesseract
    from . import testing as testing
    from . import training as training
    from . import viz as viz
    from ._types import Scalar as Scalar
    from ._types import Vector as Vector
    from .assimilation import assimilate as assimilate
    from .core import POSITIVE as POSITIVE
    from .core import REAL as REAL
    from .core import UNIT_INTERVAL as UNIT_INTERVAL
    from .core import AbstractSignal as AbstractSignal
    from .core import ChemicalLangevin as ChemicalLangevin
    from .core import Constant as Constant
    from .core import ConstrainedSystem as ConstrainedSystem
    from .core import Coupled as Coupled
    from .core import DelayedSystem as DelayedSystem
    from .core import DiscreteSystem as DiscreteSystem
    from .core import Event as Event
    from .core import Example as Example
    from .core import Input as Input
    from .core import Interpolated as Interpolated
    from .core import JumpSystem as JumpSystem
    from .core import Patches as Patches
    from .core import PiecewiseConstant as PiecewiseConstant
    from .core import PlainSystem as PlainSystem
    from .core import Pulses as Pulses
    from .core import SampledSystem as SampledSystem
    from .core import SeparableSystem as SeparableSystem
    from .core import SplitSystem as SplitSystem
    from .core import Start as Start
    from .core import StaticSystem as StaticSystem
    from .core import Status as Status
    from .core import StiffTransportSystem as StiffTransportSystem
    from .core import StochasticSystem as StochasticSystem
    from .core import Support as Support
    from .core import System as System
    from .core import Trajectory as Trajectory
    from .core import TransportSystem as TransportSystem
    from .core import cast as cast
    from .core import enable_cache as enable_cache
    from .core import enable_processor as enable_processor
    from .core import enable_x64 as enable_x64
    from .core import quantity as quantity
    from .engine import Adaptive as Adaptive
    from .engine import Checkpointed as Checkpointed
    from .engine import Courant as Courant
    from .engine import Fixed as Fixed
    from .engine import OnDisk as OnDisk
    from .engine import count_compilations as count_compilations
    from .engine import ensemble as ensemble
    from .engine import simulate as simulate
    from .fitting import LBFGS as LBFGS
    from .fitting import SAEM as SAEM
    from .fitting import EnsembleKalmanInversion as EnsembleKalmanInversion
    from .fitting import FieldLBFGS as FieldLBFGS
    from .fitting import FitResult as FitResult
    from .fitting import GaussNewton as GaussNewton
    from .fitting import GaussNewtonCG as GaussNewtonCG
    from .fitting import IteratedFiltering as IteratedFiltering
    from .fitting import Marginal as Marginal
    from .fitting import Optimiser as Optimiser
    from .fitting import Sparse as Sparse
    from .fitting import design as design
    from .fitting import expected_information as expected_information
    from .fitting import fit as fit
    from .fitting import gradient_matching as gradient_matching
    from .fitting import plan as plan
    from .fitting import profile as profile
    from .fitting import profile_prediction as profile_prediction
    from .fitting import randomised_draws as randomised_draws
    from .infer import ABCSMC as ABCSMC
    from .infer import MCLMC as MCLMC
    from .infer import NUTS as NUTS
    from .infer import EnsembleSampler as EnsembleSampler
    from .infer import LaplaceApproximation as LaplaceApproximation
    from .infer import NestedSampling as NestedSampling
    from .infer import NeuralLikelihood as NeuralLikelihood
    from .infer import NeuralPosterior as NeuralPosterior
    from .infer import ParallelTempering as ParallelTempering
    from .infer import ParticleGibbs as ParticleGibbs
    from .infer import ParticleMetropolis as ParticleMetropolis
    from .infer import Pathfinder as Pathfinder
    from .infer import Posterior as Posterior
    from .infer import SeriesSummary as SeriesSummary
    from .infer import SplineFlow as SplineFlow
    from .infer import TemperedSMC as TemperedSMC
    from .infer import Variational as Variational
    from .infer import calibrate as calibrate
    from .infer import check as check
    from .infer import compare as compare
    from .infer import learn_likelihood as learn_likelihood
    from .infer import learn_posterior as learn_posterior
    from .infer import npde as npde
    from .infer import numpyro_model as numpyro_model
    from .infer import predict as predict
    from .infer import prior_draws as prior_draws
    from .infer import sample as sample
    from .infer import visual_predictive_check as visual_predictive_check
    from .inspect import explain as explain
    from .io import load as load
    from .io import save as save
    from .networks import from_equations as from_equations
    from .odes import from_function as from_function
    from .odes import from_response as from_response
    from .problem import Censored as Censored
    from .problem import Experiment as Experiment
    from .problem import Free as Free
    from .problem import GaussianCopula as GaussianCopula
    from .problem import Individual as Individual
    from .problem import Problem as Problem
    from .problem import Successes as Successes
    from .problem import from_simulator as from_simulator
    from .problem import refresh as refresh
    from .recordings import record as record
    from .shadowing import shadow as shadow
    from .study import Study as Study
    from .study import load_study as load_study
    from .sweeps import Sweep as Sweep
    from .sweeps import sweep as sweep
    from .training import train as train

# Loaded on first use: a command line's help must not wait for JAX, nor a simulation for numpyro, optax, matplotlib and h5py.
_LAZY = {
    "Scalar": "_types",
    "Vector": "_types",
    "POSITIVE": "core",
    "REAL": "core",
    "UNIT_INTERVAL": "core",
    "AbstractSignal": "core",
    "ChemicalLangevin": "core",
    "Constant": "core",
    "ConstrainedSystem": "core",
    "Coupled": "core",
    "DelayedSystem": "core",
    "Event": "core",
    "Example": "core",
    "Input": "core",
    "Interpolated": "core",
    "DiscreteSystem": "core",
    "JumpSystem": "core",
    "Patches": "core",
    "PlainSystem": "core",
    "Pulses": "core",
    "SeparableSystem": "core",
    "SplitSystem": "core",
    "Start": "core",
    "SampledSystem": "core",
    "StaticSystem": "core",
    "Status": "core",
    "PiecewiseConstant": "core",
    "StochasticSystem": "core",
    "Support": "core",
    "System": "core",
    "Trajectory": "core",
    "StiffTransportSystem": "core",
    "TransportSystem": "core",
    "cast": "core",
    "enable_cache": "core",
    "enable_processor": "core",
    "enable_x64": "core",
    "quantity": "core",
    "Adaptive": "engine",
    "Checkpointed": "engine",
    "OnDisk": "engine",
    "Fixed": "engine",
    "Courant": "engine",
    "count_compilations": "engine",
    "ensemble": "engine",
    "simulate": "engine",
    "assimilate": "assimilation",
    "assimilation": "assimilation",
    "control": "control",
    "fields": "fields",
    "filters": "filters",
    "fitting": "fitting",
    "fluids": "fluids",
    "inspect": "inspect",
    "io": "io",
    "md": "md",
    "networks": "networks",
    "noise": "noise",
    "odes": "odes",
    "petab": "petab",
    "problem": "problem",
    "solvers": "solvers",
    "study": "study",
    "sweeps": "sweeps",
    "training": "training",
    "recordings": "recordings",
    "reducers": "reducers",
    "report": "report",
    "tesseract": "tesseract",
    "testing": "testing",
    "viz": "viz",
    "EnsembleKalmanInversion": "fitting",
    "FitResult": "fitting",
    "GaussNewton": "fitting",
    "FieldLBFGS": "fitting",
    "GaussNewtonCG": "fitting",
    "IteratedFiltering": "fitting",
    "Marginal": "fitting",
    "SAEM": "fitting",
    "Sparse": "fitting",
    "LBFGS": "fitting",
    "Optimiser": "fitting",
    "design": "fitting",
    "expected_information": "fitting",
    "plan": "fitting",
    "profile_prediction": "fitting",
    "fit": "fitting",
    "gradient_matching": "fitting",
    "profile": "fitting",
    "ABCSMC": "infer",
    "NeuralLikelihood": "infer",
    "NeuralPosterior": "infer",
    "SeriesSummary": "infer",
    "SplineFlow": "infer",
    "learn_likelihood": "infer",
    "learn_posterior": "infer",
    "EnsembleSampler": "infer",
    "LaplaceApproximation": "infer",
    "MCLMC": "infer",
    "NUTS": "infer",
    "NestedSampling": "infer",
    "ParallelTempering": "infer",
    "ParticleGibbs": "infer",
    "ParticleMetropolis": "infer",
    "Pathfinder": "infer",
    "Posterior": "infer",
    "TemperedSMC": "infer",
    "check": "infer",
    "compare": "infer",
    "Variational": "infer",
    "calibrate": "infer",
    "npde": "infer",
    "numpyro_model": "infer",
    "predict": "infer",
    "prior_draws": "infer",
    "randomised_draws": "fitting",
    "sample": "infer",
    "visual_predictive_check": "infer",
    "explain": "inspect",
    "Study": "study",
    "load": "io",
    "load_study": "study",
    "save": "io",
    "from_equations": "networks",
    "from_function": "odes",
    "from_response": "odes",
    "Censored": "problem",
    "Experiment": "problem",
    "Free": "problem",
    "GaussianCopula": "problem",
    "Individual": "problem",
    "Problem": "problem",
    "refresh": "problem",
    "Successes": "problem",
    "from_simulator": "problem",
    "record": "recordings",
    "shadow": "shadowing",
    "Sweep": "sweeps",
    "sweep": "sweeps",
    "train": "training",
}

__version__ = "0.1.0"


if not TYPE_CHECKING:  # for a checker each misspelt name would be right

    def __getattr__(name: str) -> Any:
        if name not in _LAZY:
            raise AttributeError(f"module 'simkit' has no attribute {name!r}")
        try:
            module = importlib.import_module(f".{_LAZY[name]}", __name__)
        except (
            MissingPackageError
        ) as error:  # `hasattr` and `dir` expect this kind; `from simkit import petab` raises the other
            raise _MissingRoomError(str(error)) from error
        value = module if _LAZY[name] == name else getattr(module, name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    errors = [name for name in globals() if name.endswith("Error") and name[0] != "_"]
    return sorted([*errors, *_LAZY, "__version__"])
