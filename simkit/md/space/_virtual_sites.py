"""Virtual sites: places that atoms carry along, where forces act but nothing has a mass."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from ..._errors import ArgumentError
from ...core import as_float_array, quantity
from ._space import Space


class VirtualSites(eqx.Module):
    r"""Sites without a mass whose places follow from those of two or three atoms:

    $$x_s = x_1 + a (x_2 - x_1) + b (x_3 - x_1) + c \, (x_2 - x_1) \times (x_3 - x_1).$$

    Their forces act on those atoms. Sites are no rows of the state: potentials, species, charges and exclusions count them after
    the atoms, so that the first site of N atoms has the index N.

    **Arguments:**

    - `parents`: atoms 1, 2 and 3 of every site, shape (sites, 3); for two atoms repeat the first.
    - `weights`: a and b, shape (sites, 2) or (2,) for all.
    - `cross`: c in inverse length, shape (sites,) or one for all; None for sites in the plane of the atoms.

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

    def __init__(
        self,
        parents: ArrayLike | Sequence[Sequence[int]],
        weights: ArrayLike | Sequence[Any],
        cross: ArrayLike | Sequence[float] | None = None,
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

    @property
    def count(self) -> int:
        return len(self.parents)

    def placed(self, space: Space, position: Float[Array, "atoms d"]) -> Float[Array, "rows d"]:
        """Positions of the atoms and then of the sites, at the images nearest to the first atom."""
        first, second, third = self._lever(space, position)
        weights = jnp.broadcast_to(self.weights, (self.count, 2)).astype(position.dtype)
        sites = first + weights[:, :1] * second + weights[:, 1:] * third
        if self.cross is not None and position.shape[1] == 3:
            sites = sites + self._cross(self.cross, position) * jnp.cross(second, third)
        return jnp.concatenate([position, sites])

    def on_atoms(self, space: Space, position: Float[Array, "atoms d"], forces: Float[Array, "rows d"]) -> Array:
        """The forces on atoms, with those of the sites that they carry; (atoms, d)."""
        (found,) = jax.vjp(lambda x: self.placed(space, x), position)[1](forces)
        return found

    def virial_excess(
        self, space: Space, position: Float[Array, "atoms d"], forces: Float[Array, "rows d"]
    ) -> Float[Array, "d d"]:
        """The virial that sites out of plane add to that of atoms and sites which all deform alike."""
        d = position.shape[1]
        if self.cross is None or d != 3:
            return jnp.zeros((d, d), position.dtype)
        _, second, third = self._lever(space, position)
        pull, cross = -forces[len(position) :], self._cross(self.cross, position)

        def work(strain: Array) -> Array:
            moved = jnp.eye(d, dtype=strain.dtype) + strain
            own = jnp.cross(second @ moved.T, third @ moved.T)
            return jnp.vdot(pull, cross * (own - jnp.cross(second, third) @ moved.T))

        return jax.grad(work)(jnp.zeros((d, d), position.dtype))

    def _cross(self, cross: Array, position: Array) -> Float[Array, "sites 1"]:
        return jnp.broadcast_to(cross, (self.count,)).astype(position.dtype)[:, None]

    def _lever(self, space: Space, position: Array) -> tuple[Array, Array, Array]:
        first, second, third = (position[self.parents[:, k]] for k in range(3))
        return first, space.displacement(second, first), space.displacement(third, first)
