"""Molecular dynamics: spaces, potentials, neighbours."""

from ._builders import Configuration as Configuration  # internal
from ._builders import crystal as crystal
from ._builders import liquid as liquid
from ._frame import Frame as Frame
from ._frame import space_from_vectors as space_from_vectors  # internal
from ._frame import three_dimensional as three_dimensional  # internal
from ._frame import two_dimensional as two_dimensional  # internal
from ._particles import Particles as Particles
from ._stack import AtomsStack as AtomsStack  # internal
from ._stack import stack_atoms as stack_atoms
from .averages import AverageMethod as AverageMethod  # internal
from .averages import EnsembleAverage as EnsembleAverage  # internal
from .averages import LikelihoodRatio as LikelihoodRatio
from .averages import LyapunovExponent as LyapunovExponent  # internal
from .averages import MonteCarloMove as MonteCarloMove  # internal
from .averages import ReweightedEnsemble as ReweightedEnsemble  # internal
from .averages import Reweighting as Reweighting
from .averages import SwapMoves as SwapMoves
from .averages import TrajectoryGradient as TrajectoryGradient
from .averages import Trust as Trust  # internal
from .averages import VolumeMoves as VolumeMoves
from .averages import choose_method as choose_method  # internal
from .averages import ensemble_average as ensemble_average
from .averages import lyapunov_exponent as lyapunov_exponent
from .averages import sample_ensemble as sample_ensemble
from .averages import sensitivity as sensitivity
from .averages._run_averages import FEWEST as FEWEST  # internal
from .averages._run_averages import OUTPUT_DIMENSIONS as OUTPUT_DIMENSIONS  # internal
from .averages._run_averages import Averages as Averages
from .averages._run_averages import averages as averages
from .averages._run_averages import from_outputs as from_outputs  # internal
from .dynamics._andersen import Andersen as Andersen
from .dynamics._berendsen import Berendsen as Berendsen
from .dynamics._brownian import Brownian as Brownian
from .dynamics._constraint import Constraint as Constraint  # internal
from .dynamics._constraint import DistanceConstraint as DistanceConstraint  # internal
from .dynamics._constraint import constraints_of as constraints_of  # internal
from .dynamics._constraint import obeyed as obeyed  # internal
from .dynamics._distances import Constraints as Constraints
from .dynamics._dynamics import DYNAMICS as DYNAMICS  # internal
from .dynamics._dynamics import Dynamics as Dynamics
from .dynamics._langevin import Langevin as Langevin
from .dynamics._momenta import maxwell_boltzmann as maxwell_boltzmann
from .dynamics._mtk import MTK as MTK
from .dynamics._nose_hoover import NoseHoover as NoseHoover
from .dynamics._nve import NVE as NVE
from .dynamics._respa import RESPA as RESPA
from .dynamics._rigid_bodies import RigidBodies as RigidBodies
from .dynamics._rigid_water import RigidWater as RigidWater
from .dynamics._stochastic_cell_rescaling import StochasticCellRescaling as StochasticCellRescaling
from .dynamics._stochastic_rescaling import StochasticRescaling as StochasticRescaling
from .files._eam_files import EAMTables as EAMTables
from .files._eam_files import read_finnis_sinclair as read_finnis_sinclair
from .files._eam_files import read_funcfl as read_funcfl
from .files._eam_files import read_setfl as read_setfl
from .files._lammps import read_lammps as read_lammps
from .files._molecular_model import MolecularModel as MolecularModel
from .files._n2p2_files import NetworkTable as NetworkTable  # internal
from .files._n2p2_files import read_n2p2 as read_n2p2
from .files._openmm import from_openmm as from_openmm
from .files._read import read as read
from .files._snap_files import SnapTable as SnapTable  # internal
from .files._snap_files import read_mliap as read_mliap
from .files._snap_files import read_snap as read_snap
from .files._three_body_files import ThreeBodyTable as ThreeBodyTable  # internal
from .files._three_body_files import read_stillinger_weber as read_stillinger_weber
from .files._three_body_files import read_tersoff as read_tersoff
from .files._three_body_files import read_tersoff_mod as read_tersoff_mod
from .files._three_body_files import read_tersoff_zbl as read_tersoff_zbl
from .files._three_body_files import read_vashishta as read_vashishta
from .fits import EnergiesAndForces as EnergiesAndForces
from .fits import EquilibriumAverages as EquilibriumAverages
from .fits import RelativeEntropy as RelativeEntropy
from .free_energy._bias import Bias as Bias
from .free_energy._bias import UmbrellaBias as UmbrellaBias
from .free_energy._estimate import Estimate as Estimate  # internal
from .free_energy._exchange import ReplicaExchange as ReplicaExchange  # internal
from .free_energy._exchange import replica_exchange as replica_exchange
from .free_energy._grid import GridBias as GridBias  # internal
from .free_energy._integration import Integral as Integral  # internal
from .free_energy._integration import thermodynamic_integration as thermodynamic_integration
from .free_energy._mbar import FreeEnergies as FreeEnergies  # internal
from .free_energy._mbar import mbar as mbar
from .free_energy._metadynamics import Metadynamics as Metadynamics  # internal
from .free_energy._metadynamics import metadynamics as metadynamics
from .free_energy._profile import Profile as Profile  # internal
from .free_energy._profile import free_energy_profile as free_energy_profile
from .free_energy._states import StateSamples as StateSamples  # internal
from .free_energy._states import sample_states as sample_states
from .free_energy._umbrella import UmbrellaWindows as UmbrellaWindows  # internal
from .free_energy._umbrella import umbrella_sampling as umbrella_sampling
from .free_energy._work import Switches as Switches  # internal
from .free_energy._work import bar as bar
from .free_energy._work import jarzynski as jarzynski
from .free_energy._work import switch as switch
from .neighbours._energy import Gradients as Gradients  # internal
from .neighbours._energy import energy as energy
from .neighbours._energy import forces as forces
from .neighbours._energy import gradients as gradients
from .neighbours._exclusions import excluded_pairs as excluded_pairs
from .neighbours._neighbours import NeighbourPlan as NeighbourPlan  # internal
from .neighbours._neighbours import Neighbours as Neighbours  # internal
from .neighbours._neighbours import plan_neighbours as plan_neighbours
from .observables import BlockAverage as BlockAverage  # internal
from .observables import BondOrder as BondOrder  # internal
from .observables import GreenKubo as GreenKubo  # internal
from .observables import RadialDistribution as RadialDistribution  # internal
from .observables import StructureFactor as StructureFactor  # internal
from .observables import autocorrelation as autocorrelation
from .observables import block_average as block_average
from .observables import bond_order as bond_order
from .observables import degrees_of_freedom as degrees_of_freedom
from .observables import diffusion_coefficient as diffusion_coefficient
from .observables import electric_current as electric_current
from .observables import finite_size_diffusion as finite_size_diffusion
from .observables import green_kubo_conductivity as green_kubo_conductivity
from .observables import green_kubo_viscosity as green_kubo_viscosity
from .observables import kinetic_energy as kinetic_energy
from .observables import mean_squared_displacement as mean_squared_displacement
from .observables import radial_distribution as radial_distribution
from .observables import running_integral as running_integral
from .observables import structure_factor as structure_factor
from .observables import temperature as temperature
from .observables import velocity_autocorrelation as velocity_autocorrelation
from .observables import wave_indices as wave_indices
from .potentials._angles import HarmonicAngle as HarmonicAngle
from .potentials._angles import HarmonicImproper as HarmonicImproper
from .potentials._angles import OPLSDihedral as OPLSDihedral
from .potentials._angles import PeriodicDihedral as PeriodicDihedral
from .potentials._angles import RyckaertBellemans as RyckaertBellemans
from .potentials._axilrod_teller import AxilrodTeller as AxilrodTeller
from .potentials._behler_parrinello import BehlerParrinello as BehlerParrinello
from .potentials._bonded import BondedPotential as BondedPotential
from .potentials._bonds import FENEBond as FENEBond
from .potentials._bonds import HarmonicBond as HarmonicBond
from .potentials._bonds import MorseBond as MorseBond
from .potentials._buckingham import Buckingham as Buckingham
from .potentials._coulomb import CoulombCut as CoulombCut
from .potentials._coulomb import CoulombDSF as CoulombDSF
from .potentials._dispersion import DispersionScreened as DispersionScreened
from .potentials._dispersion import DispersionWaves as DispersionWaves
from .potentials._dispersion import dispersion_sum as dispersion_sum
from .potentials._eam_mixing import mixed_tables as mixed_tables
from .potentials._embedded_atom import EAM as EAM
from .potentials._ewald import CoulombScreened as CoulombScreened
from .potentials._ewald import Ewald as Ewald
from .potentials._ewald import ParticleMeshEwald as ParticleMeshEwald
from .potentials._ewald import ewald_sum as ewald_sum
from .potentials._ewald import particle_mesh_ewald as particle_mesh_ewald
from .potentials._external import ElectricField as ElectricField
from .potentials._external import ExternalField as ExternalField
from .potentials._external import ExternalFunction as ExternalFunction
from .potentials._external import HarmonicTrap as HarmonicTrap
from .potentials._external import Wall as Wall
from .potentials._formula_born import FormulaThroughAtoms as FormulaThroughAtoms
from .potentials._formula_terms import FormulaField as FormulaField
from .potentials._formula_terms import FormulaPair as FormulaPair
from .potentials._formula_terms import FormulaTerms as FormulaTerms
from .potentials._gaussian import GaussianCore as GaussianCore
from .potentials._generalized_born import GeneralizedBorn as GeneralizedBorn
from .potentials._lennard_jones import LennardJones as LennardJones
from .potentials._listed_pairs import ListedPairs as ListedPairs
from .potentials._many_body import AtomicPotential as AtomicPotential
from .potentials._many_body import AtomView as AtomView
from .potentials._many_body import ManyBodyPotential as ManyBodyPotential
from .potentials._many_body_function import ManyBodyFunction as ManyBodyFunction
from .potentials._morse import Morse as Morse
from .potentials._on_species import OnSpecies as OnSpecies
from .potentials._own_pairs import CoulombBond as CoulombBond
from .potentials._own_pairs import LennardJonesBond as LennardJonesBond
from .potentials._pair_function import PairFunction as PairFunction
from .potentials._potential import POTENTIALS as POTENTIALS  # internal
from .potentials._potential import PairPotential as PairPotential
from .potentials._potential import Potential as Potential
from .potentials._potential import Sum as Sum  # internal
from .potentials._potential import parts as parts  # internal
from .potentials._reaction_field import CoulombReactionField as CoulombReactionField
from .potentials._second_moment import SecondMoment as SecondMoment
from .potentials._second_virial import SecondVirial as SecondVirial
from .potentials._second_virial import second_virial as second_virial
from .potentials._sites import ChargesOnSites as ChargesOnSites
from .potentials._slab import SlabCorrection as SlabCorrection
from .potentials._snap import SNAP as SNAP
from .potentials._soft_core import SoftCoreLennardJones as SoftCoreLennardJones
from .potentials._soft_sphere import SoftSphere as SoftSphere
from .potentials._stillinger_weber import StillingerWeber as StillingerWeber
from .potentials._tabulated import Tabulated as Tabulated
from .potentials._tabulated_tables import TabulatedPairs as TabulatedPairs
from .potentials._tabulated_tables import TabulatedTerms as TabulatedTerms
from .potentials._terms import terms_of as terms_of  # internal
from .potentials._tersoff import Tersoff as Tersoff
from .potentials._tersoff_variants import ModifiedTersoff as ModifiedTersoff
from .potentials._tersoff_variants import TersoffZBL as TersoffZBL
from .potentials._torsion_map import TorsionMap as TorsionMap
from .potentials._truncation import TRUNCATIONS as TRUNCATIONS  # internal
from .potentials._truncation import ForceShifted as ForceShifted
from .potentials._truncation import Shifted as Shifted
from .potentials._truncation import Switched as Switched
from .potentials._truncation import Truncated as Truncated
from .potentials._truncation import Truncation as Truncation
from .potentials._vashishta import Vashishta as Vashishta
from .potentials._weeks_chandler_andersen import WeeksChandlerAndersen as WeeksChandlerAndersen
from .potentials._yukawa import Yukawa as Yukawa
from .relaxation._fire import FIRE as FIRE
from .relaxation._lbfgs import LBFGS as LBFGS
from .relaxation._minimise import Minimum as Minimum  # internal
from .relaxation._minimise import minimise as minimise
from .relaxation._minimiser import Minimiser as Minimiser  # internal
from .space._atoms import Atoms as Atoms
from .space._boxes import Boxes as Boxes
from .space._space import SPACES as SPACES  # internal
from .space._space import OpenSpace as OpenSpace
from .space._space import Orthorhombic as Orthorhombic
from .space._space import Space as Space  # internal
from .space._space import Triclinic as Triclinic
from .space._unit_text import si_value as si_value  # internal
from .space._units import DIMENSIONS as DIMENSIONS  # internal
from .space._units import GROMACS as GROMACS
from .space._units import METAL as METAL
from .space._units import REAL as REAL
from .space._units import REDUCED as REDUCED
from .space._units import SI as SI
from .space._units import UNIT_SYSTEMS as UNIT_SYSTEMS  # internal
from .space._units import Units as Units
from .space._units import convert as convert
from .space._units import reduced as reduced
from .space._virtual_sites import VirtualSites as VirtualSites
