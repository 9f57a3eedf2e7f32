"""Starts on a sphere that published test cases take."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._doors import check_count
from ..._errors import ArgumentError
from ..grids._checks import check_value
from ..volumes._water import Water
from ._review import check_sphere
from ._sphere import Sphere


def zonal_flow(
    sphere: Sphere,
    *,
    speed: float = 38.61068276698372,
    height: float = 2998.1154702758267,
    angle: float = 0.0,
    gravity: float = 9.80616,
    rotation: float = 7.292e-5,
) -> Water:
    r"""A flow around the sphere in balance with its surface, which stays as it is where the bed is flat:

    $$u = U (\cos\phi \cos\alpha + \sin\phi \cos\lambda \sin\alpha), \qquad v = -U \sin\lambda \sin\alpha, \qquad
    h = h_0 - \frac{1}{g} \Big(a \Omega U + \frac{U^2}{2}\Big) (\sin\phi \cos\alpha - \cos\lambda \cos\phi \sin\alpha)^2$$

    It is steady where the sphere turns around the axis of the flow: `ShallowWaterSphere(..., tilt=angle)`.

    **Arguments:** `speed` U at the equator of the flow, `height` $h_0$, `angle` $\alpha$ between the axes in radians, `gravity`,
    `rotation`. The defaults are those of test case 2: U of a turn in 12 days and $g h_0 = 29400$ m^2/s^2.

    **Source:** Williamson et al. (1992), J. Comput. Phys. 102:211, equations 90 to 96.
    """
    _check(sphere, gravity, speed=speed, height=height, angle=angle, rotation=rotation)
    longitude, latitude = sphere.mesh()
    across = np.cos(longitude) * np.sin(angle)
    east = speed * (np.cos(latitude) * np.cos(angle) + np.sin(latitude) * across)
    north = -speed * np.sin(longitude) * np.sin(angle)
    axis = np.sin(latitude) * np.cos(angle) - np.cos(latitude) * across
    bulge = (sphere.radius * rotation * speed + 0.5 * speed**2) / gravity
    return Water(jnp.asarray(height - bulge * axis**2), jnp.asarray(np.stack([east, north])))


def rossby_haurwitz(
    sphere: Sphere,
    *,
    wave: int = 4,
    turning: float = 7.848e-6,
    amplitude: float = 7.848e-6,
    height: float = 8000.0,
    gravity: float = 9.80616,
    rotation: float = 7.292e-5,
) -> tuple[Array, Water]:
    r"""A Rossby-Haurwitz wave: its vorticity, and the shallow water whose surface balances it:

    $$\zeta = 2 \omega \sin\phi - K \sin\phi \cos^R\!\phi\, (R^2 + 3 R + 2) \cos R \lambda$$

    Without divergence it turns as it is to the east, by $\big(R (3 + R) \omega - 2 \Omega\big) / (1 + R)(2 + R)$ in
    a unit of time. In
    shallow water it nearly does for a week or two.

    **Arguments:** `wave` R, `turning` $\omega$, `amplitude` K, `height` at the poles, `gravity`, `rotation`
    $\Omega$. The defaults are
    those of test case 6.

    **Returns:** the vorticity, of the shape of the sphere's grid, and a `ShallowWaterSphere.State`.

    **Raises:** an `ArgumentError` for a wave that the truncation does not hold, which is of degree R + 1.

    **Source:** Haurwitz (1940), J. Mar. Res. 3:254; Williamson et al. (1992), J. Comput. Phys. 102:211, equations 141 to 149.
    """
    _check(sphere, gravity, turning=turning, amplitude=amplitude, height=height, rotation=rotation)
    check_count("wave", wave)
    if wave + 1 > sphere.truncation:
        raise ArgumentError(
            f"Argument `wave` must be at most {sphere.truncation - 1} on a sphere of truncation {sphere.truncation}, which does "
            f"not hold a wave of the degree wave + 1, but is {wave}. Take `Sphere({wave + 1})` or a higher truncation."
        )
    longitude, latitude = sphere.mesh()
    c, s, r, k, w = np.cos(latitude), np.sin(latitude), wave, amplitude, turning
    vorticity = 2 * w * s - k * s * c**r * (r * r + 3 * r + 2) * np.cos(r * longitude)
    east = w * c + k * c ** (r - 1) * (r * s * s - c * c) * np.cos(r * longitude)
    north = -k * r * c ** (r - 1) * s * np.sin(r * longitude)
    # The factors of 1, cos(R longitude), cos(2 R longitude) of the geopotential by the square of the radius.
    first = 0.5 * w * (2 * rotation + w) * c**2 + 0.25 * k * k * (
        (r + 1) * c ** (2 * r + 2) + (2 * r * r - r - 2) * c ** (2 * r) - 2 * r * r * c ** (2 * r - 2)
    )
    second = 2 * (rotation + w) * k / ((r + 1) * (r + 2)) * c**r * (r * r + 2 * r + 2 - (r + 1) ** 2 * c * c)
    third = 0.25 * k * k * c ** (2 * r) * ((r + 1) * c * c - (r + 2))
    total = first + second * np.cos(r * longitude) + third * np.cos(2 * r * longitude)
    surface = height + sphere.radius**2 * total / gravity
    velocity = sphere.radius * np.stack([east, north])
    return jnp.asarray(vorticity), Water(jnp.asarray(surface), jnp.asarray(velocity))


def _check(sphere: Sphere, gravity: float, **values: float) -> None:
    check_sphere(sphere)
    check_value("gravity", gravity, positive=True)
    for name, value in values.items():
        check_value(name, value)
