"""Linear maps that state their transposes, and that have derivatives by all they depend on.

`jax.custom_derivatives.linear_call` has no batching rule, and `jax.lax.custom_linear_solve` takes what its functions close over
for constants once it has been transposed, so that second derivatives through reverse mode would silently be wrong.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array, PyTree

from ._mesh import alike, shaped

Map = Callable[[Sequence[Array], Sequence[Array]], list[Array]]


class Maps(NamedTuple):
    """A linear map and its transpose: as they depend on what they are given, and as they are computed."""

    forward: Map
    backward: Map
    forward_value: Map
    backward_value: Map

    @property
    def transposed(self) -> "Maps":
        return Maps(self.backward, self.forward, self.backward_value, self.forward_value)


def paired(
    forward: Callable[[Any, Any], Any], backward: Callable[[Any, Any], Any], fixed: PyTree, direction: PyTree
) -> Any:
    """`forward(fixed, direction)`, linear in the direction, whose transpose is `backward(fixed, cotangent)`.

    **Arguments:**

    - `forward`, `backward`: functions of two pytrees of arrays, which close over no tracer.
    - `fixed`: what the map depends on; derivatives by its floats are those of JAX through `forward` and `backward`.
    - `direction`: float arrays.
    """
    return _bound((forward, backward), (forward, backward), fixed, direction, False)


def paired_at_rest(
    maps: tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]],
    values: tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]],
    clock: Array,
    fixed: PyTree,
    direction: PyTree,
) -> Any:
    """Make a linear map as `paired` does, for maps `forward((clock, fixed), direction)` that are evaluated at one known point.

    What is computed are the `values`, a map and its transpose, which do not depend on `fixed`; `maps` serve for derivatives by
    the clock, of any order and mixed with others. The zeros that the other derivatives are cost nothing.
    """
    return _bound(maps, values, (clock, fixed), direction, True)


def _bound(maps: Any, values: PyTree, fixed: PyTree, direction: PyTree, rests: bool) -> Any:
    known, fixed_tree = jax.tree.flatten(fixed)
    given, given_tree = jax.tree.flatten(direction)
    found, found_tree = jax.tree.flatten(jax.eval_shape(values[0], fixed, direction))

    def flat(function: Any, tree: PyTree) -> Map:
        return lambda known, given: jax.tree.leaves(
            function(jax.tree.unflatten(fixed_tree, known), jax.tree.unflatten(tree, given))
        )

    there, back = given_tree, found_tree
    bundle = Maps(flat(maps[0], there), flat(maps[1], back), flat(values[0], there), flat(values[1], back))
    shapes = _shapes(found), _shapes(given)
    out = _paired.bind(*alike([*known, *given]), maps=bundle, shapes=shapes, count=len(known), rests=rests)
    return jax.tree.unflatten(found_tree, out)


def _shapes(arrays: Sequence[Any]) -> tuple[tuple[tuple[int, ...], Any], ...]:
    return tuple((x.shape, jnp.dtype(x.dtype)) for x in arrays)


def _compute(*operands: Array, maps: Maps, shapes: PyTree, count: int, rests: bool) -> list[Array]:
    return maps.forward_value(operands[:count], operands[count:])


def _jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, maps: Maps, shapes: PyTree, count: int, rests: bool
) -> Any:
    bind = functools.partial(_paired.bind, maps=maps, shapes=shapes, count=count, rests=rests)
    out = bind(*primals)
    parts = []
    if not all(isinstance(x, ad.Zero) for x in tangents[count:]):
        parts.append(bind(*alike([*primals[:count], *(ad.instantiate_zeros(x) for x in tangents[count:])])))
    moving = [i for i in range(count) if not isinstance(tangents[i], ad.Zero)]
    moving = [i for i in moving if jnp.issubdtype(primals[i].dtype, jnp.inexact)]
    if moving and rests and 0 not in moving:
        parts.append(_at_rest(primals, [tangents[i] for i in moving], moving, maps, shapes, count))
    elif moving:
        values = [primals[i] for i in moving]
        moved = functools.partial(_moved, maps.forward, primals[:count], primals[count:], moving)
        parts.append(jax.jvp(moved, values, [tangents[i] for i in moving])[1])
    if not parts:
        return out, [ad.Zero(jax.typeof(x).to_tangent_aval()) for x in out]
    return out, [sum(pieces[1:], pieces[0]) for pieces in zip(*parts, strict=True)]


def _moved(forward: Map, known: Sequence[Array], given: Sequence[Array], moving: Sequence[int], *values: Array) -> Any:
    known = list(known)
    for i, x in zip(moving, values, strict=True):
        known[i] = x
    return forward(known, given)


def _at_rest(
    primals: Sequence[Any], tangents: Sequence[Any], moving: Sequence[int], maps: Maps, shapes: PyTree, count: int
) -> list[Array]:
    """The derivative of a resting map by all but the clock: zero, yet a map that depends on the clock."""
    values = [primals[i] for i in moving]

    def by(known: Sequence[Array]) -> Any:
        return functools.partial(_moved, maps.forward, known[:count], known[count:], moving)

    def pick(known: Sequence[Array]) -> list[Array]:
        return [known[i] for i in moving]

    def forward(known: Sequence[Array], given: Sequence[Array]) -> list[Array]:
        return list(jax.jvp(by(known), pick(known), list(given))[1])

    def backward(known: Sequence[Array], given: Sequence[Array]) -> list[Array]:
        return list(jax.vjp(by(known), *pick(known))[1](list(given)))

    zeros = lambda shapes: lambda known, given: [jnp.zeros(shape, dtype) for shape, dtype in shapes]
    changes = shapes[0], _shapes(values)
    bundle = Maps(forward, backward, zeros(changes[0]), zeros(changes[1]))
    return _paired.bind(*alike([*primals, *tangents]), maps=bundle, shapes=changes, count=len(primals), rests=True)


def _transpose(
    cotangents: Sequence[Any], *operands: PyTree, maps: Maps, shapes: PyTree, count: int, rests: bool
) -> list[Any]:
    wanted = [ad.is_undefined_primal(x) for x in operands[count:]]
    if all(isinstance(x, ad.Zero) for x in cotangents):
        zeros = [ad.Zero(x.aval) if want else None for x, want in zip(operands[count:], wanted, strict=True)]
        return [None] * count + zeros
    given = alike([*operands[:count], *(ad.instantiate_zeros(x) for x in cotangents)])
    found = _paired.bind(*given, maps=maps.transposed, shapes=shapes[::-1], count=count, rests=rests)
    return [None] * count + [x if want else None for x, want in zip(found, wanted, strict=True)]


def _batch(operands: Sequence[Any], axes: Sequence[Any], *, maps: Maps, shapes: PyTree, count: int, rests: bool) -> Any:
    (size,) = {x.shape[axis] for x, axis in zip(operands, axes, strict=True) if axis is not None}
    moved = [x if axis is None else jnp.moveaxis(x, axis, 0) for x, axis in zip(operands, axes, strict=True)]
    for i in range(count, len(moved)):  # so that both maps have results of their own for every member
        if axes[i] is None:
            moved[i] = jnp.broadcast_to(moved[i], (size, *moved[i].shape))
    known = [None if axis is None else 0 for axis in axes[:count]]
    both = tuple(jax.vmap(function, in_axes=(known, 0), axis_size=size) for function in maps)
    maps = Maps(*(lambda known, given, f=f: f(list(known), list(given)) for f in both))
    shapes = tuple(tuple(((size, *shape), dtype) for shape, dtype in found) for found in shapes)
    out = _paired.bind(*alike(moved), maps=maps, shapes=shapes, count=count, rests=rests)
    return out, [0] * len(out)


_paired = Primitive("paired_linear_maps")
_paired.multiple_results = True
_paired.def_impl(lambda *operands, **known: jax.jit(functools.partial(_compute, **known))(*operands))
_paired.def_abstract_eval(lambda *operands, maps, shapes, count, rests: shaped(operands, shapes[0]))
ad.primitive_jvps[_paired] = _jvp
ad.primitive_transposes[_paired] = _transpose
batching.primitive_batchers[_paired] = _batch
mlir.register_lowering(_paired, mlir.lower_fun(_compute, multiple_results=True))
