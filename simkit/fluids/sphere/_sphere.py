"""Spheres: Gauss-Legendre grids with a triangular truncation."""

import dataclasses
import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ..._doors import check_count, check_kind, shown
from ..._errors import ArgumentError
from ...core import fast_length
from ._legendre import gaussian_latitudes

EARTH = 6.37122e6
"""Radius of the Earth in metres, as test cases take it (Williamson et al. 1992)."""


@dataclasses.dataclass(frozen=True, init=False)
class Sphere:
    r"""A sphere with a Gauss-Legendre grid and the spherical harmonics that it resolves: known while tracing, and hashable.

    Fields are series $f(\lambda, \phi) = \sum_{l \le T} \sum_{|m| \le l} f_l^m P_l^m(\sin\phi)\, e^{i m \lambda}$
    with the triangular
    truncation T, which resolves all places and directions alike. The grid is large enough for products of two series to be
    projected exactly (Orszag): at least $3T + 1$ longitudes and $(3T + 1)/2$ latitudes.

    **Arguments:**

    - `truncation`: T, the highest degree: 31, 42, 63, 85 have the customary grids of 96x48, 128x64, 192x96, 256x128.
    - `radius`: in any unit of length; by default the Earth's, in metres.
    - `longitudes`, `latitudes`: points of the grid; by default the fewest that do not alias, in numbers that suit transforms.

    Fields have the shape `(latitudes, longitudes)`, latitudes from south to north and longitudes from 0 eastwards; a velocity is
    `(2, latitudes, longitudes)`, to the east and to the north. No point lies on a pole.

    **Raises:** an `ArgumentError` for a grid on which products of the truncation alias.

    **Source:** Orszag (1970), J. Atmos. Sci. 27:890; Williamson et al. (1992), J. Comput. Phys. 102:211,
    doi:10.1016/S0021-9991(05)80016-6.

    ```python
    from simkit import fluids

    sphere = fluids.Sphere(31)
    longitude, latitude = sphere.mesh()
    print(sphere)  # prints Sphere(T31, 48 latitudes x 96 longitudes, radius 6.37122e+06)
    ```
    """

    truncation: int
    radius: float
    longitudes: int
    latitudes: int

    def __init__(
        self,
        truncation: int = 31,
        *,
        radius: float = EARTH,
        longitudes: int | None = None,
        latitudes: int | None = None,
    ):
        check_count("truncation", truncation)
        check_kind("radius", radius, int | float | np.floating | np.integer, "a number", "Write `radius=6.37122e6`.")
        if not (radius > 0 and math.isfinite(radius)):
            raise ArgumentError(f"Argument `radius` must be positive and finite, but is {shown(radius)}.")
        least = 3 * truncation + 1
        if longitudes is None:
            longitudes = fast_length(least if latitudes is None else max(least, 2 * latitudes), 4)
        latitudes = max(longitudes // 2, 2 * -(-least // 4)) if latitudes is None else latitudes
        check_count("longitudes", longitudes)
        check_count("latitudes", latitudes)
        if longitudes < least or 2 * latitudes < least:
            raise ArgumentError(
                f"Argument `truncation` must be at most {min((longitudes - 1) // 3, (2 * latitudes - 1) // 3)} on {longitudes} "
                f"longitudes and {latitudes} latitudes, but is {truncation}: products would alias. Give at "
                f"least {least} longitudes "
                f"and {-(-least // 2)} latitudes, or none."
            )
        if longitudes % 2 or latitudes % 2:
            raise ArgumentError(
                f"Arguments `longitudes` and `latitudes` must be even, but are {longitudes} and {latitudes}. Take one more."
            )
        object.__setattr__(self, "truncation", int(truncation))
        object.__setattr__(self, "radius", float(radius))
        object.__setattr__(self, "longitudes", int(longitudes))
        object.__setattr__(self, "latitudes", int(latitudes))

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of latitudes and of longitudes."""
        return self.latitudes, self.longitudes

    @property
    def area(self) -> float:
        """The area of the sphere."""
        return 4 * math.pi * self.radius**2

    def sines(self) -> Float[np.ndarray, " latitudes"]:
        """The sines of the latitudes, from south to north."""
        return gaussian_latitudes(self.latitudes).sines

    def cosines(self) -> Float[np.ndarray, " latitudes"]:
        """The cosines of the latitudes, from south to north."""
        return gaussian_latitudes(self.latitudes).cosines

    def weights(self) -> Float[np.ndarray, " latitudes"]:
        """The weights of the latitudes in a mean over the sphere; their sum is 1."""
        return gaussian_latitudes(self.latitudes).weights

    def mesh(self) -> tuple[Float[np.ndarray, "latitudes longitudes"], Float[np.ndarray, "latitudes longitudes"]]:
        """Longitude and latitude of the points in radians, two arrays of the shape of fields."""
        longitude = 2 * np.pi * np.arange(self.longitudes) / self.longitudes
        found = np.meshgrid(longitude, gaussian_latitudes(self.latitudes).angles)
        return found[0], found[1]

    def places(self, fields: int = 1) -> Float[np.ndarray, "numbers 2"]:
        """Longitude and latitude in radians of each number of a flat state of so many fields, shape (numbers, 2): the `places` of
        `assimilation.Localisation`. `ShallowWaterSphere` has three fields, height and two velocities."""
        check_count("fields", fields)
        longitude, latitude = self.mesh()
        return np.tile(np.stack([longitude.ravel(), latitude.ravel()], axis=1), (fields, 1))

    def mean(self, field: ArrayLike) -> Array:
        """The mean over the sphere of fields `(..., latitudes, longitudes)`, exact for products of two series."""
        field = jnp.asarray(field)
        return jnp.mean(field, axis=-1) @ jnp.asarray(self.weights(), field.dtype)

    def check_field(self, field: Any, name: str, leading: tuple[int, ...] = ()) -> None:
        """Refuse an array that has not the shape of the grid, with the sizes of the axes in front of it."""
        shape = (*leading, *self.shape)
        if jnp.shape(field) != shape:
            raise ArgumentError(
                f"Argument `{name}` must have the shape {shape} of its sphere, latitudes before longitudes, but has "
                f"{jnp.shape(field)}. Build it on `sphere.mesh()`."
            )

    def __repr__(self) -> str:
        return f"Sphere(T{self.truncation}, {self.latitudes} latitudes x {self.longitudes} longitudes, radius {self.radius:.6g})"
