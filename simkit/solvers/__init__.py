"""Steppers: one file a method or a family of methods, each with the protocol of `Stepper`."""

from ._bdf import BDF as BDF
from ._choose import Choice as Choice  # internal
from ._choose import check_serves as check_serves  # internal
from ._choose import choose as choose
from ._choose import completed as completed  # internal
from ._choose import implicit_solver as implicit_solver  # internal
from ._classical import RK4 as RK4
from ._classical import Euler as Euler
from ._classical import Heun as Heun
from ._constrained import consistent as consistent  # internal
from ._constrained import mass_of as mass_of  # internal
from ._constrained import slope_of as slope_of  # internal
from ._constrained import times_mass as times_mass  # internal
from ._discrete_stepper import DiscreteStepper as DiscreteStepper  # internal
from ._dopri8 import Dopri8 as Dopri8
from ._etdrk import ETDRK2 as ETDRK2
from ._etdrk import ETDRK4 as ETDRK4
from ._explicit import AbstractExplicitRungeKutta as AbstractExplicitRungeKutta
from ._explicit import Tableau as Tableau
from ._from_diffrax import FromDiffrax as FromDiffrax
from ._half_steps import HalfSteps as HalfSteps  # internal
from ._half_steps import half_steps as half_steps  # internal
from ._imex import CNRK3 as CNRK3
from ._imex import AbstractIMEXRungeKutta as AbstractIMEXRungeKutta  # internal
from ._imex import KenCarp3 as KenCarp3
from ._imex import KenCarp4 as KenCarp4
from ._inconsistent import reason_of_failure as reason_of_failure  # internal
from ._jumps import AbstractJumpMethod as AbstractJumpMethod  # internal
from ._jumps import DirectMethod as DirectMethod
from ._jumps import TauLeaping as TauLeaping
from ._krylov import Krylov as Krylov
from ._named import SOLVERS as SOLVERS  # internal
from ._named import SolverLike as SolverLike  # internal
from ._named import as_solver as as_solver  # internal
from ._particle_stepper import ParticleStepper as ParticleStepper  # internal
from ._reversible import Reversible as Reversible
from ._rosenbrock import Rodas5P as Rodas5P
from ._rosenbrock import jacobian_structure as jacobian_structure  # internal
from ._split import AbstractSplitStepper as AbstractSplitStepper  # internal
from ._ssp import SSPRK3 as SSPRK3
from ._stated import JacobianPattern as JacobianPattern
from ._stated import check_pattern as check_pattern  # internal
from ._stepper import Memory as Memory  # internal
from ._stepper import Step as Step
from ._stepper import Stepper as Stepper
from ._stochastic import SRA1 as SRA1
from ._stochastic import AbstractStochasticStepper as AbstractStochasticStepper  # internal
from ._stochastic import EulerMaruyama as EulerMaruyama
from ._stochastic import Milstein as Milstein
from ._stochastic import StratonovichHeun as StratonovichHeun
from ._strang import Strang as Strang
from ._tsit5 import Tsit5 as Tsit5
from ._verlet import VelocityVerlet as VelocityVerlet
from ._w import WRK3 as WRK3
from ._with_jumps import MOST_JUMPS as MOST_JUMPS  # internal
from ._with_jumps import WithJumps as WithJumps  # internal
