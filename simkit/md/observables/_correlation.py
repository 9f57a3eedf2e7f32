"""Correlations over time: displacement, velocity, diffusion."""

import math

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from ..._errors import ArgumentError
from ...core import fast_length, full_products

CUBIC = 2.837297
"""Yeh and Hummer's constant xi of a cubic lattice."""

NUMBERS_AT_ONCE = 2**21


def autocorrelation(series: Float[Array, "frames *n"], *, centred: bool = False) -> Float[Array, " frames"]:  # noqa: F821
    r"""The autocorrelation of a series, every frame an origin,

    $$C(m) = \frac{1}{n - m} \sum_{k=0}^{n-m-1} x_k \cdot x_{k+m}$$

    with the dot product over all components. It is computed by fast Fourier transform, n log n.

    **Arguments:** `series`, shape (frames, ...), frames equally spaced; `centred`, whether the mean over the frames is taken off.

    **Returns:** shape (frames,). Far lags have few origins: use the first tenth.
    """
    frames = series.shape[0]
    flat = series.reshape(frames, -1)
    if centred:
        flat = flat - jnp.mean(flat, axis=0, keepdims=True)
    return _summed(flat) / _origins(frames, series.dtype)


def mean_squared_displacement(position: Float[Array, "frames atoms d"]) -> Float[Array, " frames"]:
    r"""The mean squared displacement of atoms over time, every frame an origin,

    $$\mathrm{MSD}(m) = \frac{1}{N (n - m)} \sum_{k,i} |r_i(k + m) - r_i(k)|^2$$

    **Arguments:** `position`, shape (frames, atoms, d), frames equally spaced, unwrapped, as simulations give them; take
    off the path of the centre of mass where it moves.

    **Returns:** shape (frames,), 0 at the first. Far lags have few origins: use the first tenth.

    **Raises:** an `ArgumentError` for another shape.

    **Source:** the sums of squares and the product apart, the latter by fast Fourier transform: Calandrini et al. (2011),
    Collection SFN 12:201, doi:10.1051/sfn/201112010.
    """
    _check_frames("position", position)
    frames, atoms, _ = position.shape
    # About its mean an atom's path is short, and the difference of large numbers below loses few digits.
    moved = (position - jnp.mean(position, axis=0, keepdims=True)).reshape(frames, -1)
    squares = jnp.sum(moved**2, axis=1)
    ahead = jnp.cumsum(squares)[::-1]  # sum over the first n - m frames
    behind = jnp.cumsum(squares[::-1])[::-1]  # sum over the last n - m
    found = (ahead + behind - 2 * _summed(moved)) / (_origins(frames, position.dtype) * atoms)
    return found.at[0].set(0.0)


def velocity_autocorrelation(velocity: Float[Array, "frames atoms d"]) -> Float[Array, " frames"]:
    r"""The velocity autocorrelation function $\langle v_i(0) \cdot v_i(t) \rangle$, the mean over atoms and origins.

    Its integral over time, divided by d, is the diffusion coefficient: `running_integral`.

    **Arguments:** `velocity`, shape (frames, atoms, d), momenta over masses, frames equally spaced.

    **Returns:** shape (frames,).

    **Raises:** an `ArgumentError` for another shape.
    """
    _check_frames("velocity", velocity)
    return autocorrelation(velocity) / velocity.shape[1]


def running_integral(values: Float[Array, " frames"], step: Float[Array, ""] | float) -> Float[Array, " frames"]:
    """The integral of equally spaced values from the first to each, by the trapezoidal rule; 0 at the first."""
    areas = (values[1:] + values[:-1]) * (step / 2)
    return jnp.concatenate([jnp.zeros_like(values[:1]), jnp.cumsum(areas)])


@full_products
def diffusion_coefficient(
    times: Float[Array, " frames"],
    displacement: Float[Array, " frames"],
    *,
    between: tuple[float, float],
    dimensions: int = 3,
) -> Float[Array, ""]:
    r"""The diffusion coefficient $D = \frac{1}{2 d} \frac{d}{dt} \mathrm{MSD}$, the slope by least squares between two times.

    **Arguments:** `times` and `displacement`, the mean squared displacement there; `between`, where it is straight:
    after collisions have randomised the velocities, and before a tenth of the trajectory; `dimensions` d.

    **Raises:** an `ArgumentError` where fewer than two times lie between.
    """
    low, high = between
    inside = (times >= low) & (times <= high)
    if not isinstance(inside, Tracer) and int(jnp.sum(inside)) < 2:
        raise ArgumentError(f"Argument `between` must hold at least two of the times, but {low} to {high} holds fewer.")
    weight = inside.astype(displacement.dtype)
    weight = weight / jnp.sum(weight)
    t = (times - jnp.vdot(weight, times.astype(weight.dtype)).astype(times.dtype)).astype(weight.dtype)
    slope = jnp.vdot(weight * t, displacement) / jnp.vdot(weight * t, t)
    return slope / (2 * dimensions)


def finite_size_diffusion(
    diffusion: Float[Array, ""] | float,
    temperature: Float[Array, ""] | float,
    viscosity: Float[Array, ""] | float,
    length: Float[Array, ""] | float,
    *,
    boltzmann: float = 1.0,
) -> Float[Array, ""]:
    r"""The diffusion coefficient of an infinite system from that of a periodic cube,

    $$D_\infty = D_L + \frac{\xi\, k_B T}{6 \pi \eta L}, \qquad \xi = 2.837297$$

    An atom drags its own images along; at 500 atoms of a simple liquid that is some ten percent.

    **Arguments:** `diffusion` in a cube of edge `length`, `temperature`, shear `viscosity`, which hardly depends on size.

    **Source:** Yeh and Hummer (2004), J. Phys. Chem. B 108:15873, doi:10.1021/jp0477147, equation 13.
    """
    return jnp.asarray(diffusion + CUBIC * boltzmann * temperature / (6 * math.pi * viscosity * length))


def _summed(flat: Array) -> Array:
    """Sums over origins and columns of the products x_k x_{k+m}, with columns transformed in portions."""
    frames, columns = flat.shape
    size = fast_length(2 * frames - 1)
    at_once = max(1, min(columns, NUMBERS_AT_ONCE // size))
    portions = -(-columns // at_once)
    padded = jnp.pad(flat, ((0, 0), (0, portions * at_once - columns)))
    stacked = jnp.moveaxis(padded.reshape(frames, portions, at_once), 1, 0)

    @jax.checkpoint
    def power(portion: Array) -> Array:
        waves = jnp.fft.rfft(portion, n=size, axis=0)
        return jnp.sum(waves.real**2 + waves.imag**2, axis=1)

    total = jnp.sum(jax.lax.map(power, stacked), axis=0)
    return jnp.fft.irfft(total.astype(_complex(total)), n=size)[:frames]


def _complex(x: Array):
    return jnp.complex128 if x.dtype == jnp.float64 else jnp.complex64


def _origins(frames: int, dtype: DTypeLike) -> Array:
    return jnp.arange(frames, 0, -1).astype(dtype)


def _check_frames(name: str, series: Array) -> None:
    if series.ndim != 3:
        raise ArgumentError(f"Argument `{name}` must have the shape (frames, atoms, d), but it has {series.shape}.")
