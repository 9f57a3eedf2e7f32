"""A table of energies over two dihedral angles."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..._errors import ArgumentError
from ...core import quantity
from ..space._space import Space
from ._b_splines import cubic_shares
from ._bonded import BondedPotential, as_indices, dihedral_angle, optional_indices, some_angle
from ._potential import POTENTIALS


@POTENTIALS.named("torsion_map")
class TorsionMap(BondedPotential):
    r"""An energy of two dihedral angles, by a bicubic periodic spline through a table: CHARMM's CMAP.

    **Arguments:**

    - `atoms`: the four atoms of the first angle, then those of the second, shape (terms, 8).
    - `table`: energies at $\phi = 2 \pi i / n$ and $\psi = 2 \pi j / n$ for i and j from 0 to n - 1, shape (n, n), or (kinds, n,
        n); n at least 4.
    - `kind`: shape (terms,), which table a term takes.

    The spline has two continuous derivatives. Angles are 0 where the outer atoms are nearest (cis).

    **Good values:** tables of 24 by 24, as published.

    **Reference:** MacKerell, Feig & Brooks (2004), Journal of Computational Chemistry 25:1400, doi:10.1002/jcc.20065.
    """

    distinct: ClassVar[int | None] = 4  # the two angles share atoms
    atoms: Int[Array, "terms 8"] = eqx.field(converter=as_indices)
    table: Float[Array, "*kinds n n"] = quantity(unit="energy", doc="energies over the two angles")
    kind: Int[Array, " terms"] | None = eqx.field(converter=optional_indices, default=None)

    @property
    def size(self) -> int:
        return 8

    def __check_init__(self):
        shape = jnp.shape(self.table)
        if len(shape) not in (2, 3) or shape[-1] != shape[-2] or shape[-1] < 4:
            raise ArgumentError(
                f"Argument `table` must have the shape (n, n) or (kinds, n, n) with n of at least 4, but has {shape}. Give "
                "energies at equal steps of both angles, from 0."
            )

    def term(self, space: Space, position: Array) -> Array:
        n = self.table.shape[-1]
        table = self.table if self.table.ndim == 3 else self.table[None]
        solve = jnp.asarray(_spline_solution(n), table.dtype)
        coefficients = jnp.einsum("ia,kab,jb->kij", solve, table, solve)
        places = [_place(space, position[:, first : first + 4], n) for first in (0, 4)]
        (row, of_row), (column, of_column) = places
        kind = jnp.zeros(len(self.atoms), jnp.int32) if self.kind is None else self.kind
        if self.kind is None and self.table.ndim == 3:
            kind = jnp.arange(len(self.atoms), dtype=jnp.int32)
        near = coefficients[kind[:, None, None], row[:, :, None], column[:, None, :]]
        return jnp.einsum("tab,ta,tb->t", near, of_row, of_column)


def _place(space: Space, position: Array, n: int) -> tuple[Array, Array]:
    """The four spline coefficients that an angle meets, and their weights, (terms, 4)."""
    some, sine, cosine = some_angle(*dihedral_angle(space, position))
    turns = jnp.where(some, jnp.arctan2(sine, cosine), 0) / (2 * jnp.pi)
    x = turns * n
    below = jnp.floor(x)
    places = below.astype(jnp.int32)[:, None] + jnp.arange(-1, 3, dtype=jnp.int32)[None]
    return places % n, cubic_shares(x - below)


def _spline_solution(n: int) -> np.ndarray:
    """The matrix from values to coefficients of periodic cubic B-splines."""
    return np.linalg.inv((4 * np.eye(n) + np.roll(np.eye(n), 1, axis=1) + np.roll(np.eye(n), -1, axis=1)) / 6)
