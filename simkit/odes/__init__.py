"""Ordinary and stochastic differential equation models, one file a model."""

from ._brusselator import Brusselator as Brusselator
from ._cart_pole import CartPole as CartPole
from ._cstr import CSTR as CSTR
from ._delayed_function import DelayedFunctionSystem as DelayedFunctionSystem  # internal
from ._delayed_function import from_delayed_function as from_delayed_function
from ._double_pendulum import DoublePendulum as DoublePendulum
from ._energy_balance import EnergyBalance as EnergyBalance
from ._exponential_decay import ExponentialDecay as ExponentialDecay
from ._fitzhugh_nagumo import FitzHughNagumo as FitzHughNagumo
from ._function import FunctionResponse as FunctionResponse  # internal
from ._function import FunctionSystem as FunctionSystem  # internal
from ._function import from_function as from_function
from ._function import from_response as from_response
from ._geometric_brownian_motion import GeometricBrownianMotion as GeometricBrownianMotion
from ._glycolysis import Glycolysis as Glycolysis
from ._goodwin import Goodwin as Goodwin
from ._harmonic_oscillator import HarmonicOscillator as HarmonicOscillator
from ._hires import HIRES as HIRES
from ._hodgkin_huxley import HodgkinHuxley as HodgkinHuxley
from ._kepler import Kepler as Kepler
from ._lindblad import Lindblad as Lindblad
from ._logistic_growth import LogisticGrowth as LogisticGrowth
from ._lorenz63 import Lorenz63 as Lorenz63
from ._lorenz96 import Lorenz96 as Lorenz96
from ._lotka_volterra import LotkaVolterra as LotkaVolterra
from ._mackey_glass import MackeyGlass as MackeyGlass
from ._morris_lecar import MorrisLecar as MorrisLecar
from ._n_body import NBody as NBody
from ._one_compartment import OneCompartment as OneCompartment
from ._oregonator import Oregonator as Oregonator
from ._ornstein_uhlenbeck import OrnsteinUhlenbeck as OrnsteinUhlenbeck
from ._pendulum import Pendulum as Pendulum
from ._pollu import POLLU as POLLU
from ._repressilator import Repressilator as Repressilator
from ._robertson import Robertson as Robertson
from ._rosenzweig_macarthur import RosenzweigMacArthur as RosenzweigMacArthur
from ._rossler import Rossler as Rossler
from ._schrodinger import Schrodinger as Schrodinger
from ._seir import SEIR as SEIR
from ._sir import SIR as SIR
from ._stochastic_lotka_volterra import StochasticLotkaVolterra as StochasticLotkaVolterra
from ._two_compartment import TwoCompartment as TwoCompartment
from ._van_der_pol import VanDerPol as VanDerPol
