"""Starts on a sphere that published test cases take."""

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from ..spectral._flow2d import Flow2D
from ..volumes._water import Water
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

    It is steady if the sphere turns around the axis of the flow: with $\alpha = 0$ about the poles.

    **Arguments:** `speed` U at the equator of the flow, `height` $h_0$, `angle` $\alpha$ between the axes in radians, `gravity`,
    `rotation`. The defaults are those of test case 2: U of a turn in 12 days and $g h_0 = 29400$ m^2/s^2.

    **Source:** Williamson et al. (1992), J. Comput. Phys. 102:211, equations 90 to 96.
    """
    longitude, latitude = sphere.mesh()
    across = np.cos(longitude) * np.sin(angle)
    east = speed * (np.cos(latitude) * np.cos(angle) + np.sin(latitude) * across)
    north = -speed * np.sin(longitude) * np.sin(angle)
    axis = np.sin(latitude) * np.cos(angle) - np.cos(latitude) * across
    bulge = (sphere.radius * rotation * speed + 0.5 * speed**2) / gravity
    return Water(jnp.asarray(height - bulge * axis**2), jnp.asarray(np.stack([east, north])))
