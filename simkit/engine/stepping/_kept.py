"""Steps that keep what has no derivative between them, such as a list of neighbours, and derivatives that need not store it.

A plain scan would store the list for every step of reverse mode, several times what the state takes. Here the states before all
steps are stored and the steps after which the list was made anew; the way back makes it again from the state of that step.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.custom_derivatives import zero_from_primal
from jaxtyping import Array, PyTree

from ...core import greatest
from ..batching._mesh import alike_arrays, origin
from ..batching._paired import paired


class Rules(NamedTuple):
    """One step in two halves, and what is kept in between.

    - `first(params, fixed, carry, i) -> middle`: up to where what is kept must hold.
    - `stale(params, fixed, middle, kept) -> bool`: whether it no longer does.
    - `build(params, fixed, middle, kept) -> kept`: made anew.
    - `second(params, fixed, middle, kept, i) -> carry, aside`: the rest of the step, and what of it only the last step is asked
        for, which no step begins with.

    - `stored(carry) -> rows`: what of a carry derivatives store of every step; all of it where None.
    - `restored(params, fixed, rows, after, begun, i) -> carry`: the carry again, from what is stored of it and of the next one, and
        the carry that the scan began with.

    `params` and `carry` are float arrays with derivatives, `fixed` and what is kept have none.
    """

    first: Callable[..., Any]
    stale: Callable[..., Any]
    build: Callable[..., Any]
    second: Callable[..., Any]
    stored: Callable[..., Any] | None = None
    restored: Callable[..., Any] | None = None


class State(NamedTuple):
    """Final state of a scan."""

    carry: Any
    aside: Any
    kept: Any


def kept_scan(rules: Rules, length: int, params: PyTree, fixed: PyTree, state: State) -> State:
    """The state after `length` steps, numbered from 0. What is kept has no derivatives, and the `aside` given has no effect."""
    return _kept_scan(rules, length, *alike_arrays((params, fixed, state)))


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _kept_scan(rules: Rules, length: int, params: PyTree, fixed: PyTree, state: State) -> State:
    def body(state: State, i: Array) -> tuple[State, None]:
        return _stepped(rules, params, fixed, state, i)[0], None

    return jax.lax.scan(body, state, jnp.arange(length))[0]


def _stepped(rules: Rules, params: PyTree, fixed: PyTree, state: State, i: Array) -> tuple[State, Array]:
    middle = rules.first(params, fixed, state.carry, i)
    renew = greatest(rules.stale(params, fixed, middle, state.kept))
    kept = _renewed(rules, renew, params, fixed, middle, state.kept)
    carry, aside = rules.second(params, fixed, middle, kept, i)
    return State(carry, aside, kept), renew


def _renewed(rules: Rules, renew: Array, params: PyTree, fixed: PyTree, middle: PyTree, kept: PyTree) -> Any:
    params, middle = jax.lax.stop_gradient((params, middle))
    found = lambda: alike_arrays((rules.build(params, fixed, middle, kept), middle))[0]
    return jax.lax.cond(renew, found, lambda: alike_arrays((kept, middle))[0])


class Path(NamedTuple):
    """Operands of a derivative of a run: the stored part of the carries before all steps and of the last one, the first carry,
    and whether each step rebuilt the cache."""

    rows: Any
    last: Any
    begun: Any
    renewals: Array

    def carry(self, rules: Rules, params: PyTree, fixed: PyTree, i: Array) -> Any:
        """Before step i."""
        row = jax.tree.map(lambda x: x[i], self.rows)
        if rules.restored is None:
            return row
        count = self.renewals.shape[0]
        after = jax.tree.map(
            lambda x, last: jnp.where(i + 1 < count, x[jnp.minimum(i + 1, count - 1)], last), self.rows, self.last
        )
        return rules.restored(params, fixed, row, after, self.begun, i)


@_kept_scan.defjvp
def _kept_scan_jvp(rules: Rules, length: int, primals: PyTree, tangents: PyTree) -> Any:
    params, fixed, state = primals
    final, path = _recorded(rules, length, params, fixed, state)
    carry, aside = _tangent(rules, params, fixed, path, state.kept, (tangents[0], tangents[2].carry))
    still = jax.tree.map(lambda x: zero_from_primal(x), final.kept)
    return final, State(carry, aside, still)


def _recorded(rules: Rules, length: int, params: PyTree, fixed: PyTree, state: State) -> tuple[State, Path]:
    stored = rules.stored or (lambda carry: carry)

    def body(state: State, i: Array) -> tuple[State, tuple[Any, Array]]:
        after, renew = _stepped(rules, params, fixed, state, i)
        return after, (stored(state.carry), renew)

    final, (rows, renewals) = jax.lax.scan(body, state, jnp.arange(length))
    ends = (None, None) if rules.restored is None else (stored(final.carry), state.carry)
    return final, Path(rows, *ends, renewals)


def _tangent(
    rules: Rules, params: PyTree, fixed: PyTree, path: Path, kept: PyTree, direction: PyTree
) -> tuple[Any, Any]:
    """Return the tangent of the last carry, and of what is aside, for tangents of `params` and of the first carry."""
    maps = functools.partial(_pushed, rules), functools.partial(_pulled, rules)
    return paired(*maps, (params, fixed, path, kept), direction)


def _pushed(rules: Rules, known: PyTree, direction: PyTree) -> tuple[Any, Any]:
    params, fixed, path, kept = known
    dparams, moved = direction

    def body(state: tuple[Any, Any, Any], row: PyTree) -> tuple[tuple[Any, Any, Any], None]:
        (moved, _, kept), (renew, i) = state, row
        carry = path.carry(rules, params, fixed, i)
        first = lambda params, carry: rules.first(params, fixed, carry, i)
        middle, moved = jax.jvp(first, (params, carry), (dparams, moved))
        kept = _renewed(rules, renew, params, fixed, middle, kept)
        second = lambda params, middle: rules.second(params, fixed, middle, kept, i)
        moved, aside = jax.jvp(second, (params, middle), (dparams, moved))[1]
        return (moved, aside, kept), None

    rows = path.renewals, jnp.arange(path.renewals.shape[0])
    aside = jax.eval_shape(lambda: rules.second(params, fixed, _first_middle(rules, known), kept, rows[1][0])[1])
    zero = origin(params, path.rows)
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype) + zero.astype(x.dtype), aside)
    moved, aside, _ = jax.lax.scan(body, (moved, zeros, kept), rows)[0]
    return moved, aside


def _first_middle(rules: Rules, known: PyTree) -> Any:
    params, fixed, path, _ = known
    start = jnp.zeros((), int)
    return rules.first(params, fixed, path.carry(rules, params, fixed, start), start)


def _pulled(rules: Rules, known: PyTree, cotangents: PyTree) -> Any:
    params, fixed, path, kept = known
    numbers = jnp.arange(path.renewals.shape[0])
    made = jax.lax.cummax(
        jnp.where(path.renewals, numbers, -1)
    )  # the step that made what a step used; -1 what was given

    def remade(step: Array) -> Any:
        carry = path.carry(rules, params, fixed, step)
        return alike_arrays((rules.build(params, fixed, rules.first(params, fixed, carry, step), kept), carry))[0]

    def body(state: PyTree, row: PyTree) -> tuple[Any, None]:
        (cotangents, total, held, current), (made, i) = state, row
        carry = path.carry(rules, params, fixed, i)
        which = jnp.where(made == current, 0, jnp.where(made < 0, 1, 2))
        held = jax.lax.switch(which, [lambda: held, lambda: kept, lambda: remade(jnp.maximum(made, 0))])
        first = lambda params, carry: rules.first(params, fixed, carry, i)
        middle, pull_first = jax.vjp(first, params, carry)
        _, pull = jax.vjp(lambda params, middle: rules.second(params, fixed, middle, held, i), params, middle)
        by_params, cotangent = pull(cotangents)
        more, cotangent = pull_first(cotangent)
        total = jax.tree.map(lambda a, b, c: a + b + c, total, by_params, more)
        return ((cotangent, jax.tree.map(jnp.zeros_like, cotangents[1])), total, held, made), None

    begun = tuple(cotangents), jax.tree.map(jnp.zeros_like, params), kept, jnp.zeros_like(made[0]) - 1
    (cotangents, total, _, _), _ = jax.lax.scan(body, begun, (made, numbers), reverse=True)
    return total, cotangents[0]
