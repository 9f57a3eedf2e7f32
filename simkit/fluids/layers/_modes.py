"""Fields in a layer from Stokes modes and modes of diffusion, and the projections of fields on them."""

import dataclasses
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from ._layer import PlaneLayer
from ._tables import Diffusion, Ends, Stokes, diffusion, stokes, wavenumbers


class Modes(eqx.Module):
    """State of a solver: real and imaginary parts of modes, an array for each unit, in the unit of its field.

    - `velocity`: `(Kx, Ky, 2, N)`: of Stokes modes, behind them in three dimensions of flow along the walls and across the waves.
        At the wave 0, which has neither, the modes of the mean flow, its difference from the profile of the walls: along x
        in the real parts, along y in the imaginary ones.
    - `scalars`: by name, `(Kx, Ky, 2, M)`, the difference from the profile of the walls.

    One array holds all of the velocity, so that parts that are nothing but rounding are judged beside the others.
    """

    velocity: Array
    scalars: dict[str, Array]


def times_i(x: Float[Array, "kx ky 2 *n"]) -> Float[Array, "kx ky 2 *n"]:
    """Return i x of real and imaginary parts."""
    return jnp.stack([-x[:, :, 1], x[:, :, 0]], axis=2)


@dataclasses.dataclass(frozen=True)
class Velocity:
    """Transforms of the velocity in a layer with walls of given kinds; `balanced`: whether the mean flow is given.

    Columns are `(Kx, Ky, 2, fields, nz)`: series along the walls, values at the points across.
    """

    layer: PlaneLayer
    ends: Ends
    balanced: bool

    @property
    def stokes(self) -> Stokes:
        """The Stokes modes."""
        return stokes(self.layer, self.ends)

    @property
    def across(self) -> Diffusion:
        """The modes of the velocity across the waves."""
        return diffusion(self.layer, self.ends)

    @property
    def mean(self) -> Diffusion:
        """The modes of the mean flow."""
        return diffusion(self.layer, self.ends, self.balanced)

    def columns(self, modes: Modes) -> tuple[Array, Array]:
        """The velocity and the vorticity: components u (v) w, and in two dimensions the vorticity along y alone."""
        layer, dtype = self.layer, modes.velocity.dtype
        of = lambda x: jnp.asarray(x, dtype)
        waves, found = wavenumbers(layer), self.stokes
        size, east, north = of(waves.size), of(waves.direction[0]), of(waves.direction[1])
        count = found.mixing.shape[-1]
        shared = lax.dot_general(modes.velocity[..., :count], of(found.mixing), (((3,), (3,)), ((0, 1), (0, 1))))
        height, slope, curve = (shared @ of(table) for table in found.values)
        slope, turning = times_i(slope), times_i(size * size * height - curve)
        upward = size * height
        mean, sheared = (self.mean_modes(modes) @ of(table) for table in self.mean.values)
        if layer.dimensions == 2:
            velocity = [_with_mean(slope * east, mean[0]), upward]
            vorticity = [_with_mean(-turning * east, sheared[0])]
        else:
            side, shear = (modes.velocity[..., count:] @ of(table) for table in self.across.values)
            vertical = size * side
            side, shear = times_i(side), times_i(shear)
            velocity = [
                _with_mean(east * slope + north * side, mean[0]),
                _with_mean(north * slope - east * side, mean[1]),
                upward,
            ]
            vorticity = [
                _with_mean(east * shear + north * turning, -sheared[1]),
                _with_mean(north * shear - east * turning, sheared[0]),
                vertical,
            ]
        return jnp.stack(velocity, 3), jnp.stack(vorticity, 3) / layer.depth

    def projected(self, columns: Array, scalars: dict[str, Array]) -> Modes:
        """The solenoidal part of a vector in columns, by the scalar products with all modes; pressure has none."""
        layer, dtype = self.layer, columns.dtype
        of = lambda x: jnp.asarray(x, dtype)
        waves, found, weights = wavenumbers(layer), self.stokes, layer.weights()
        size, east, north = of(waves.size), of(waves.direction[0]), of(waves.direction[1])
        parts = [columns[:, :, :, i] for i in range(layer.dimensions)]
        three = layer.dimensions == 3
        slope = -times_i(east * parts[0] + north * parts[1] if three else east * parts[0])
        heights, slopes, _ = (of(table * weights).T for table in found.values)
        shared = (size * parts[-1]) @ heights + slope @ slopes
        poloidal = lax.dot_general(shared, of(found.mixing), (((3,), (2,)), ((0, 1), (0, 1))))
        across, mean = (of(table.values[0] * weights).T for table in (self.across, self.mean))
        both = [poloidal, -times_i(north * parts[0] - east * parts[1]) @ across] if three else [poloidal]
        along = jnp.stack([part[0, 0, 0] for part in parts[:-1]]) @ mean
        return Modes(self.joined(both, along), scalars)

    def joined(self, parts: list[Array], mean: Array) -> Array:
        """The array of all modes of the velocity, from those of waves and `(dimensions - 1, M)` of the mean flow."""
        found = jnp.concatenate(parts, axis=-1)
        short = mean.shape[1] - found.shape[3]  # in two dimensions there are one or two more modes of the mean flow
        if short > 0:
            found = jnp.pad(found, ((0, 0), (0, 0), (0, 0), (0, short)))
        row = jnp.zeros(found.shape[2:], found.dtype).at[: mean.shape[0], : mean.shape[1]].set(mean)
        return found.at[0, 0].set(row)

    def mean_modes(self, modes: Modes) -> Array:
        """The modes of the mean flow, `(dimensions - 1, M)`."""
        return modes.velocity[0, 0, : self.layer.dimensions - 1, : self.mean.rates.size]

    def rates(self, dtype: Any) -> Array:
        """The rates at which a viscosity of 1 damps modes, over the square of the depth, `(Kx, Ky, 2, N)`."""
        size = wavenumbers(self.layer).size
        parts = [self.stokes.rates, size**2 + self.across.rates] if self.layer.dimensions == 3 else [self.stokes.rates]
        found = np.concatenate(parts, axis=-1)
        count = self.mean.rates.size
        found = np.pad(found, ((0, 0), (0, 0), (0, 1), (0, max(count - found.shape[3], 0))), mode="edge")
        found[0, 0] = 0.0
        found[0, 0, :, :count] = self.mean.rates
        return jnp.asarray(found / self.layer.depth**2, dtype)


def _with_mean(columns: Array, mean: Array) -> Array:
    """Columns with the mean over the walls, of the wave 0."""
    return columns.at[0, 0, 0].add(mean)


@dataclasses.dataclass(frozen=True)
class Carried:
    """Transforms of a scalar in a layer whose walls give its value or its slope."""

    layer: PlaneLayer
    fixed: Ends

    @property
    def modes(self) -> Diffusion:
        """The modes across."""
        return diffusion(self.layer, self.fixed)

    def columns(self, modes: Array) -> Array:
        """The scalar in columns, `(Kx, Ky, 2, nz)`."""
        return modes @ jnp.asarray(self.modes.values[0], modes.dtype)

    def projected(self, columns: Array) -> Array:
        """The modes of a scalar in columns."""
        return columns @ jnp.asarray((self.modes.values[0] * self.layer.weights()).T, columns.dtype)

    def outflow(self, flux: Array) -> Array:
        """The modes of the negative divergence of a flux in columns, `(Kx, Ky, 2, dimensions, nz)`, with none through the walls."""
        layer, dtype = self.layer, flux.dtype
        of = lambda x: jnp.asarray(x, dtype)
        x, y = wavenumbers(layer).along
        along = of(x) * flux[:, :, :, 0]
        if layer.dimensions == 3:
            along = along + of(y) * flux[:, :, :, 1]
        slopes = of((self.modes.values[1] * layer.weights()).T)
        return (flux[:, :, :, -1] @ slopes - self.projected(times_i(along))) / layer.depth

    def rates(self, dtype: Any) -> Array:
        """The rates at which a diffusivity of 1 damps modes, over the square of the depth."""
        size = wavenumbers(self.layer).size
        return jnp.asarray((size**2 + self.modes.rates) / self.layer.depth**2, dtype)

    def constant(self, value: Array) -> Array:
        """The modes of a field that is the same everywhere."""
        sizes = jnp.asarray(means_of(self.modes, self.layer), value.dtype)
        shape = (*wavenumbers(self.layer).size.shape[:2], 2, sizes.size)
        return jnp.zeros(shape, value.dtype).at[0, 0, 0].set(value * sizes)


def means_of(table: Diffusion, layer: PlaneLayer) -> np.ndarray:
    """The means over the layer of modes across."""
    return table.values[0] @ layer.weights()
