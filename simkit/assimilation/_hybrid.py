"""Hybrid 4D-Var: background errors of a fixed covariance and of an ensemble together."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._doors import check_kind
from .._errors import ArgumentError
from ..core import as_float_array, traced
from ..linear import symmetric_root
from ._filters import AbstractEnsembleFilter
from ._localisation import LEAST_TAPER, Localisation
from ._observations import as_covariance
from ._variational import FourDVar


class Hybrid(eqx.Module):
    r"""4D-Var whose background errors are those of a fixed covariance B and of an ensemble of forecasts, weighted:

    $$B_h = (1 - \beta) B + \beta\, C \circ P, \qquad P = \frac{1}{N - 1} \sum_i (x_i - \bar x) (x_i - \bar x)^T$$

    The ensemble knows the errors of the day, the fixed covariance what few members miss. Members are forecast through the window
    and corrected by a filter at each observation time; where the next window begins they are moved so that their mean is the
    analysis of 4D-Var.

    **Arguments:**

    - `variational`: a `FourDVar` with a `covariance`, which has windows, shift and iterations.
    - `ensemble`: the filter of the members: `ETKF`, `LETKF` or `EnKF`.
    - `share`: $\beta$, from 0, where the result is that of `variational`, to 1.
    - `localisation`: C, the weights of a `Localisation` whose `observed` are its `places`, those of the numbers of the flat state:
        far covariances of few members, which are mostly chance, become small. None for ones.

    **Good values:** share 0.5 to 0.9; with fewer members than growing directions `LETKF` and a localisation with a radius of some
    correlation lengths. Start from an ensemble, as for a filter.

    **Raises:** an `ArgumentError` for shares outside 0 to 1, a share of 1 without localisation (the covariance of few members has
    no inverse), and localisations of another size, or whose weights are no covariance, as those of the taper "step".

    **Reference:** Hamill and Snyder (2000), Mon. Weather Rev. 128:2905, doi:10.1175/1520-0493(2000)128<2905:AHEKFV>2.0.CO;2;
    Lorenc (2003), Q. J. R. Meteorol. Soc. 129:3183, doi:10.1256/qj.02.132.
    """

    variational: FourDVar
    ensemble: AbstractEnsembleFilter
    share: Float[Array, ""]
    taper: Float[Array, "n n"] | None

    def __init__(
        self,
        variational: FourDVar,
        ensemble: AbstractEnsembleFilter,
        *,
        share: Any = 0.5,
        localisation: Localisation | None = None,
    ):
        check_kind("variational", variational, FourDVar, "a `FourDVar`", "Write `FourDVar(covariance, window=2)`.")
        check_kind("ensemble", ensemble, AbstractEnsembleFilter, "a filter of ensembles", "Take `ETKF` or `LETKF`.")
        if variational.covariance is None:
            raise ArgumentError(
                "Argument `variational` must have a `covariance`, whose sum with that of the ensemble is taken, but it has a "
                "`root` L. Give `covariance=L @ L.T`, with a little more on its diagonal where L has few columns."
            )
        self.variational, self.ensemble, self.share = variational, ensemble, as_float_array(share)
        if self.share.ndim or (not traced(self.share) and not 0 <= float(self.share) <= 1):
            raise ArgumentError(f"Argument `share` must be a number from 0 to 1, but it is {share}.")
        if localisation is None and not traced(self.share) and float(self.share) == 1:
            raise ArgumentError(
                "Argument `share` must be below 1 without `localisation`: the covariance of an ensemble with fewer members than "
                "the state has numbers has no inverse."
            )
        if localisation is not None:
            check_kind(
                "localisation", localisation, Localisation, "a `Localisation`", "Write `Localisation(4.0, places=...)`."
            )
        size = variational.covariance.shape[0]
        self.taper = None if localisation is None else as_covariance(_positive(localisation), size, "localisation")

    def check(self, size: int, times: int, observations: int, members: int, correlated: bool) -> None:
        """Refuse states, windows, observations and ensembles that one of both cannot take.

        **Raises:** an `ArgumentError`.
        """
        self.variational.check(size, times)
        self.ensemble.check(size, observations, members, correlated)

    def root(self, members: Float[Array, "members n"]) -> Float[Array, "n n"]:
        """The symmetric root of the covariance of the background's errors."""
        known = self.variational.covariance
        assert known is not None
        anomalies = members - jnp.mean(members, axis=0, keepdims=True)
        drawn = anomalies.T @ anomalies / (members.shape[0] - 1)
        drawn = drawn if self.taper is None else drawn * self.taper.astype(drawn.dtype)
        share = self.share.astype(drawn.dtype)
        both = (1 - share) * known.astype(drawn.dtype) + share * drawn
        return symmetric_root(both)


def _positive(localisation: Localisation) -> Array:
    """The weights of a localisation; positive definite, where only what it leaves out as too small makes them not so."""
    found = localisation.matrix
    if traced(found) or found.shape[0] != found.shape[1]:
        return found
    values, vectors = np.linalg.eigh(np.asarray(found, float))
    if values.min() <= -LEAST_TAPER * len(values):  # the most that the sum of a row lacks, by Gershgorin's theorem
        return found
    mended = (vectors * np.maximum(values, LEAST_TAPER * values.max())) @ vectors.T
    size = np.sqrt(np.diag(mended))
    return jnp.asarray(mended / np.outer(size, size), found.dtype)
