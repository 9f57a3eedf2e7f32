"""Batches of solves as one solve: with more members, or with more directions of tangents."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from ._plan import Plan


def merged(plan: Plan, count: int, values: Sequence[Any], dims: Sequence[Any], unshare: Sequence[int] = ()) -> Any:
    """A batch of solves as one solve with more members; also its plan."""
    roots, heights = plan.roots, plan.heights
    end = len(roots)
    touched = {roots[i] for i in range(end) if dims[i] is not None} | set(unshare)
    shared = tuple(s and root not in touched for root, s in enumerate(plan.shared))
    members = values[0].shape[0] if dims[0] is None else values[0].shape[1]
    merged = []

    def into(x: Any, dim: Any, height: int, was_shared: bool) -> Any:
        if dim is None:
            x = jnp.broadcast_to(jnp.expand_dims(x, height), (*x.shape[:height], count, *x.shape[height:]))
        else:
            x = jnp.moveaxis(x, dim, height)
        if was_shared:
            x = jnp.expand_dims(x, height + 1)
            x = jnp.broadcast_to(x, (*x.shape[: height + 1], members, *x.shape[height + 2 :]))
        return x.reshape(*x.shape[:height], count * members, *x.shape[height + 2 :])

    for x, dim, root, height in zip(values[:end], dims[:end], roots, heights, strict=True):
        merged.append(x if shared[root] else into(x, dim, height, plan.shared[root]))
    fixed_shared = []
    for x, dim, was in zip(values[end:], dims[end:], plan.fixed_shared, strict=False):
        fixed_shared.append(was and dim is None)
        merged.append(x if fixed_shared[-1] else into(x, dim, 0, was))
    end += len(plan.fixed_shared)
    times_shared = plan.times_shared and dims[end] is None
    merged.append(values[end] if times_shared else into(values[end], dims[end], 0, plan.times_shared))
    plan = plan._replace(shared=shared, fixed_shared=tuple(fixed_shared), times_shared=times_shared)
    return plan, merged, into


def parted(x: Any, count: int, height: int) -> Any:
    """The members of an output as a batch of members."""
    return x.reshape(*x.shape[:height], count, x.shape[height] // count, *x.shape[height + 1 :])


def batch_size(values: Sequence[Any], dims: Sequence[Any]) -> int:
    return next(x.shape[dim] for x, dim in zip(values, dims, strict=True) if dim is not None)


def only_last_tangents(plan: Plan, dims: Sequence[Any]) -> bool:
    if not plan.orders:
        return False
    end = len(plan.roots)
    first = end - len(plan.orders[-1].active)
    return all(dim is None for i, dim in enumerate(dims) if not first <= i < end)


def more_directions(plan: Plan, count: int, values: Sequence[Any], dims: Sequence[Any]) -> tuple[Plan, list[Any]]:
    """A batch of tangents of one solve as one solve with more directions."""
    end = len(plan.roots)
    order = plan.orders[-1]
    values = list(values)
    for i in range(end - len(order.active), end):
        x = values[i]
        if dims[i] is None:
            x = jnp.broadcast_to(x[:, None], (x.shape[0], count, *x.shape[1:]))
        else:
            x = jnp.moveaxis(x, dims[i], 1)
        values[i] = x.reshape(-1, *x.shape[2:])
    order = order._replace(directions=order.directions * count)
    return plan._replace(orders=(*plan.orders[:-1], order)), values
