"""Reach of the first values of a profile, and where its values must end."""

import math

import numpy as np

from ..problem import Problem
from ._fit_result import FitResult
from ._inside import margin
from ._profiles import threshold


def limit_of(problem: Problem, index: int, sign: int) -> float:
    """The last value of a profile on this side, in the coordinates of the fit: a little inside the bound, or infinite."""
    box = np.asarray(problem.coordinate_bounds(), float)[index : index + 1]
    bound = float(box[0, (sign + 1) // 2])
    if not math.isfinite(bound):
        return bound
    # A few margins: the fit keeps one from its bounds, and a simulation on the bound itself may be singular.
    gap = min(
        10 * float(margin(problem.coordinate_bounds()[index : index + 1])[0, (sign + 1) // 2]),
        0.01 * float(np.ptp(box)),
    )
    return bound - sign * gap


def size_of(fit: FitResult, index: int) -> float:
    """The standard error in the coordinates of the fit, or the size of the estimate where the data do not say one."""
    variance, error = float(fit.covariance[index, index]), float(fit.standard_error[index])
    wide = 1.0 if fit.log[index] else abs(float(fit.z[index])) or 1.0
    return math.sqrt(variance) if math.isfinite(error) and variance > 0 else wide


def first_reach(fit: FitResult, index: int, level: float) -> float:
    """The reach of the first values of a profile: 1.3 times the interval that the standard error suggests."""
    return 1.3 * math.sqrt(2 * threshold(level)) * size_of(fit, index)
