"""Isotropic covariances on a sphere, by the variance in each degree."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ..._doors import shown
from ..._errors import ArgumentError
from ...core import as_float_array, traced
from ..grids._checks import check_value
from ._harmonics import Harmonics, tables
from ._legendre import legendre_functions
from ._review import check_sphere
from ._sphere import Sphere


class IsotropicCovariance(eqx.Module):
    r"""Covariance of random fields on a sphere that is the same everywhere and in all directions:

    $$\operatorname{cov}\big(f(x), f(x')\big) = \sum_{l=0}^{T} v_l\, P_l(\cos\gamma)$$

    with the angle $\gamma$ between two places, Legendre's polynomials $P_l$ and the variance $v_l$ in each degree. The sum of all
    $v_l$ is the variance of the field.

    - `sphere`: the `Sphere` of the fields.
    - `variances`: $v_l$, shape (T + 1,), not negative; a degree of variance 0 is left out.

    Of a correlation length, or of given fields: `of_length`, `of_fields`. `root` is a matrix L whose $L L^T$ is the covariance over
    the points of the grid. It has a column for each harmonic, (T + 1)^2 at the most, fewer than there are points, so that the
    covariance itself has no inverse: `assimilation.FourDVar(root=...)` and `assimilation.members_around(..., root=...)` take L.

    **Raises:** an `ArgumentError` for variances of another shape, negative, or all 0.

    **Reference:** Boer (1983), Mon. Weather Rev. 111:1754, doi:10.1175/1520-0493(1983)111<1754:HITDTI>2.0.CO;2; Courtier and others
    (1998), Q. J. R. Meteorol. Soc. 124:1783, doi:10.1002/qj.49712455002, for such a background covariance.

    ```python
    import jax
    from simkit import assimilation, fluids

    sphere = fluids.Sphere(10)
    system = fluids.BarotropicSphere(sphere)
    known = system.State(fluids.rossby_haurwitz(sphere)[0])
    errors = fluids.IsotropicCovariance.of_length(sphere, deviation=1e-5, length=1.5e6)
    members = assimilation.members_around(known, 20, key=jax.random.key(0), root=errors.root())
    method = assimilation.FourDVar(root=errors.root(), window=2, iterations=2)
    ```
    """

    sphere: Sphere = eqx.field(static=True)
    variances: Float[Array, " degrees"]

    def __init__(self, sphere: Sphere, variances: ArrayLike):
        check_sphere(sphere)
        try:
            found = as_float_array(variances)
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"Argument `variances` must hold numbers, but it is {shown(variances)}.") from error
        if found.shape != (sphere.truncation + 1,):
            raise ArgumentError(
                f"Argument `variances` must have a number for each degree from 0 to {sphere.truncation}, the shape "
                f"({sphere.truncation + 1},), but its shape is {found.shape}."
            )
        if not traced(found):
            known = np.asarray(found)
            if not (np.isfinite(known).all() and (known >= 0).all() and known.any()):
                raise ArgumentError(
                    "Argument `variances` must be finite, not negative and not all 0, but it is "
                    f"{np.array2string(known, threshold=6, precision=3)}."
                )
        self.sphere, self.variances = sphere, found

    @classmethod
    def of_length(cls, sphere: Sphere, *, deviation: float, length: float) -> "IsotropicCovariance":
        r"""A covariance of a correlation length, $v_l \propto (2 l + 1)\, e^{-l (l + 1) L^2 / 2 a^2}$, without a mean.

        Over distances d well below the radius a the correlation is near $e^{-d^2 / 2 L^2}$ (that of diffusion).

        **Arguments:** `deviation`, the standard deviation of the field; `length`, L in the unit of the sphere's radius. L should be
        at least 1.5 a / T: shorter lengths are those of the truncation.

        **Raises:** an `ArgumentError` for numbers that are not positive, or a length beyond the radius of the sphere.
        """
        check_sphere(sphere)
        check_value("deviation", deviation, positive=True)
        check_value("length", length, positive=True)
        if not length <= sphere.radius:
            raise ArgumentError(
                f"Argument `length` must be at most the radius of the sphere, {sphere.radius:g}, but it is {length:g}. It is a "
                "distance in the unit of the radius, no angle, and a field of longer waves has one degree alone."
            )
        degree = np.arange(sphere.truncation + 1.0)
        shape = (2 * degree + 1) * np.exp(-0.5 * degree * (degree + 1) * (float(length) / sphere.radius) ** 2)
        shape[0] = 0
        return cls(sphere, float(deviation) ** 2 * shape / shape.sum())

    @classmethod
    def of_fields(cls, sphere: Sphere, fields: ArrayLike) -> "IsotropicCovariance":
        """The covariance of given fields, such as errors, shape (samples, latitudes, longitudes), by their mean squares."""
        check_sphere(sphere)
        fields = jnp.asarray(fields)
        if fields.ndim != 3 or not fields.shape[0]:
            raise ArgumentError(
                f"Argument `fields` must have the shape (samples, {sphere.latitudes}, {sphere.longitudes}), but it has "
                f"{fields.shape}."
            )
        sphere.check_field(fields[0], "fields[0]")
        found = Harmonics(sphere)
        modes = found.modes(fields)
        twice = np.where(tables(sphere).orders == 0, 1.0, 2.0)[:, None, None, None]
        square = jnp.mean((modes.real**2 + modes.imag**2) * jnp.asarray(twice, fields.dtype), axis=2)
        degree = found.degrees()[:, :, 0]
        hot = jnp.asarray(np.arange(sphere.truncation + 1)[:, None, None, None] == degree, fields.dtype)
        return cls(sphere, jnp.sum(hot * square[None], axis=(1, 2, 3)))

    def between(self, angle: ArrayLike) -> Array:
        """Return the covariance of two places at these angles in radians, of any shape."""
        mu = jnp.cos(jnp.asarray(angle, self.variances.dtype))
        below, here = jnp.ones_like(mu), mu
        total = self.variances[0] * below
        for degree in range(1, self.sphere.truncation + 1):
            total = total + self.variances[degree] * here
            below, here = here, ((2 * degree + 1) * mu * here - degree * below) / (degree + 1)
        return total

    def root(self) -> Float[Array, "points modes"]:
        """Return L over the flat grid, shape (latitudes x longitudes, harmonics): for a state of one field."""
        fields = self._columns()
        return fields.reshape(fields.shape[0], -1).T

    def balanced_root(
        self, *, gravity: float = 9.80616, rotation: float = 7.292e-5
    ) -> Float[Array, "three_fields modes"]:
        r"""Return L over the flat state of `ShallowWaterSphere` for errors of the vorticity with wind and height in balance.

        The wind has no divergence, and the height obeys $g \nabla^2 h = \nabla \cdot (f \nabla \psi)$ with the stream function
        $\psi$, so that errors make few gravity waves. The mean height has no error.

        **Arguments:** `gravity` and `rotation` of the system.
        """
        check_value("gravity", gravity, positive=True)
        check_value("rotation", rotation)
        if not traced(self.variances) and float(self.variances[0]):
            raise ArgumentError(
                "Argument `variances` must be 0 at degree 0 for errors of a vorticity, which has no mean."
            )
        fields, found = self._columns(), Harmonics(self.sphere)
        velocity = found.velocity(found.modes(fields)).reshape(2, *fields.shape)
        coriolis = jnp.asarray(2 * rotation * self.sphere.sines()[:, None], fields.dtype)
        gradient = jnp.asarray(2 * rotation / self.sphere.radius * self.sphere.cosines()[:, None], fields.dtype)
        forced = coriolis[None] * fields - gradient[None] * velocity[0]
        height = found.field(found.inverse_laplacian(found.modes(forced))) * (1 / gravity)
        whole = jnp.stack([height, velocity[0], velocity[1]], axis=1)
        return whole.reshape(whole.shape[0], -1).T

    def _columns(self) -> Float[Array, "modes latitudes longitudes"]:
        """The harmonics of mean square 1, each times the standard deviation of its coefficient."""
        sphere, top = self.sphere, self.sphere.truncation
        used = np.ones(top + 1, bool) if traced(self.variances) else np.asarray(self.variances) > 0
        values = legendre_functions(top, sphere.sines(), sphere.cosines())
        longitude = 2 * np.pi * np.arange(sphere.longitudes) / sphere.longitudes
        parts, degrees = [], []
        for degree in np.flatnonzero(used):
            for order in range(degree + 1):
                size = values[order, degree][:, None] * (2**0.5 if order else 1.0)
                waves = (np.cos, np.sin) if order else (np.cos,)
                parts += [size * wave(order * longitude) for wave in waves]
                degrees += [degree] * len(waves)
        known = jnp.asarray(np.stack(parts), self.variances.dtype)
        number = np.asarray(degrees)
        deviation = jnp.sqrt(self.variances[number] / jnp.asarray(2.0 * number + 1, self.variances.dtype))
        return known * deviation[:, None, None]
