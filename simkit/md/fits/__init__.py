"""Regression models of particles: averages of an ensemble, and energies and forces of known frames."""

from ._energies_and_forces import EnergiesAndForces as EnergiesAndForces
from ._equilibrium import EquilibriumAverages as EquilibriumAverages
from ._relative_entropy import RelativeEntropy as RelativeEntropy
