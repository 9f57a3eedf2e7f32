"""A flag on the way back: what happens to the cotangents of a function's results, told to those of its arguments.

`start_flag` hands arguments on and makes a flag, `end_flag` hands results on and takes the flag. Both are linear and compute
nothing. Their transposes do: that of `end_flag`, which comes first on the way back, makes of all cotangents one number, and that
of `start_flag` acts on it:

- 0: all cotangents of the results are exactly zero;
- 1: some are not, and the result is fine;
- NaN: some are not, and the result is not finite.

The sum of the flags of several members, which reaches what they share, says by NaN that one of them is so.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array, PyTree


def start_flag(values: Sequence[Any], *, clear: bool) -> list[Any]:
    """The values, and a flag.

    On the way back a NaN of the flag makes all cotangents NaN. With `clear` a 0 makes them 0; this asks for values that differ
    between members wherever the flag does.
    """
    return _start.bind(*values, batches=((),) * len(values), clear=clear) if values else [jnp.zeros(())]


def end_flag(values: Sequence[Any], flag: Any, fine: Array, *, mark: bool) -> list[Any]:
    """The values, with the axes of `fine` and of the flag in front. With `mark` tangents of what is not fine are NaN."""
    return _end.bind(*values, flag, fine, mark=mark, moved=False) if values else []


Batches = tuple[tuple[bool, ...], ...]
"""Batch axes in front of each value, one flag for each; the flag has all of them."""


def _flag_shape(values: Sequence[Any], batches: Batches) -> tuple[int, ...]:
    sizes: dict[int, int] = {}
    for x, has in zip(values, batches, strict=True):
        axes = [i for i, one in enumerate(has) if one]
        sizes.update(zip(axes, x.shape, strict=False))
    return tuple(sizes[i] for i in sorted(sizes))


def _start_value(*values: PyTree, batches: Batches, clear: bool) -> list[Any]:
    return [*values, jnp.zeros(_flag_shape(values, batches), values[0].real.dtype)]


@functools.lru_cache(maxsize=4096)
def _flag_aval(avals: tuple[Any, ...], batches: Batches) -> Any:
    def flag(*values: PyTree) -> Array:
        zeros = [jnp.zeros_like(x.reshape(-1)[0]).real for x in values if x.size]
        total = functools.reduce(jnp.add, [x.astype(avals[0].dtype).real for x in zeros])
        return total + jnp.zeros(_flag_shape(values, batches), total.dtype)

    return jax.make_jaxpr(flag)(*avals).out_avals[0]


def _start_shape(*avals: Any, batches: Batches, clear: bool) -> list[Any]:
    return [*avals, _flag_aval(avals, batches)]


def _start_transpose(cotangents: Sequence[Any], *_: Any, batches: Batches, clear: bool) -> list[Any]:
    *given, flag = cotangents
    if isinstance(flag, ad.Zero):
        return given
    found = []
    for x, has in zip(given, batches, strict=True):
        if isinstance(x, ad.Zero) and clear:  # nothing depends on it
            found.append(x)
            continue
        x, missing = ad.instantiate_zeros(x), tuple(i for i, one in enumerate(has) if not one)
        own = jnp.sum(flag, axis=missing) if missing else flag
        own = own.reshape(own.shape + (1,) * (x.ndim - own.ndim))
        scaled = x * jnp.where(jnp.isnan(own), jnp.nan, 1).astype(x.dtype)
        found.append(jnp.where(own == 0, 0, scaled) if clear else scaled)
    return found


def _start_batch(values: Sequence[Any], dims: Sequence[Any], *, batches: Batches, clear: bool) -> Any:
    moved = [x if dim is None else jnp.moveaxis(x, dim, 0) for x, dim in zip(values, dims, strict=True)]
    batches = tuple((dim is not None, *has) for dim, has in zip(dims, batches, strict=True))
    return _start.bind(*moved, batches=batches, clear=clear), [*(None if d is None else 0 for d in dims), 0]


def _start_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, batches: Batches, clear: bool) -> Any:
    out = _start.bind(*primals, batches=batches, clear=clear)
    moving = [i for i, x in enumerate(tangents) if not isinstance(x, ad.Zero)]
    # The flag of some of the values may lack axes that the flag of all has.
    missing = [i for i in range(len(batches[0])) if not any(batches[k][i] for k in moving)]
    parts = tuple(tuple(one for i, one in enumerate(batches[k]) if i not in missing) for k in moving)
    *found, flag = _start.bind(*(tangents[i] for i in moving), batches=parts, clear=clear)
    flag = jnp.broadcast_to(jnp.expand_dims(flag, missing), out[-1].shape)
    moved = dict(zip(moving, found, strict=True))
    return out, [*(moved.get(i, x) for i, x in enumerate(tangents)), flag]


def _end_value(*operands: PyTree, mark: bool, moved: bool) -> list[Any]:
    *values, _, fine = operands
    if not (mark and moved):
        return list(values)
    return [jnp.where(_widened(fine, x), x, jnp.nan) for x in values]


def _widened(mask: Any, like: Any) -> Any:
    return mask.reshape(mask.shape + (1,) * (like.ndim - mask.ndim))


def _end_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, mark: bool, moved: bool) -> Any:
    out = _end.bind(*primals, mark=mark, moved=moved)
    dots = [ad.instantiate_zeros(x) for x in tangents[:-1]]
    return out, _end.bind(*dots, primals[-1], mark=mark, moved=True)


def _end_transpose(cotangents: Sequence[Any], *operands: PyTree, mark: bool, moved: bool) -> list[Any]:
    *values, flag, fine = operands
    # The transpose of a scan in JAX 0.10 refuses symbolic zeros of what it stacks.
    made = [ad.instantiate_zeros(x) for x in cotangents]
    found = [x if ad.is_undefined_primal(v) else None for x, v in zip(made, values, strict=True)]
    if not ad.is_undefined_primal(flag):
        return [*found, None, None]
    given = [x for x in cotangents if not isinstance(x, ad.Zero)]
    if not given:
        return [*found, ad.Zero(flag.aval), None]
    asked = functools.reduce(jnp.logical_or, [jnp.any(x != 0, axis=tuple(range(fine.ndim, x.ndim))) for x in given])
    return [*found, jnp.where(asked, jnp.where(fine, 1, jnp.nan), 0).astype(flag.aval.dtype), None]


def _end_batch(operands: Sequence[Any], dims: Sequence[Any], *, mark: bool, moved: bool) -> Any:
    (size,) = {x.shape[dim] for x, dim in zip(operands, dims, strict=True) if dim is not None}
    spread = [
        jnp.broadcast_to(x, (size, *x.shape)) if dim is None else jnp.moveaxis(x, dim, 0)
        for x, dim in zip(operands, dims, strict=True)
    ]
    return _end.bind(*spread, mark=mark, moved=moved), [0] * (len(operands) - 2)


def _primitive(name: str, value: Any, shape: Any, jvp: Any, transpose: Any, batch: Any) -> Primitive:
    primitive = Primitive(name)
    primitive.multiple_results = True
    primitive.def_impl(value)
    primitive.def_abstract_eval(shape)
    ad.primitive_jvps[primitive] = jvp
    ad.primitive_transposes[primitive] = transpose
    batching.primitive_batchers[primitive] = batch
    mlir.register_lowering(primitive, mlir.lower_fun(value, multiple_results=True))
    return primitive


_start = _primitive("start_flag", _start_value, _start_shape, _start_jvp, _start_transpose, _start_batch)
_end = _primitive(
    "end_flag",
    _end_value,
    lambda *avals, mark, moved: list(avals[:-2]),
    _end_jvp,
    _end_transpose,
    _end_batch,
)
