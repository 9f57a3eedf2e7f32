"""The states of an atmosphere in layers, and starts that published test cases take."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ...core import POSITIVE, quantity
from ..grids._checks import check_value
from ._levels import SigmaLevels, as_levels
from ._review import check_sphere
from ._sphere import Sphere


class Atmosphere(eqx.Module):
    """An atmosphere in layers from the top to the ground: temperature and velocity of each, and the pressure at the ground.

    The velocity is `(2, layers, latitudes, longitudes)`, to the east and to the north.
    """

    temperature: Float[Array, "n latitudes longitudes"] = quantity(unit="K", support=POSITIVE)
    velocity: Float[Array, "2 n latitudes longitudes"] = quantity(unit="m/s")
    surface_pressure: Float[Array, "latitudes longitudes"] = quantity(unit="Pa", support=POSITIVE)


def jablonowski_williamson(
    sphere: Sphere,
    levels: SigmaLevels | int = 20,
    *,
    perturbation: float = 1.0,
    gravity: float = 9.80616,
    gas_constant: float = 287.0,
    rotation: float = 7.29212e-5,
) -> tuple[Atmosphere, Array]:
    r"""A zonal flow with two jets in balance with its temperature and with a bed, and a weak local wind that grows to a
    baroclinic wave in ten days:

    $$u = u_0 \cos^{3/2}\eta_v \sin^2 2\phi + u_p \exp\Big(-\big(\tfrac{r}{a / 10}\big)^2\Big), \qquad
    \eta_v = (\eta - 0.252) \tfrac{\pi}{2}, \qquad u_0 = 35\ \mathrm{m/s}$$

    with the distance r from the place at 20 degrees east and 40 degrees north, and $\eta = \sigma$, since the surface pressure is
    1000 hPa everywhere. Without the perturbation it is a steady solution of the equations, which errors of the levels and rounding
    errors, by its instability, change.

    **Arguments:** `sphere`, of the size of the Earth; `levels` or their number; `perturbation` $u_p$ in m/s; `gravity`,
    `gas_constant`, `rotation` as those of the system.

    **Returns:** the state, and the height of the bed for `PrimitiveEquationsSphere(..., bed=)`.

    **Source:** Jablonowski and Williamson (2006), Q. J. R. Meteorol. Soc. 132:2943, doi:10.1256/qj.06.12, equations 1 to 10.

    ```python
    from simkit import fluids

    sphere = fluids.Sphere(10)
    start, bed = fluids.jablonowski_williamson(sphere, 5)
    air = fluids.PrimitiveEquationsSphere(sphere, levels=5, bed=bed)
    ```
    """
    check_sphere(sphere)
    for name, value in {"gravity": gravity, "gas_constant": gas_constant}.items():
        check_value(name, value, positive=True)
    for name, value in {"perturbation": perturbation, "rotation": rotation}.items():
        check_value(name, value)
    levels = as_levels(levels)
    jet, ground, lapse, jump = 35.0, 288.0, 0.005, 4.8e5
    longitude, latitude = sphere.mesh()
    s, c = np.sin(latitude), np.cos(latitude)
    flow = -2 * s**6 * (c**2 + 1 / 3) + 10 / 63
    turn = (1.6 * c**3 * (s**2 + 2 / 3) - np.pi / 4) * sphere.radius * rotation
    angle = lambda eta: (eta - 0.252) * np.pi / 2
    eta = levels.sigma()[:, None, None]
    strength = jet * np.cos(angle(eta)) ** 1.5
    centre = np.pi / 9, 2 * np.pi / 9
    along = np.sin(centre[1]) * s + np.cos(centre[1]) * c * np.cos(longitude - centre[0])
    local = perturbation * np.exp(-((10 * np.arccos(np.clip(along, -1, 1))) ** 2))
    east = strength * np.sin(2 * latitude) ** 2 + local
    mean = ground * eta ** (gas_constant * lapse / gravity) + jump * np.maximum(0.2 - eta, 0) ** 5
    slope = 0.75 * eta * np.pi * jet / gas_constant * np.sin(angle(eta)) * np.sqrt(np.cos(angle(eta)))
    temperature = mean + slope * (2 * strength * flow + turn)
    low = jet * np.cos(angle(1.0)) ** 1.5
    bed = low * (low * flow + turn) / gravity
    velocity = np.stack([east, np.zeros_like(east)])
    pressure = np.full(sphere.shape, 1e5)
    return Atmosphere(*(jnp.asarray(x) for x in (temperature, velocity, pressure))), jnp.asarray(bed)


def resting_atmosphere(
    sphere: Sphere,
    levels: SigmaLevels | int = 20,
    *,
    temperature: float = 280.0,
    pressure: float = 1e5,
    bed: ArrayLike = 0.0,
    gravity: float = 9.80616,
    gas_constant: float = 287.0,
) -> Atmosphere:
    r"""An isothermal atmosphere at rest over a bed b, $p_s = p_0\, e^{-g b / R T}$, which stays as it is: a start of Held and
    Suarez' test when noise is added.

    **Arguments:** `levels` or their number; `temperature` T and `pressure` $p_0$ at height 0; `bed`, a number or of the shape of
    the sphere's grid; `gravity` g and `gas_constant` R as those of the system.
    """
    check_sphere(sphere)
    positive = {"temperature": temperature, "pressure": pressure, "gravity": gravity, "gas_constant": gas_constant}
    for name, value in positive.items():
        check_value(name, value, positive=True)
    if jnp.ndim(bed):
        sphere.check_field(bed, "bed")
    shape = as_levels(levels).count, *sphere.shape
    height = jnp.broadcast_to(jnp.asarray(bed, float), sphere.shape)
    surface = pressure * jnp.exp(-gravity / (gas_constant * temperature) * height)
    return Atmosphere(jnp.full(shape, float(temperature)), jnp.zeros((2, *shape)), surface)
