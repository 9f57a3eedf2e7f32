"""Transforms between fields on a sphere and their spherical harmonics, as products of small matrices."""

import dataclasses
import functools
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import DTypeLike
from jaxtyping import Array, Complex, Float

from ...core import scaled
from ._legendre import epsilon, legendre_functions
from ._longitudes import around, fourier, orders_of
from ._sphere import Sphere


class Tables(NamedTuple):
    """The numbers of the transforms of a sphere, in NumPy.

    Orders m stand even ones first, since even and odd ones are alike and opposite in the two halves of a circle of latitude. The
    degrees of each order stand apart by their parity $p = (l - m) \\bmod 2$, as $l = m + 2 k + p$, since they are
    alike and opposite
    in the two hemispheres. Both halve the work. There is room for the degree T + 1, which winds and fluxes have; else it is zero.

    - `orders`: m of each place, `(M,)`.
    - `degrees`: l of each place, `(M, 2, K)`, and `there`, where it is at most T.
    - `values`: P at the latitudes of a hemisphere from the pole on, `(M, 2, K, J)`, and `turned`, the same as `(M,
        2, J, K)`: products
        over an inner axis of a table take up to twice as long.
    """

    orders: np.ndarray
    degrees: np.ndarray
    there: np.ndarray
    values: np.ndarray
    turned: np.ndarray


@functools.lru_cache(maxsize=8)
def tables(sphere: Sphere) -> Tables:
    """Return the numbers of the transforms of a sphere, made once."""
    top = sphere.truncation
    orders, half = orders_of(top), sphere.latitudes // 2
    degrees = orders[:, None, None] + np.arange(2)[:, None] + 2 * np.arange((top + 1) // 2 + 1)
    values = legendre_functions(top + 1, -sphere.sines()[:half], sphere.cosines()[:half])
    picked = values[orders[:, None, None], np.minimum(degrees, top + 1)]
    values = np.where((degrees <= top + 1)[..., None], picked, 0)
    turned = np.ascontiguousarray(np.swapaxes(values, 2, 3))
    return Tables(orders, degrees, degrees <= top, values, turned)


@dataclasses.dataclass(frozen=True)
class Harmonics:
    r"""Spherical harmonics of a sphere, and transforms to and from its grid.

    Modes are `(M, 2, fields, K)`: orders, parities of the degree, fields, and the degrees of an order and a parity (see `Tables`).
    A mode $f_l^m$ of order 0 and degree 0 is the mean of the field. Fields between transforms are *columns*
    `(longitudes, 2, fields, J)`, with the northern and the southern hemisphere, each from its pole.
    """

    sphere: Sphere

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """The shape of the modes of one field."""
        found = tables(self.sphere).degrees.shape
        return found[0], found[1], 1, found[2]

    @property
    def grid(self) -> tuple[int, int, int, int]:
        """The shape of the columns of one field."""
        return self.sphere.longitudes, 2, 1, self.sphere.latitudes // 2

    def degrees(self) -> np.ndarray:
        """The degree l of each mode, 0 where there is none, `shape`."""
        found = tables(self.sphere)
        return np.where(found.there, found.degrees, 0)[:, :, None]

    def orders(self) -> np.ndarray:
        """The order m of each mode, 0 where there is none, `shape`."""
        found = tables(self.sphere)
        return np.where(found.there, found.orders[:, None, None], 0)[:, :, None]

    def eigenvalues(self) -> np.ndarray:
        """The eigenvalues l (l + 1) of the negative Laplacian on the unit sphere, `shape`."""
        degrees = self.degrees()
        return degrees * (degrees + 1.0)

    def inverse(self) -> np.ndarray:
        """One by `eigenvalues`, and 0 for the mean."""
        eigenvalues = self.eigenvalues()
        return np.where(eigenvalues > 0, 1 / np.where(eigenvalues > 0, eigenvalues, 1), 0)

    def columns(self, fields: Float[Array, "f latitudes longitudes"]) -> Float[Array, "n 2 f j"]:
        """Fields in the order of the transforms."""
        half = self.sphere.latitudes // 2
        south, north = fields[:, :half], fields[:, : half - 1 : -1]
        return jnp.transpose(jnp.stack([north, south]), (3, 0, 1, 2))

    def fields(self, columns: Float[Array, "n 2 f j"]) -> Float[Array, "f latitudes longitudes"]:
        """Fields in the order of users."""
        found = jnp.transpose(columns, (1, 2, 3, 0))
        return jnp.concatenate([found[1], found[0][:, ::-1]], axis=1)

    def latitude_values(self, values: np.ndarray, dtype: DTypeLike) -> Array:
        """Numbers of each latitude, from south to north, for columns: `(1, 2, 1, J)`."""
        half = self.sphere.latitudes // 2
        return jnp.asarray(np.stack([values[::-1][:half], values[:half]])[None, :, None], dtype)

    def fourier(self, columns: Float[Array, "n 2 f j"]) -> Float[Array, "m 2 fr j"]:
        """Fourier series of columns along longitude, apart by parity of latitude: real and imaginary parts of each field."""
        return fourier(self.sphere.truncation, columns)

    def around(self, waves: Float[Array, "m 2 fr j"]) -> Float[Array, "n 2 f j"]:
        """Columns of Fourier series, apart by parity of latitude."""
        return around(self.sphere.longitudes, waves)

    def projected(self, waves: Float[Array, "m 2 fr j"]) -> Complex[Array, "m 2 f k"]:
        """Sums over latitudes of Fourier series and P, which with weights in the columns are modes, those of degree T + 1 too."""
        table = jnp.asarray(tables(self.sphere).turned, waves.dtype)
        sums = lax.dot_general(waves, table, (((3,), (2,)), ((0, 1), (0, 1))))
        sums = sums.reshape(*sums.shape[:2], -1, 2, sums.shape[-1])
        return lax.complex(sums[..., 0, :], sums[..., 1, :])

    def summed(self, modes: Complex[Array, "m 2 f k"]) -> Float[Array, "m 2 fr j"]:
        """Fourier series at each latitude of modes, as sums of P."""
        table = jnp.asarray(tables(self.sphere).values, modes.real.dtype)
        both = jnp.stack([modes.real, modes.imag], 3)
        rows = both.reshape(*both.shape[:2], -1, both.shape[-1])
        return lax.dot_general(rows, table, (((3,), (2,)), ((0, 1), (0, 1))))

    def modes(self, fields: Float[Array, "f latitudes longitudes"]) -> Complex[Array, "m 2 f k"]:
        """Analysis: the modes of fields, exact for series of the truncation."""
        weights = self.latitude_values(self.sphere.weights(), fields.dtype)
        return self.kept(self.projected(self.fourier(self.columns(fields) * weights)))

    def kept(self, modes: Array) -> Array:
        """Modes without those of degree T + 1."""
        return scaled(jnp.asarray(tables(self.sphere).there[:, :, None], modes.real.dtype), modes)

    def field(self, modes: Complex[Array, "m 2 f k"]) -> Float[Array, "f latitudes longitudes"]:
        """Synthesis: the fields of modes."""
        return self.fields(self.around(self.summed(modes)))

    def wind(self, vorticity: Array, divergence: Array | None) -> tuple[Array, Array]:
        r"""The modes of the velocity to the east and to the north, times the cosine of latitude, of degrees up to T + 1:

        $$(u \cos\phi)_l = a \Big(\frac{\epsilon_{l+1}}{l+1} \zeta_{l+1} - \frac{\epsilon_l}{l} \zeta_{l-1} -
        \frac{i m}{l (l+1)} \delta_l\Big), \qquad
        (v \cos\phi)_l = -a \Big(\frac{\epsilon_{l+1}}{l+1} \delta_{l+1} - \frac{\epsilon_l}{l} \delta_{l-1} +
        \frac{i m}{l (l+1)} \zeta_l\Big)$$

        of the modes of vorticity and divergence; None is no divergence.
        """
        orders, degrees, a = self._all_orders(), self._all_degrees(), self.sphere.radius
        above = a * epsilon(orders, degrees + 1) / (degrees + 1)
        below = np.where(degrees > 1, a * epsilon(orders, degrees) / np.maximum(degrees, 1), 0)
        turn = jnp.asarray(-a * self.orders() * self.inverse(), vorticity.real.dtype)
        across = self._beside(vorticity, above, below)
        north = scaled(turn, times_i(vorticity))
        if divergence is None:
            return across, north
        return across + scaled(turn, times_i(divergence)), north - self._beside(divergence, above, below)

    def _beside(self, modes: Array, above: np.ndarray, below: np.ndarray) -> Array:
        """Factors `above` times the modes of one degree more, less factors `below` times those of one degree less."""
        dtype, even, odd = modes.real.dtype, modes[:, :1], modes[:, 1:]
        nothing = jnp.zeros_like(even[..., :1])
        more = jnp.concatenate([odd, jnp.concatenate([even[..., 1:], nothing], 3)], 1)
        less = jnp.concatenate([jnp.concatenate([nothing, odd[..., :-1]], 3), even], 1)
        return scaled(jnp.asarray(above, dtype), more) - scaled(jnp.asarray(below, dtype), less)

    def _all_orders(self) -> np.ndarray:
        return tables(self.sphere).orders[:, None, None, None]

    def _all_degrees(self) -> np.ndarray:
        return tables(self.sphere).degrees[:, :, None]

    def divergence_and_curl(self, velocity: Float[Array, "2 *levels latitudes longitudes"]) -> tuple[Array, Array]:
        """The modes of divergence and curl of a velocity, `(m, 2, 1, k)` each, or with a field for each of its levels, by parts:
        no derivative of the velocity is taken."""
        weights = self.sphere.weights() / self.sphere.cosines()
        columns = self.columns(velocity.reshape(-1, *self.sphere.shape))
        modes = self.projected(self.fourier(columns * self.latitude_values(weights, velocity.dtype)))
        east, north = jnp.split(modes, 2, axis=2)
        return self.flux(east, north), self.flux(north, -east)

    def flux(self, east: Array, north: Array) -> Array:
        r"""The modes of the divergence of a vector by parts:

        $$\frac1a \big(i m A_l - (l + 1) \epsilon_l B_{l-1} + l \epsilon_{l+1} B_{l+1}\big)$$

        of the modes A and B up to T + 1 of its components over the cosine of latitude. The curl is that of (B, -A).
        """
        orders, degrees, a = self._all_orders(), self._all_degrees(), self.sphere.radius
        there = tables(self.sphere).there[:, :, None]
        above = there * degrees * epsilon(orders, degrees + 1) / a
        below = there * (degrees + 1) * epsilon(orders, degrees) / a
        order = jnp.asarray(self.orders() / a, east.real.dtype)
        return scaled(order, times_i(east)) + self._beside(north, above, below)

    def velocity(
        self, vorticity: Array, divergence: Array | None = None
    ) -> Float[Array, "2 *levels latitudes longitudes"]:
        """The velocity to the east and to the north, of the modes of vorticity and divergence; of several fields with an axis for
        them."""
        waves = self.summed(jnp.concatenate(self.wind(vorticity, divergence), 2))
        cosines = self.sphere.cosines()
        found = self.fields(self.around(waves) / self.latitude_values(cosines, waves.dtype))
        count = vorticity.shape[2]
        return found if count == 1 else found.reshape(2, count, *self.sphere.shape)

    def gradient(self, modes: Complex[Array, "m 2 1 k"]) -> Float[Array, "2 latitudes longitudes"]:
        """The gradient to the east and to the north of the field of modes."""
        eigenvalues = jnp.asarray(-self.eigenvalues() / self.sphere.radius**2, modes.real.dtype)
        return self.velocity(jnp.zeros_like(modes), scaled(eigenvalues, modes))

    def laplacian(self, modes: Complex[Array, "m 2 f k"]) -> Complex[Array, "m 2 f k"]:
        """The modes of the Laplacian."""
        return scaled(jnp.asarray(-self.eigenvalues() / self.sphere.radius**2, modes.real.dtype), modes)

    def inverse_laplacian(self, modes: Complex[Array, "m 2 f k"]) -> Complex[Array, "m 2 f k"]:
        """The modes of which the Laplacian has the given ones, without a mean."""
        return scaled(jnp.asarray(-self.inverse() * self.sphere.radius**2, modes.real.dtype), modes)

    def square(self, modes: Complex[Array, "m 2 f k"]) -> Float[Array, " f"]:
        """The mean square over the sphere of each field."""
        twice = jnp.asarray(np.where(tables(self.sphere).orders == 0, 1.0, 2.0)[:, None, None, None], modes.real.dtype)
        return jnp.sum(twice * (modes.real**2 + modes.imag**2), (0, 1, 3))


def times_i(x: Array) -> Array:
    """Return i x, without products."""
    return lax.complex(-x.imag, x.real)
