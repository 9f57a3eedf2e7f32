"""Fluids and other fields on grids."""

from .carried._drops import Drops as Drops
from .carried._wires import FlowAtBodies as FlowAtBodies
from .carried._wires import Reaction as Reaction
from .equations._advection_diffusion import AdvectionDiffusion as AdvectionDiffusion
from .equations._allen_cahn import AllenCahn as AllenCahn
from .equations._burgers import Burgers as Burgers
from .equations._cahn_hilliard import CahnHilliard as CahnHilliard
from .equations._complex_field import ComplexField as ComplexField  # internal
from .equations._fisher_kpp import FisherKPP as FisherKPP
from .equations._ginzburg_landau import GinzburgLandau as GinzburgLandau
from .equations._gray_scott import GrayScott as GrayScott
from .equations._korteweg_de_vries import KortewegDeVries as KortewegDeVries
from .equations._kuramoto_sivashinsky import KuramotoSivashinsky as KuramotoSivashinsky
from .equations._nonlinear_schrodinger import NonlinearSchrodinger as NonlinearSchrodinger
from .equations._swift_hohenberg import SwiftHohenberg as SwiftHohenberg
from .grids._boundary import Boundaries as Boundaries  # internal
from .grids._boundary import Boundary as Boundary  # internal
from .grids._boundary import Dirichlet as Dirichlet
from .grids._boundary import FixedPressure as FixedPressure
from .grids._boundary import FreeSlip as FreeSlip
from .grids._boundary import Inflow as Inflow
from .grids._boundary import Neumann as Neumann
from .grids._boundary import NoSlip as NoSlip
from .grids._boundary import Outflow as Outflow
from .grids._boundary import Periodic as Periodic
from .grids._boundary import Piecewise as Piecewise
from .grids._boundary import WallModel as WallModel
from .grids._boundary import as_boundaries as as_boundaries  # internal
from .grids._grid import Grid as Grid
from .grids._grid import stretched_faces as stretched_faces
from .grids._reconstruction import MUSCL as MUSCL  # internal
from .grids._reconstruction import WENO5Z as WENO5Z  # internal
from .grids._reconstruction import FirstOrder as FirstOrder  # internal
from .grids._values import InputValue as InputValue
from .lattice._lattice_boltzmann import LatticeBoltzmann as LatticeBoltzmann
from .lattice._lattice_boltzmann import LatticeFlow as LatticeFlow  # internal
from .lattice._moving_body import MovingBody as MovingBody
from .layers._flow import LayerState as LayerState  # internal
from .layers._flow import PlaneLayerFlow as PlaneLayerFlow
from .layers._layer import PlaneLayer as PlaneLayer
from .layers._scalar import LayerScalar as LayerScalar
from .spectral._flow2d import Flow2D as Flow2D  # internal
from .spectral._flow2d import SpectralFlow2D as SpectralFlow2D
from .spectral._flow3d import Flow3D as Flow3D  # internal
from .spectral._flow3d import SpectralFlow3D as SpectralFlow3D
from .spectral._force import Force as Force
from .spectral._force import InputForce as InputForce
from .spectral._force import KolmogorovForce as KolmogorovForce
from .spectral._force import SteadyForce as SteadyForce
from .spectral._initial import double_shear_layer as double_shear_layer
from .spectral._initial import kolmogorov_profile as kolmogorov_profile
from .spectral._initial import random_velocity as random_velocity
from .spectral._initial import taylor_green as taylor_green
from .spectral._initial import vortices as vortices
from .spectral._initial import vorticity as vorticity
from .spectral._observables import Probes as Probes
from .spectral._observables import dissipation as dissipation
from .spectral._observables import divergence as divergence
from .spectral._observables import energy_budget as energy_budget
from .spectral._observables import energy_spectrum as energy_spectrum
from .spectral._sampling import centres_to_faces as centres_to_faces
from .spectral._sampling import faces_to_centres as faces_to_centres
from .spectral._sampling import probe as probe
from .spectral._sampling import shift as shift
from .spectral._sampling import velocity_between as velocity_between  # internal
from .spectral._scalars import Boussinesq as Boussinesq
from .spectral._scalars import PassiveScalar as PassiveScalar
from .spectral._smooth import SmoothVorticity as SmoothVorticity
from .spectral._spectral import Field as Field  # internal
from .spectral._spectral import SpectralSystem as SpectralSystem
from .spectral._waves import Waves as Waves
from .sphere._advection import AdvectionSphere as AdvectionSphere
from .sphere._advection import SphereScalar as SphereScalar  # internal
from .sphere._atmosphere import Atmosphere as Atmosphere  # internal
from .sphere._atmosphere import jablonowski_williamson as jablonowski_williamson
from .sphere._atmosphere import resting_atmosphere as resting_atmosphere
from .sphere._barotropic import BarotropicSphere as BarotropicSphere
from .sphere._held_suarez import HeldSuarez as HeldSuarez
from .sphere._isotropic import IsotropicCovariance as IsotropicCovariance
from .sphere._levels import SigmaLevels as SigmaLevels
from .sphere._primitive import PrimitiveEquationsSphere as PrimitiveEquationsSphere
from .sphere._shallow_water import ShallowWaterSphere as ShallowWaterSphere
from .sphere._sphere import Sphere as Sphere
from .sphere._starts import rossby_haurwitz as rossby_haurwitz
from .sphere._starts import zonal_flow as zonal_flow
from .sphere._stations import Stations as Stations
from .staggered._closure import DynamicSmagorinsky as DynamicSmagorinsky
from .staggered._contact import Contact as Contact
from .staggered._free_body import BodyState as BodyState
from .staggered._free_body import FreeMotion as FreeMotion
from .staggered._incompressible import IncompressibleFlow as IncompressibleFlow
from .staggered._obstacle import Box as Box
from .staggered._obstacle import Disk as Disk
from .staggered._obstacle import Obstacle as Obstacle
from .staggered._pressure import FastPoisson as FastPoisson  # internal
from .staggered._scalars import FlowScalar as FlowScalar
from .staggered._state import StaggeredFlow as StaggeredFlow  # internal
from .staggered._surface import TriangleSurface as TriangleSurface
from .staggered._surface import read_stl as read_stl
from .volumes._compressible import CompressibleFlow as CompressibleFlow
from .volumes._gas import ConservedGas as ConservedGas  # internal
from .volumes._gas import Gas as Gas  # internal
from .volumes._multilayer import MultilayerShallowWater as MultilayerShallowWater
from .volumes._open import Level as Level
from .volumes._open import Open as Open
from .volumes._open import Stream as Stream
from .volumes._riemann import hllc as hllc  # internal
from .volumes._riemann import roe as roe  # internal
from .volumes._riemann import rusanov as rusanov  # internal
from .volumes._shallow_water import ShallowWater as ShallowWater
from .volumes._water import ConservedWater as ConservedWater  # internal
from .volumes._water import Water as Water  # internal
