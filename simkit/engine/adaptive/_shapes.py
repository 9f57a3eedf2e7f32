"""Shapes of what the primitives of an adaptive solve return."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import PyTree

from ..batching._mesh import shaped
from ._carried import kept_shapes
from ._plan import Plan


def _states(plan: Plan, y0: Any, times: Any) -> list[tuple[tuple[int, ...], Any]]:
    members, size = y0.shape
    return [((*axes, members, times.shape[-1] + plan.room, size), y0.dtype) for axes in plan.output_directions]


def solve_shape(*values: PyTree, plan: Plan, keeps: bool = False) -> Any:
    """States for each combination of orders, figures of each member, events and, with `keeps`, the record."""
    leaves, _, times, _ = plan.split(values)
    each, whole = leaves[0].shape[:1], jnp.dtype("int32")
    counts, ends, room = [(each, whole)] * 3, [(each, times.dtype)] * 2, (*each, plan.room)
    log = [counts[0], (room, times.dtype), (room, whole)] if plan.room else []
    kept = kept_shapes(plan, leaves[0], times) if keeps else []
    return shaped(values, [*_states(plan, leaves[0], times), *counts, *ends, *log, *kept])


def tangent_shape(*values: PyTree, plan: Plan) -> Any:
    """Tangents of the states of the last order."""
    leaves, _, times, _ = plan.split(values)
    states = _states(plan, leaves[0], times)
    return shaped(values, states[len(states) // 2 :])


def adjoint_shape(
    *values: PyTree, plan: Plan, directions: int, active: tuple[int, ...], live: tuple[bool, ...], kept: int
) -> Any:
    """Cotangents of the operands `active`, their directions in front."""
    return shaped(values, [((directions, *values[i].shape), values[i].dtype) for i in active])
