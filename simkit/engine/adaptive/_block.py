"""A block of attempts in every lane, and the save times that they pass.

Save times use the method's own dense output: an attempt hands out up to `saves` of them, and a lane with more takes the same step
again, so that no lane waits for another's save times and nothing but the saved states is stored.
"""

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import JaxprEqn
from jaxtyping import Array, PyTree

from ...core import just_before, scaled
from ._attempt import Attempt, Lanes, attempt, moved
from ._flow import Flow
from ._queue import Held
from ._sizes import Numerics


class Saving(NamedTuple):
    """Events of lanes, as far as saving states needs to know them."""

    s: Lanes  # at the start of the step
    attempt: Attempt  # the step up to the event
    time: Array  # of the event
    on: Array  # where the lane goes on
    after: Any  # state there


STEPS_OF = "steps of lanes: "
"""Name of the loop over steps in a traced program, before the number of lanes."""


def attempts(
    flow: Flow,
    times: Array,
    numerics: Numerics,
    members: int,
    held: Held,
    s: Lanes,
    cursor: Array,
    ys: PyTree,
    member: Array,
    row: Callable[[Lanes, Array, Any], Any] = lambda s, t1, y1: None,
) -> tuple[Lanes, Array, Any, Any]:
    """Run the attempts of one block in every lane: the lanes, their next save times, the buffer of saved states, and rows.

    `row(s, t1, y1)` makes that of an attempt from its start, its end (the start where it was not taken) and the state there.
    """
    last = times.shape[-1] - 2  # the final state is written where it is exact, at the end
    due = functools.partial(_due, flow, held, times, numerics.saves, members)
    advance = functools.partial(attempt, flow, held.ops, held.fixed, held.end)
    go = functools.partial(moved, flow, held.ops, held.fixed)
    row_of = lambda s, found, taken: row(s, jnp.where(taken, found.t1, s.t), found.y1)

    def final_only(s: Lanes, _: None) -> tuple[Lanes, Any]:
        found = advance(s)
        return go(s, found, found.accurate), row_of(s, found, found.accurate)

    def windowed(carry: PyTree, _: None) -> tuple[Any, Any]:
        s, cursor = carry
        found = advance(s)
        place, values, cursor, more = due(s, found, member, cursor)
        taken = found.accurate & ~more
        return (go(s, found, taken, found.accurate & more), cursor), ((place, values), row_of(s, found, taken))

    def alone(carry: PyTree, _: None) -> tuple[Any, Any]:
        s, cursor, ys = carry
        found = advance(s)

        def write(carry: PyTree) -> Any:
            cursor, ys, _ = carry
            place, values, cursor, more = due(s, found, member, cursor)
            return cursor, _written(ys, place, values), more

        any_due = targets(times, member, jnp.minimum(cursor, last)) <= found.reached
        carry = cursor, ys, found.accurate & (cursor <= last) & any_due
        cursor, ys, _ = jax.lax.while_loop(lambda c: jnp.any(c[2]), write, carry)
        return (go(s, found, found.accurate), cursor, ys), row_of(s, found, found.accurate)

    def scan(body: Any, carry: PyTree) -> Any:
        with jax.named_scope(f"{STEPS_OF}{numerics.lanes}"):
            return jax.lax.scan(body, carry, None, length=numerics.block)

    if last < 1:
        s, rows = scan(final_only, s)
        return s, cursor, ys, rows
    if numerics.lanes == 1:
        (s, cursor, ys), rows = scan(alone, (s, cursor, ys))
        return s, cursor, ys, rows
    (s, cursor), (windows, rows) = scan(windowed, (s, cursor))
    # Without the large buffer XLA makes one kernel of all attempts.
    return s, cursor, jax.lax.scan(lambda ys, found: (_written(ys, *found), None), ys, windows)[0], rows


def saved_until(
    flow: Flow,
    times: Array,
    numerics: Numerics,
    members: int,
    held: Held,
    found: Saving,
    cursor: Array,
    ys: PyTree,
    member: Array,
) -> tuple[Array, Any]:
    """Save the states before the events of lanes, and after them at the time at which these are: next save times and the buffer."""
    last = times.shape[-1] - 2
    if last < 1:
        return cursor, ys
    s, a = found.s, found.attempt
    before = a._replace(reached=just_before(found.time))
    due = functools.partial(_due, flow, held, times, numerics.saves, members, s, before, member)

    def write(carry: PyTree) -> Any:
        cursor, ys, _ = carry
        place, values, cursor, more = due(cursor)
        return cursor, _written(ys, place, values), more

    if a.dense is not None:
        cursor, ys, _ = jax.lax.while_loop(lambda c: jnp.any(c[2]), write, (cursor, ys, a.accurate))
    here = a.accurate & (cursor <= last) & (targets(times, member, jnp.minimum(cursor, last)) <= found.on)
    window = lambda y: jnp.broadcast_to(jnp.moveaxis(y, -1, 0)[..., None], (y.shape[-1], *y.shape[:-1], numerics.saves))
    place = jnp.stack([jnp.where(here, member, members), cursor], axis=-1)
    ys = _written(ys, place, jax.tree.map(window, flow.pack(found.after)))
    return cursor + here.astype(cursor.dtype), ys


def lanes_of(equation: JaxprEqn) -> int:
    """Return the number of lanes in a loop of a traced program; 0 for a loop that takes no steps of lanes."""
    found = re.findall(rf"{STEPS_OF}(\d+)", str(equation.source_info.name_stack))
    return int(found[-1]) if found and equation.primitive.name == "scan" else 0


def targets(times: Array, member: Array, column: Array) -> Array:
    """The save times of the members in the lanes; `column` is `(..., lanes)`."""
    if times.ndim == 1:
        return times.at[column].get(mode="promise_in_bounds")
    row = jnp.broadcast_to(jnp.minimum(member, times.shape[0] - 1), column.shape)
    return times.at[row, column].get(mode="promise_in_bounds")


def fraction(target: Array, t: Array, t1: Array) -> Array:
    """Return the position of a time in a step, from 0 to 1; 0 in a step of length zero."""
    h = t1 - t
    return (target - t) * jnp.where(h > 0, 1 / jnp.where(h > 0, h, 1), 0)


def horner(y: Array, increments: Sequence[Array], theta: Array) -> Array:
    """y + sum_j theta**(j + 1) increments[j]."""
    return y + scaled(theta, functools.reduce(lambda total, q: q + scaled(theta, total), reversed(increments)))


def _due(
    flow: Flow,
    held: Held,
    times: Array,
    saves: int,
    nowhere: int,
    s: Lanes,
    a: Attempt,
    member: Array,
    cursor: Array,
) -> tuple[Array, Any, Array, Array]:
    """The states at the next save times, of which an accurate step passed some; where the next begin; the lanes with more.

    The place is row and column of every lane, the states have shape `(lanes, ..., saves)`.
    """
    last = times.shape[-1] - 2
    ahead = jnp.arange(saves + 1, dtype=cursor.dtype)[:, None]
    column = cursor[None] + ahead
    target = targets(times, member, jnp.minimum(column, last))
    due = a.accurate[None] & (column <= last) & (target <= a.reached[None])
    theta = fraction(target, s.t[None], a.t1[None])[:-1]
    increments = flow.polynomial(held.ops, held.fixed, a.dense)

    def window(y: Array, *increments: Array) -> Array:
        value = horner(
            y[..., None, :], [q[..., None, :] for q in increments], theta.reshape((1,) * (y.ndim - 1) + theta.shape)
        )
        return jnp.moveaxis(value, -1, 0)

    values = jax.tree.map(window, flow.pack(s.y), *[flow.pack(q) for q in increments])
    place = jnp.stack([jnp.where(due[0], member, nowhere), cursor], axis=-1)
    return place, values, cursor + jnp.sum(due[:-1], axis=0, dtype=cursor.dtype), due[-1]


def _written(ys: PyTree, place: Array, values: PyTree) -> Any:
    """`ys[row, ..., column : column + saves] = values` in every lane; `place` is `(lanes, 2)`, values `(lanes, ..., saves)`.

    One window of consecutive save times a lane costs little more than one save time. What stands in it past the last
    one that is due is written over, by the lane's next window or at the end.
    """

    def put(buffer: Array, values: Array) -> Array:
        numbers = jax.lax.ScatterDimensionNumbers(
            update_window_dims=tuple(range(1, values.ndim)),
            inserted_window_dims=(0,),
            scatter_dims_to_operand_dims=(0, buffer.ndim - 1),
        )
        mode = jax.lax.GatherScatterMode.PROMISE_IN_BOUNDS
        return jax.lax.scatter(buffer, place, values, numbers, mode=mode)

    return jax.tree.map(put, ys, values)
