"""Any lattice as a stack of bricks: what lets one neighbour search serve every space.

Turned so that c points along z and b lies in the plane of y and z, the lattice vectors are (ax, ay, az), (0, by, bz) and (0, 0,
cz). The brick ax * by * cz then tiles space: its copies stand in straight columns along z, the columns of the next copy along y are
shifted by bz, and those of the next copy along x by ay and az. An orthorhombic box is the brick without shifts. Two dimensions
become three with a y axis of thickness 0; in open space the brick is what the atoms occupy, and only its own copy exists.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from ..space._boxes import Boxes, boxes_of, of_row
from ..space._space import Space, times


class Brick(NamedTuple):
    """The brick, its shifts, and the atoms inside it; or one brick a cell."""

    turn: Float[Array, "*boxes 3 3"]  # rows: the axes of the brick
    lengths: Float[Array, "*boxes 3"]
    shear: Float[Array, "*boxes 3"]  # ay, az, bz
    position: Float[Array, "atoms 3"]  # along the axes of the brick
    origin: Float[Array, " 3"]  # of the brick, along its axes
    wrap: Int[Array, "atoms 3"]  # lattice vectors to subtract from an atom
    of: Int[Array, " atoms"] | None = None  # the cell of each atom, where there are several


def solid(array: Array) -> Array:
    """Three dimensions out of two: a zero between the two columns."""
    if array.shape[-1] == 3:
        return array
    return jnp.stack([array[..., 0], jnp.zeros_like(array[..., 0]), array[..., 1]], axis=-1)


def flat(array: Array, dimensions: int) -> Array:
    """The inverse of `solid`."""
    return array if dimensions == 3 else array[..., ::2]


def lattice(space: Space, like: Array) -> Float[Array, "*boxes 3 3"]:
    """Lattice vectors in three dimensions and the positions' float type; the identity in open space."""
    vectors = space.vectors().astype(like.dtype)
    if space.dimensions == 3:
        return vectors

    def one(vectors: Array) -> Array:
        a, c = solid(vectors)
        return jnp.stack([a, jnp.array([0, 1, 0], like.dtype), c])

    return jax.vmap(one)(vectors) if isinstance(space, Boxes) else one(vectors)


def brick(space: Space, position: Float[Array, "atoms d"], least: tuple[float, float, float]) -> Brick:
    """The brick of `space` with the atoms at `position` in it; in open space each edge is at least `least`."""
    x = solid(position)
    identity = jnp.eye(3, dtype=x.dtype)
    if not space.periodic:
        low, high = x.min(0), x.max(0)
        lengths = jnp.maximum((high - low) * (1 + 1e-4), jnp.asarray(least, x.dtype))
        return Brick(identity, lengths, jnp.zeros(3, x.dtype), x - low[None], low, jnp.zeros(x.shape, jnp.int32))
    vectors = lattice(space, x)
    of = boxes_of(space)
    if of is None:
        turn, lengths, shear = _upright(vectors)
        local = x @ turn.T
    else:
        turn, lengths, shear = jax.vmap(_upright)(vectors)
        local = times(x, turn.swapaxes(1, 2)[of])
    ay, az, bz = (of_row(shear[..., k], of) for k in range(3))
    lx, ly, lz = (of_row(lengths[..., k], of) for k in range(3))
    along_a = jnp.floor(local[:, 0] / lx)
    y = local[:, 1] - along_a * ay
    along_b = jnp.floor(y / ly)
    z = local[:, 2] - along_a * az - along_b * bz
    along_c = jnp.floor(z / lz)
    inside = jnp.stack([local[:, 0] - along_a * lx, y - along_b * ly, z - along_c * lz], axis=-1)
    wrap = jnp.stack([along_a, along_b, along_c], axis=-1).astype(jnp.int32)
    if space.dimensions == 2:  # the thickness of nothing
        lengths = lengths.at[..., 1].set(1)
    return Brick(turn, lengths, shear, inside, jnp.zeros(3, x.dtype), wrap, of)


def _upright(vectors: Array) -> tuple[Array, Array, Array]:
    """Axes of the brick as rows, its edges, and (ay, az, bz)."""
    a, b, c = vectors
    cz = jnp.sqrt(jnp.vdot(c, c))
    z = c / cz
    bz = jnp.vdot(b, z)
    rest = b - bz * z
    by = jnp.sqrt(jnp.vdot(rest, rest))
    y = rest / by
    ay, az = jnp.vdot(a, y), jnp.vdot(a, z)
    rest = a - ay * y - az * z
    ax = jnp.sqrt(jnp.vdot(rest, rest))
    return lax.stop_gradient((jnp.stack([rest / ax, y, z]), jnp.stack([ax, by, cz]), jnp.stack([ay, az, bz])))
