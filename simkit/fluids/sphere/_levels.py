"""Vertical levels of an atmosphere in sigma coordinates, their finite differences and normal modes, in NumPy."""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from ..._doors import shown
from ..._errors import ArgumentError

KAPPA = 2 / 7
"""Gas constant over heat capacity of a gas of molecules with two atoms, as dry air."""


class VerticalModes(NamedTuple):
    r"""Normal modes of the vertical for an isothermal reference, from the singular values s of one matrix (see `modes`).

    - `speeds`: $s_n$, `(N,)`: a gravity wave of mode n has the speed $s_n \sqrt{R T_0}$.
    - `winds`: `(N, N)`, from divergences of the levels to those of the modes; `winds_back` the inverse.
    - `heats`: `(N + 1, N + 1)`, from departures of the temperature over $T_0$ and the logarithm of the surface pressure to the
        modes, the last without a frequency; `heats_back` the inverse.
    """

    speeds: np.ndarray
    winds: np.ndarray
    winds_back: np.ndarray
    heats: np.ndarray
    heats_back: np.ndarray


@dataclasses.dataclass(frozen=True, init=False)
class SigmaLevels:
    r"""Layers of an atmosphere, bounded by surfaces of constant $\sigma = p / p_s$, with the finite differences of Simmons and
    Burridge: known while tracing, and hashable.

    Layer k lies between $\sigma_{k-1/2}$ and $\sigma_{k+1/2}$, from the top to the ground. With $\Delta_k$ its thickness and
    $l_k = \ln(\sigma_{k+1/2} / \sigma_{k-1/2})$, geopotential and vertical motion are

    $$\Phi_k = \Phi_s + \alpha_k R T_k + \sum_{j > k} l_j R T_j, \qquad
    \Big(\frac{\omega}{p}\Big)_k = u_k \cdot \nabla \ln p_s - \frac{1}{\Delta_k} \Big(l_k \sum_{j<k} A_j \Delta_j
    + \alpha_k \Delta_k A_k\Big), \qquad \alpha_k = 1 - \frac{\sigma_{k-1/2}}{\Delta_k} l_k$$

    with $A = \nabla \cdot u + u \cdot \nabla \ln p_s$. So what pressure does on the wind is what the temperature loses. At the top
    $\alpha = 1$, its limit, with which the pressure has no torque but by the bed.

    **Arguments:** `layers`: the number of equally thick ones, or the boundaries $\sigma$ from 0 to 1, one more than layers.

    **Raises:** an `ArgumentError` for boundaries that do not grow from 0 to 1.

    **Good values:** 20 equal layers for the troposphere.

    **Source:** Simmons and Burridge (1981), Mon. Weather Rev. 109:758.

    ```python
    from simkit import fluids

    print(fluids.SigmaLevels(20))  # prints SigmaLevels(20 layers)
    print(fluids.SigmaLevels([0.0, 0.1, 0.4, 1.0]).sigma())
    ```
    """

    boundaries: tuple[float, ...]

    def __init__(self, layers: int | Sequence[float] | np.ndarray = 20):
        remedy = "Write `SigmaLevels(20)`, or boundaries as `SigmaLevels([0.0, 0.1, 0.4, 1.0])`."
        if isinstance(layers, int | np.integer) and not isinstance(layers, bool):
            if layers < 1:
                raise ArgumentError(f"Argument `layers` must be at least 1, but is {layers}. {remedy}")
            found = np.linspace(0.0, 1.0, int(layers) + 1)
        else:
            try:
                found = np.asarray(layers, float)
            except (TypeError, ValueError):
                found = np.zeros(0)
            good = (
                not isinstance(layers, bool | str) and found.ndim == 1 and found.size > 1 and np.isfinite(found).all()
            )
            if not good or found[0] != 0 or found[-1] != 1 or np.any(np.diff(found) <= 0):
                raise ArgumentError(
                    "Argument `layers` must be a number of layers, or boundaries that grow from 0 to 1, but it is "
                    f"{shown(layers)}. {remedy}"
                )
        object.__setattr__(self, "boundaries", tuple(map(float, found)))

    @property
    def count(self) -> int:
        """The number of layers."""
        return len(self.boundaries) - 1

    def thickness(self) -> Float[np.ndarray, " n"]:
        r"""The thickness $\Delta_k$ of the layers; their sum is 1."""
        return np.diff(np.asarray(self.boundaries))

    def sigma(self) -> Float[np.ndarray, " n"]:
        r"""The $\sigma$ at which a layer has its temperature and wind: $\sigma_{k+1/2}\, e^{-\alpha_k}$, where the geopotential of
        an isothermal layer is its $\Phi_k$."""
        return np.asarray(self.boundaries)[1:] * np.exp(-self.alphas())

    def ratios(self) -> Float[np.ndarray, " n"]:
        """The logarithms $l_k$ of the ratios of boundaries, 0 for the top layer, where it is not needed."""
        found = np.asarray(self.boundaries)
        return np.concatenate([[0.0], np.diff(np.log(found[1:]))])

    def alphas(self) -> Float[np.ndarray, " n"]:
        r"""The weights $\alpha_k$."""
        return 1 - np.asarray(self.boundaries)[:-1] / self.thickness() * self.ratios()

    def hydrostatic(self) -> Float[np.ndarray, "n n"]:
        """The matrix G of the geopotential above the ground, $R G T$."""
        return np.triu(np.broadcast_to(self.ratios(), (self.count, self.count)), 1) + np.diag(self.alphas())

    def descent(self) -> Float[np.ndarray, "n n"]:
        r"""The matrix S of the vertical motion, $(\omega / p) = u \cdot \nabla \ln p_s - S A$; $\Delta S = (\Delta G)^T$."""
        return self.hydrostatic().T * self.thickness() / self.thickness()[:, None]

    def fluxes(self) -> Float[np.ndarray, "n_1 n"]:
        r"""The matrix of the flow $\dot\sigma$ through the boundaries inside, `(N - 1, N)`, from A."""
        inner, thickness = np.asarray(self.boundaries)[1:-1], self.thickness()
        above = np.tril(np.ones((self.count - 1, self.count)))
        return (inner[:, None] - above) * thickness

    def __repr__(self) -> str:
        return f"SigmaLevels({self.count} layers)"


@functools.lru_cache(maxsize=16)
def vertical_modes(levels: SigmaLevels) -> VerticalModes:
    r"""Return the normal modes of the vertical.

    With the departure $\theta = (T - T_0) / T_0$ and $\pi = \ln p_s$ the gravity waves of an isothermal atmosphere at rest are

    $$\delta_t = -\nabla^2 R T_0 (G \theta + \pi), \qquad \theta_t = -\kappa S \delta, \qquad \pi_t = -\Delta^T \delta$$

    Since $\Delta S = (\Delta G)^T$, with $\delta' = \sqrt\Delta \delta$ and $x = (\sqrt{\Delta / \kappa}\, \theta, \pi)$ they are
    $\delta'_t = -\nabla^2 R T_0 C x$ and $x_t = -C^T \delta'$. The singular vectors of C, $C = U s V^T$, take them apart: each
    mode has the equations of shallow water, and both transforms are orthogonal, so that rounding errors do not grow in them.
    """
    root = np.sqrt(levels.thickness())
    joined = np.concatenate([math.sqrt(KAPPA) * root[:, None] * levels.hydrostatic() / root, root[:, None]], axis=1)
    left, speeds, right = np.linalg.svd(joined)
    weights = np.append(root / math.sqrt(KAPPA), 1.0)
    return VerticalModes(speeds, left.T * root, left / root[:, None], right * weights, right.T / weights[:, None])


def as_levels(levels: Any) -> SigmaLevels:
    """Return levels as they are, or those of a number or of boundaries."""
    return levels if isinstance(levels, SigmaLevels) else SigmaLevels(levels)
