"""Identities that give each member of a batch its own copy of values that the members share."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jax.typing import ArrayLike
from jaxtyping import PyTree


def spread_over(others: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """Return the values as they are; inside `vmap` they are batched wherever one of the others is."""
    return _spread.bind(*values, *others, count=len(values)) if values else []


def batched_together(results: Any, operands: PyTree) -> Any:
    """Return the results of a function as they are; inside `vmap` all of them are batched where any of the operands is.

    `jax.vmap` of a function with `jax.custom_jvp` leaves a result unbatched that does not depend on the batched operands, even
    where its tangent does. Where the batched function is traced before it is differentiated, as inside `jit`, JAX then takes the
    result of the rule, which is batched, for the unbatched one.

    **Arguments:**

    - `results`: a pytree of arrays.
    - `operands`: a pytree of the arrays that the function was given.
    """
    values, structure = jax.tree.flatten(results)
    seen = [x for x in jax.tree.leaves(operands) if hasattr(x, "dtype")]
    return jax.tree.unflatten(structure, spread_over([*values, *seen], values))


def varied(values: Sequence[Any]) -> list[Any]:
    """Arrays that vary over a mesh alike."""
    axes = frozenset().union(*(_varying(x) for x in values))
    missing = [tuple(sorted(axes - _varying(x))) for x in values]
    return [jax.lax.pcast(x, names, to="varying") if names else x for x, names in zip(values, missing, strict=True)]


def _varying(x: ArrayLike) -> frozenset[str]:
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
    return found, [moved[moving.index(i)] if i in moving else x for i, x in enumerate(dots)]


def _spread_transpose(cotangents: Sequence[Any], *arguments: PyTree, count: int) -> Any:
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
