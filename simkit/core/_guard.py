"""Derivatives beside values that are not finite: NaN where such a value is asked for, zero where it is not.

A simulation that fails leaves numbers that are not finite. Two things must not follow from them. A caller who leaves the failed
member out (`jnp.where(status == 0, y, 0.0)`) sends it a cotangent of zero, which meets infinite slopes on its way back and becomes
NaN, and so does the gradient by all that the member shares with others. And a caller who does not leave it out must not get a
gradient that is finite. Hence two rules for each piece of a simulation:

- where all cotangents of its results are exactly zero, those of its arguments are zero;
- where one is not zero and the result is not finite, those of its arguments are NaN.

Everywhere else the derivative is the one of the program: a NaN of a simulation that succeeds stays a NaN.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Bool, PyTree

from ._flag import end_flag, start_flag
from ._spread import spread_over, varied

T = TypeVar("T")

MANY = 200
"""Leaves of one shape and type from which on they are joined for what is done to each of them. Joined, 356 states compile in a
third of the time; of 65, of which one alone was differentiated, a gradient took half as long again."""


def by_member(function: Callable[..., T], *arguments: PyTree) -> T:
    """`function(*arguments)`, whose derivatives follow the two rules for each member of a batch by itself.

    What the members share gets the sum of their cotangents, in which one NaN is enough: a rule for the sum comes too late. So the
    tangent of what is shared is made one of each member before it enters, and its cotangent is cleared before it is summed. The
    value itself stays shared, and a call without derivatives is the call of the function. It serves first derivatives in reverse
    mode, and forward mode over them; reverse mode over either is NaN where a member failed.

    **Arguments:**

    - `function`: of pytrees, and differentiable by what of them is an array. Its results are finite where it succeeds.
    - `arguments`: what it is differentiated by, or what differs between members. What it closes over counts as well.
    """
    leaves, structure = jax.tree.flatten(arguments)
    places = [i for i, x in enumerate(leaves) if isinstance(x, jax.Array)]
    arrays = varied([leaves[i] for i in places])
    of_arrays = lambda *values: function(*jax.tree.unflatten(structure, _replaced(leaves, places, values)))
    # A derivative by what a function with a rule closes over would silently be zero.
    converted, consts = jax.closure_convert(of_arrays, *arrays)
    # A result has to differ between members where its tangent does, even if it does not depend on what differs.
    closed = lambda *values: on_numbers(functools.partial(spread_over, values), converted(*values))
    called = jax.custom_jvp(closed)

    def rule(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
        moving = [i for i, tangent in enumerate(tangents) if not isinstance(tangent, SymbolicZero)]
        *dots, flag = start_flag(spread_over(primals, [tangents[i] for i in moving]), clear=True)
        moved = lambda *values: closed(*_replaced(primals, moving, values))
        out, out_dots = jax.jvp(moved, [primals[i] for i in moving], dots)
        return out, on_numbers(lambda found: end_flag(found, flag, finite(out), mark=False), out_dots)

    called.defjvp(rule, symbolic_zeros=True)
    return called(*arrays, *consts)


def member_inputs(tree: T) -> tuple[T, Any]:
    """Mark the operands of a member; return them with a flag for `member_results`."""
    flag: Any = None

    def each(values: list[Any]) -> list[Any]:
        nonlocal flag
        if values:
            *values, flag = start_flag(varied(values), clear=False)
        return values

    return on_numbers(each, tree), flag


def member_results(tree: T, flag: Any, fine: Bool[Array, "*rows"]) -> T:
    """The identity; derivatives of what is not `fine` are NaN by all that went through `member_inputs`, unless nobody asks.

    Arrays have the axes of `fine` in front.
    """
    if flag is None:
        return tree

    def each(values: list[Any]) -> list[Any]:
        if not values:
            return []
        *values, known, spread = varied([*values, fine, flag])
        return end_flag(values, jnp.broadcast_to(spread, known.shape), known, mark=True)

    return on_numbers(each, tree)


def own(tree: T, *others: Any) -> T:
    """The identity; what of the numbers is shared by members whose `others` differ becomes one for each member."""
    known = [x for x in jax.tree.leaves(others) if isinstance(x, jax.Array)]
    return on_numbers(lambda values: spread_over(known, varied([*values, *known])[: len(values)]), tree)


def finite(tree: PyTree, axes: int = 0) -> Array:
    """Tell for each index of the leading axes whether all numbers of a tree are finite."""
    found = [x for x in jax.tree.leaves(tree) if eqx.is_inexact_array(x)]
    rows = [jnp.isfinite(x).all(axis=tuple(range(axes, x.ndim))) for x in found]
    return functools.reduce(jnp.logical_and, rows) if rows else jnp.array(True)


def alike_together(tree: PyTree) -> tuple[list[Any], Callable[[Sequence[Any]], Any]]:
    """The leaves of a tree, of which many of one shape and type are one array with a last axis; and the way back.

    What is done to each of a thousand states with a name of its own is then one operation, not a thousand to compile.
    """
    leaves, structure = jax.tree.flatten(tree)
    kinds: dict[Any, list[int]] = {}
    for i, x in enumerate(leaves):
        kinds.setdefault((jnp.shape(x), jnp.result_type(x)), []).append(i)
    groups = [places for places in kinds.values() if len(places) >= MANY]
    alone = sorted(i for places in kinds.values() if len(places) < MANY for i in places)
    packed = [leaves[i] for i in alone] + [jnp.stack([leaves[i] for i in places], axis=-1) for places in groups]

    def unpacked(values: Sequence[Any]) -> Any:
        found = _replaced(leaves, alone, values[: len(alone)])
        for places, whole in zip(groups, values[len(alone) :], strict=True):
            # Not by slices, whose transposes are a sum of as many arrays of zeros but for one entry.
            parts = jax.lax.split(whole, [1] * len(places), whole.ndim - 1)
            found = _replaced(found, places, [part[..., 0] for part in parts])
        return jax.tree.unflatten(structure, found)

    return packed, unpacked


def _replaced(values: Sequence[Any], places: Sequence[int], others: Sequence[Any]) -> list[Any]:
    replaced = list(values)
    for i, x in zip(places, others, strict=True):
        replaced[i] = x
    return replaced


def on_numbers(function: Callable[[list[Any]], Sequence[Any]], tree: T) -> T:
    """A tree with its arrays of floating point numbers replaced by a function of their list."""
    leaves, structure = jax.tree.flatten(tree)
    places = [i for i, x in enumerate(leaves) if isinstance(x, jax.Array) and eqx.is_inexact_array(x)]
    return jax.tree.unflatten(structure, _replaced(leaves, places, function([leaves[i] for i in places])))
