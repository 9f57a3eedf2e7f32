"""Rigid water by SETTLE: the three constraints of a triangle solved in closed form."""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from ..._errors import ArgumentError
from ...core import POSITIVE, Support, as_float_array, quantity
from ..space._space import Space
from ._constraint import Bonds, DistanceConstraint

SIGNS = ((1, -1, 0), (1, 0, -1), (0, 1, -1))


class RigidWater(DistanceConstraint):
    r"""Triangles of three atoms, such as water, that keep their shape: SETTLE.

    The new triangle is the old one turned about three angles that are known in closed form, without iteration.

    **Arguments:**

    - `atoms`: whole numbers, shape (molecules, 3): the apex (oxygen) first, then the two ends (hydrogen), which have equal masses.
    - `bond`: the distance of apex and ends, positive; `angle`: at the apex, in radians.

    **Good values:** SPC/E: a bond of 1 Angstrom, an angle of `2 * math.asin((2 / 3) ** 0.5)`, 109.47 degrees. Steps of 2 fs.

    **Source:** Miyamoto and Kollman (1992), doi:10.1002/jcc.540130805.

    ```python
    import math
    from simkit import md

    water = md.RigidWater([[0, 1, 2], [3, 4, 5]], bond=1.0, angle=math.radians(109.47))
    ```
    """

    atoms: Int[Array, "molecules 3"]
    bond: Float[Array, ""] = quantity(unit="length", support=POSITIVE)
    angle: Float[Array, ""] = quantity(unit="rad", support=Support(0.0, np.pi))

    def __init__(self, atoms: ArrayLike | Sequence[Sequence[int]], bond: ArrayLike, angle: ArrayLike):
        found = np.asarray(atoms)
        if found.ndim != 2 or found.shape[1] != 3 or not len(found) or len(np.unique(found)) != found.size:
            raise ArgumentError(
                f"Argument `atoms` must name three atoms a molecule, each once, but has shape {found.shape} and "
                f"{len(np.unique(found))} atoms."
            )
        self.atoms = jnp.asarray(found, jnp.int32)
        self.bond, self.angle = as_float_array(bond), as_float_array(angle)

    @property
    def count(self) -> int:
        return self.atoms.size

    def bonds(self) -> Bonds:
        """Apex to both ends, and the ends to each other."""
        lengths = jnp.stack([self.bond, self.bond, 2 * self.bond * jnp.sin(0.5 * self.angle)])
        shape = (len(self.atoms), 3)
        signs = jnp.broadcast_to(jnp.asarray(SIGNS, jnp.int32)[None], (*shape, 3))
        return Bonds(self.atoms, signs, jnp.broadcast_to(lengths[None], shape))

    def placed(self, space: Space, mass: Array, before: Array, after: Array) -> Array:
        apex, end = mass[self.atoms[:, 0]].astype(after.dtype), mass[self.atoms[:, 1]].astype(after.dtype)
        a, b, c = (before[self.atoms[:, k]] for k in range(3))
        old = space.displacement(b, a), space.displacement(c, a)
        moved = [after[self.atoms[:, k]] - x for k, x in enumerate((a, b, c))]
        share = end / (apex + 2 * end)
        # About the new centre of mass, all seen from the old apex.
        centre = (1 - 2 * share) * moved[0] + share * (old[0] + moved[1] + old[1] + moved[2])
        free = moved[0] - centre, old[0] + moved[1] - centre, old[1] + moved[2] - centre
        half = (self.bond * jnp.sin(0.5 * self.angle)).astype(after.dtype)
        height = (self.bond * jnp.cos(0.5 * self.angle)).astype(after.dtype)
        turned = _settled(old, free, half, 2 * share[:, 0] * height, (1 - 2 * share[:, 0]) * height)
        ends = [a + centre + turned[0], b + centre + turned[1] - old[0], c + centre + turned[2] - old[1]]
        return after.at[self.atoms].set(jnp.stack(ends, axis=1))


def _settled(old: tuple[Array, ...], free: tuple[Array, ...], half: Array, up: Array, down: Array) -> list[Array]:
    """The triangle about its centre of mass: apex `up` from it, ends `down` and `half` aside; symbols as in the paper."""
    z = _unit(jnp.cross(old[0], old[1]))
    x = _unit(jnp.cross(free[0], z))
    y = jnp.cross(z, x)
    along = lambda axis, v: jnp.sum(axis * v, axis=-1)
    (xb0, yb0), (xc0, yc0) = ((along(x, v), along(y, v)) for v in old)
    (xb1, yb1), (xc1, yc1) = ((along(x, v), along(y, v)) for v in free[1:])
    za, zb, zc = (along(z, v) for v in free)
    sin_phi = za / up
    cos_phi = jnp.sqrt(1 - sin_phi**2)
    sin_psi = (zb - zc) / (2 * half * cos_phi)
    cos_psi = jnp.sqrt(1 - sin_psi**2)
    ya2, xb2 = up * cos_phi, -half * cos_psi
    tilt = half * sin_psi * sin_phi
    yb2, yc2 = -down * cos_phi - tilt, -down * cos_phi + tilt
    alpha = xb2 * (xb0 - xc0) + yb0 * yb2 + yc0 * yc2
    beta = xb2 * (yc0 - yb0) + xb0 * yb2 + xc0 * yc2
    gamma = xb0 * yb1 - xb1 * yb0 + xc0 * yc1 - xc1 * yc0
    norm = alpha**2 + beta**2
    sin = (alpha * gamma - beta * jnp.sqrt(norm - gamma**2)) / norm
    cos = jnp.sqrt(1 - sin**2)
    rows = (
        (-ya2 * sin, ya2 * cos, za),
        (xb2 * cos - yb2 * sin, xb2 * sin + yb2 * cos, zb),
        (-xb2 * cos - yc2 * sin, -xb2 * sin + yc2 * cos, zc),
    )
    return [u[:, None] * x + v[:, None] * y + w[:, None] * z for u, v, w in rows]


def _unit(v: Array) -> Array:
    return v / jnp.linalg.norm(v, axis=-1, keepdims=True)
