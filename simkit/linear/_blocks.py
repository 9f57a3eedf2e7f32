"""Systems side by side that know nothing of each other: a matrix of blocks on the diagonal."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Inexact, Int, PyTree

from ..core import full_matrix
from ._compression import Jacobian
from ._dense import LOOPED_UP_TO, UNROLLED_UP_TO, back_substitute, factorise, lu_factors, unrolled_inverse
from ._pattern import Pattern
from ._structure import Structure

# Blocks are padded to these sizes, so that few kinds of them are solved side by side; larger ones are no blocks.
SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
# Products with this many blocks are written out as sums: 10,000 blocks of 3 states take a third of the time that way, but the
# program is larger, and a hundred blocks take as long as with one sum over an axis.
WRITTEN_OUT_FROM = 512


class Group(NamedTuple):
    """Blocks of one size. `members`: the states of each block, and the number of all states where a block is smaller."""

    members: Int[np.ndarray, "blocks size"]


class Blocks(Structure):
    """Each block is solved alone, all at once. One directional derivative gives a column of every block.

    **Arguments:** `pattern`; `component`, the number of the block that each state belongs to.
    """

    name = "blocks"

    def __init__(self, pattern: Pattern, component: Int[np.ndarray, " n"]) -> None:
        self.pattern = pattern
        self.groups, self.size = _groups(component), len(component)
        # The states in the order of the groups, in each by position in the block and then by block; and each one's place there.
        order = np.concatenate([group.members.T.ravel() for group in self.groups])
        place = np.zeros(self.size + 1, np.int32)
        place[order] = np.arange(len(order))
        self.order, self.place = order.astype(np.int32), place[: self.size]
        states = np.arange(self.size)
        self.in_order = np.array_equal(order, states)
        self.one_by_one = len(self.groups) == 1 and np.array_equal(self.groups[0].members.ravel(), states)

    def dealt(self, v: Inexact[Array, " n"]) -> list[Array]:
        """A vector dealt out to the blocks."""
        if self.one_by_one:
            return [v.reshape(self.groups[0].members.shape).T]
        if not self.in_order:
            v = jnp.concatenate([v, jnp.zeros_like(v[:1])])[self.order]
        found, start = [], 0
        for group in self.groups:
            found.append(v[start : start + group.members.size].reshape(group.members.shape[::-1]))
            start += group.members.size
        return found

    def gathered(self, parts: list[Array]) -> Inexact[Array, " n"]:
        """The vector again."""
        if self.one_by_one:
            return parts[0].T.ravel()
        whole = jnp.concatenate([part.ravel() for part in parts])
        return whole if self.in_order else whole[self.place]

    def shifted(
        self, jacobian: Jacobian, a: ArrayLike, like: Inexact[Array, " n"], mass: Array | None = None
    ) -> list[Array]:
        largest = max(group.members.shape[1] for group in self.groups)
        seeds = np.zeros((largest, self.size + 1), like.dtype)
        for group in self.groups:
            for position in range(group.members.shape[1]):
                seeds[position, group.members[:, position]] = 1
        whole = None if callable(jacobian) else full_matrix(jacobian)
        product = jacobian if callable(jacobian) else lambda v: whole @ v
        along = jnp.asarray(seeds[:, : self.size]) + jnp.zeros_like(like)[None]
        blocks = self._from_columns(jax.vmap(product)(along))
        eyes = [jnp.eye(group.members.shape[1], dtype=like.dtype)[:, :, None] for group in self.groups]
        if mass is None:
            return [eye - a * block for eye, block in zip(eyes, blocks, strict=True)]
        columns = jax.vmap(lambda v: mass * v if mass.ndim == 1 else mass @ v)(along)
        found = []
        for group, eye, m, block in zip(self.groups, eyes, self._from_columns(columns), blocks, strict=True):
            padding = jnp.asarray(self.size == group.members.T, like.dtype)  # rows of smaller blocks that hold no state
            found.append(m + eye * padding[:, None] - a * block)
        return found

    def _from_columns(self, columns: Inexact[Array, "size n"]) -> list[Array]:
        """The blocks, (row, column, block) in each group, from one column of all of them at a time."""
        dealt = [self.dealt(column) for column in columns]
        sizes = [group.members.shape[1] for group in self.groups]
        return [jnp.stack([dealt[position][i] for position in range(size)], 1) for i, size in enumerate(sizes)]

    def described(self) -> str:
        kinds = [f"{len(group.members)} of {group.members.shape[1]}" for group in self.groups]
        return f"independent blocks: {', '.join(kinds)} states"

    def factors(self, w: list[Array]) -> Any:
        return [block_factors(blocks) for blocks in w]

    def solve(self, factors: PyTree, b: Inexact[Array, " n"], transpose: bool) -> Inexact[Array, " n"]:
        return self.gathered(
            [block_solution(part, x, transpose) for part, x in zip(factors, self.dealt(b), strict=True)]
        )


def largest_block(component: Int[np.ndarray, " n"]) -> int:
    """The number of states of the largest block."""
    return int(np.bincount(component).max())


def _groups(component: Int[np.ndarray, " n"]) -> tuple[Group, ...]:
    order = np.argsort(component, kind="stable")
    groups: dict[int, list[Any]] = {}
    for states in np.split(order, np.cumsum(np.bincount(component))[:-1]):
        size = next(s for s in SIZES if s >= len(states))
        groups.setdefault(size, []).append(np.pad(states, (0, size - len(states)), constant_values=len(component)))
    return tuple(Group(np.array(groups[size])) for size in sorted(groups))


def block_factors(w: Inexact[Array, "size size blocks"]) -> Any:
    """The factors of blocks, which `block_solution` takes."""
    if len(w) <= UNROLLED_UP_TO:
        return unrolled_inverse(w)
    if len(w) <= LOOPED_UP_TO:
        return jnp.moveaxis(jax.vmap(factorise, in_axes=2)(w), 0, 2)
    return jax.vmap(lu_factors, in_axes=2)(w)


def block_solution(factors: PyTree, b: Inexact[Array, "size blocks"], transpose: bool) -> Inexact[Array, "size blocks"]:
    """The solutions of equations with blocks, or with their transposes, by their factors."""
    if isinstance(factors, tuple):
        return jax.vmap(lambda f, b: back_substitute(f, b, transpose), in_axes=(0, 1), out_axes=1)(factors, b)
    if b.shape[1] < WRITTEN_OUT_FROM or len(b) > UNROLLED_UP_TO:
        return (factors * (b[:, None] if transpose else b[None])).sum(0 if transpose else 1)
    entry = (lambda i, j: factors[j, i]) if transpose else (lambda i, j: factors[i, j])
    row = lambda i: sum((entry(i, j) * b[j] for j in range(1, len(b))), entry(i, 0) * b[0])
    return jnp.stack([row(i) for i in range(len(b))])
