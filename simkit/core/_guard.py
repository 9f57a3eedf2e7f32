"""The gradient of a failed simulation is zero, not NaN, and that of the others is theirs."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

T = TypeVar("T")

# `where` masks cannot do this: a zero cotangent times an infinite slope is NaN on its way back. A custom_vjp would forbid
# forward mode and a linear_call does not batch, so it is a primitive: linear, with a transpose that drops what is not finite.
_forget = Primitive("forget_non_finite_cotangent")
_forget.def_impl(lambda x: x)
_forget.def_abstract_eval(lambda x: x)
ad.deflinear2(_forget, lambda cotangent, _: [jnp.where(jnp.isfinite(cotangent), cotangent, 0)])
batching.primitive_batchers[_forget] = lambda arguments, axes: (_forget.bind(*arguments), axes[0])
mlir.register_lowering(_forget, mlir.lower_fun(lambda x: x, multiple_results=False))


def guard(tree: T) -> T:
    """The identity; a cotangent that comes back through it loses its non-finite entries."""
    return _on_numbers(lambda values: [_forget.bind(x) for x in values], tree)


def by_member(function: Callable[..., T], *arguments: Any) -> T:
    """`function(*arguments)`, on whose way back each member of a batch loses its own non-finite cotangents.

    What the members share gets the sum of their cotangents, in which one NaN is enough: a guard around it comes too late. So
    the tangent of what is shared is made one of each member before it enters, and its cotangent is cleared before it is
    summed. The value itself stays shared, and a call without derivatives is the call of the function. It serves first
    derivatives in reverse mode, and forward mode over them.

    **Arguments:**

    - `function`: of pytrees, and differentiable by what of them is an array.
    - `arguments`: what it is differentiated by, or what differs between members. What it closes over counts as well.
    """
    leaves, structure = jax.tree.flatten(arguments)
    places = [i for i, x in enumerate(leaves) if isinstance(x, jax.Array)]
    arrays = _varied([leaves[i] for i in places])
    of_arrays = lambda *values: function(*jax.tree.unflatten(structure, _replaced(leaves, places, values)))
    # A derivative by what a function with a rule closes over would silently be zero.
    converted, consts = jax.closure_convert(of_arrays, *arrays)
    # A result has to differ between members where its tangent does, even if it does not depend on what differs.
    closed = lambda *values: _on_numbers(functools.partial(_spread_over, values), converted(*values))
    called = jax.custom_jvp(closed)

    def rule(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
        moving = [i for i, tangent in enumerate(tangents) if not isinstance(tangent, SymbolicZero)]
        moved = lambda *values: closed(*_replaced(primals, moving, values))
        dots = [_forget.bind(x) for x in _spread_over(primals, [tangents[i] for i in moving])]
        return jax.jvp(moved, [primals[i] for i in moving], dots)

    called.defjvp(rule, symbolic_zeros=True)
    return called(*arrays, *consts)


def _replaced(values: Sequence[Any], places: Sequence[int], others: Sequence[Any]) -> list[Any]:
    replaced = list(values)
    for i, x in zip(places, others, strict=True):
        replaced[i] = x
    return replaced


def own(tree: T, *others: Any) -> T:
    """The identity; what of the numbers is shared by members whose `others` differ becomes one for each member.

    Each loses the non-finite entries of its own cotangent before they are summed.
    """
    known = [x for x in jax.tree.leaves(others) if isinstance(x, jax.Array)]

    def each(values: list[Any]) -> list[Any]:
        values = _varied([*values, *known])[: len(values)]
        return [_forget.bind(x) for x in _spread_over(known, values)]

    return _on_numbers(each, tree)


def _spread_over(others: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """Numbers, which differ between the members of a batch wherever one of the others does."""
    return _spread.bind(*values, *others, count=len(values))


def _varied(values: Sequence[Any]) -> list[Any]:
    """Arrays that vary over a mesh alike."""
    axes = frozenset().union(*(_varying(x) for x in values))
    missing = [tuple(sorted(axes - _varying(x))) for x in values]
    return [jax.lax.pcast(x, names, to="varying") if names else x for x, names in zip(values, missing, strict=True)]


def _on_numbers(function: Callable[[list[Any]], list[Any]], tree: T) -> T:
    leaves, structure = jax.tree.flatten(tree)
    places = [i for i, x in enumerate(leaves) if isinstance(x, jax.Array) and eqx.is_inexact_array(x)]
    return jax.tree.unflatten(structure, _replaced(leaves, places, function([leaves[i] for i in places])))


def _varying(x: Any) -> frozenset[str]:
    """The axes of a mesh over which a number varies, where `jax.shard_map` checks that."""
    aval = jax.typeof(x)
    return frozenset(getattr(getattr(aval, "mat", None), "varying", getattr(aval, "vma", ())))


def _spread_batch(arguments: Sequence[Any], axes: Sequence[Any], *, count: int) -> Any:
    arguments = [x if axis is None else jnp.moveaxis(x, axis, 0) for x, axis in zip(arguments, axes, strict=True)]
    shared = [axis is None for axis in axes]
    if not all(shared[count:]):
        (size,) = {x.shape[0] for x, common in zip(arguments, shared, strict=True) if not common}
        for i in range(count):
            if shared[i]:
                arguments[i] = jnp.broadcast_to(arguments[i], (size, *arguments[i].shape))
                shared[i] = False
    return _spread.bind(*arguments, count=count), [None if common else 0 for common in shared[:count]]


def _spread_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, count: int) -> Any:
    found, dots = _spread.bind(*primals, count=count), tangents[:count]
    moving = [i for i, x in enumerate(dots) if not isinstance(x, ad.Zero)]
    moved = _spread.bind(*(dots[i] for i in moving), *primals[count:], count=len(moving))
    return found, _replaced(dots, moving, moved)


def _spread_transpose(cotangents: Sequence[Any], *arguments: Any, count: int) -> Any:
    # The transpose of a scan in JAX 0.10 refuses symbolic zeros of what it stacks.
    return [ad.instantiate_zeros(x) for x in cotangents] + [None] * (len(arguments) - count)


# The first `count` operands; where one of the others differs between the members of a batch, they do too.
_spread = Primitive("spread_over_members")
_spread.multiple_results = True
_spread.def_impl(lambda *arguments, count: list(arguments[:count]))
_spread.def_abstract_eval(lambda *avals, count: list(avals[:count]))
ad.primitive_jvps[_spread] = _spread_jvp
ad.primitive_transposes[_spread] = _spread_transpose
batching.primitive_batchers[_spread] = _spread_batch
mlir.register_lowering(
    _spread, mlir.lower_fun(lambda *arguments, count: list(arguments[:count]), multiple_results=True)
)
