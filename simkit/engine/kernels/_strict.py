"""Operations on components as kernels have them: nothing is stacked."""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ._emit import DROPPED
from ._mode import NotInKernel
from ._objects import boxed, over_lanes

Evaluate = Callable[[Any, Sequence[Any], Sequence[np.ndarray]], list[np.ndarray]]
"""Function of a program, its constants and its arguments, for operations that hold programs."""

ROTATIONS = (13, 15, 26, 6), (17, 29, 16, 24)
"""Numbers of bits by which the rounds of Threefry rotate (Salmon et al. 2011, doi:10.1145/2063384.2063405, table 2)."""


def _threefry(_: Evaluate, eqn: Any, *values: np.ndarray) -> list[np.ndarray]:
    """The cipher of JAX's random numbers, written out."""
    shape = np.broadcast_shapes(*(value.shape for value in values))
    found = np.empty(shape, object), np.empty(shape, object)
    for place in np.ndindex(shape):
        first, second, x, y = (np.broadcast_to(value, shape)[place] for value in values)
        word = lambda x: jnp.asarray(x, jnp.uint32)
        keys = word(first), word(second), word(first) ^ word(second) ^ word(0x1BD11BDA)
        x, y = word(x) + keys[0], word(y) + keys[1]
        for i in range(5):
            for turn in ROTATIONS[i % 2]:
                x = x + y
                y = x ^ (y << word(turn) | y >> word(32 - turn))
            x, y = x + keys[(i + 1) % 3], y + keys[(i + 2) % 3] + word(i + 1)
        found[0][place], found[1][place] = x, y
    return list(found)


def _bits(_: Evaluate, eqn: Any, value: np.ndarray) -> list[np.ndarray]:
    """The bits of numbers, those of wider ones as two words each, the lower one first."""
    kind, given = np.dtype(eqn.params["new_dtype"]), np.dtype(eqn.invars[0].aval.dtype)
    if kind.itemsize > given.itemsize or given.itemsize > 2 * kind.itemsize:
        raise NotInKernel("bits of numbers of other sizes")
    parts = 2 if kind.itemsize < given.itemsize else 1
    found = np.empty((*value.shape, parts), object)
    for place in np.ndindex(value.shape):
        x = jnp.asarray(value[place], given)
        if parts == 1:
            found[*place, 0] = jax.lax.bitcast_convert_type(x, kind)
            continue
        whole = jax.lax.bitcast_convert_type(x, jnp.uint64)
        for i in range(2):
            found[*place, i] = (whole >> jnp.asarray(32 * i, jnp.uint64)).astype(jnp.uint32)
    return [found if parts == 2 else found[..., 0]]


def _linear_solve(evaluated: Evaluate, eqn: Any, *values: np.ndarray) -> list[np.ndarray]:
    """Linear equations on components, with the rule for their derivatives: what solves them holds the matrix."""
    lengths, programs = eqn.params["const_lengths"], eqn.params["jaxprs"]
    ends = np.cumsum([lengths.matvec, lengths.vecmat, lengths.solve, lengths.transpose_solve])
    *consts, right = (values[a:b] for a, b in zip([0, *ends], [*ends, len(values)], strict=True))
    lanes = max((x.shape[0] for v in values for x in v.reshape(-1) if jnp.ndim(x)), default=0)
    shapes = [(v.shape, atom.aval.dtype) for v, atom in zip(right, eqn.invars[ends[-1] :], strict=True)]

    def flat(found: Sequence[np.ndarray]) -> list[Array]:
        pairs = zip(found, shapes, strict=True)
        wide = lambda x, dtype: over_lanes(x, lanes, dtype) if lanes else jnp.asarray(x, dtype)
        return [wide(x, dtype) for value, (_, dtype) in pairs for x in value.reshape(-1)]

    def parted(held: Sequence[Array]) -> list[np.ndarray]:
        sizes = np.cumsum([0, *(math.prod(shape) for shape, _ in shapes)])
        parts = [list(held[a:b]) for a, b in itertools.pairwise(sizes)]
        return [boxed(x if shape else x[0], shape) for x, (shape, _) in zip(parts, shapes, strict=True)]

    def by(program: Any, own: Sequence[np.ndarray]) -> Any:
        return lambda x: flat(evaluated(program.jaxpr, program.consts, [*own, *parted(x)]))

    product, solve = by(programs.matvec, consts[0]), by(programs.solve, consts[2])
    backward = None if programs.transpose_solve is None else by(programs.transpose_solve, consts[3])
    transposed = None if backward is None else lambda _, b: backward(b)
    found = jax.lax.custom_linear_solve(product, flat(right), lambda _, b: solve(b), transposed)
    return parted(found)


def _same(_: Evaluate, eqn: Any, *values: np.ndarray) -> list[np.ndarray]:
    return list(values)


def _held(_: Evaluate, eqn: Any, value: np.ndarray) -> list[np.ndarray]:
    result = np.empty(value.shape, object)
    for place in np.ndindex(value.shape):
        result[place] = jax.lax.stop_gradient(value[place])
    return [result]


def _reduced(by: Callable[[Any, Any], Any], _: Evaluate, eqn: Any, value: np.ndarray) -> list[np.ndarray]:
    for axis in sorted(eqn.params["axes"], reverse=True):
        rows = list(np.moveaxis(value, axis, 0)[..., None])  # with an axis more, so that each row is an array
        if not rows:
            raise NotInKernel("a reduction of nothing")
        value = functools.reduce(functools.partial(_pairwise, by), rows)[..., 0]
    return [value]


def _pairwise(by: Callable[[Any, Any], Any], a: np.ndarray, b: np.ndarray) -> np.ndarray:
    found = np.empty(a.shape, object)
    for place in np.ndindex(a.shape):
        found[place] = by(a[place], b[place])
    return found


STRICT: dict[str, Callable[..., list[np.ndarray]]] = {
    **dict.fromkeys(DROPPED, _same),
    "stop_gradient": _held,
    "threefry2x32": _threefry,
    "bitcast_convert_type": _bits,
    "custom_linear_solve": _linear_solve,
    "reduce_max": functools.partial(_reduced, jnp.maximum),
    "reduce_min": functools.partial(_reduced, jnp.minimum),
    "reduce_prod": functools.partial(_reduced, lambda a, b: a * b),
    "reduce_or": functools.partial(_reduced, lambda a, b: a | b),
    "reduce_and": functools.partial(_reduced, lambda a, b: a & b),
}
"""Operation -> function of what evaluates programs, the equation, and arrays of objects."""
