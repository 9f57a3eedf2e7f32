"""What is measured on atoms: pure functions of frames and trajectories, differentiable."""

from ._kinetic import degrees_of_freedom as degrees_of_freedom
from ._kinetic import kinetic_energy as kinetic_energy
from ._kinetic import temperature as temperature
