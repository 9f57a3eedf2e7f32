"""Structures that solve equations approximately, as preconditioners of Krylov methods."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Inexact, Int, PyTree

from ._blocks import block_factors, block_solution
from ._compression import Compression, Jacobian
from ._pattern import Pattern
from ._structure import Structure


class Unchanged(Structure):
    """The identity: no preconditioner."""

    name = "none"
    pattern = None

    def shifted(self, jacobian: Jacobian, a: ArrayLike, like: Inexact[Array, " n"], mass: Array | None = None) -> Array:
        return jnp.zeros_like(like[:1])

    def described(self) -> str:
        return "GMRES without a preconditioner of simkit"

    def factors(self, w: Array) -> Array:
        return w

    def solve(self, factors: PyTree, b: Inexact[Array, " n"], transpose: bool) -> Inexact[Array, " n"]:
        return b


class BlockJacobi(Structure):
    """The blocks on the diagonal of a matrix, each solved alone, as if nothing stood beside them (block Jacobi).

    Entries are exact, by the colours of the whole pattern: what stands beside the blocks is not added to them.

    **Arguments:** `pattern`; `sizes`, for each group of blocks the number of states of a block and that of its blocks. States are
    in the order of the groups, in each by position in the block and then by block: so are arrays of one shape, one after the other.
    """

    name = "block Jacobi"

    def __init__(self, pattern: Pattern, sizes: Sequence[tuple[int, int]]) -> None:
        self.pattern, self.compression = pattern, Compression(pattern)
        self.sizes = tuple(sizes)
        self.starts = np.cumsum([0, *(size * count for size, count in self.sizes)]).tolist()
        self.places = [_places(pattern, start, *kind) for start, kind in zip(self.starts, self.sizes, strict=False)]

    def shifted(
        self, jacobian: Jacobian, a: ArrayLike, like: Inexact[Array, " n"], mass: Array | None = None
    ) -> list[Array]:
        values = a * self.compression(jacobian, like)
        values = jnp.concatenate([values, jnp.zeros_like(values[:1])])
        m = jnp.ones_like(like) if mass is None else mass
        found = []
        for start, (size, count), places in zip(self.starts, self.sizes, self.places, strict=False):
            own = m[start : start + size * count].reshape(size, 1, count)
            found.append(own * jnp.eye(size, dtype=like.dtype)[:, :, None] - values[places])
        return found

    def described(self) -> str:
        blocks = " and ".join(f"{count} blocks of {size}" for size, count in self.sizes)
        return f"{self.compression.described()}, GMRES preconditioned by {blocks} states"

    def factors(self, w: list[Array]) -> Any:
        return [block_factors(blocks) for blocks in w]

    def solve(self, factors: PyTree, b: Inexact[Array, " n"], transpose: bool) -> Inexact[Array, " n"]:
        found = []
        for part, start, (size, count) in zip(factors, self.starts, self.sizes, strict=False):
            own = b[start : start + size * count].reshape(size, count)
            found.append(block_solution(part, own, transpose).ravel())
        return jnp.concatenate(found)


def _places(pattern: Pattern, start: int, size: int, count: int) -> Int[np.ndarray, "size size count"]:
    """The number of each entry of the blocks among the places of a pattern; one behind the last where it is none of them."""
    keys = pattern.rows * pattern.size + pattern.columns
    block = np.arange(count)
    rows = start + np.arange(size)[:, None, None] * count + block
    columns = start + np.arange(size)[None, :, None] * count + block
    wanted = rows * pattern.size + columns
    at = np.minimum(np.searchsorted(keys, wanted), pattern.places - 1)
    return np.where(keys[at] == wanted, at, pattern.places)
