"""A record that a solve keeps for its adjoint, which then does not solve again.

It is a result of the operation: a list of arrays whose shapes follow from the plan. Only a solve whose members are all in lanes at
once keeps one, and it holds few steps; where a solve took more, the adjoint solves again as if there were none.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ._flow import Flow
from ._plan import Plan
from ._record import Kept, row_of
from ._sizes import Numerics


def numbers_of(plan: Plan, members: int, size: int) -> tuple[int, int | None, int]:
    """Return how many numbers a state has with its tangents, and how many more a record holds of earlier steps and is kept."""
    copies = sum(math.prod(axes) for axes in plan.output_directions)
    past = plan.past(plan.sizes.numerics(members, size * copies, 2).lanes)
    count = None if past is None else copies * sum(math.prod(x.shape) for x in jax.tree.leaves(past))
    return size * copies, count, plan.member.kept_numbers()


def carried_numerics(plan: Plan, y0: Any, times: Any) -> Numerics | None:
    """Return the sizes of a solve that keeps a record; None where it keeps none."""
    members, size = y0.shape
    if plan.room or not members or plan.in_kernels(derivatives=True):
        return None
    numbers, past, kept = numbers_of(plan, members, size)
    return plan.sizes.carried(members, numbers, times.shape[-1], y0.dtype.itemsize, past, kept)


def kept_shapes(plan: Plan, y0: Any, times: Any) -> list[tuple[tuple[int, ...], Any]]:
    """Return the shapes and types of what a solve keeps; empty where it keeps nothing."""
    numerics = carried_numerics(plan, y0, times)
    if numerics is None:
        return []
    (members, size), member = y0.shape, plan.member
    row = lambda *shape: (numerics.rows, *shape, members)
    states = [(row(*axes, size), y0.dtype) for axes in plan.output_directions]
    rows = [(row(), times.dtype), (row(), times.dtype), *states]
    past = jax.tree.leaves(plan.past(numerics.lanes))
    rows += [(row(*axes, *x.shape), x.dtype) for axes in plan.output_directions for x in past]
    if member.multistep:
        rows += [(row(), jnp.dtype(bool)), *states]
    return [*rows, ((1,), jnp.dtype("int32")), ((members,), jnp.dtype("int32")), ((members,), times.dtype)]


def restored(flow: Flow, shapes: Any, leaves: Sequence[Array]) -> Kept:
    """The record and the rest from their arrays; `shapes` are the lanes."""
    row = jax.eval_shape(lambda s: row_of(flow, s, s.t, s.y), shapes)
    *rows, used, status, t = leaves
    return Kept(jax.tree.unflatten(jax.tree.structure(row), rows), used, status, t)


def parted_kept(leaves: Sequence[Array], count: int) -> tuple[list[Array], list[int]]:
    """The record of a solve with a batch of members as a batch of records, and the axes of the batch."""
    *rows, used, status, t = leaves
    apart = lambda x: x.reshape(*x.shape[:-1], count, x.shape[-1] // count)
    return (
        [*map(apart, rows), jnp.broadcast_to(used[None], (count, 1)), apart(status), apart(t)],
        [*(x.ndim - 1 for x in rows), 0, 0, 0],
    )


def merged_kept(leaves: Sequence[Array], dims: Sequence[Any], count: int) -> list[Array]:
    """A batch of records as the record of one solve with all their members."""

    def joined(x: Array, dim: Any) -> Array:
        x = jnp.broadcast_to(x[..., None, :], (*x.shape[:-1], count, x.shape[-1])) if dim is None else x
        x = x if dim is None else jnp.moveaxis(x, dim, -2)
        return x.reshape(*x.shape[:-2], -1)

    *rows, used, status, t = range(len(leaves))
    most = leaves[used] if dims[used] is None else jnp.max(jnp.moveaxis(leaves[used], dims[used], 0), axis=0)
    of = lambda i: joined(leaves[i], dims[i])
    return [*map(of, rows), most, of(status), of(t)]


def _linked_place(plan: Plan) -> int:
    """The place among the arrays of a record of what steps are linked by: behind two times and the states."""
    return 2 + len(plan.output_directions)


def completed_kept(
    plan: Plan, found: list[Array], places: list[int], shapes: Sequence[tuple[tuple[int, ...], Any]], count: int
) -> tuple[list[Array], list[int]]:
    """A batch of records, with arrays without content for those that the records of `shapes` have beside.

    The steps of one member alone may be linked; those of several are not.
    """
    first = _linked_place(plan)
    lacking = shapes[first : first + len(shapes) - len(found)]
    empty = [jnp.zeros((count, *shape), dtype) for shape, dtype in lacking]
    return [*found[:first], *empty, *found[first:]], [*places[:first], *[0 for _ in lacking], *places[first:]]


def joined_kept(plan: Plan, joined: Sequence[Any], kept: Sequence[Any], dims: Sequence[Any], count: int) -> list[Any]:
    """The record of one solve of `plan` with the operands `joined`, from those of a batch; empty where it keeps none."""
    shapes = kept_shapes(plan, joined[0], joined[-1]) if kept else []
    first, lacking = _linked_place(plan), len(kept) - len(shapes)
    if shapes and lacking > 0:
        kept, dims = ([*x[:first], *x[first + lacking :]] for x in (kept, dims))
    found = merged_kept(kept, dims, count) if shapes else []
    return found if [x.shape for x in found] == [shape for shape, _ in shapes] else []


def nothing_kept(shapes: Sequence[tuple[tuple[int, ...], Any]], count: int) -> tuple[list[Array], list[int]]:
    """Records without content in the place of those of a batch of solves, which count as too long; and the axes of the batch."""
    *rows, _, status, t = [jnp.zeros((count, *shape), dtype) for shape, dtype in shapes]
    return [*rows, jnp.full((count, 1), jnp.iinfo(jnp.int32).max, jnp.int32), status, t], [0 for _ in shapes]
