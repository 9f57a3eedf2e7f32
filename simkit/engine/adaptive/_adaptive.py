"""Adaptive solves: from a system to the operation that solves its members, and back to states."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, PRNGKeyArray, PyTree

from ..._errors import ArgumentError
from ..._types import Time
from ...core import BrownianTree, StochasticSystem, brownian_shape, brownian_tree
from ..batching._mesh import alike_arrays
from ..batching._paired import paired_at_rest
from ..task._flat import Flattening
from ..task._scales import settled
from ..task._step import Courant
from ..task._task import Options, Task
from ._member import Member, trace_member
from ._midpoint import midpoint
from ._operation import Plan, solve_members
from ._sizes import Sizes


def integrate_adaptive(
    task: Task, options: Options = Options(), length: Array | None = None
) -> tuple[Any, Array, tuple[Array, Array], Array]:
    """States at the task's times, status, the numbers of accepted and rejected steps, and the length of the step that would
    come next.

    The task's start is an encoded state. `length` is that of the first step, chosen where it is None or 0.
    """
    member, ops, fixed, times, plan, way = pose(task, options, length)
    start = moved_in_time(member, -1.0, times[:1], ops[0][None], ops, fixed)
    held = jax.lax.stop_gradient(times)
    ys, status, steps, rejected, length, _ = solve_members(start, *ops[1:], *fixed, held, plan=plan)
    rows = moved_in_time(member, 1.0, times, ys[0], ops, fixed)
    return jax.vmap(way.state)(rows), status[0], (steps[0], rejected[0]), length[0]


class Posed(NamedTuple):
    """A solve of one member, ready to be put."""

    member: Member
    ops: list[Any]
    fixed: list[Any]
    times: Array
    plan: Plan
    way: Flattening


def pose(task: Task, options: Options, length: Array | None = None) -> Posed:
    """Assemble the operands and the plan of a solve; arguments as in `integrate_adaptive`."""
    # Over a mesh all that a member is traced with has to vary alike, else casts between the two become part of its programs.
    key = task.key
    task, length = alike_arrays((task._replace(key=None), length))
    times, dtype = task.times, task.times.dtype
    task = settled(task)
    length = jnp.zeros_like(times[0]) if length is None else length
    rtol, atol = task.step.numbers()
    numerics = [jax.lax.stop_gradient(jnp.asarray(x, dtype)) for x in (task.step.most(), length, rtol)]
    now = jax.lax.stop_gradient(times[0])
    bounded = isinstance(task.step, Courant)
    between = times.shape[-1] > 2 or task.events is not None
    traced = trace_member(
        task.system, task.y0, task.inputs, task.solver, now, task.events, bounded, between, tree_of(task, key)
    )
    member, ops, fixed, way = traced
    # An absolute tolerance for each state.
    atol = jax.tree.map(lambda x: jax.lax.stop_gradient(jnp.asarray(x, dtype)), atol)
    if way.share != 1:
        numerics[-1] = numerics[-1] * way.share
    fixed = [*fixed, *numerics, atol if bounded else way.tolerance(atol)]
    plan = Plan(
        member=member,
        shared=(False, *(True for _ in ops[1:])),
        fixed_shared=tuple(True for _ in fixed),
        times_shared=True,
        sizes=Sizes(task.step.max_steps, options.lanes, options.memory, task.events is not None),
        room=0 if task.events is None else options.room or task.events.room,
    )
    return Posed(member, ops, fixed, times, plan, way)


def tree_of(task: Task, key: PRNGKeyArray | None) -> BrownianTree | None:
    """The Brownian path of a stochastic system over the times of its task; None for others."""
    if not isinstance(task.system, StochasticSystem):
        return None
    if key is None:
        raise ArgumentError(
            f"`{type(task.system).__name__}` is stochastic, so argument `key` must be a random key, such as `jax.random.key(0)`."
        )
    shape = brownian_shape(task.system, task.times[0], jax.eval_shape(lambda y: y, task.y0), task.inputs)
    return brownian_tree(shape, key, jax.lax.stop_gradient(task.times))


def moved_in_time(member: Member, sign: float, t: Time, y: Array, ops: PyTree, fixed: PyTree) -> Array:
    """States `y` (rows, ...) at times `t` (rows,), which as functions of these follow the field: solves hold their times.

    With `sign` -1 the state at a held time, as a function of the time for which `y` is given. Right to second order, mixed
    derivatives by states and operands included.
    """
    # Under `vmap` a value has to be one for each member wherever its tangent is, which JAX does not see to.
    leaves = [x.reshape(-1)[0] for x in jax.tree.leaves((t, ops, fixed)) if x.size]
    zeros = [jnp.where(x == x, 0, 0).astype(y.dtype) for x in leaves]
    return _moved(member, sign, t, y + functools.reduce(jnp.add, zeros), ops, fixed)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _moved(member: Member, sign: float, t: Time, y: Array, ops: PyTree, fixed: PyTree) -> Array:
    return y


@functools.partial(_moved.defjvp, symbolic_zeros=True)
def _moved_jvp(member: Member, sign: float, primals: PyTree, tangents: PyTree) -> Any:
    t, y, ops, fixed = primals
    dt, dy, dops, _ = tangents
    out = _moved(member, sign, t, y, ops, fixed)
    instantiated = lambda dot, x: jnp.zeros_like(x) if isinstance(dot, SymbolicZero) else dot
    if not isinstance(dt, SymbolicZero):
        dots = dt, instantiated(dy, y), [instantiated(d, x) for d, x in zip(dops, ops, strict=True)]
        return out, jax.jvp(functools.partial(_midpoint, member, sign, fixed), (t, y, ops), dots)[1]

    # The time stands still, but what is differentiated again may move it: these derivatives depend on it.
    moving = [i for i, d in enumerate(dops) if not isinstance(d, SymbolicZero)]

    def of(known: PyTree) -> tuple[Callable[..., Array], Any]:
        t, (y, ops, fixed) = known

        def state(y: Array, some: list[Array]) -> Array:
            whole = list(ops)
            for i, x in zip(moving, some, strict=True):
                whole[i] = x
            return _midpoint(member, sign, fixed, t, y, whole)

        return state, (y, [ops[i] for i in moving])

    def forward(known: PyTree, direction: PyTree) -> Array:
        state, point = of(known)
        return jax.jvp(state, point, direction)[1]

    def backward(known: PyTree, cotangent: Array) -> Any:
        state, point = of(known)
        return jax.vjp(state, *point)[1](cotangent)

    direction = instantiated(dy, y), [dops[i] for i in moving]
    zeros = [jnp.shape(x) for x in direction[1]], [x.dtype for x in direction[1]]
    values = (
        lambda known, direction: direction[0],
        lambda known, cotangent: (cotangent, [jnp.zeros(*x) for x in zip(*zeros, strict=True)]),
    )
    return out, paired_at_rest((forward, backward), values, t, (y, ops, fixed), direction)


def _midpoint(member: Member, sign: float, fixed: PyTree, t: Time, y: Array, ops: PyTree) -> Array:
    def one(t: Array, y: Array) -> Array:
        held = jax.lax.stop_gradient(t)
        y = jnp.where(jnp.isfinite(y).all(), y, jax.lax.stop_gradient(ops[0]))  # of a failed member, whom nobody asks
        return midpoint(functools.partial(member.field, ops, fixed), held, sign * (t - held), y)

    return jax.vmap(one)(t, y)
