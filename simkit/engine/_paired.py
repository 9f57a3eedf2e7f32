"""Linear maps that state their transposes, and that have derivatives by all they depend on.

`jax.custom_derivatives.linear_call` has no batching rule, and `jax.lax.custom_linear_solve` takes what its functions close over
for constants once it has been transposed, so that second derivatives through reverse mode would silently be wrong.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array

from ._mesh import alike, shaped

Map = Callable[[Sequence[Array], Sequence[Array]], list[Array]]


def paired(forward: Callable[[Any, Any], Any], backward: Callable[[Any, Any], Any], fixed: Any, direction: Any) -> Any:
    """`forward(fixed, direction)`, linear in the direction, whose transpose is `backward(fixed, cotangent)`.

    **Arguments:**

    - `forward`, `backward`: functions of two pytrees of arrays, which close over no tracer.
    - `fixed`: what the map depends on; derivatives by its floats are those of JAX through `forward` and `backward`.
    - `direction`: float arrays.
    """
    known, fixed_tree = jax.tree.flatten(fixed)
    given, given_tree = jax.tree.flatten(direction)
    found, found_tree = jax.tree.flatten(jax.eval_shape(forward, fixed, direction))

    def flat(function: Any, tree: Any) -> Map:
        return lambda known, given: jax.tree.leaves(
            function(jax.tree.unflatten(fixed_tree, known), jax.tree.unflatten(tree, given))
        )

    maps = flat(forward, given_tree), flat(backward, found_tree)
    shapes = _shapes(found), _shapes(given)
    out = _paired.bind(*alike([*known, *given]), maps=maps, shapes=shapes, count=len(known))
    return jax.tree.unflatten(found_tree, out)


def _shapes(arrays: Sequence[Any]) -> tuple[tuple[tuple[int, ...], Any], ...]:
    return tuple((x.shape, jnp.dtype(x.dtype)) for x in arrays)


def _compute(*operands: Array, maps: Any, shapes: Any, count: int) -> list[Array]:
    return maps[0](operands[:count], operands[count:])


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, maps: Any, shapes: Any, count: int) -> Any:
    bind = functools.partial(_paired.bind, maps=maps, shapes=shapes, count=count)
    out = bind(*primals)
    parts = []
    if not all(isinstance(x, ad.Zero) for x in tangents[count:]):
        parts.append(bind(*alike([*primals[:count], *(ad.instantiate_zeros(x) for x in tangents[count:])])))
    moving = [i for i in range(count) if not isinstance(tangents[i], ad.Zero)]
    moving = [i for i in moving if jnp.issubdtype(primals[i].dtype, jnp.inexact)]
    if moving:

        def moved(*values: Array) -> list[Array]:
            known = list(primals[:count])
            for i, x in zip(moving, values, strict=True):
                known[i] = x
            return maps[0](known, primals[count:])

        parts.append(jax.jvp(moved, [primals[i] for i in moving], [tangents[i] for i in moving])[1])
    if not parts:
        return out, [ad.Zero(jax.typeof(x).to_tangent_aval()) for x in out]
    return out, [sum(pieces[1:], pieces[0]) for pieces in zip(*parts, strict=True)]


def _transpose(cotangents: Sequence[Any], *operands: Any, maps: Any, shapes: Any, count: int) -> list[Any]:
    wanted = [ad.is_undefined_primal(x) for x in operands[count:]]
    if all(isinstance(x, ad.Zero) for x in cotangents):
        zeros = [ad.Zero(x.aval) if want else None for x, want in zip(operands[count:], wanted, strict=True)]
        return [None] * count + zeros
    given = [ad.instantiate_zeros(x) for x in cotangents]
    found = _paired.bind(*alike([*operands[:count], *given]), maps=maps[::-1], shapes=shapes[::-1], count=count)
    return [None] * count + [x if want else None for x, want in zip(found, wanted, strict=True)]


def _batch(operands: Sequence[Any], axes: Sequence[Any], *, maps: Any, shapes: Any, count: int) -> Any:
    (size,) = {x.shape[axis] for x, axis in zip(operands, axes, strict=True) if axis is not None}
    moved = [x if axis is None else jnp.moveaxis(x, axis, 0) for x, axis in zip(operands, axes, strict=True)]
    for i in range(count, len(moved)):  # so that both maps have results of their own for every member
        if axes[i] is None:
            moved[i] = jnp.broadcast_to(moved[i], (size, *moved[i].shape))
    known = [None if axis is None else 0 for axis in axes[:count]]
    both = tuple(jax.vmap(function, in_axes=(known, 0)) for function in maps)
    maps = tuple(lambda known, given, f=f: f(list(known), list(given)) for f in both)
    shapes = tuple(tuple(((size, *shape), dtype) for shape, dtype in found) for found in shapes)
    out = _paired.bind(*alike(moved), maps=maps, shapes=shapes, count=count)
    return out, [0] * len(out)


_paired = Primitive("paired_linear_maps")
_paired.multiple_results = True
_paired.def_impl(lambda *operands, **known: jax.jit(functools.partial(_compute, **known))(*operands))
_paired.def_abstract_eval(lambda *operands, maps, shapes, count: shaped(operands, shapes[0]))
ad.primitive_jvps[_paired] = _jvp
ad.primitive_transposes[_paired] = _transpose
batching.primitive_batchers[_paired] = _batch
mlir.register_lowering(_paired, mlir.lower_fun(_compute, multiple_results=True))
