"""The queue of an ensemble: members taken into lanes, as a structure of arrays."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ._attempt import RUNNING, Lanes, started
from ._flow import Flow, Operands

MOST_TURNS = 64
"""Most members a lane that are sorted: with more, the last one is too small a part of the work."""


class Layout(NamedTuple):
    """Batch axis of each leaf of the operands; None where all members share it."""

    ops: tuple[int | None, ...]
    fixed: tuple[int | None, ...]


class Held(NamedTuple):
    """Operands of the members now in the lanes."""

    ops: Operands
    fixed: Any
    start: Array
    end: Array


def loader(
    flow: Flow, layout: Layout, ops: Operands, fixed: PyTree, times: Array, members: int
) -> Callable[[Array], tuple[Held, Lanes]]:
    """Return a function that loads members into lanes, at their initial states; a lane without a member is finished."""
    own = times.ndim > 1
    pick = _picker(
        (ops, fixed, (times[..., 0], times[..., -1])), (*layout.ops, *layout.fixed, *(0 if own else None,) * 2)
    )

    def load(member: Array) -> tuple[Held, Lanes]:
        ops, fixed, ends = pick(member)
        start, end = ends if own else (jnp.broadcast_to(x, member.shape) for x in ends)
        status = jnp.where(member < members, RUNNING, 0).astype(jnp.int32)
        return Held(ops, fixed, start, end), started(flow, ops, fixed, start, end, status)

    return load


def _picker(tree: PyTree, axes: Sequence[int | None]) -> Callable[[Array], Any]:
    """Members -> lanes: their parts of all leaves, lanes last.

    What a member has of its own stands in one row: to pick a row costs as much as to pick a number. And XLA's CPU runtime
    hands operations to another thread, which takes longer than they do, once more than eight are ready at the same time.
    """
    leaves, structure = jax.tree.flatten(tree)
    first = {i: jnp.moveaxis(leaves[i], axis, 0) for i, axis in enumerate(axes) if axis is not None}
    kinds = {x.dtype: [i for i in first if first[i].dtype == x.dtype] for x in first.values()}
    rows = {
        kind: jnp.concatenate([first[i].reshape(first[i].shape[0], -1) for i in own], axis=1)
        for kind, own in kinds.items()
    }

    def pick(member: Array) -> Any:
        picked = list(leaves)
        for kind, own in kinds.items():
            columns = jnp.take(rows[kind], member, axis=0, mode="clip").T
            ends = np.cumsum([math.prod(first[i].shape[1:]) for i in own])
            for i, part in zip(own, jnp.split(columns, ends[:-1]), strict=True):
                picked[i] = part.reshape(*first[i].shape[1:], *member.shape)
        return jax.tree.unflatten(structure, picked)

    return pick


def initial_states(flow: Flow, layout: Layout, ops: Operands, members: int) -> Any:
    """The initial states of all members, members first."""
    leaves, structure = jax.tree.flatten(ops)
    last = [x if axis is None else jnp.moveaxis(x, axis, -1) for x, axis in zip(leaves, layout.ops, strict=True)]
    y = flow.begin(jax.tree.unflatten(structure, last))
    return jax.tree.map(lambda x: jnp.moveaxis(x, -1, 0), flow.pack(y))


def longest_first(load: Callable[[Array], tuple[Any, Lanes]], members: int, lanes: int) -> Array:
    """The order in which members are taken: those first whose first step is the shortest part of their span.

    They are likely to need the most steps, and one that is taken last has all other lanes wait for it.
    """
    groups = -(-members // lanes)
    member = jnp.arange(groups * lanes, dtype=jnp.int32).reshape(groups, lanes)

    def part(member: Array) -> Array:
        held, s = load(member)
        return s.h / (held.end - held.start)

    parts = jax.lax.map(part, member).reshape(-1)[:members]
    return jax.lax.sort((parts, member.reshape(-1)[:members] + (0 * parts).astype(jnp.int32)), num_keys=1)[1]
