"""Steps that keep what has no derivative between them, such as a list of neighbours, and derivatives that need not store it.

A plain scan would store the list for every step of reverse mode, several times what the state takes. Here the states before all
steps are stored and the steps after which the list was made anew; the way back makes it again from the state of that step.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Bool

from ._paired import paired


class Rules(NamedTuple):
    """One step in two halves, and what is kept in between.

    - `first(params, fixed, carry, i) -> middle`: up to where what is kept must hold.
    - `stale(fixed, middle, kept) -> bool`: whether it no longer does.
    - `build(params, fixed, middle, kept) -> kept`: made anew.
    - `second(params, fixed, middle, kept, i) -> carry`: the rest of the step.

    `params` and `carry` are float arrays with derivatives, `fixed` and what is kept have none.
    """

    first: Callable[..., Any]
    stale: Callable[..., Any]
    build: Callable[..., Any]
    second: Callable[..., Any]


@custom_vmap
def anyone(found: Bool[Array, ""]) -> Bool[Array, ""]:
    """Whether it is so for any member of a batch: all do together what one of them needs, and a branch remains a branch."""
    return found


@anyone.def_vmap
def _(size: int, batched: list[bool], found: Array) -> tuple[Array, bool]:
    return anyone(jnp.any(found, axis=0) if batched[0] else found), False


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def kept_scan(rules: Rules, length: int, params: Any, fixed: Any, carry: Any, kept: Any, start: Any) -> tuple[Any, Any]:
    """`carry` and `kept` after `length` steps, numbered from `start`."""

    def body(state: tuple[Any, Any], i: Array) -> tuple[tuple[Any, Any], None]:
        return _stepped(rules, params, fixed, *state, i)[:2], None

    return jax.lax.scan(body, (carry, kept), start + jnp.arange(length))[0]


def _stepped(rules: Rules, params: Any, fixed: Any, carry: Any, kept: Any, i: Array) -> tuple[Any, Any, Array]:
    middle = rules.first(params, fixed, carry, i)
    held = jax.lax.stop_gradient(middle)
    renew = anyone(rules.stale(fixed, held, kept))
    kept = _renewed(rules, renew, params, fixed, held, kept)
    return rules.second(params, fixed, middle, kept, i), kept, renew


def _renewed(rules: Rules, renew: Array, params: Any, fixed: Any, middle: Any, kept: Any) -> Any:
    params, middle = jax.lax.stop_gradient((params, middle))
    return jax.lax.cond(renew, lambda: rules.build(params, fixed, middle, kept), lambda: kept)


class Path(NamedTuple):
    """What a derivative needs of a run: the carries before all steps, and whether each made anew what is kept."""

    carries: Any
    renewals: Array


@kept_scan.defjvp
def _kept_scan_jvp(rules: Rules, length: int, primals: Any, tangents: Any) -> Any:
    params, fixed, carry, kept, start = primals
    final, path = _recorded(rules, length, params, fixed, carry, kept, start)
    moved = _tangent(rules, params, fixed, path, kept, start, (tangents[0], tangents[2]))
    still = jax.tree.map(lambda x: np.zeros(x.shape, jax.dtypes.float0) if _whole(x) else jnp.zeros_like(x), final[1])
    return final, (moved, still)


def _whole(x: Any) -> bool:
    return not jnp.issubdtype(x.dtype, jnp.inexact)


def _recorded(
    rules: Rules, length: int, params: Any, fixed: Any, carry: Any, kept: Any, start: Any
) -> tuple[Any, Path]:
    def body(state: tuple[Any, Any], i: Array) -> tuple[tuple[Any, Any], Path]:
        carry, kept, renew = _stepped(rules, params, fixed, *state, i)
        return (carry, kept), Path(state[0], renew)

    return jax.lax.scan(body, (carry, kept), start + jnp.arange(length))


def _tangent(rules: Rules, params: Any, fixed: Any, path: Path, kept: Any, start: Any, direction: Any) -> Any:
    """How the last carry moves when `params` and the first carry move."""
    return paired(
        functools.partial(_pushed, rules),
        functools.partial(_pulled, rules),
        (params, fixed, path, kept, start),
        direction,
    )


def _pushed(rules: Rules, known: Any, direction: Any) -> Any:
    params, fixed, path, kept, start = known
    dparams, moved = direction

    def body(state: tuple[Any, Any], row: Any) -> tuple[tuple[Any, Any], None]:
        (moved, kept), (carry, renew, i) = state, row
        first = lambda params, carry: rules.first(params, fixed, carry, i)
        middle, moved = jax.jvp(first, (params, carry), (dparams, moved))
        kept = _renewed(rules, renew, params, fixed, middle, kept)
        second = lambda params, middle: rules.second(params, fixed, middle, kept, i)
        return (jax.jvp(second, (params, middle), (dparams, moved))[1], kept), None

    rows = path.carries, path.renewals, start + jnp.arange(path.renewals.shape[0])
    return jax.lax.scan(body, (moved, kept), rows)[0][0]


def _pulled(rules: Rules, known: Any, cotangent: Any) -> Any:
    params, fixed, path, kept, start = known
    length = path.renewals.shape[0]
    numbers = jnp.arange(length)
    made = jax.lax.cummax(
        jnp.where(path.renewals, numbers, -1)
    )  # the step that made what a step used; -1 what was given

    def remade(step: Array) -> Any:
        carry = jax.tree.map(lambda x: x[step], path.carries)
        return rules.build(params, fixed, rules.first(params, fixed, carry, start + step), kept)

    def body(state: Any, row: Any) -> tuple[Any, None]:
        (cotangent, total, held, current), (carry, step, i) = state, row
        which = jnp.where(step == current, 0, jnp.where(step < 0, 1, 2))
        held = jax.lax.switch(which, [lambda: held, lambda: kept, lambda: remade(jnp.maximum(step, 0))])
        first = lambda params, carry: rules.first(params, fixed, carry, i)
        middle, pull_first = jax.vjp(first, params, carry)
        _, pull = jax.vjp(lambda params, middle: rules.second(params, fixed, middle, held, i), params, middle)
        by_params, cotangent = pull(cotangent)
        more, cotangent = pull_first(cotangent)
        total = jax.tree.map(lambda a, b, c: a + b + c, total, by_params, more)
        return (cotangent, total, held, step), None

    begun = cotangent, jax.tree.map(jnp.zeros_like, params), kept, jnp.full((), -1, made.dtype)
    (cotangent, total, _, _), _ = jax.lax.scan(body, begun, (path.carries, made, start + numbers), reverse=True)
    return total, cotangent
