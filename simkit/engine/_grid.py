"""Fixed steps that land on every save time and on every jump of an input."""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import State


def fixed_grid(
    terms: Any,
    solver: Any,
    state: State,
    times: Float[Array, " times"],
    substeps: int,
    jumps: Float[Array, " jumps"] | None = None,
) -> State:
    """The states at `times`: `substeps` equal steps of a stepper between consecutive times or jumps.

    Reverse mode keeps one state a window and computes the steps inside again.
    """
    points = times
    if jumps is not None:
        inside = jnp.clip(jumps.astype(times.dtype), times[0], times[-1])
        points = jnp.sort(jnp.concatenate([times, inside]))

    def window(carry: tuple[State, Any], ends: tuple[Any, Any]) -> tuple[tuple[State, Any], State]:
        state, memory = carry
        start, end = ends if jumps is None else _inside(*ends)
        h = (end - start) / substeps

        def one(carry: Any, i: Any) -> tuple[Any, None]:
            y, memory = carry
            t = start + i * h
            until = jnp.minimum(t + h, end)  # rounding must not carry a stage past a jump
            y, _, _, memory, _ = solver.advance(terms, t, until, h, y, memory, False)
            return (y, memory), None

        if jumps is not None:  # what the solver keeps from its last step is of before the jump
            memory = solver.init(terms, start, start + h, state, None)
        state, memory = checkpointed_scan(one, (state, memory), substeps, times.dtype)
        return (state, memory), state

    memory = solver.init(terms, points[0], points[1], state, None)
    _, rest = jax.lax.scan(jax.checkpoint(window), (state, memory), (points[:-1], points[1:]))
    states = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), state, rest)
    if jumps is None:
        return states
    rows = jnp.searchsorted(points, times)
    return jax.tree.map(lambda leaf: leaf[rows], states)


def checkpointed_scan(body: Callable[[Any, Any], tuple[Any, None]], carry: Any, length: int, dtype: Any) -> Any:
    """A scan over 0, 1, ... `length - 1` in about sqrt(length) segments, of which reverse mode keeps the ends.

    The index is counted in the carry: a loop that reads an array of indices is no small loop any more for XLA on CPU, which
    then dispatches every operation of a step by itself (ten times the time for three states).
    """

    def counted(state: tuple[Any, Any], _: None) -> tuple[tuple[Any, Any], None]:
        carry, i = state
        carry, _ = body(carry, i.astype(dtype))
        return (carry, i + 1), None

    def segment(state: tuple[Any, Any], _: None, size: int) -> tuple[tuple[Any, Any], None]:
        return jax.lax.scan(counted, state, None, length=size)[0], None

    state = carry, jnp.zeros((), jnp.int32)
    if length < 16:
        return segment(state, None, length)[0][0]
    size = math.isqrt(length)
    count, rest = divmod(length, size)
    state, _ = jax.lax.scan(jax.checkpoint(functools.partial(segment, size=size)), state, None, length=count)
    return segment(state, None, rest)[0][0] if rest else state[0]


def _inside(start: Any, end: Any) -> tuple[Any, Any]:
    """A window without its ends, at which an input may jump: one floating point number further in on each side."""
    first, last = jax.lax.stop_gradient((start, end))
    after = start + (jnp.nextafter(first, last) - first)
    before = end - (last - jnp.nextafter(last, first))
    long = before > after
    return jnp.where(long, after, start), jnp.where(long, before, end)
