"""Observables of atoms: pure, differentiable functions of frames and trajectories."""

from ._block_errors import BlockAverage as BlockAverage
from ._block_errors import block_average as block_average
from ._bond_order import BondOrder as BondOrder
from ._bond_order import bond_order as bond_order
from ._correlation import autocorrelation as autocorrelation
from ._correlation import diffusion_coefficient as diffusion_coefficient
from ._correlation import finite_size_diffusion as finite_size_diffusion
from ._correlation import mean_squared_displacement as mean_squared_displacement
from ._correlation import running_integral as running_integral
from ._correlation import velocity_autocorrelation as velocity_autocorrelation
from ._kinetic import degrees_of_freedom as degrees_of_freedom
from ._kinetic import kinetic_energy as kinetic_energy
from ._kinetic import temperature as temperature
from ._radial import RadialDistribution as RadialDistribution
from ._radial import radial_distribution as radial_distribution
from ._scattering import StructureFactor as StructureFactor
from ._scattering import structure_factor as structure_factor
from ._scattering import wave_indices as wave_indices
from ._transport import GreenKubo as GreenKubo
from ._transport import electric_current as electric_current
from ._transport import green_kubo_conductivity as green_kubo_conductivity
from ._transport import green_kubo_viscosity as green_kubo_viscosity
