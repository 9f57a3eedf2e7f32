"""Virtual sites: places that atoms carry along, where forces act but nothing has a mass."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from ..._doors import shown
from ..._errors import ArgumentError
from ...core import as_float_array, quantity, traced
from ._space import Space


class VirtualSites(eqx.Module):
    r"""Sites without a mass whose places follow from those of two or three atoms:

    $$x_s = x_1 + a (x_2 - x_1) + b (x_3 - x_1) + c \, (x_2 - x_1) \times (x_3 - x_1).$$

    or, with `local` coordinates $p$, in a frame that the atoms carry, as lone pairs have it:

    $$x_s = x_1 + a (x_2 - x_1) + b (x_3 - x_1) + p_x \hat e_x + p_y \hat e_y + p_z \hat e_z,$$

    where $\hat e_x$ points along $u_x = \alpha_x (x_2 - x_1) + \beta_x (x_3 - x_1)$, $\hat e_z$ along $u_x \times u_y$ with $u_y$
    from $\alpha_y, \beta_y$, and $\hat e_y = \hat e_z \times \hat e_x$. Their forces act on those atoms. Sites are no rows of the
    state: potentials, species, charges and exclusions count them after the atoms, so that the first site of N atoms has the index
    N.

    **Arguments:**

    - `parents`: atoms 1, 2 and 3 of every site, shape (sites, 3); for two atoms repeat the first.
    - `weights`: a and b, shape (sites, 2) or (2,) for all.
    - `cross`: c in inverse length, shape (sites,) or one for all; None for sites in the plane of the atoms.
    - `local`: p, which adds to `cross`, shape (sites, 3) or (3,) for all; in three dimensions.
    - `axes`: ((alpha_x, beta_x), (alpha_y, beta_y)), shape (sites, 2, 2) or (2, 2) for all; with `local` and not without. Of three
        atoms in a line the second and third axis are zero.

    **Good values:** the fourth site of TIP4P lies between the hydrogens: parents oxygen and both hydrogens, a = b = 0.12797.

    **Raises:** an `ArgumentError` for indices of another shape or type.

    ```python
    from simkit import md

    sites = md.VirtualSites([[0, 1, 2]], weights=[0.12797, 0.12797])
    ```
    """

    parents: Int[Array, "sites 3"]
    weights: Float[Array, "*sites 2"] = quantity(doc="shares of the second and third atom")
    cross: Float[Array, "*sites"] | None = quantity(unit="1/length", doc="factor of the cross product", optional=True)
    local: Float[Array, "*sites 3"] | None = quantity(
        unit="length", doc="place in the frame of the atoms", optional=True
    )
    axes: Float[Array, "*sites 2 2"] | None = quantity(doc="directions of the frame", optional=True)

    def __init__(
        self,
        parents: ArrayLike | Sequence[Sequence[int]],
        weights: ArrayLike | Sequence[Any],
        cross: ArrayLike | Sequence[float] | None = None,
        local: ArrayLike | Sequence[Any] | None = None,
        axes: ArrayLike | Sequence[Any] | None = None,
    ):
        found = np.asarray(parents)
        if found.ndim != 2 or found.shape[1] != 3 or not np.issubdtype(found.dtype, np.integer):
            raise ArgumentError(
                f"Argument `parents` must be whole numbers of shape (sites, 3), but is {found.dtype} of shape {found.shape}. "
                "Repeat the first atom where there are two."
            )
        self.parents = jnp.asarray(found, jnp.int32)
        self.weights = as_float_array(weights)
        self.cross = None if cross is None else as_float_array(cross)
        if (local is None) != (axes is None):
            raise ArgumentError(
                "Arguments `local` and `axes` go together: places in a frame, and its directions by two atoms, such as "
                "[[1, 0], [0, 1]]."
            )
        self.local = None if local is None else _shaped("local", local, 3)
        self.axes = None if axes is None else _shaped("axes", axes, 2, 2)
        if self.axes is not None and not traced(self.axes):
            turns = np.asarray(self.axes).reshape(-1, 2, 2)
            size = np.linalg.norm(turns, axis=2).prod(axis=1)
            if np.any(np.abs(np.linalg.det(turns)) <= 1e-6 * size):
                raise ArgumentError(
                    "Argument `axes` must hold two directions that are not parallel, by the second and third atom, such as "
                    f"[[1, 0], [0, 1]], but is {turns.tolist()}."
                )

    @property
    def count(self) -> int:
        return len(self.parents)

    def placed(self, space: Space, position: Float[Array, "atoms d"]) -> Float[Array, "rows d"]:
        """Positions of the atoms and then of the sites, at the images nearest to the first atom."""
        first, second, third = self._lever(space, position)
        return jnp.concatenate([position, first + self._off(second, third)])

    def _off(self, second: Float[Array, "sites d"], third: Float[Array, "sites d"]) -> Float[Array, "sites d"]:
        """The sites as the first atom sees them, by how it sees the second and third."""
        weights = jnp.broadcast_to(self.weights, (self.count, 2)).astype(second.dtype)
        sites = weights[:, :1] * second + weights[:, 1:] * third
        if second.shape[1] != 3:
            return sites
        if self.cross is not None:
            cross = jnp.broadcast_to(self.cross, (self.count,)).astype(second.dtype)
            sites = sites + cross[:, None] * jnp.cross(second, third)
        if self.local is not None and self.axes is not None:
            place = jnp.broadcast_to(self.local, (self.count, 3)).astype(second.dtype)
            turns = jnp.broadcast_to(self.axes, (self.count, 2, 2)).astype(second.dtype)
            along = turns[..., :1] * second[:, None] + turns[..., 1:] * third[:, None]
            x, z = _unit(along[:, 0]), _unit(jnp.cross(along[:, 0], along[:, 1]))
            sites = sites + place[:, :1] * x + place[:, 1:2] * jnp.cross(z, x) + place[:, 2:] * z
        return sites

    def on_atoms(self, space: Space, position: Float[Array, "atoms d"], forces: Float[Array, "rows d"]) -> Array:
        """The forces on atoms, with those of the sites that they carry; (atoms, d)."""
        (found,) = jax.vjp(lambda x: self.placed(space, x), position)[1](forces)
        return found

    def virial_excess(
        self, space: Space, position: Float[Array, "atoms d"], forces: Float[Array, "rows d"]
    ) -> Float[Array, "d d"]:
        """The virial that sites out of plane or in a frame add to that of atoms and sites which all deform alike."""
        d = position.shape[1]
        if (self.cross is None and self.local is None) or d != 3:
            return jnp.zeros((d, d), position.dtype)
        _, second, third = self._lever(space, position)
        pull, off = -forces[len(position) :], self._off(second, third)

        def work(strain: Array) -> Array:
            moved = jnp.eye(d, dtype=strain.dtype) + strain
            return jnp.vdot(pull, self._off(second @ moved.T, third @ moved.T) - off @ moved.T)

        return jax.grad(work)(jnp.zeros((d, d), position.dtype))

    def _lever(self, space: Space, position: Array) -> tuple[Array, Array, Array]:
        first, second, third = (position[self.parents[:, k]] for k in range(3))
        return first, space.displacement(second, first), space.displacement(third, first)


def _unit(x: Float[Array, "sites 3"]) -> Float[Array, "sites 3"]:
    """Directions of length 1, and 0 where there is none, with derivatives."""
    square = jnp.sum(x**2, axis=1, keepdims=True)
    there = square > 0
    return jnp.where(there, x / jnp.sqrt(jnp.where(there, square, 1)), 0)


def _shaped(name: str, given: Any, *shape: int) -> Array:
    """Numbers whose last axes have a shape."""
    try:
        found = as_float_array(given)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"Argument `{name}` must be numbers, but it is {shown(given)}.") from error
    if found.shape[-len(shape) :] != shape or found.ndim > len(shape) + 1:
        wanted = ", ".join(map(str, shape))
        raise ArgumentError(
            f"Argument `{name}` must have the shape (sites, {wanted}) or ({wanted}), but has {found.shape}."
        )
    return found
