"""Filters: likelihoods of stochastic systems that are seen at some times, and their states given the data."""

from ._conditional import conditional_pass as conditional_pass  # internal
from ._conditional import path_density as path_density  # internal
from ._conditional import random_noise as random_noise  # internal
from ._conditional import renewed as renewed  # internal
from ._euler import has_density as has_density  # internal
from ._euler_particles import euler_noise as euler_noise  # internal
from ._euler_particles import euler_states as euler_states  # internal
from ._kalman import KalmanFilter as KalmanFilter
from ._particles import PROPOSALS as PROPOSALS  # internal
from ._particles import ParticleFilter as ParticleFilter
from ._perturbed import Walk as Walk  # internal
from ._perturbed import perturbed_pass as perturbed_pass  # internal
from ._resampling import systematic as systematic  # internal
from ._spread import spread as spread
from ._states import HiddenStates as HiddenStates  # internal
from ._states import states as states
