"""Numbers of a fit."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Int

from ..core import uncertain_text

AGREE = 0.1
"""Starts whose objectives differ by more are at different optima: a tenth of a unit of the log likelihood."""


class AbstractFit(eqx.Module):
    """Numbers of a fit, as `FitResult` describes them, for what is said about them."""

    estimate: Float[Array, " parameters"]
    standard_error: Float[Array, " parameters"]
    z: Float[Array, " parameters"]
    covariance: Float[Array, "parameters parameters"]
    information: Float[Array, "parameters parameters"]
    curvature: Float[Array, " parameters"]
    objective: Float[Array, " starts"]
    thetas: Float[Array, "starts parameters"]
    status: Int[Array, " starts"]
    iterations: Int[Array, " starts"]
    failures: Int[Array, " starts"]
    log_likelihood: Float[Array, ""]
    chi_squared: Float[Array, ""]
    bounds: Float[Array, "parameters 2"]
    data_count: Int[Array, ""]
    names: tuple[str, ...] = eqx.field(static=True)
    units: tuple[str, ...] = eqx.field(static=True)
    log: tuple[bool, ...] = eqx.field(static=True)
    method: str = eqx.field(static=True)
    integrated: int = eqx.field(static=True, default=0)
    cut: bool = eqx.field(static=True, default=False)
    misfit: tuple[str, ...] = eqx.field(static=True, default=())
    optimum: Int[Array, " starts"] | None = None
    log_mass: Float[Array, " optima"] | None = None
    covariances: Float[Array, "optima parameters parameters"] | None = None
    data_checksum: Int[Array, ""] | None = None
    log_likelihood_error: Float[Array, ""] | None = None

    @property
    def log_likelihood_text(self) -> str:
        """The log likelihood at the best point, with its standard error where it is estimated with random numbers."""
        error = self.log_likelihood_error
        return f"{float(self.log_likelihood):.6g}" + ("" if error is None else f" +- {float(error):.2g}")

    @property
    def free_count(self) -> int:
        """Number of fitted parameters: all but those over which the likelihood is integrated."""
        return len(self.names) - self.integrated

    def agreeing(self) -> int:
        """Count the starts that ended at the best optimum, in objective and in parameters."""
        if self.optimum is None:
            return int((np.asarray(self.objective) <= float(self.objective[0]) + AGREE).sum())
        return int((np.asarray(self.optimum) == 0).sum())


def row_texts(row: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Estimate, error and both ends of the interval with the digits that the error leaves."""
    error = row["standard_error"]
    lower, upper = (uncertain_text(row[end], error, least=2) for end in ("lower", "upper"))
    return uncertain_text(row["estimate"], error), uncertain_text(error, error), lower, upper
