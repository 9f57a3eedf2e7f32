"""Fluids and other fields on grids."""

from collections.abc import Mapping
from types import MappingProxyType

from ..core import System
from ._boundary import Boundaries as Boundaries
from ._boundary import Boundary as Boundary
from ._boundary import Dirichlet as Dirichlet
from ._boundary import FreeSlip as FreeSlip
from ._boundary import Inflow as Inflow
from ._boundary import Neumann as Neumann
from ._boundary import NoSlip as NoSlip
from ._boundary import Outflow as Outflow
from ._boundary import Periodic as Periodic
from ._boundary import as_boundaries as as_boundaries
from ._compressible import CompressibleFlow as CompressibleFlow
from ._equations._advection_diffusion import AdvectionDiffusion as AdvectionDiffusion
from ._equations._allen_cahn import AllenCahn as AllenCahn
from ._equations._burgers import Burgers as Burgers
from ._equations._cahn_hilliard import CahnHilliard as CahnHilliard
from ._equations._complex_field import ComplexField as ComplexField
from ._equations._fisher_kpp import FisherKPP as FisherKPP
from ._equations._ginzburg_landau import GinzburgLandau as GinzburgLandau
from ._equations._gray_scott import GrayScott as GrayScott
from ._equations._gray_scott import Reactants as Reactants
from ._equations._korteweg_de_vries import KortewegDeVries as KortewegDeVries
from ._equations._kuramoto_sivashinsky import KuramotoSivashinsky as KuramotoSivashinsky
from ._equations._nonlinear_schrodinger import NonlinearSchrodinger as NonlinearSchrodinger
from ._equations._swift_hohenberg import SwiftHohenberg as SwiftHohenberg
from ._flow2d import Flow2D as Flow2D
from ._flow2d import SpectralFlow2D as SpectralFlow2D
from ._flow3d import Flow3D as Flow3D
from ._flow3d import SpectralFlow3D as SpectralFlow3D
from ._force import Force as Force
from ._force import KolmogorovForce as KolmogorovForce
from ._force import SteadyForce as SteadyForce
from ._gas import ConservedGas as ConservedGas
from ._gas import Gas as Gas
from ._grid import Grid as Grid
from ._grid import stretched_faces as stretched_faces
from ._incompressible import IncompressibleFlow as IncompressibleFlow
from ._incompressible import StaggeredFlow as StaggeredFlow
from ._initial import double_shear_layer as double_shear_layer
from ._initial import kolmogorov_profile as kolmogorov_profile
from ._initial import random_velocity as random_velocity
from ._initial import taylor_green as taylor_green
from ._initial import vortices as vortices
from ._initial import vorticity as vorticity
from ._observables import Probes as Probes
from ._observables import dissipation as dissipation
from ._observables import divergence as divergence
from ._observables import energy_budget as energy_budget
from ._observables import energy_spectrum as energy_spectrum
from ._obstacle import Box as Box
from ._obstacle import Disk as Disk
from ._obstacle import Obstacle as Obstacle
from ._open import Level as Level
from ._open import Open as Open
from ._open import Stream as Stream
from ._pressure import FastPoisson as FastPoisson
from ._reconstruction import MUSCL as MUSCL
from ._reconstruction import WENO5Z as WENO5Z
from ._reconstruction import FirstOrder as FirstOrder
from ._riemann import hllc as hllc
from ._riemann import roe as roe
from ._riemann import rusanov as rusanov
from ._sampling import centres_to_faces as centres_to_faces
from ._sampling import faces_to_centres as faces_to_centres
from ._sampling import probe as probe
from ._sampling import shift as shift
from ._sampling import velocity_between as velocity_between
from ._scalars import Boussinesq as Boussinesq
from ._scalars import Buoyant as Buoyant
from ._scalars import PassiveScalar as PassiveScalar
from ._scalars import Stirred as Stirred
from ._shallow_water import ShallowWater as ShallowWater
from ._smooth import SmoothVorticity as SmoothVorticity
from ._spectral import Field as Field
from ._spectral import SpectralSystem as SpectralSystem
from ._water import ConservedWater as ConservedWater
from ._water import Water as Water
from ._waves import Waves as Waves

MODELS: Mapping[str, type[System]] = MappingProxyType(
    {
        "spectral_flow_2d": SpectralFlow2D,
        "spectral_flow_3d": SpectralFlow3D,
        "incompressible_flow": IncompressibleFlow,
        "compressible_flow": CompressibleFlow,
        "shallow_water": ShallowWater,
        "passive_scalar": PassiveScalar,
        "boussinesq": Boussinesq,
        "advection_diffusion": AdvectionDiffusion,
        "burgers": Burgers,
        "korteweg_de_vries": KortewegDeVries,
        "kuramoto_sivashinsky": KuramotoSivashinsky,
        "fisher_kpp": FisherKPP,
        "allen_cahn": AllenCahn,
        "cahn_hilliard": CahnHilliard,
        "swift_hohenberg": SwiftHohenberg,
        "gray_scott": GrayScott,
        "ginzburg_landau": GinzburgLandau,
        "nonlinear_schrodinger": NonlinearSchrodinger,
    }
)
"""The systems on grids by their names in study files."""
