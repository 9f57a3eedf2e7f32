"""Rigid bodies of any number of atoms, turned by quaternions."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from ..._errors import ArgumentError
from ...core import quantity, traced
from ...linear import solve
from ..space._space import Space
from ._constraint import ALLOWED, Constraint, Groups, arms_of

TURNS = ((2, 0.5), (1, 0.5), (0, 1.0), (1, 0.5), (2, 0.5))
"""Axes of the body in turn, and the parts of a step about each: symmetric, so that a step is reversible."""


class RigidBodies(Constraint):
    r"""Bodies of three or more atoms that keep their shapes, by the splitting called no-squish of Miller et al.

    The rotational energy is split into those about the three principal axes,

    $$K = \sum_{k=1}^3 \frac{L_k^2}{2 I_k}, \qquad
    e^{h \mathcal{L}} \approx e^{h \mathcal{L}_3 / 2} e^{h \mathcal{L}_2 / 2} e^{h \mathcal{L}_1} e^{h \mathcal{L}_2 / 2}
    e^{h \mathcal{L}_3 / 2}$$

    each of which is a turn about one axis of the body by a known angle, a unit quaternion. Symplectic, reversible, of second order,
    and the angular momentum is exact. State and forces remain those of the atoms, and orientations are read from their positions.
    Unlike `RigidWater`, which is the same motion by other steps, bodies may have any shape; atoms on a line are held by
    `Constraints`.

    **Arguments:**

    - `atoms`: whole numbers, shape (bodies, A), A at least 3: the atoms of each body, of one kind of body.
    - `position`: the shape, the positions of one body's atoms, shape (A, 3), turned in any way.
    - `mass`: their masses, one number or (A,), as the simulation counts them: the principal axes rest on them.

    **Good values:** steps of a fiftieth of the fastest turn; 2-4 fs for water.

    **Source:** Miller et al. (2002), doi:10.1063/1.1473654.

    ```python
    from simkit import md

    square = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 1.0, 0.0]]
    plates = md.RigidBodies([[0, 1, 2, 3], [4, 5, 6, 7]], square)
    ```
    """

    atoms: Int[Array, "bodies A"]
    corners: tuple[int, int, int] = eqx.field(static=True)  # three atoms far from a line tell the orientation
    shape: Float[Array, "A 3"] = quantity(unit="length", doc="positions in the frame of the principal axes")

    def __init__(
        self,
        atoms: ArrayLike | Sequence[Sequence[int]],
        position: ArrayLike | Sequence[Sequence[float]],
        mass: ArrayLike | Sequence[float] = 1.0,
    ):
        found, x = np.asarray(atoms), np.asarray(position, float)
        if found.ndim != 2 or not len(found) or len(np.unique(found)) != found.size or x.shape != (found.shape[1], 3):
            raise ArgumentError(
                "Arguments `atoms` and `position` must be of shapes (bodies, A) and (A, 3) and name each atom once, but have "
                f"shapes {found.shape} and {x.shape} and {len(np.unique(found))} atoms."
            )
        weight = np.broadcast_to(np.asarray(mass, float), x.shape[:1])[:, None]
        arm = x - (weight * x).sum(0) / weight.sum()
        spread, axes = np.linalg.eigh((weight * arm).T @ arm)
        if not spread[1] > 1e-8 * spread[2]:
            raise ArgumentError(
                "Argument `position` must hold three atoms that are not on a line, but all are. Hold such a body by `Constraints`."
            )
        axes[:, 0] *= np.sign(np.linalg.det(axes))
        self.atoms = jnp.asarray(found, jnp.int32)
        self.shape = jnp.asarray(arm @ axes, jnp.result_type(float))
        self.corners = _corners(arm)

    @property
    def count(self) -> int:
        return self.atoms.size * 3 - len(self.atoms) * 6

    def groups(self) -> Groups:
        lost = jnp.full(len(self.atoms), self.atoms.shape[1] * 3 - 6)
        return Groups(self.atoms, jnp.ones(self.atoms.shape, bool), lost)

    def drifted(
        self, space: Space, mass: Array, h: Array, before: Array, free: Array, momentum: Array
    ) -> tuple[Array, Array]:
        weight = mass[self.atoms].astype(before.dtype)
        arm, own = arms_of(self.groups(), space, mass, before), momentum[self.atoms]
        total = jnp.sum(weight, axis=1, keepdims=True)
        moved = jnp.sum(weight * (free - before)[self.atoms], axis=1, keepdims=True) / total
        velocity = jnp.sum(own, axis=1, keepdims=True) / total
        spin = jnp.sum(jnp.cross(arm, own), axis=1)  # about the centre: it stays
        frame, shape = self._orientation(arm), self._shapes(weight)
        moments = jnp.sum(weight * (jnp.sum(shape**2, axis=-1, keepdims=True) - shape**2), axis=1)
        turn = turned(_product(frame, spin), moments, h)[:, None]
        after = jnp.einsum("mck,mak->mac", frame, rotated(turn, shape), precision="highest")
        # The axes after the turn, along which the angular momentum gives the velocities of turning.
        identity = jnp.broadcast_to(jnp.eye(3, dtype=arm.dtype), frame.shape)
        axes = jnp.einsum("mck,mak->mca", frame, rotated(turn, identity), precision="highest")
        turning = jnp.einsum("mck,mk->mc", axes, _product(axes, spin) / moments, precision="highest")[:, None]
        # Atoms stay at the images where they were.
        position = before[self.atoms] - arm + moved + after
        pushed = weight * (velocity + jnp.cross(turning, after))
        return free.at[self.atoms].set(position), momentum.at[self.atoms].set(pushed)

    def tangent(self, space: Space, mass: Array, position: Array, momentum: Array) -> Array:
        weight, arm = mass[self.atoms].astype(position.dtype), arms_of(self.groups(), space, mass, position)
        own = momentum[self.atoms]
        velocity = jnp.sum(own, axis=1, keepdims=True) / jnp.sum(weight, axis=1, keepdims=True)
        turning = _turning(weight, arm, jnp.sum(jnp.cross(arm, own), axis=1))
        return momentum.at[self.atoms].set(weight * (velocity + jnp.cross(turning, arm)))

    def virial(self, space: Space, mass: Array, position: Array, momentum: Array, force: Array) -> Array:
        weight, arm = mass[self.atoms].astype(position.dtype), arms_of(self.groups(), space, mass, position)
        own, pull = momentum[self.atoms], force[self.atoms]
        spin = jnp.sum(jnp.cross(arm, own), axis=1)
        turning = _turning(weight, arm, spin)
        torque = jnp.sum(jnp.cross(arm, pull), axis=1) - jnp.cross(turning[:, 0], spin)
        inward = jnp.cross(turning, jnp.cross(turning, arm))
        central = jnp.sum(pull, axis=1, keepdims=True) / jnp.sum(weight, axis=1, keepdims=True)
        holding = weight * (central + jnp.cross(_turning(weight, arm, torque), arm) + inward) - pull
        return -jnp.einsum("mad,mae->de", holding, arm, precision="highest")

    def check(self, space: Space, mass: Array, position: Array) -> None:
        if traced(self, space, mass, position):
            return
        if position.shape[1] != 3:
            raise ArgumentError(
                "Rigid bodies turn in three dimensions, but the space has two. Take `Constraints` there."
            )
        arm = arms_of(self.groups(), space, mass, position)
        shape = self._shapes(mass[self.atoms].astype(position.dtype))
        expected = jnp.einsum("mck,mak->mac", self._orientation(arm), shape, precision="highest")
        away = np.linalg.norm(np.asarray(arm - expected), axis=-1)
        if (away > ALLOWED * np.abs(np.asarray(shape)).max()).any():
            m, a = np.unravel_index(np.argmax(away), away.shape)
            raise ArgumentError(
                f"The start must obey the constraints, but atom {int(self.atoms[m, a])} of body {m} (from 0) is {away[m, a]:.4g} "
                "from its place in the shape given. Place a body by turning and moving its shape."
            )

    def _shapes(self, weight: Array) -> Array:
        """The shape of every body about its centre of mass, in the frame of the principal axes."""
        shape = jnp.broadcast_to(self.shape.astype(weight.dtype), (*self.atoms.shape, 3))
        centre = jnp.sum(weight * shape, axis=1, keepdims=True) / jnp.sum(weight, axis=1, keepdims=True)
        return shape - centre

    def _orientation(self, arm: Array) -> Array:
        """The principal axes in space, as columns."""
        own = _frame(arm[:, list(self.corners)])
        known = _frame(self.shape.astype(arm.dtype)[None, list(self.corners)])
        return jnp.einsum("mkc,mkd->mcd", own, jnp.broadcast_to(known, own.shape), precision="highest")


def turned(spin: Array, moments: Array, h: Array) -> Array:
    """The quaternion, (bodies, 4), by which free bodies turn in a time h, from angular momenta along their principal axes."""
    whole = jnp.zeros((len(spin), 4), spin.dtype).at[:, 0].set(1)
    for axis, part in TURNS:
        half = 0.5 * part * h * spin[:, axis] / moments[:, axis]
        turn = jnp.zeros_like(whole).at[:, 0].set(jnp.cos(half)).at[:, 1 + axis].set(jnp.sin(half))
        whole = multiplied(whole, turn)
        # In the frame that has turned the angular momentum turns the other way.
        spin = rotated(turn * jnp.array([1, -1, -1, -1], turn.dtype)[None], spin)
    return whole


def multiplied(p: Array, q: Array) -> Array:
    """The product of quaternions, (..., 4), the real part first: the turn q, then p."""
    a, b = p[..., :1], q[..., :1]
    u, v = p[..., 1:], q[..., 1:]
    real = a * b - jnp.sum(u * v, axis=-1, keepdims=True)
    return jnp.concatenate([real, a * v + b * u + jnp.cross(u, v)], axis=-1)


def rotated(q: Array, vector: Array) -> Array:
    """Vectors (..., 3) turned by unit quaternions (..., 4)."""
    u = jnp.broadcast_to(q[..., 1:], vector.shape)
    across = 2 * jnp.cross(u, vector)
    return vector + q[..., :1] * across + jnp.cross(u, across)


def _product(axes: Array, vector: Array) -> Array:
    """The components of a vector of each body along its axes, which are columns."""
    return jnp.einsum("mck,mc->mk", axes, vector, precision="highest")


def _turning(weight: Array, arm: Array, spin: Array) -> Array:
    """The angular velocity, (bodies, 1, 3), that has this angular momentum."""
    square = jnp.sum(weight * arm * arm, axis=(1, 2))[:, None, None]
    inertia = square * jnp.eye(3, dtype=arm.dtype)[None] - jnp.einsum(
        "mab,mac->mbc", weight * arm, arm, precision="highest"
    )
    return jax.vmap(solve)(inertia, spin)[:, None]


def _frame(corners: Array) -> Array:
    """Right-handed unit vectors as rows, (bodies, 3, 3), from three atoms."""
    a, b = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    first = a / jnp.linalg.norm(a, axis=-1, keepdims=True)
    third = jnp.cross(first, b)
    third = third / jnp.linalg.norm(third, axis=-1, keepdims=True)
    return jnp.stack([first, jnp.cross(third, first), third], axis=1)


def _corners(arm: np.ndarray) -> tuple[int, int, int]:
    """The atom farthest from the centre, that farthest from it, and that farthest from the line of both."""
    a = int(np.argmax(np.linalg.norm(arm, axis=1)))
    b = int(np.argmax(np.linalg.norm(arm - arm[a], axis=1)))
    c = int(np.argmax(np.linalg.norm(np.cross(arm - arm[a], arm[b] - arm[a]), axis=1)))
    return a, b, c
