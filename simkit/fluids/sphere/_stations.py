"""Stations on a sphere: fields and winds at any longitude and latitude, by the sums of their harmonics."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ..._doors import shown
from ..._errors import ArgumentError
from ...core import scaled
from ._harmonics import Harmonics, tables, times_i
from ._legendre import legendre_functions
from ._review import check_sphere
from ._sphere import Sphere


class Stations(eqx.Module):
    r"""Places on a sphere at which fields are observed. A field of the truncation T is summed there exactly:

    $$f(\lambda, \phi) = \sum_{l=0}^{T} \sum_{m=-l}^{l} f_l^m\, P_l^m(\sin\phi)\, e^{i m \lambda}$$

    so that nothing is interpolated, and derivatives by the field are exact. Of fields that hold higher degrees it is the series up
    to T, as in all systems on a sphere.

    - `sphere`: the `Sphere` whose fields are observed.
    - `longitude`: shape (stations,), radians eastwards, from -pi to 2 pi.
    - `latitude`: shape (stations,), radians, from -pi/2 to pi/2. At a pole east is the direction in which the longitude grows.

    In `assimilate` the operator of the observations asks them: `operator=lambda y: stations.field(y.height)`. `places()` are the
    coordinates for `assimilation.Localisation(..., sphere=sphere.radius)`.

    **Raises:** an `ArgumentError` for angles outside of these ranges, such as degrees, or that are not finite.

    ```python
    import numpy as np
    from simkit import fluids

    sphere = fluids.Sphere(10)
    stations = fluids.Stations(sphere, np.deg2rad([8.5, -74.0]), np.deg2rad([47.4, 40.7]))
    vorticity, water = fluids.rossby_haurwitz(sphere)
    print(stations.field(water.height), stations.velocity(water.velocity))
    ```
    """

    sphere: Sphere = eqx.field(static=True)
    longitude: Float[Array, " stations"]
    latitude: Float[Array, " stations"]
    values: Float[Array, "stations m 2 k"]
    slopes: Float[Array, "stations m 2 k"]
    turns: Float[Array, "stations m 2 k"]
    waves: Float[Array, "2 stations m 1 1"]

    def __init__(self, sphere: Sphere, longitude: Any, latitude: Any):
        check_sphere(sphere)
        east, north = _angles("longitude", longitude), _angles("latitude", latitude)
        if east.shape != north.shape:
            raise ArgumentError(
                f"Arguments `longitude` and `latitude` must have one number for each station, but have {east.size} and "
                f"{north.size}."
            )
        check_angles(east, north, "the stations")
        found = tables(sphere)
        sines, cosines = np.sin(north), np.cos(north)
        values = legendre_functions(sphere.truncation, sines, cosines)
        twice = np.where(found.orders == 0, 1.0, 2.0)[:, None, None]
        order, degree = np.broadcast_arrays(found.orders[:, None, None], found.degrees)
        kept = np.where(found.there, twice, 0.0)
        degree = np.minimum(degree, sphere.truncation)
        listed = lambda table: jnp.asarray(np.moveaxis(kept[..., None] * table, -1, 0), float)
        slopes, turns = _derivatives(values, sphere.truncation)
        self.sphere = sphere
        self.longitude, self.latitude = jnp.asarray(east, float), jnp.asarray(north, float)
        self.values = listed(values[order, degree])
        self.slopes, self.turns = listed(slopes[order, degree]), listed(turns[order, degree])
        angle = found.orders * east[:, None]
        self.waves = jnp.asarray(np.stack([np.cos(angle), np.sin(angle)])[..., None, None], float)

    def places(self) -> Float[np.ndarray, "stations 2"]:
        """Longitude and latitude of each station in radians, shape (stations, 2)."""
        return np.stack([np.asarray(self.longitude, float), np.asarray(self.latitude, float)], axis=1)

    def field(self, field: ArrayLike) -> Float[Array, "*leading stations"]:
        """Return the values at the stations of a field, or of several: (..., latitudes, longitudes) to (..., stations)."""
        field = self._given(field)
        modes = Harmonics(self.sphere).modes(field.reshape(-1, *self.sphere.shape))
        return self._sum(modes, self.values.astype(field.dtype)).reshape(*field.shape[:-2], -1)

    def velocity(self, velocity: ArrayLike) -> Float[Array, "2 stations"]:
        r"""Return the wind to the east and to the north at the stations, (2, latitudes, longitudes) to (2, stations).

        It is that of the vorticity and divergence of the field, regular at the poles:
        $u = \sum a / l (l + 1)\, (\partial_\phi P\, \zeta - i m P / \cos\phi\; \delta)\, e^{i m \lambda}$ and
        $v = -\sum a / l (l + 1)\, (i m P / \cos\phi\; \zeta + \partial_\phi P\, \delta)\, e^{i m \lambda}$.
        """
        velocity = self._given(velocity, 2)
        found = Harmonics(self.sphere)
        divergence, vorticity = found.divergence_and_curl(velocity)
        share = jnp.asarray(self.sphere.radius * found.inverse(), velocity.dtype)
        vorticity, divergence = scaled(share, vorticity), scaled(share, divergence)
        slopes, turns = self.slopes.astype(velocity.dtype), self.turns.astype(velocity.dtype)
        east = self._sum(vorticity, slopes) + self._sum(-times_i(divergence), turns)
        north = self._sum(-times_i(vorticity), turns) - self._sum(divergence, slopes)
        return jnp.concatenate([east, north])

    def _given(self, field: ArrayLike, leading: int = 0) -> Array:
        field = jnp.asarray(field)
        if leading:
            self.sphere.check_field(field, "velocity", (leading,))
        elif field.ndim < 2 or field.shape[-2:] != self.sphere.shape:
            self.sphere.check_field(field, "field")
        return field

    def _sum(self, modes: Array, table: Array) -> Float[Array, "f stations"]:
        """The real part of the sum of modes by a table and the waves of longitude."""
        cosine, sine = self.waves.astype(table.dtype)
        # Sums over three axes at the full precision of the type, which matrix units of some devices do not keep by default.
        product = lambda part, wave: jnp.einsum(
            "mpfk,smpk->fs", part, table * wave, precision=jax.lax.Precision.HIGHEST
        )
        return product(modes.real, cosine) - product(modes.imag, sine)

    def __repr__(self) -> str:
        return f"Stations({self.longitude.shape[0]} on {self.sphere})"


def check_angles(longitude: np.ndarray, latitude: np.ndarray, what: str) -> None:
    """Refuse longitudes outside of -pi to 2 pi and latitudes outside of -pi/2 to pi/2.

    **Raises:** an `ArgumentError` that names the first such place.
    """
    slack = 1 + 4 * np.finfo(np.float32).eps  # angles that were rounded to float32 on the way
    for name, angle, low, high, said in (
        ("latitude", latitude, -np.pi / 2, np.pi / 2, "-pi/2 to pi/2"),
        ("longitude", longitude, -np.pi, 2 * np.pi, "-pi to 2 pi"),
    ):
        outside = (angle < low * slack) | (angle > high * slack)
        if outside.any():
            worst = int(np.argmax(outside))
            raise ArgumentError(
                f"The {name} of {what} must lie from {said} in radians, but entry {worst} is {angle[worst]:g}. Degrees become "
                "radians by `np.deg2rad`."
            )


def _angles(name: str, value: Any) -> np.ndarray:
    try:
        found = np.asarray(value, float)
    except (TypeError, ValueError, jax.errors.TracerArrayConversionError) as error:
        raise ArgumentError(
            f"Argument `{name}` must hold known angles in radians, one for each station, but it is {shown(value)}."
        ) from error
    found = np.atleast_1d(found)
    if found.ndim != 1 or not found.size or not np.isfinite(found).all():
        raise ArgumentError(
            f"Argument `{name}` must hold finite angles of the shape (stations,), but its shape is {found.shape}"
            f"{'' if np.isfinite(found).all() else ' and not all are finite'}."
        )
    return found


def _derivatives(values: np.ndarray, top: int) -> tuple[np.ndarray, np.ndarray]:
    r"""The derivatives of Legendre functions by latitude, and $m P / \cos\phi$, by sums of neighbours, so that none divides by the
    cosine: (order, degree, n) each.
    """
    m, n = np.arange(top + 1.0)[:, None, None], np.arange(top + 1.0)[None, :, None]
    root = lambda x: np.sqrt(np.maximum(x, 0))
    above = np.concatenate([values[1:], np.zeros_like(values[:1])])
    below = np.concatenate([np.zeros_like(values[:1]), values[:-1]])
    slopes = 0.5 * (root((n - m) * (n + m + 1)) * above - root((n + m) * (n - m + 1)) * below)
    slopes[0] = (root(n * (n + 1)) * above)[0]
    lower = lambda table: np.concatenate([np.zeros_like(table[:, :1]), table[:, :-1]], axis=1)
    sums = root((n - m) * (n - m - 1)) * lower(above) + root((n + m) * (n + m - 1)) * lower(below)
    turns = 0.5 * root((2 * n + 1) / np.maximum(2 * n - 1, 1)) * sums
    turns[0] = 0
    return slopes, turns
