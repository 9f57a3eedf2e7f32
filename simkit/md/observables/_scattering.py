"""The structure factor."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from ..._errors import ArgumentError
from ...core import full_products
from ..space._space import Space, inverse
from ._pairs import PAIRS_AT_ONCE, over_frames


class StructureFactor(eqx.Module):
    """`wave_number`, |q| of each wave vector; `s`, the structure factor there."""

    wave_number: Float[Array, " vectors"]
    s: Float[Array, " vectors"]

    def shells(self, edges: ArrayLike | Sequence[float]) -> Float[Array, " shells"]:
        """The mean of `s` over the wave vectors between each two edges; NaN where there is none.

        **Arguments:** `edges`, wave numbers, increasing; a wave vector on an edge counts above it.
        """
        edges = jnp.asarray(edges, self.s.dtype)
        count = edges.shape[0] - 1
        place = jnp.searchsorted(edges, self.wave_number, side="right") - 1
        place = jnp.where((place >= 0) & (place < count), place, count)
        add = lambda x: jnp.zeros(count, x.dtype).at[place].add(x, mode="drop")
        return add(self.s) / add(jnp.ones_like(self.s))


def wave_indices(space: Space, largest: float) -> Int[np.ndarray, "vectors d"]:
    r"""The wave vectors of a cell up to a length, as whole numbers n with $q = 2 \pi\, h^{-1} n$, where the rows of h
    are the lattice vectors; of q and -q only one, and not 0. They are sorted by length.

    A cell that changes keeps its whole numbers, so that the structure factor is differentiable by the cell.

    **Arguments:** `space`, periodic, with known numbers (outside `jit`); `largest`, the largest |q|.

    **Raises:** an `ArgumentError` where the space is open or no wave vector is that short.
    """
    if not space.periodic:
        raise ArgumentError("Argument `space` must be periodic to have wave vectors, but it is open.")
    vectors = np.asarray(space.vectors(), float)
    reach = np.floor(largest * np.linalg.norm(vectors, axis=1) / (2 * np.pi)).astype(int)
    grids = np.meshgrid(*(np.arange(-n, n + 1) for n in reach), indexing="ij")
    indices = np.stack(grids, axis=-1).reshape(-1, vectors.shape[0])
    lengths = np.linalg.norm(2 * np.pi * indices @ np.linalg.inv(vectors).T, axis=1)
    # One of n and -n: the one whose first number that is not 0 is positive.
    leading = np.take_along_axis(indices, (indices != 0).argmax(axis=1)[:, None], axis=1)[:, 0]
    kept = (lengths <= largest * (1 + 1e-12)) & (leading > 0)
    if not kept.any():
        shortest = 2 * np.pi / np.linalg.norm(vectors, axis=1).max()
        raise ArgumentError(
            f"Argument `largest` must reach a wave vector of the cell, but it is {largest:g}, and one is {shortest:.4g} long."
        )
    order = np.lexsort((*indices[kept].T[::-1], np.round(lengths[kept], 10)))
    return indices[kept][order]


@full_products
def structure_factor(
    space: Space,
    position: Float[Array, "*frames atoms d"],
    indices: Int[np.ndarray, "vectors k"] | Int[Array, "vectors k"],
    *,
    weight: Float[Array, " n"] | None = None,
) -> StructureFactor:
    r"""The static structure factor of a frame, or its mean over the frames of a trajectory,

    $$S(q) = \frac{\left| \sum_j b_j e^{-i q \cdot r_j} \right|^2}{\sum_j b_j^2}$$

    **Arguments:**

    - `space`: periodic; one for all frames, or with a leading axis of frames.
    - `position`: shape (atoms, d) or (frames, atoms, d), wrapped or not.
    - `indices`: wave vectors as `wave_indices` gives them.
    - `weight`: b of each atom: scattering lengths, charges, or 1 for one species and 0 for others; 1 where it is left out.

    **Returns:** a `StructureFactor`; its `shells(edges)` makes a curve of it.

    **Raises:** an `ArgumentError` for an open space or shapes that do not fit.

    **Source:** Allen and Tildesley (2017), Computer Simulation of Liquids, section 2.6.

    ```python
    from simkit.md import crystal, structure_factor, wave_indices
    solid = crystal("fcc", 1.0, 3)
    found = structure_factor(solid.space, solid.position, wave_indices(solid.space, 12.0))
    print(found.s.max(), len(solid.position))  # prints 108.0 108
    ```
    """
    atoms, d = position.shape[-2:]
    if not space.periodic:
        raise ArgumentError("Argument `space` must be periodic to have wave vectors, but it is open.")
    if indices.ndim != 2 or indices.shape[1] != d:
        raise ArgumentError(f"Argument `indices` must have the shape (vectors, {d}), but it has {indices.shape}.")
    b = jnp.ones(atoms, position.dtype) if weight is None else weight.astype(position.dtype)
    if b.shape != (atoms,):
        raise ArgumentError(f"Argument `weight` must have the shape ({atoms},), one an atom, but it has {b.shape}.")
    n = jnp.asarray(indices, position.dtype)

    def one(space: Space, q: Array) -> tuple[Array, Array]:
        inverted = inverse(space.vectors().astype(q.dtype))
        fractions = q @ inverted
        waves = 2 * jnp.pi * n @ inverted.T
        # Whole turns leave the angle first: in float32 a far image would have none of its digits left.
        fractions = fractions - jax.lax.stop_gradient(jnp.round(fractions))

        @jax.checkpoint
        def amplitude(m: Array) -> Array:
            angle = 2 * jnp.pi * (fractions @ m)
            return jnp.vdot(b, jnp.cos(angle)) ** 2 + jnp.vdot(b, jnp.sin(angle)) ** 2

        at_once = max(1, min(n.shape[0], PAIRS_AT_ONCE // atoms))
        return jnp.linalg.norm(waves, axis=1), jax.lax.map(amplitude, n, batch_size=at_once) / jnp.sum(b**2)

    return StructureFactor(*over_frames(space, position, one))
