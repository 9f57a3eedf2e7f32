"""Transport coefficients from fluctuations in equilibrium: Green-Kubo integrals."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..._errors import ArgumentError
from ._correlation import autocorrelation, running_integral


class GreenKubo(eqx.Module):
    """`time`; `correlation`, with its prefactor; `integral` up to each time, whose plateau is the coefficient."""

    time: Float[Array, " frames"]
    correlation: Float[Array, " frames"]
    integral: Float[Array, " frames"]


def green_kubo_viscosity(
    stress: Float[Array, "frames d k"],
    step: Float[Array, ""] | float,
    volume: Float[Array, ""] | float,
    temperature: Float[Array, ""] | float,
    *,
    boltzmann: float = 1.0,
) -> GreenKubo:
    r"""The shear viscosity from fluctuations of the pressure tensor,

    $$\eta(t) = \frac{V}{(d - 1)(d + 2)\, k_B T} \int_0^t \langle P^{os}(0) : P^{os}(s) \rangle\, ds$$

    with the symmetric traceless part $P^{os}$, so that all five independent components of three dimensions are averaged.

    **Arguments:**

    - `stress`: the pressure tensor, or its negative, the stress: shape (frames, d, d), of equally spaced frames. The spacing must
        resolve the correlation: some ten time steps.
    - `step`: the time between frames.
    - `volume`, `temperature`, `boltzmann`: of the system.

    **Returns:** a `GreenKubo`. Read the plateau; later the noise of few origins takes over.

    **Raises:** an `ArgumentError` for another shape.

    **Good values:** a Lennard-Jones liquid near its triple point decorrelates within some 2 reduced units of time.

    **Source:** Daivis and Evans (1994), J. Chem. Phys. 100:541, doi:10.1063/1.466970, equation 9.
    """
    if stress.ndim != 3 or stress.shape[1] != stress.shape[2]:
        raise ArgumentError(f"Argument `stress` must have the shape (frames, d, d), but it has {stress.shape}.")
    d = stress.shape[-1]
    symmetric = (stress + jnp.swapaxes(stress, 1, 2)) / 2
    trace = jnp.trace(symmetric, axis1=1, axis2=2)[:, None, None] / d
    traceless = symmetric - trace * jnp.eye(d, dtype=stress.dtype)[None]
    scale = volume / ((d - 1) * (d + 2) * boltzmann * temperature)
    return _integrated(autocorrelation(traceless) * scale, step)


def green_kubo_conductivity(
    current: Float[Array, "frames d"],
    step: Float[Array, ""] | float,
    volume: Float[Array, ""] | float,
    temperature: Float[Array, ""] | float,
    *,
    boltzmann: float = 1.0,
) -> GreenKubo:
    r"""The electric conductivity from fluctuations of the current $J = \sum_i q_i v_i$,

    $$\sigma(t) = \frac{1}{d\, V k_B T} \int_0^t \langle J(0) \cdot J(s) \rangle\, ds$$

    **Arguments:** `current`, shape (frames, d), of equally spaced frames: `electric_current`; `step`, `volume`, `temperature` and
    `boltzmann` as for `green_kubo_viscosity`.

    **Returns:** a `GreenKubo`.

    **Raises:** an `ArgumentError` for another shape.

    **Source:** Allen and Tildesley (2017), Computer Simulation of Liquids, section 2.7.
    """
    if current.ndim != 2:
        raise ArgumentError(f"Argument `current` must have the shape (frames, d), but it has {current.shape}.")
    scale = 1.0 / (current.shape[1] * volume * boltzmann * temperature)
    return _integrated(autocorrelation(current) * scale, step)


def electric_current(
    momentum: Float[Array, "*frames atoms d"], mass: Float[Array, " n"], charge: Float[Array, " k"]
) -> Float[Array, "*frames d"]:
    r"""The electric current $J = \sum_i q_i p_i / m_i$ of a frame, or of each frame of a trajectory."""
    if not mass.shape == charge.shape == momentum.shape[-2:-1]:
        raise ArgumentError(
            f"Arguments `mass` and `charge` must have one entry for each atom of `momentum`, but their shapes are {mass.shape}, "
            f"{charge.shape} and {momentum.shape}."
        )
    return jnp.einsum("...ad,a->...d", momentum, charge / mass)


def _integrated(correlation: Array, step: Float[Array, ""] | float) -> GreenKubo:
    time = jnp.arange(correlation.shape[0]).astype(correlation.dtype) * step
    return GreenKubo(time, correlation, running_integral(correlation, step))
