"""Adaptive solves: from a system to the operation that solves its members, and back to states."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array

from ._member import Member, trace_member
from ._mesh import alike_arrays
from ._operation import Plan, solve_members
from ._sizes import Sizes
from ._task import Options, Task


def integrate_adaptive(
    task: Task, options: Options = Options(), length: Array | None = None
) -> tuple[Any, Array, tuple[Array, Array], Array]:
    """States at the task's times, status, the numbers of accepted and rejected steps, and the length of the step that would
    come next.

    The task's start is an encoded state. `length` is that of the first step, chosen where it is None or 0.
    """
    member, ops, fixed, times, plan, unravel = pose(task, options, length)
    start = moved_in_time(member, -1.0, times[0], ops[0], ops, fixed)
    held = jax.lax.stop_gradient(times)
    ys, status, steps, rejected, length, _ = solve_members(start[None], *ops[1:], *fixed, held, plan=plan)
    move = functools.partial(moved_in_time, member, 1.0)
    rows = jax.vmap(move, in_axes=(0, 0, None, None))(times, ys[0], ops, fixed)
    return jax.vmap(unravel)(rows), status[0], (steps[0], rejected[0]), length[0]


class Posed(NamedTuple):
    """A solve of one member, ready to be put."""

    member: Member
    ops: list[Any]
    fixed: list[Any]
    times: Array
    plan: Plan
    unravel: Callable[[Array], Any]


def pose(task: Task, options: Options, length: Array | None = None) -> Posed:
    """What a solve is made of; arguments as in `integrate_adaptive`."""
    # Over a mesh all that a member is traced with has to vary alike, else casts between the two become part of its programs.
    task, length = alike_arrays((task._replace(key=None), length))
    times, dtype = task.times, task.times.dtype
    completed = task.step.completed(dtype)
    length = jnp.zeros_like(times[0]) if length is None else length
    numerics = [jax.lax.stop_gradient(jnp.asarray(x, dtype)) for x in (length, completed.rtol, completed.atol)]
    now = jax.lax.stop_gradient(times[0])
    member, ops, fixed, unravel = trace_member(task.system, task.y0, task.inputs, task.solver, now, task.event)
    fixed = [*fixed, *numerics]
    plan = Plan(
        member=member,
        shared=(False, *(True for _ in ops[1:])),
        fixed_shared=tuple(True for _ in fixed),
        times_shared=True,
        sizes=Sizes(completed.max_steps, options.lanes, options.memory),
    )
    return Posed(member, ops, fixed, times, plan, unravel)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def moved_in_time(member: Member, sign: float, t: Array, y: Array, ops: Any, fixed: Any) -> Array:
    """The state at a time, which as a function of that time follows the field: solves themselves hold their times.

    With `sign` -1 the state at a held time, as a function of the time for which `y` is given.
    """
    return y


@functools.partial(moved_in_time.defjvp, symbolic_zeros=True)
def _moved_jvp(member: Member, sign: float, primals: Any, tangents: Any) -> Any:
    t, y, ops, fixed = primals
    dt, dy, dops, _ = tangents
    instantiated = lambda dot, x: jnp.zeros_like(x) if isinstance(dot, SymbolicZero) else dot
    if isinstance(dt, SymbolicZero):
        return y, instantiated(dy, y)

    def midpoint(t: Any, y: Any, ops: Any) -> Any:
        held = jax.lax.stop_gradient(t)
        h = sign * (t - held)
        half = y + 0.5 * h * member.field(ops, fixed, held, y)
        return y + h * member.field(ops, fixed, held + 0.5 * h, half)

    dots = dt, instantiated(dy, y), [instantiated(d, x) for d, x in zip(dops, ops, strict=True)]
    return y, jax.jvp(midpoint, (t, y, ops), dots)[1]
