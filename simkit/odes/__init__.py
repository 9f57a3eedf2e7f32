"""Ordinary and stochastic differential equation models, one file a model."""

from collections.abc import Mapping
from types import MappingProxyType

from ..core import System
from ._brusselator import Brusselator as Brusselator
from ._brusselator import BrusselatorState as BrusselatorState
from ._cart_pole import CartPole as CartPole
from ._cart_pole import CartPoleState as CartPoleState
from ._cstr import CSTR as CSTR
from ._cstr import CSTRState as CSTRState
from ._double_pendulum import DoublePendulum as DoublePendulum
from ._double_pendulum import DoublePendulumState as DoublePendulumState
from ._energy_balance import EnergyBalance as EnergyBalance
from ._energy_balance import EnergyBalanceOutputs as EnergyBalanceOutputs
from ._energy_balance import EnergyBalanceState as EnergyBalanceState
from ._exponential_decay import ExponentialDecay as ExponentialDecay
from ._exponential_decay import ExponentialDecayState as ExponentialDecayState
from ._fitzhugh_nagumo import FitzHughNagumo as FitzHughNagumo
from ._fitzhugh_nagumo import FitzHughNagumoState as FitzHughNagumoState
from ._function import FunctionResponse as FunctionResponse
from ._function import FunctionSystem as FunctionSystem
from ._function import from_function as from_function
from ._function import from_response as from_response
from ._geometric_brownian_motion import GeometricBrownianMotion as GeometricBrownianMotion
from ._geometric_brownian_motion import GeometricBrownianMotionState as GeometricBrownianMotionState
from ._glycolysis import Glycolysis as Glycolysis
from ._glycolysis import GlycolysisState as GlycolysisState
from ._goodwin import Goodwin as Goodwin
from ._goodwin import GoodwinState as GoodwinState
from ._harmonic_oscillator import HarmonicOscillator as HarmonicOscillator
from ._hires import HIRES as HIRES
from ._hires import HIRESState as HIRESState
from ._hodgkin_huxley import HodgkinHuxley as HodgkinHuxley
from ._hodgkin_huxley import HodgkinHuxleyState as HodgkinHuxleyState
from ._kepler import Kepler as Kepler
from ._lindblad import DensityMatrix as DensityMatrix
from ._lindblad import DensityMatrixOutputs as DensityMatrixOutputs
from ._lindblad import Lindblad as Lindblad
from ._logistic_growth import LogisticGrowth as LogisticGrowth
from ._logistic_growth import LogisticGrowthState as LogisticGrowthState
from ._lorenz63 import Lorenz63 as Lorenz63
from ._lorenz63 import Lorenz63State as Lorenz63State
from ._lorenz96 import Lorenz96 as Lorenz96
from ._lorenz96 import Lorenz96State as Lorenz96State
from ._lotka_volterra import LotkaVolterra as LotkaVolterra
from ._lotka_volterra import Populations as Populations
from ._morris_lecar import MorrisLecar as MorrisLecar
from ._morris_lecar import MorrisLecarState as MorrisLecarState
from ._n_body import NBody as NBody
from ._one_compartment import OneCompartment as OneCompartment
from ._one_compartment import OneCompartmentOutputs as OneCompartmentOutputs
from ._one_compartment import OneCompartmentState as OneCompartmentState
from ._oregonator import Oregonator as Oregonator
from ._oregonator import OregonatorState as OregonatorState
from ._ornstein_uhlenbeck import OrnsteinUhlenbeck as OrnsteinUhlenbeck
from ._ornstein_uhlenbeck import OrnsteinUhlenbeckState as OrnsteinUhlenbeckState
from ._pendulum import Pendulum as Pendulum
from ._pollu import POLLU as POLLU
from ._pollu import POLLUState as POLLUState
from ._repressilator import Repressilator as Repressilator
from ._repressilator import RepressilatorState as RepressilatorState
from ._robertson import Robertson as Robertson
from ._robertson import RobertsonState as RobertsonState
from ._rosenzweig_macarthur import RosenzweigMacArthur as RosenzweigMacArthur
from ._rosenzweig_macarthur import RosenzweigMacArthurState as RosenzweigMacArthurState
from ._rossler import Rossler as Rossler
from ._rossler import RosslerState as RosslerState
from ._schrodinger import Schrodinger as Schrodinger
from ._schrodinger import StateVector as StateVector
from ._schrodinger import StateVectorOutputs as StateVectorOutputs
from ._seir import SEIR as SEIR
from ._seir import SEIRState as SEIRState
from ._sir import SIR as SIR
from ._sir import SIRState as SIRState
from ._stochastic_lotka_volterra import StochasticLotkaVolterra as StochasticLotkaVolterra
from ._stochastic_lotka_volterra import StochasticLotkaVolterraState as StochasticLotkaVolterraState
from ._two_compartment import TwoCompartment as TwoCompartment
from ._two_compartment import TwoCompartmentOutputs as TwoCompartmentOutputs
from ._two_compartment import TwoCompartmentState as TwoCompartmentState
from ._van_der_pol import VanDerPol as VanDerPol
from ._van_der_pol import VanDerPolState as VanDerPolState

MODELS: Mapping[str, type[System]] = MappingProxyType(
    {
        "exponential_decay": ExponentialDecay,
        "logistic_growth": LogisticGrowth,
        "lotka_volterra": LotkaVolterra,
        "rosenzweig_macarthur": RosenzweigMacArthur,
        "sir": SIR,
        "seir": SEIR,
        "fitzhugh_nagumo": FitzHughNagumo,
        "hodgkin_huxley": HodgkinHuxley,
        "morris_lecar": MorrisLecar,
        "van_der_pol": VanDerPol,
        "lorenz63": Lorenz63,
        "lorenz96": Lorenz96,
        "rossler": Rossler,
        "brusselator": Brusselator,
        "oregonator": Oregonator,
        "robertson": Robertson,
        "hires": HIRES,
        "pollu": POLLU,
        "goodwin": Goodwin,
        "repressilator": Repressilator,
        "one_compartment": OneCompartment,
        "two_compartment": TwoCompartment,
        "glycolysis": Glycolysis,
        "harmonic_oscillator": HarmonicOscillator,
        "pendulum": Pendulum,
        "double_pendulum": DoublePendulum,
        "cart_pole": CartPole,
        "kepler": Kepler,
        "n_body": NBody,
        "cstr": CSTR,
        "energy_balance": EnergyBalance,
        "schrodinger": Schrodinger,
        "lindblad": Lindblad,
        "ornstein_uhlenbeck": OrnsteinUhlenbeck,
        "geometric_brownian_motion": GeometricBrownianMotion,
        "stochastic_lotka_volterra": StochasticLotkaVolterra,
    }
)
"""Every model by its name in study files and on the command line."""
