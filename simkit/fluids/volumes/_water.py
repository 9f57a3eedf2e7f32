"""The states of shallow water, and what flows between two of them."""

import equinox as eqx
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ...core import POSITIVE, quantity


class Water(eqx.Module):
    """Shallow water in every cell: its height above the bed, 0 where it is dry, and its velocity, `(dimensions, *shape)`."""

    height: Float[Array, "..."] = quantity(unit="m", support=POSITIVE)
    velocity: Float[Array, "d ..."] = quantity(unit="m/s")


class ConservedWater(eqx.Module):
    """Height, and discharge for each width, height times velocity."""

    height: Float[Array, "..."]
    discharge: Float[Array, "d ..."]


def velocity_of(height: Array, discharge: Array, dry: ArrayLike) -> Array:
    """Discharge over height; 0 where the water is shallower than `dry`."""
    return jnp.where(height > dry, discharge / jnp.maximum(height, dry), 0)


def water_flux(left: list[Array], right: list[Array], gravity: Array) -> list[Array]:
    """Fluxes of height and of the discharges across a face and along it, from height, velocity across and velocities along.

    Harten, Lax and van Leer's two waves with Einfeldt's speeds, at a dry side that of the front; what goes along the face is
    carried by the flow. Toro (2001), Shock-Capturing Methods for Free-Surface Shallow Flows, chapter 10.
    """
    (hl, ul, *tl), (hr, ur, *tr) = left, right
    tiny = jnp.finfo(hl.dtype).tiny
    al, ar = (jnp.sqrt(jnp.maximum(h, tiny)) for h in (hl, hr))
    root = jnp.sqrt(gravity)
    share = al / (al + ar)
    u = share * ul + (1 - share) * ur
    c = root * jnp.sqrt(jnp.maximum(0.5 * (hl + hr), tiny))
    cl, cr = root * al, root * ar
    slow = jnp.where(hl > 0, jnp.minimum(ul - cl, u - c), ur - 2 * cr)
    fast = jnp.where(hr > 0, jnp.maximum(ur + cr, u + c), ul + 2 * cl)
    slow, fast = jnp.minimum(slow, 0), jnp.maximum(fast, 0)
    width = fast - slow
    width = jnp.where(width > 0, width, 1)
    ql, qr = hl * ul, hr * ur
    blend = lambda fl, fr, a, b: (fast * fl - slow * fr + slow * fast * (b - a)) / width
    mass = blend(ql, qr, hl, hr)
    half = 0.5 * gravity
    across = blend(ql * ul + half * hl * hl, qr * ur + half * hr * hr, ql, qr)
    along = [mass * jnp.where(mass > 0, a, b) for a, b in zip(tl, tr, strict=True)]
    return [mass, across, *along]
