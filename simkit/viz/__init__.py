"""Figures: each function returns a Matplotlib figure, drawn without pyplot, with units on the axes."""

from ._assimilation_figures import plot_assimilation as plot_assimilation
from ._atom_figures import animate as animate
from ._atom_figures import plot_atoms as plot_atoms
from ._atom_view import view_atoms as view_atoms
from ._averages import plot_displacement as plot_displacement
from ._averages import plot_outputs as plot_outputs
from ._averages import plot_radial_distribution as plot_radial_distribution
from ._bifurcation import plot_bifurcation as plot_bifurcation
from ._curves import plot_fit as plot_fit
from ._curves import plot_trajectory as plot_trajectory
from ._field_figures import animate_field as animate_field
from ._field_figures import plot_fields as plot_fields
from ._field_figures import plot_spectrum as plot_spectrum
from ._forest import plot_forest as plot_forest
from ._individual_figures import plot_individuals as plot_individuals
from ._individual_figures import plot_spaghetti as plot_spaghetti
from ._interactive import interactive as interactive
from ._live import LiveFigure as LiveFigure
from ._map_figures import plot_map as plot_map
from ._movie import save_animation as save_animation
from ._optimum import plot_correlation as plot_correlation
from ._optimum import plot_parameters as plot_parameters
from ._optimum import plot_profile as plot_profile
from ._optimum import plot_waterfall as plot_waterfall
from ._phase import plot_phase as plot_phase
from ._population_figures import plot_npde as plot_npde
from ._population_figures import plot_predictive_check as plot_predictive_check
from ._posterior_figures import plot_corner as plot_corner
from ._posterior_figures import plot_ranks as plot_ranks
from ._posterior_figures import plot_trace as plot_trace
from ._residual_figures import plot_check as plot_check
from ._sensitivity_figures import plot_sensitivity as plot_sensitivity
from ._style import DARK as DARK  # internal
from ._style import LIGHT as LIGHT  # internal
from ._style import Theme as Theme  # internal
from ._style import to_png as to_png
from ._style import to_svg as to_svg
from ._sweep_figures import plot_sweep as plot_sweep
from ._unknown_field_figures import plot_field_fit as plot_field_fit
