"""Initial conditions: velocities at the centres of cells, `(dimensions, *shape)`, and vorticities of vortices, `shape`."""

import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PRNGKeyArray

from ..._errors import ArgumentError
from ...core import as_float_array, scaled
from ..grids._compiled import compiled
from ..grids._grid import Grid
from ._waves import Waves


@compiled
def taylor_green(grid: Grid, amplitude: ArrayLike = 1.0, *, waves: int = 1) -> Float[Array, "..."]:
    r"""The vortices of Taylor and Green, `waves` of them along each axis:

    $$u = A \cos k_x x \sin k_y y, \quad v = -A \frac{k_x}{k_y} \sin k_x x \cos k_y y$$

    in two dimensions, an exact solution that decays by $e^{-\nu |k|^2 t}$, and

    $$u = A \sin k_x x \cos k_y y \cos k_z z, \quad v = -A \frac{k_x}{k_y} \cos k_x x \sin k_y y \cos k_z z, \quad w = 0$$

    in three, which turns into turbulence.

    **Reference:** Taylor and Green (1937), Proc. R. Soc. A 158:499.
    """
    grid.check_dimensions((2, 3), "Taylor-Green vortices")
    a = as_float_array(amplitude)
    k = [2 * math.pi * waves / length for length in grid.lengths]
    angles = [wave * x.astype(a.dtype) for wave, x in zip(k, grid.mesh(), strict=True)]
    (x, y), ratio = angles[:2], k[0] / k[1]
    if grid.dimensions == 2:
        return a * jnp.stack([jnp.cos(x) * jnp.sin(y), -ratio * jnp.sin(x) * jnp.cos(y)])
    above = jnp.cos(angles[2])
    return a * jnp.stack([jnp.sin(x) * jnp.cos(y) * above, -ratio * jnp.cos(x) * jnp.sin(y) * above, jnp.zeros_like(x)])


@compiled
def double_shear_layer(
    grid: Grid, amplitude: ArrayLike = 1.0, *, thickness: ArrayLike = 1 / 30, perturbation: ArrayLike = 0.05
) -> Float[Array, "..."]:
    r"""Two shear layers at a quarter and three quarters of the second axis, and a weak wave across them that rolls them up:

    $$u = A \tanh\frac{1/4 - |y/L_y - 1/2|}{\delta}, \qquad v = A \epsilon \sin\frac{2\pi x}{L_x}$$

    with the `thickness` $\delta$ and the `perturbation` $\epsilon$. A thickness of 1/30 wants 128 cells, 1/80 (the thin
    layer) 256.

    **Reference:** Brown and Minion (1995), J. Comput. Phys. 122:165, doi:10.1006/jcph.1995.1205.
    """
    grid.check_dimensions((2, 3), "a double shear layer")
    a = as_float_array(amplitude)
    x, y = (
        ((c - o) / length).astype(a.dtype)
        for c, o, length in zip(grid.mesh()[:2], grid.origin, grid.lengths, strict=False)
    )
    u = jnp.tanh((0.25 - jnp.abs(y - 0.5)) / jnp.asarray(thickness, a.dtype))
    v = jnp.asarray(perturbation, a.dtype) * jnp.sin(2 * jnp.pi * x)
    return a * jnp.stack([u, v] + [jnp.zeros_like(u)] * (grid.dimensions - 2))


@compiled
def kolmogorov_profile(grid: Grid, amplitude: ArrayLike = 1.0, *, waves: int = 4) -> Float[Array, "..."]:
    r"""The parallel flow $u = A \sin(2\pi n y / L_y)$ with n `waves`, which Kolmogorov's force drives; unstable at large
    Reynolds numbers.

    **Reference:** Meshalkin and Sinai (1961), J. Appl. Math. Mech. 25:1700.
    """
    grid.check_dimensions((2, 3), "Kolmogorov's flow")
    a = as_float_array(amplitude)
    y = ((grid.mesh()[1] - grid.origin[1]) * (2 * math.pi * waves / grid.lengths[1])).astype(a.dtype)
    return a * jnp.stack([jnp.sin(y)] + [jnp.zeros_like(y)] * (grid.dimensions - 1))


@compiled
def random_velocity(
    grid: Grid,
    key: PRNGKeyArray,
    *,
    peak: ArrayLike = 4.0,
    speed: ArrayLike = 1.0,
    spectrum: Callable[[Array], Array] | None = None,
) -> Float[Array, "..."]:
    r"""A random velocity without divergence: independent normal modes with the energy spectrum

    $$E(k) \propto k^4 e^{-2 (k/k_p)^2}$$

    or any other, scaled to a root mean square `speed`.

    **Arguments:**

    - `grid`: two- or three-dimensional, with equal cells.
    - `key`: a random key.
    - `peak`: $k_p$, the wavenumber with the most energy, in units of the smallest, $2\pi$ by the longest edge.
    - `speed`: $\sqrt{\langle |u|^2 \rangle}$.
    - `spectrum`: energy by wavenumber, in the same units, in place of the formula.

    Modes beyond two thirds of the highest are left empty, so that a solver's dealiasing takes nothing away.

    **Reference:** Rogallo (1981), NASA TM 81315; the spectrum: Orszag and Patterson (1972), Phys. Rev. Lett. 28:76.
    """
    grid.check_dimensions((2, 3), "a random velocity")
    d, waves, speed = grid.dimensions, Waves(grid, 2), as_float_array(speed)
    noise = jax.random.normal(key, (d, *grid.shape), speed.dtype)
    modes = waves.modes(noise)  # of white noise: the right symmetry for real fields, and independent
    unit = 2 * math.pi / max(grid.lengths)
    k = jnp.sqrt(waves.square(speed.dtype)) / unit
    safe = jnp.where(k == 0, 1, k)
    energy = spectrum(safe) if spectrum is not None else safe**4 * jnp.exp(-2 * (safe / peak) ** 2)
    size = jnp.where(k == 0, 0, jnp.sqrt(energy / safe ** (d - 1)))
    modes = solenoidal(waves, scaled(size[None], modes))
    total = jnp.sum(waves.inner(modes, modes))
    return waves.field(scaled(speed / jnp.sqrt(total), modes))


@compiled
def vortices(
    grid: Grid,
    positions: ArrayLike | Sequence[Sequence[ArrayLike]],
    circulations: ArrayLike | Sequence[ArrayLike],
    *,
    radius: ArrayLike = 0.3,
    velocity: bool = False,
) -> Float[Array, "..."]:
    r"""The vorticity of Lamb-Oseen vortices, $\omega = \sum_i \frac{\Gamma_i}{\pi r^2} e^{-|x - x_i|^2 / r^2}$, with
    their periodic
    images; of its mean, which a periodic flow cannot have, it is freed.

    **Arguments:**

    - `grid`: two-dimensional, with equal cells.
    - `positions`: `(vortices, 2)`; `circulations`: `(vortices,)`, positive ones turn anticlockwise.
    - `radius`: r, at least two cells.
    - `velocity`: whether to return the velocity `(2, *shape)` in place of the vorticity.
    """
    grid.check_dimensions((2,), "vortices")
    where, strength = as_float_array(positions), as_float_array(circulations)
    if where.ndim != 2 or where.shape[1] != 2 or strength.shape != where.shape[:1]:
        raise ArgumentError(
            "Arguments `positions` and `circulations` must have the shapes (vortices, 2) and (vortices,), but they have "
            f"{where.shape} and {strength.shape}."
        )
    waves, r = Waves(grid, 1), jnp.asarray(radius, where.dtype)
    kx, ky = (waves.wavenumber(axis, where.dtype) for axis in (0, 1))
    first = [o + 0.5 * grid.spacing(axis) for axis, o in enumerate(grid.origin)]
    size = jnp.where(waves.square(where.dtype) == 0, 0, jnp.exp(-0.25 * r**2 * waves.square(where.dtype)) / grid.volume)

    def one(at: Array, circulation: Array) -> Array:
        angle = -(kx * (at[0] - first[0]) + ky * (at[1] - first[1]))
        return scaled(circulation * size, lax.complex(jnp.cos(angle), jnp.sin(angle)))

    modes = jnp.sum(jax.vmap(one)(where, strength), axis=0)
    return waves.field(velocity_of_vorticity(waves, modes)) if velocity else waves.field(modes)


@compiled
def vorticity(grid: Grid, velocity: ArrayLike) -> Float[Array, "..."]:
    r"""The vorticity of a velocity on a periodic grid: $\partial_x v - \partial_y u$, `shape`, in two dimensions, the curl,
    `(3, *shape)`, in three."""
    grid.check_dimensions((2, 3), "a vorticity")
    grid.check_field(velocity, "velocity", (grid.dimensions,))
    waves = Waves(grid, 1)
    return waves.field(curl(waves, waves.modes(as_float_array(velocity))))


def solenoidal(waves: Waves, modes: Array) -> Array:
    """The part without divergence of the modes `(dimensions, *shape)` of a velocity."""
    d = waves.grid.dimensions
    divergence = sum((waves.derivative(modes[i], i) for i in range(1, d)), waves.derivative(modes[0], 0))
    potential = waves.inverse_laplacian(divergence)
    return modes - jnp.stack([waves.derivative(potential, i) for i in range(d)])


def curl(waves: Waves, modes: Array) -> Array:
    """The modes of the vorticity of a velocity."""
    slope = lambda i, axis: waves.derivative(modes[i], axis)
    if waves.grid.dimensions == 2:
        return slope(1, 0) - slope(0, 1)
    return jnp.stack([slope(2, 1) - slope(1, 2), slope(0, 2) - slope(2, 0), slope(1, 0) - slope(0, 1)])


def velocity_of_vorticity(waves: Waves, modes: Array) -> Array:
    """The modes of the velocity without mean of a vorticity in two dimensions."""
    stream = waves.inverse_laplacian(modes)
    return jnp.stack([-waves.derivative(stream, 1), waves.derivative(stream, 0)])
